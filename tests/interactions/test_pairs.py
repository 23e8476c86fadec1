"""Generated: every pair of the features in features.py, in one conversation, with the invariants checked after it.

Two turns follow each other, in both orders. An event happens in the middle of a turn. Two events happen in the middle
of one plain turn, in both orders. A setting comes before everything else.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest

from tests.daemon_process import Home
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.interactions.features import EVENTS, SETTINGS, TURNS, BrokerLoss, ContinuedTurn, Restart, Takeover, Turn
from tests.interactions.world import CONFIG as _CONFIG
from tests.interactions.world import (
    LEAD,
    Own,
    OwnThreads,
    Shared,
    World,
    check_health,
    furnish,
    own_daemon,
    own_threads,
    world,
)
from tests.nats_server import NatsServer, nats_server

CONFIG = _CONFIG
AGENTS = ("ada", "bob", "cyd")

Play = Callable[[World], Coroutine[Any, Any, None]]


def turn_after_turn(first: type[Turn], second: type[Turn]) -> Play:
    async def play(world: World) -> None:
        for kind in (first, second):
            if kind is second and world.acknowledged:
                # The second one is checked by whoever plays this.
                await world.check()
            turn = kind(world)
            await turn.begin()
            await turn.finish()

    return play


def events_in(kind: type[Turn], *kinds: Any) -> Play:
    """The events, one after the other, in the middle of one turn."""

    async def play(world: World) -> None:
        turn, events = kind(world), [each(world) for each in kinds]
        for event in events:
            await event.prepare()
        await turn.begin()
        for event in events:
            await event.apply(turn)
        await turn.finish()
        for event in events:
            await event.check()

    return play


def with_settings(play: Play, *kinds: Any) -> Play:
    async def play_with_settings(world: World) -> None:
        for kind in kinds:
            await kind(world).apply()
        await play(world)

    return play_with_settings


def name_of(*kinds: Any) -> str:
    return " and ".join(kind.name for kind in kinds)


def pairs() -> dict[str, Play]:
    found: dict[str, Play] = {}
    for first, second in product(TURNS, TURNS):
        found[f"{name_of(first, second)}"] = turn_after_turn(first, second)
    for turn, event in product(TURNS, EVENTS):
        found[f"{name_of(turn, event)}"] = events_in(turn, event)
    for one, other in product(EVENTS, EVENTS):
        found[f"{name_of(one, other)}"] = events_in(Turn, one, other)
    for setting, turn in product(SETTINGS, TURNS):
        found[f"{name_of(setting, turn)}"] = with_settings(turn_after_turn(turn, Turn), setting)
    for setting, event in product(SETTINGS, EVENTS):
        found[f"{name_of(setting, event)}"] = with_settings(events_in(Turn, event), setting)
    for earlier, later in combinations(SETTINGS, 2):
        found[f"{name_of(earlier, later)}"] = with_settings(turn_after_turn(Turn, Turn), earlier, later)
    return found


def is_with(name: str, *kinds: Any) -> bool:
    return not {kind.name for kind in kinds}.isdisjoint(name.split(" and "))


def split_names(names: list[str]) -> list[list[str]]:
    """Names of pairs that are played one after the other: the daemon that one has replaced is the next one's."""
    alone = [[name] for name in names if is_with(name, BrokerLoss)]
    others = [name for name in names if not is_with(name, BrokerLoss)]
    return [*alone, *(others[first : first + 4] for first in range(0, len(others), 4))]


PAIRS = pairs()
RESTARTING = [name for name in PAIRS if is_with(name, Restart)]
TAKEN_OVER = [name for name in PAIRS if is_with(name, Takeover) and name not in RESTARTING]
STEADY = [name for name in PAIRS if not is_with(name, Restart, Takeover)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_server(tmp_path_factory.mktemp("broker")) as server:
        yield server


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, shared_provider: Provider, broker: NatsServer) -> Any:
    home = Home(tmp_path_factory.mktemp("home"))
    home.furnish(config=CONFIG.replace("PROVIDER_URL", shared_provider.url), agents=AGENTS)
    connect_broker(home, broker)
    with daemon_thread(furnish(home)) as daemon:
        yield Shared(daemon)
        asyncio.run(check_health(daemon))


def connect_broker(home: Home, broker: NatsServer) -> None:
    path = home.path / "config.toml"
    path.write_text(f'{path.read_text()}\n[broker]\nurl = "{broker.url}"\n')


async def play(own: Own | OwnThreads | Shared, provider: Provider, broker: NatsServer, name: str, folder: Path) -> None:
    async with world(own, provider, broker, f"pair:{name}", folder) as made:
        if is_with(name, ContinuedTurn):
            made.agent = LEAD
        try:
            await PAIRS[name](made)
        finally:
            await made.return_broker()
        await made.check()
        await made.probe()
        await made.check()


async def play_all(own: Own | OwnThreads, provider: Provider, broker: NatsServer, names: list[str], path: Path) -> None:
    for number, name in enumerate(names):
        provider.reset()
        folder = path / str(number)
        folder.mkdir()
        try:
            await play(own, provider, broker, name, folder)
            await check_health(own.daemon)
        except BaseException as error:
            error.add_note(f"in the pair {name!r}")
            raise


@pytest.mark.parametrize("name", STEADY)
async def test_a_pair_keeps_both_promises(
    shared: Shared, provider: Provider, broker: NatsServer, name: str, tmp_path: Path
) -> None:
    await play(shared, provider, broker, name, tmp_path)


@pytest.mark.parametrize("names", split_names(RESTARTING), ids=", ".join)
async def test_pairs_with_a_restart_keep_both_promises(
    home: Home, provider: Provider, broker: NatsServer, names: list[str], tmp_path: Path
) -> None:
    if is_with(names[0], BrokerLoss):
        connect_broker(home, broker)
    with own_daemon(furnish(home)) as own:
        await play_all(own, provider, broker, names, tmp_path)


@pytest.mark.parametrize("names", split_names(TAKEN_OVER), ids=", ".join)
async def test_pairs_with_a_takeover_keep_both_promises(
    home: Home, provider: Provider, broker: NatsServer, names: list[str], tmp_path: Path
) -> None:
    if is_with(names[0], BrokerLoss):
        connect_broker(home, broker)
    with own_threads(furnish(home)) as own:
        await play_all(own, provider, broker, names, tmp_path)


def test_every_pair_is_there() -> None:
    """A feature that is added meets every other one."""
    features = [*(kind.name for kind in TURNS), *(kind.name for kind in EVENTS), *(kind.name for kind in SETTINGS)]
    assert len(set(features)) == len(features)
    met = {frozenset(name.split(" and ")) for name in PAIRS}
    missing = [pair for pair in combinations(features, 2) if frozenset(pair) not in met]
    assert missing == []
