"""A real model leads a team: it has an operator write a file, a person allows that, and it tells what came of it.

`./dev test-model` runs this with the larger embedded model, pulled if need be. MOOT_WRITE_RUN=1 keeps what happened in
docs/real-model-run.md.
"""

import asyncio
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from moot.daemon.paths import Paths
from moot.models.pull import is_pulled, model_file
from moot.wire import moot_pb2 as pb
from tests.daemon_process import Home, LiveDaemon, running
from tests.model.page import render_page
from tests.talking import Speech, Talking
from tests.teaming import results

# A slow machine reads a prompt of some thousand tokens in a minute, and there are about eight of them.
TEST_SECONDS = 1500.0
pytestmark = pytest.mark.timeout(1600)

CONFIG = """
default_model = "qwen"
[models.qwen]
provider = "local"
model = "qwen"
[agent]
multiAgent = true
[listen]
http = "off"
tcp = "off"
"""
TEXT = "Hello from the moot"
TASK = f"Write the text '{TEXT}' into a new file called greeting.txt and tell me when it is there."
PAGE = Path(__file__).resolve().parents[2] / "docs" / "real-model-run.md"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home of its own that uses the weights where `moot models pull qwen` has put them."""
    pulled = Paths.find(os.environ).data / "models"
    assert is_pulled("qwen", pulled), "the model is not here: run ./dev test-model, or moot models pull qwen"
    home = Home(tmp_path / "home").furnish(config=CONFIG, agents=())
    own = home.path / "data" / "models"
    own.mkdir(parents=True)
    (own / model_file("qwen", pulled).name).symlink_to(model_file("qwen", pulled))
    return home


@dataclass
class Person:
    """Sits beside the run and allows the one thing that was wanted, through the protocol; nothing else."""

    talk: Talking
    allowed: list[pb.AskInfo] = field(default_factory=list)

    async def look(self) -> None:
        for ask in await self.talk.asks():
            if ask.kind == "question":
                await self.talk.reply("moot", "No. Say what you have done.")
                continue
            wanted = ask.tool == "fs_write" and "greeting.txt" in ask.line
            message = pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision="once" if wanted else "deny")
            decided = (await self.talk.ask(decide_ask=message)).ask_decided
            assert decided.state == ("granted" if wanted else "denied")
            self.allowed += [ask] if wanted else []


async def finished(talk: Talking, person: Person, speech: Speech) -> None:
    """Until the turn is over, and whatever it started, and the answers to what that reported."""
    while not (speech.is_over and await all_told(talk, speech) and not await talk.active()):
        await person.look()
        await asyncio.sleep(0.2)
    await speech.end()


async def all_told(talk: Talking, speech: Speech) -> bool:
    runs = [(await talk.ask(get_run=pb.GetRunMsg(run_id=run_id))).run for run_id in spawned(speech).values()]
    return all(run.outcome and run.delivery != "owed" for run in runs)


def spawned(speech: Speech) -> dict[str, str]:
    """The runs that were really begun, by the agent."""
    begun = [each for each in results(speech, "agent_spawn") if isinstance(each, dict)]
    return {each["requested_agent"]: each["agent_id"] for each in begun}


async def test_an_orchestrator_has_an_operator_write_a_file_that_a_person_allowed_and_tells_of_it(
    home: Home, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with running(home) as daemon:
        async with daemon.client(patience=TEST_SECONDS) as talk:
            began = time.monotonic()
            person = Person(talk)
            speech = talk.start("moot", TASK, cwd=str(work))
            await finished(talk, person, speech)
            seconds = time.monotonic() - began
            role, _, said = (await talk.told("moot"))[-1]
        traces = turns(daemon)

    happened = json.dumps(traces, indent=1)
    assert "operator" in spawned(speech), happened
    assert {ask.speaker for ask in person.allowed} == {"operator"}, happened
    text = (work / "greeting.txt").read_text()
    assert text.strip() == TEXT, happened
    assert (speech.outcome, role) == ("completed", "assistant"), happened
    assert "greeting.txt" in said, happened
    if os.environ.get("MOOT_WRITE_RUN"):
        PAGE.write_text(render_page(traces, seconds=seconds, work=work, text=text.strip()), encoding="utf-8")


def turns(daemon: LiveDaemon) -> list[dict[str, Any]]:
    """What happened, turn by turn, with all that was set to work; the oldest first."""
    listed = daemon.cli_json("trace")["data"]
    return [daemon.cli_json("trace", turn["run_id"])["data"] for turn in reversed(listed)]
