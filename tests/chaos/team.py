"""A team for the kill tests: its script, its requests and its clients."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb
from tests.chaos.ledger import lost
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home
from tests.scripting import call, lead, made, mate, say, script, spawn, wait
from tests.talking import Speech, Talking

ACT_SECONDS = 30.0
CONFIG = (
    PLAIN
    + """
[agent]
multiAgent = true
maxDepth = 3
maxRunning = 4
maxDelegationRounds = 10
"""
)
_NUMBER = r"#(?P<n>\d+)"


def _mark(label: str, pause: float = 0.0, tool: str = "fs_mark") -> dict[str, Any]:
    return made(tool, label=label, pause=pause)


def _spawns(*instructions: str, agent: str = "operator", **named: Any) -> dict[str, Any]:
    return {"calls": [made("agent_spawn", agent=agent, instruction=each, **named) for each in instructions]}


def _mate(match: str, *steps: dict[str, Any]) -> dict[str, Any]:
    return mate(f"^{match} (?P<n>[0-9a-z]+)", *steps, delay_seconds=0.02)


def _lead(match: str, *steps: dict[str, Any]) -> dict[str, Any]:
    return lead(f"^{match} {_NUMBER}", *steps, delay_seconds=0.02)


SCRIPT = script(
    lead("has ended:", say("Heard."), delay_seconds=0.02),
    _lead("crowd", _spawns("mark {n}a", "mark {n}b", "pair {n}c", "mark {n}d"), wait("{agent_ids}"), say("All.")),
    _lead("race", _spawns("mark {n}a", "slow {n}b", "pair {n}c"), wait("{agent_ids}", mode="any"), say("One.")),
    _lead("leave", _spawns("mark {n}a", "pair {n}b"), say("Begun.")),
    _lead("nest", _spawns("gather {n}a", "gather {n}b", agent="librarian"), wait("{agent_ids}"), say("Gathered.")),
    _lead("approve", _spawns("risk {n}a", "both {n}b"), wait("{agent_ids}"), say("Done.")),
    _lead("grant", _spawns("mark {n}a", "pair {n}b", allowed_tools=["fs_read"]), wait("{agent_ids}"), say("Done.")),
    _lead("query", _spawns("query {n}a", "query {n}b"), wait("{agent_ids}"), say("Answered.")),
    _lead("deny", _spawns("risk {n}a", allowed_tools=["fs_read"]), say("Begun.")),
    _lead("halt", spawn("tree {n}a", "librarian"), call("agent_wait", agent_id="{agent_id}", timeout=0),
          call("agent_stop", agent_id="{agent_id}"), say("Stopped.")),
    _lead("linger", _spawns("tree {n}a", agent="librarian"), _spawns("slow {n}b", "risk {n}c"), wait("{agent_ids}"),
          say("Over.")),
    _mate("mark", {"calls": [_mark("{n}1")]}, {"calls": [_mark("{n}2"), _mark("{n}3", 0.02)]}, say("Marked {n}.")),
    _mate("pair", {"calls": [_mark("{n}1", 0.01), _mark("{n}2")]}, say("Paired {n}.")),
    _mate("slow", {"calls": [_mark("{n}1", 0.3)]}, say("Slow {n}.")),
    _mate("risk", {"calls": [_mark("{n}1", tool="fs_risk")]}, say("Dared {n}: {result}")),
    _mate("query", call("ask_user", questions=[{"question": "Which?"}]), say("Heard {n}: {result}")),
    _mate("both", {"calls": [_mark("{n}1", tool="fs_risk"), _mark("{n}2", tool="fs_risk")]}, say("Both {n}: {result}")),
    _mate("gather", _spawns("mark {n}x", "pair {n}y"), wait(), say("Gathered {n}.")),
    _mate("tree", _spawns("slow {n}x", "risk {n}y"), wait("{agent_ids}"), say("Grown {n}.")),
)  # fmt: skip


def new_home(path: Path) -> Home:
    return Home(path).furnish(script=SCRIPT, config=CONFIG, agents=())


@contextmanager
def passing(*types: str) -> Iterator[None]:
    """Errors of these types are what may happen here."""
    try:
        yield
    except MootError as error:
        if error.type not in types:
            raise


@dataclass(slots=True)
class Told:
    """What the people were told: runs that exist, asks that are decided, turns that were killed."""

    counter: int = 0
    begun: set[str] = field(default_factory=set)
    spawned: set[str] = field(default_factory=set)
    # Runs that somebody wanted stopped.
    stopped: set[str] = field(default_factory=set)
    decided: dict[tuple[str, int], str] = field(default_factory=dict)
    surprises: list[str] = field(default_factory=list)


class People:
    """Acts on one daemon. An act ends when the daemon does."""

    def __init__(self, talk: Talking, told: Told, rng: Random, *, says_yes: bool = False) -> None:
        self.talk = talk
        self.told = told
        self.rng = rng
        # To everything at once; else they leave some undecided and say no to some.
        self._says_yes = says_yes

    async def perform(self, acts: list[str]) -> None:
        """All at once, each in a conversation of its own; meanwhile somebody decides what is asked, or half of it."""
        async with asyncio.TaskGroup() as group:
            deciding = group.create_task(self.decide_some())
            doing = [group.create_task(self._do(act, f"one-{number}")) for number, act in enumerate(acts)]
            await asyncio.wait(doing)
            deciding.cancel()

    async def _do(self, act: str, sender: str) -> None:
        try:
            async with asyncio.timeout(ACT_SECONDS):
                await ACTS[act](self, act, sender)
        except MootError as error:
            # Told to stop, the daemon lets go of a turn that goes on at its next start.
            if not lost(error) and error.message != "the daemon is stopping":
                self.told.surprises.append(f"{act}: {error.type}: {error.message}")
        except TimeoutError:
            # It waits for a decision that nobody has come to.
            return

    def _start(self, act: str, sender: str) -> Speech:
        self.told.counter += 1
        return self.talk.start("moot", f"{act} #{self.told.counter}", sender)

    async def turn(self, act: str, sender: str) -> None:
        speech = self._start(act, sender)
        try:
            await speech.end()
        finally:
            self._note(speech)

    async def killed(self, act: str, sender: str) -> None:
        """A turn that is killed while those it started are at it."""
        speech = self._start(act, sender)
        try:
            await speech.until("tool_result", count=self.rng.randint(1, 3))
            await asyncio.sleep(self.rng.uniform(0.0, 0.1))
            await self.talk.kill("moot", sender)
            await speech.end()
        finally:
            self._note(speech)

    async def background(self, _act: str, sender: str) -> None:
        """Work that nobody sits before; some of it is stopped again."""
        agent, what = self.rng.choice(
            [("operator", "mark"), ("operator", "risk"), ("moot", "nest #"), ("moot", "leave #")]
        )
        self.told.counter += 1
        content = f"{what}{'' if what.endswith('#') else ' '}{self.told.counter}"
        asked = pb.StartRunMsg(agent=agent, content=content, sender=sender)
        run = (await self.talk.ask(start_run=asked)).run
        self.told.begun.add(run.run_id)
        if self.rng.random() < 0.3:
            await asyncio.sleep(self.rng.uniform(0.0, 0.1))
            self.told.stopped.add(run.run_id)
            with passing("conflict", "not_found"):
                await self.talk.ask(stop_run=pb.StopRunMsg(run_id=run.run_id))
        else:
            await self.talk.ask(wait_runs=pb.WaitRunsMsg(run_ids=[run.run_id], seconds=2.0))

    def _note(self, speech: Speech) -> None:
        for result in speech.of("tool_result"):
            if result.name == "agent_spawn" and "arun-" in result.output:
                self.told.spawned.add(result.output.split('"agent_id":"')[1].split('"')[0])

    async def decide_some(self) -> None:
        seen: set[tuple[str, int]] = set()
        with passing("unreachable"):
            while True:
                for ask in await self.talk.asks():
                    if (ask.ask_id, ask.attempt) not in seen and (self._says_yes or self.rng.random() < 0.5):
                        await self.decide(ask)
                    seen.add((ask.ask_id, ask.attempt))
                await asyncio.sleep(0.02)

    async def decide(self, ask: pb.AskInfo) -> None:
        """Say yes, or now and then no; a question is answered."""
        if ask.kind == "question":
            with passing("not_found"):
                await self.talk.reply(ask.agent, "this one", ask.sender)
            return
        decision = "deny" if not self._says_yes and self.rng.random() < 0.25 else "once"
        message = pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision=decision)
        # Its run may have been stopped meanwhile.
        with passing("conflict", "not_found"):
            decided = (await self.talk.ask(decide_ask=message)).ask_decided
            self.told.decided[ask.ask_id, ask.attempt] = decided.state


Act = Callable[[People, str, str], Awaitable[None]]
ACTS: dict[str, Act] = {
    **dict.fromkeys(("crowd", "race", "leave", "nest", "approve", "grant", "query", "deny", "halt"), People.turn),
    "linger": People.killed,
    "background": People.background,
}

# Which act comes by a point; every other point is passed by any team at all.
_ACT_OF = {
    "grant": "grant", "ask": "approve", "decide": "approve", "use": "approve", "deliver": "crowd",
    "delivered": "leave", "opened": "query", "answered": "query", "kill": "linger", "halted": "halt",
    "drain.halted": "race", "drain.done": "race", "teammate.interrupted": "race",
}  # fmt: skip


def act_for(point: str) -> str:
    first, _, second = point.partition(".")
    return _ACT_OF.get(point) or _ACT_OF.get(second) or _ACT_OF.get(first) or "crowd"
