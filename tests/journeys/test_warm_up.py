"""An embedded model reads its instructions when the daemon starts, and yields to the first message."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from moot.domain.errors import MootError
from moot.domain.ports.model import Finished, ModelEvent, TextDelta
from moot.domain.prompt import Prompt
from moot.models.local import LocalModel
from moot.models.pull import pull
from tests.daemon_process import Home, eventually
from tests.daemon_thread import daemon_thread

CONFIG = """
default_model = "smollm2"
[models.smollm2]
provider = "local"
max_output_tokens = 8
[listen]
http = "off"
tcp = "off"
"""
READY = "has read the instructions of moot"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int | None, str]]:
    """The requests to the embedded model, which answers at once, unless it is to read ahead: that never ends."""
    requests: list[tuple[int | None, str]] = []

    async def stream(self: LocalModel, prompt: Prompt) -> AsyncGenerator[ModelEvent, None]:
        requests.append((prompt.max_tokens, prompt.system[0]))
        if prompt.max_tokens == 1:
            try:
                await asyncio.Event().wait()
            finally:
                requests.append((0, "cancelled"))
        yield TextDelta("Hello.")
        yield Finished(None)

    monkeypatch.setattr(LocalModel, "stream", stream)
    return requests


async def test_reading_ahead_yields_to_the_first_message(home: Home, asked: list[tuple[int | None, str]]) -> None:
    with daemon_thread(home) as daemon:
        await eventually(lambda: len(asked) == 1)
        assert (asked[0][0], asked[0][1].startswith("You are moot")) == (1, True)
        async with daemon.client() as talk:
            assert (await talk.say("moot", "hello")).text == "Hello."
            await eventually(lambda: (0, "cancelled") in asked)
            # It is no turn: nothing is stored or counted.
            assert [usage.runs for usage in await talk.usage()] == [1]
            assert [role for role, _, _ in await talk.told("moot")] == ["user", "assistant"]


async def test_what_was_read_ahead_is_not_read_again(home: Home, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("xllamacpp")
    models = Path(str(request.config.cache.mkdir("moot-data"))) / "models"
    try:
        pull("smollm2", models, lambda _: None)
    except MootError as error:
        pytest.skip(f"SmolLM2 cannot be had here: {error.message}")
    (home.path / "data").mkdir(parents=True, exist_ok=True)
    (home.path / "data" / "models").symlink_to(models)
    with daemon_thread(home) as daemon:
        await eventually(lambda: READY in home.log.read_text(), seconds=120)
        answered: dict[str, Any] = json.loads(daemon.cli("ask", "moot", "hi", "--json").stdout)
        assert answered["data"]["usage"]["cache_hit"] > 20


async def test_a_model_that_is_not_to_be_warmed_is_not_asked(home: Home, asked: list[tuple[int | None, str]]) -> None:
    home.write_config(CONFIG.replace('provider = "local"', 'provider = "local"\nwarm = false'))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "hello")
    assert [most for most, _ in asked if most == 1] == []


async def test_a_model_that_is_set_up_later_reads_its_instructions_too(
    home: Home, asked: list[tuple[int | None, str]]
) -> None:
    home.write_config(CONFIG.replace('"smollm2"', '"scripted"'))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.say("moot", "hello")).outcome == "completed"
            assert asked == []
        home.write_config(CONFIG)
        assert daemon.cli("reload").returncode == 0
        await eventually(lambda: [most for most, _ in asked] == [1])
        async with daemon.client() as talk:
            assert (await talk.say("moot", "hello")).text == "Hello."
            await eventually(lambda: (0, "cancelled") in asked)
