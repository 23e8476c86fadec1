"""Modes: which one applies, and the safety of one call that modes decide by."""

import pytest

from moot.daemon.clock import SystemClock
from moot.domain.agent import Agent
from moot.domain.config import InterceptorConfig
from moot.domain.conversation import ConversationKey
from moot.domain.events import Event, ModeChanged
from moot.domain.mode import Mode, next_mode, resolve_mode
from moot.domain.prompt import Safety, Sink, ToolSpec
from moot.domain.safety import CONTROL_NAMES, Reach, has_control_name, judge_safety
from moot.engine.bus import Bus
from moot.engine.modes import Modes
from moot.store.memory.storage import open_memory_storage

KEY = ConversationKey("ada", "user")
DANGEROUS = ToolSpec(name="exec", description="", parameters={})
COMMAND, EDIT = Reach(is_sandboxed=True), Reach(is_undoable=True)


async def test_a_conversation_has_its_own_mode_the_configured_one_or_the_default() -> None:
    storage, clock = await open_memory_storage(SystemClock()), SystemClock()
    configured, sandbox = "", True

    async def has_sandbox() -> bool:
        return sandbox

    bus = Bus(clock=clock, reserve=storage.reserve_event_numbers)
    await bus.reserve_numbers()
    seen: list[Event] = []
    bus.observe(seen.append, ModeChanged)
    ada = Agent(name="ada", description="x", instruction="x")
    modes = Modes(
        store=storage.store,
        config=lambda: InterceptorConfig(mode=configured),
        has_sandbox=has_sandbox,
        find_agent={"ada": ada}.get,
        bus=bus,
        clock=clock,
    )
    assert (await modes.find(KEY)).mode is Mode.WORK
    sandbox = False
    assert (await modes.find(KEY)).mode is Mode.ASK
    configured = "plan"
    assert (await modes.find(KEY)).mode is (await modes.find_default()).mode is Mode.PLAN
    # A background run has the mode of the conversation it belongs to, in both directions.
    background = ConversationKey("ada", "bg:arun-1:user")
    assert (await modes.set(background, Mode.FREE, by="owner")).own is Mode.FREE
    assert (await modes.find(KEY)).mode is (await modes.find(background)).mode is Mode.FREE
    assert (await modes.find(ConversationKey("bob", "user"))).mode is Mode.PLAN
    assert (await modes.set(KEY, None, by="owner")).own is None
    assert [(event.source.key, event.body) for event in seen] == [
        (KEY, ModeChanged("free", "owner", "none")),
        (KEY, ModeChanged("plan", "owner", "none")),
    ]


def test_an_unknown_stored_mode_asks() -> None:
    assert resolve_mode("turbo", "free", has_sandbox=True).mode is Mode.ASK


def test_the_key_never_switches_to_free() -> None:
    assert [next_mode(mode) for mode in Mode] == [Mode.ASK, Mode.WORK, Mode.PLAN, Mode.PLAN]


@pytest.mark.parametrize(
    ("reach", "given", "expected"),
    [
        (COMMAND, {}, Safety.MODERATE),
        (EDIT, {}, Safety.MODERATE),
        (EDIT, {"taint": {"web"}}, Safety.MODERATE),
        (COMMAND, {"taint": {"web"}}, Safety.DANGEROUS),
        (COMMAND, {"doubt": "it is doubtful"}, Safety.DANGEROUS),
        (COMMAND, {"uses": "a secret"}, Safety.DANGEROUS),
        (Reach(is_sandboxed=True, destroys="deletes several files"), {}, Safety.DANGEROUS),
        (EDIT, {"uses": "a secret"}, Safety.DANGEROUS),
        (Reach(), {}, Safety.DANGEROUS),
        (None, {}, Safety.DANGEROUS),
    ],
)
def test_safety_follows_from_what_a_call_reaches(reach: Reach | None, given: dict[str, str], expected: Safety) -> None:
    assert judge_safety(DANGEROUS, reach, **given) is expected


def test_a_call_is_never_safer_through_a_sink_and_never_less_safe_than_its_tool() -> None:
    for sink in Sink:
        spec = ToolSpec(name="exec", description="", parameters={}, sinks=frozenset({sink}))
        assert judge_safety(spec, COMMAND) is judge_safety(spec, EDIT) is Safety.DANGEROUS
    for safety in (Safety.SAFE, Safety.MODERATE):
        spec = ToolSpec(name="x", description="", parameters={}, safety=safety)
        assert judge_safety(spec, None, doubt="x", taint={"web"}) is safety


def test_control_names_are_found_in_every_part_and_case() -> None:
    for name in CONTROL_NAMES:
        assert has_control_name(f"a/{name.upper()}/b")
        assert has_control_name(name)
    assert not has_control_name("src/git/agents.md.txt")
