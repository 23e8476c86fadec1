"""The features, each as something that can be done to a World.

A *turn* can be brought to its middle and then to its end. An *event* happens in the middle of a turn. A *setting* is
how the conversation is before anything else. test_pairs.py combines them.
"""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, ClassVar

from moot.domain.errors import Conflict
from moot.wire import moot_pb2 as pb
from tests.daemon_process import eventually
from tests.interactions.world import (
    LEAD,
    OUTSIDE,
    SCRIBE,
    SMALL_GUEST,
    SMALL_LEAD,
    STOPPED,
    TERMS,
    World,
    ended,
    join_written,
    write_agent,
)
from tests.talking import Speech

SUMMARY = "Write the summary now"


def match(words: str) -> str:
    """A pattern for the message with these words. What was said before, unanswered, may stand in front of them."""
    return f"{words}$"


class Turn:
    """A message to the agent, held in its middle until `finish`."""

    name = "plain"
    # Whether a run that a crash interrupted here goes on by itself afterwards.
    goes_on = False
    guest = ""
    client_message_id = ""

    def __init__(self, world: World) -> None:
        self.world = world
        self.word = world.word(self.name)
        self.speech: Speech | None = None
        self.was_killed = False
        self.was_interrupted = False

    @property
    def fields(self) -> dict[str, str]:
        """What else the message says."""
        return {}

    @property
    def unstopped_outcome(self) -> str:
        """How it ends if nothing stops it."""
        return "completed"

    @property
    def is_over(self) -> bool:
        """Whether something has ended it before it could finish."""
        return self.was_killed or (self.was_interrupted and not self.goes_on)

    async def begin(self) -> None:
        self.prepare()
        fields = {"guest": self.guest, "client_message_id": self.client_message_id, **self.fields}
        self.speech = self.world.start(self.word, **fields)
        await self.speech.until("start")
        self.world.acknowledged.append(self.word)
        await self.reach_middle()

    def prepare(self) -> None:
        """What the model will answer."""
        self.world.program({"match": match(self.word), "text": f"reply {self.word}", "hold": True})

    async def reach_middle(self) -> None:
        await self.world.requested(self.word)

    async def go_on(self) -> None:
        """Let it come to its end."""
        await self.world.release()

    def note_completed(self) -> None:
        """What is true once it has completed."""

    def note_stopped(self) -> None:
        """What is true once it was stopped in its middle."""

    async def finish(self) -> None:
        world = self.world
        if self.was_killed:
            outcome = "cancelled"
        elif self.was_interrupted and not self.goes_on:
            outcome = "interrupted"
        else:
            outcome = self.unstopped_outcome
            await self.go_on()
        if self.was_interrupted:
            if world.takeovers:
                # The daemon that has lost the run notices it when its model answers.
                await world.release()
            await world.idle()
        else:
            assert self.speech is not None
            speech = await ended(self.speech)
            assert speech is not None
            assert speech.outcome == outcome, f"{self.name} ended {speech.outcome}: {speech.ended.error}"
        world.outcomes[self.word] = outcome
        if outcome == self.unstopped_outcome:
            self.note_completed()
        else:
            self.note_stopped()


class GuestTurn(Turn):
    name = "guest"
    guest = "bob"

    def note_completed(self) -> None:
        self.world.guest_words[f"reply {self.word}"] = self.guest

    def note_stopped(self) -> None:
        self.world.stopped_guests[self.word] = self.guest


class SmallGuestTurn(GuestTurn):
    """A guest with a small window, after an answer that does not fit it; the history is not archived for it."""

    name = "small guest"
    guest = SMALL_GUEST

    async def begin(self) -> None:
        world, long = self.world, self.world.word("long")
        world.program({"match": match(long), "text": f"reply {long}{' on and on' * 4000}"})
        speech = await world.start(long).end()
        assert speech.outcome == "completed", speech.ended
        world.acknowledged.append(long)
        world.outcomes[long] = "completed"
        before = len(await world.talk.archives(world.agent, world.sender))
        await super().begin()
        assert len(await world.talk.archives(world.agent, world.sender)) == before, "archived for a guest"


class TeammateTurn(Turn):
    """The agent spawns a teammate and waits for it; the middle is the teammate at work."""

    name = "teammate"
    goes_on = True

    def prepare(self) -> None:
        spawn = {"name": "agent_spawn", "arguments": {"agent": "operator", "instruction": f"task {self.word}"}}
        wait = {"name": "agent_wait", "arguments": {"agent_id": "{agent_id}"}}
        # The pattern of the task is the longer one and must be tried first.
        self.world.program(
            {"match": match(f"task {self.word}"), "text": f"result {self.word}", "hold": True},
            # After a restart the teammate asks its model again.
            {"match": match(f"task {self.word}"), "text": f"result {self.word}"},
            {"match": match(self.word), "calls": [spawn]},
            {"match": match(self.word), "calls": [wait]},
            {"match": match(self.word), "text": f"reply {self.word}"},
        )

    async def reach_middle(self) -> None:
        await self.world.given(f"task {self.word}")
        # The wait has been called once its request was answered.
        assert self.speech is not None
        await self.speech.until("tool_start", count=2)

    def note_completed(self) -> None:
        self.world.results.add(f"result {self.word}")


class ContinuedTurn(Turn):
    """A coordinator continues a worker that has ended, and waits for it; the middle is the continued worker at work.

    An assistant is no coordinator: its call is refused. There the middle is the teammate's first task.
    """

    name = "continued worker"
    goes_on = True

    def prepare(self) -> None:
        spawn = {"name": "agent_spawn", "arguments": {"agent": "operator", "instruction": f"task {self.word}"}}
        wait = {"name": "agent_wait", "arguments": {"agent_id": "{agent_id}"}}
        arguments = {"worker_id": "{agent_id}", "message": f"more {self.word}"}
        go_on = {"name": "send_message_to_worker", "arguments": arguments}
        is_refused = self.world.is_assistant
        self.world.program(
            {"match": match(f"task {self.word}"), "text": f"found {self.word}", "hold": is_refused},
            {"match": match(f"more {self.word}"), "text": f"result {self.word}", "hold": True},
            # After a restart the worker asks its model again.
            {"match": match(f"more {self.word}"), "text": f"result {self.word}"},
            *({"match": match(self.word), "calls": [call]} for call in (spawn, wait, go_on)),
            *([] if is_refused else [{"match": match(self.word), "calls": [wait]}]),
            {"match": match(self.word), "text": f"reply {self.word}"},
        )

    async def reach_middle(self) -> None:
        is_refused = self.world.is_assistant
        await self.world.given(f"{'task' if is_refused else 'more'} {self.word}")
        assert self.speech is not None
        await self.speech.until("tool_start", count=2 if is_refused else 4)

    def note_completed(self) -> None:
        self.world.results.add(f"found {self.word}")
        if not self.world.is_assistant:
            self.world.results.add(f"result {self.word}")


class AskTurn(Turn):
    """The agent asks the person a question; the middle is the open question."""

    name = "ask"
    goes_on = True

    def prepare(self) -> None:
        question = {"name": "ask_user", "arguments": {"questions": [{"question": f"Which {self.word}?"}]}}
        self.world.program(
            {"match": match(self.word), "calls": [question]}, {"match": match(self.word), "text": f"reply {self.word}"}
        )

    async def reach_middle(self) -> None:
        assert self.speech is not None
        await self.speech.until("ask_user")

    async def go_on(self) -> None:
        async def is_open() -> bool:
            return any(
                ask.kind == "question" and ask.sender == self.world.sender for ask in await self.world.talk.asks()
            )

        await eventually(is_open)
        await self.world.talk.reply(self.world.agent, f"answer {self.word}", self.world.sender)


class ApprovalTurn(Turn):
    """The agent calls a dangerous tool; the middle is the open approval."""

    name = "approval"
    goes_on = True

    def prepare(self) -> None:
        arguments = {"line": self.word, "file": str(self.world.file)}
        self.world.program(
            {"match": match(self.word), "calls": [{"name": "write_down", "arguments": arguments}]},
            {"match": match(self.word), "text": f"reply {self.word}"},
        )

    # The modes in which nobody is asked.
    unasked_modes: tuple[str, ...] = ("plan",)

    # The auto-approve levels that answer instead.
    unasked_levels: tuple[str, ...] = ()

    @property
    def is_asked(self) -> bool:
        return self.world.mode not in self.unasked_modes and self.world.level not in self.unasked_levels

    @property
    def unstopped_outcome(self) -> str:
        return "denied" if self.world.mode == "plan" else "completed"

    async def reach_middle(self) -> None:
        assert self.speech is not None
        if self.is_asked:
            await self.speech.until("approval_opened")

    async def go_on(self) -> None:
        async def find() -> Any:
            asks = await self.world.talk.asks()
            return next((ask for ask in asks if ask.kind == "approval" and ask.sender == self.world.sender), None)

        if self.is_asked:
            ask = await eventually(find)
            await self.world.decide(ask.ask_id, ask.attempt, "once")

    async def finish(self) -> None:
        await super().finish()
        if not self.is_asked:
            assert self.speech is not None
            assert self.speech.of("approval_opened") == []

    def note_completed(self) -> None:
        (self.world.refused if self.world.mode == "plan" else self.world.written).add(self.word)

    def note_stopped(self) -> None:
        self.world.refused.add(self.word)


class PatchTurn(ApprovalTurn):
    """The agent changes two files in one call; the middle is the open approval with the whole difference."""

    name = "patch"
    unasked_modes = ("plan", "work")
    unasked_levels = ("edits",)

    @property
    def fields(self) -> dict[str, str]:
        return {"cwd": str(self.world.folder)}

    def prepare(self) -> None:
        changes = [{"path": f"{self.word}/{name}", "content": self.word} for name in ("one", "two")]
        self.world.program(
            {"match": match(self.word), "calls": [{"name": "fs_patch", "arguments": {"changes": changes}}]},
            {"match": match(self.word), "text": f"reply {self.word}"},
        )

    def note_completed(self) -> None:
        """Both files are there."""

    def note_stopped(self) -> None:
        """Neither of them is."""

    async def finish(self) -> None:
        await super().finish()
        there = [(self.world.folder / self.word / name).exists() for name in ("one", "two")]
        assert there == [not self.is_over and self.world.mode != "plan"] * 2, (self.word, there)


class TaintTurn(Turn):
    """The agent reads a stranger's words; the middle is the model call that sees them."""

    name = "taint"

    def prepare(self) -> None:
        look = {"name": "look_outside", "arguments": {"word": self.word}}
        self.world.program(
            {"match": match(self.word), "calls": [look]},
            {"match": match(self.word), "text": f"reply {self.word}", "hold": True},
        )

    async def reach_middle(self) -> None:
        await self.world.requested(f"a stranger says {self.word}")


class CallingTeammateTurn(TeammateTurn):
    """A teammate calls a tool and reports; the middle is its model call after that."""

    teammate: ClassVar[str]

    @property
    def called(self) -> dict[str, Any]:
        """The call of the teammate."""
        raise NotImplementedError

    @property
    def report(self) -> str:
        return f"result {self.word}"

    def prepare(self) -> None:
        task = match(f"task {self.word}")
        spawn = {"name": "agent_spawn", "arguments": {"agent": self.teammate, "instruction": f"task {self.word}"}}
        wait = {"name": "agent_wait", "arguments": {"agent_id": "{agent_id}"}}
        self.world.program(
            {"match": task, "calls": [self.called]},
            {"match": task, "text": self.report, "hold": True},
            {"match": task, "text": self.report},
            {"match": match(self.word), "calls": [spawn]},
            {"match": match(self.word), "calls": [wait]},
            {"match": match(self.word), "text": f"reply {self.word}"},
        )

    async def reach_middle(self) -> None:
        await self.world.given(f"task {self.word}", times=2)
        await self.world.stored_result(f"task {self.word}")
        assert self.speech is not None
        await self.speech.until("tool_start", count=2)


class TaintedTeammateTurn(CallingTeammateTurn):
    """A teammate reads a stranger's words and reports them."""

    name = "tainted teammate"
    teammate = "librarian"

    @property
    def called(self) -> dict[str, Any]:
        return {"name": "search_outside", "arguments": {"word": self.word}}

    @property
    def report(self) -> str:
        return f"result {self.word}: {OUTSIDE} {self.word}"


class GraphTurn(CallingTeammateTurn):
    """A teammate states a fact. The fact is there once, whatever follows."""

    name = "graph"
    teammate = "ontologist"

    @property
    def called(self) -> dict[str, Any]:
        arguments = {"subject": self.word, "predicate": "knows", "object": "ada"}
        return {"name": "ontology_assert_fact", "arguments": arguments}

    async def finish(self) -> None:
        await super().finish()
        asked = pb.ReadGraphMsg(view="facts", object="ada", sender=self.world.sender)
        facts = (await self.world.talk.ask(read_graph=asked)).graph_page.facts
        # In mode plan nothing is stated.
        expected = [] if self.world.mode == "plan" else ["ada"]
        assert [fact.object for fact in facts if fact.subject == self.word] == expected

    def note_completed(self) -> None:
        if self.world.mode != "plan":
            super().note_completed()


class BackgroundTurn(Turn):
    """The agent submits a task; the middle is its model call after that. The result is told once, whatever follows."""

    name = "background task"

    def prepare(self) -> None:
        submit = {"name": "bg_submit", "arguments": {"prompt": f"task {self.word}"}}
        self.world.program(
            # After a restart the task asks its model again. The report of its result is a turn of the conversation.
            {"match": match(f"task {self.word}"), "text": f"result {self.word}", "repeat": 3},
            {"match": f"result {self.word}", "text": f"heard of {self.word}", "repeat": 4},
            {"match": match(self.word), "calls": [{"name": "tool_search", "arguments": {"query": "bg_submit"}}]},
            {"match": match(self.word), "calls": [submit]},
            {"match": match(self.word), "text": f"reply {self.word}", "hold": True},
        )

    @property
    def _can_submit(self) -> bool:
        """A coordinator has only the tools for its workers."""
        return not self.world.agent.endswith(LEAD)

    async def reach_middle(self) -> None:
        await self.world.requested(self.word, times=4 if self._can_submit else 3)

    async def finish(self) -> None:
        await super().finish()
        # What an assistant only writes is no result.
        if self._can_submit and not self.world.is_assistant:
            await eventually(self._is_told)
            self.world.results.add(f"result {self.word}")
        await self.world.idle()

    async def _is_told(self) -> bool:
        history = (await self.world.talk.history(self.world.agent, self.world.sender, all=True)).messages
        return any(f"result {self.word}" in entry.content for entry in history if entry.role == "user" and entry.agent)


class RerunTurn(Turn):
    """A message that no model answered is sent again under its id; the middle is the model call of the second run."""

    name = "rerun"

    async def begin(self) -> None:
        self.client_message_id = self.word
        await fail(self.world, self.word)
        await super().begin()

    async def reach_middle(self) -> None:
        # The first request was that of the run that failed.
        await self.world.requested(self.word, times=2)


async def fail(world: World, word: str) -> None:
    """Send a message whose model call fails."""
    world.program({"match": match(word), "status": 403, "body": "{}"})
    speech = await world.start(word, client_message_id=word).end()
    assert speech.outcome == "model_error", speech.ended


@dataclass
class Event:
    """Something that happens in the middle of a turn."""

    world: World

    async def prepare(self) -> None:
        """What must have happened before the turn."""

    async def apply(self, turn: Turn) -> None:
        raise NotImplementedError

    async def check(self) -> None:
        """What is true once the turn is over, beside the invariants of the world."""


@dataclass
class Kill(Event):
    name = "kill"

    async def apply(self, turn: Turn) -> None:
        await self.world.talk.kill(self.world.agent, self.world.sender)
        if turn.is_over:
            return
        turn.was_killed = True
        if not turn.was_interrupted:
            assert turn.speech is not None
            await turn.speech.until("end")


@dataclass
class Restart(Event):
    name = "restart"

    async def apply(self, turn: Turn) -> None:
        await self.world.restart()
        if not turn.was_killed:
            turn.was_interrupted = True


@dataclass
class Takeover(Event):
    """Another daemon claims the conversation while the first one lives, as if that had been paused for too long."""

    name = "takeover"
    lost: Speech | None = None

    async def prepare(self) -> None:
        # Both daemons have the same folder; the default one would be below the home of each.
        world = self.world
        message = pb.WorkingDirectoryMsg(agent=world.agent, sender=world.sender, cwd=str(world.folder))
        await world.talk.ask(working_directory=message)

    async def apply(self, turn: Turn) -> None:
        if not turn.is_over and not turn.was_interrupted:
            self.lost = turn.speech
        await self.world.take_over()
        if not turn.was_killed:
            turn.was_interrupted = True

    async def check(self) -> None:
        """Who follows the run on the first daemon is told why it ends there."""
        if self.lost is not None:
            speech = await ended(self.lost)
            if speech is None:
                assert self.world.restarts > self.world.takeovers, "the connection to the first daemon is lost"
                return
            assert speech.outcome == "interrupted"
            assert "another daemon has taken over" in speech.ended.error


@dataclass
class Compaction(Event):
    name = "compaction"
    task: "asyncio.Task[Any] | None" = None
    restarts: int = 0

    async def apply(self, turn: Turn) -> None:
        self.world.program({"match": SUMMARY, "text": "They talked. Nothing is open."})
        self.restarts = self.world.restarts
        compact = self.world.talk.compact(self.world.agent, self.world.sender)
        self.task = asyncio.get_running_loop().create_task(compact)

    async def check(self) -> None:
        assert self.task is not None
        if self.restarts != self.world.restarts:
            # Whoever asked was told that the connection is gone; asking again is up to them.
            await asyncio.gather(self.task, return_exceptions=True)
            return
        try:
            await self.task
        except Conflict:
            # Somebody else's compaction came first and left nothing.
            assert self.world.archives
            return
        self.world.archives += 1


@dataclass
class NewStretch(Event):
    """The conversation is begun anew, once the turn is over."""

    name = "new stretch"
    resume: int = 0
    task: "asyncio.Task[Any] | None" = None
    restarts: int = 0

    async def apply(self, turn: Turn) -> None:
        self.restarts = self.world.restarts
        asked = pb.OpenStretchMsg(agent=self.world.agent, sender=self.world.sender, resume=self.resume)
        self.task = asyncio.get_running_loop().create_task(self.world.talk.ask(open_stretch=asked))

    async def check(self) -> None:
        assert self.task is not None
        if self.restarts != self.world.restarts:
            (opened,) = await asyncio.gather(self.task, return_exceptions=True)
        else:
            try:
                opened = await self.task
            except Conflict:
                # Somebody else has begun it anew.
                assert self.world.is_anew
                return
        if isinstance(opened, pb.ServerMessage):
            self.world.archives = max(self.world.archives, opened.stretch_opened.number)
            self.world.is_anew = True


@dataclass
class Resume(NewStretch):
    """An earlier stretch is continued, once the turn is over."""

    name = "resume"
    word: str = ""

    async def prepare(self) -> None:
        self.word = self.world.word("earlier")
        self.world.program({"match": match(self.word), "text": f"reply {self.word}"})
        assert (await self.world.start(self.word).end()).outcome == "completed"
        self.world.acknowledged.append(self.word)
        asked = pb.OpenStretchMsg(agent=self.world.agent, sender=self.world.sender)
        self.resume = (await self.world.talk.ask(open_stretch=asked)).stretch_opened.number
        self.world.archives, self.world.is_anew = self.resume, True

    async def check(self) -> None:
        await super().check()
        # Another change may be waiting behind it.
        await self.world.idle()
        newest = (await self.world.talk.archives(self.world.agent, self.world.sender))[-1]
        if newest.resumed == self.resume:
            seen = (await self.world.talk.history(self.world.agent, self.world.sender)).messages
            assert f"reply {self.word}" in [message.content for message in seen]


@dataclass
class Queue(Event):
    name = "queue"
    word: str = ""
    speech: Speech | None = None
    restarts: int = 0

    async def apply(self, turn: Turn) -> None:
        self.word = self.world.word("queued")
        self.restarts = self.world.restarts
        self.world.program({"match": match(self.word), "text": f"reply {self.word}", "repeat": 2})
        self.speech = self.world.start(self.word)
        # Behind a turn that is over already it simply runs.
        await self.speech.until("start" if turn.is_over else "queued")
        self.world.acknowledged.append(self.word)

    async def check(self) -> None:
        assert self.speech is not None
        speech = await ended(self.speech)
        if self.restarts == self.world.restarts:
            assert speech is not None
            assert join_written(speech) == f"reply {self.word}"
        await self.world.idle()
        self.world.outcomes[self.word] = "completed"


@dataclass
class Steer(Event):
    """A message is sent for the active run. It is shown at its next step, or a turn of its own if there is none."""

    name = "steer"
    word: str = ""
    speech: Speech | None = None
    restarts: int = 0
    is_shown: bool = False

    async def apply(self, turn: Turn) -> None:
        self.word = self.world.word("steered")
        self.restarts = self.world.restarts
        # A turn that waits for something has another step; one that waits for its last words has none.
        self.is_shown = turn.goes_on and not turn.is_over
        answered = turn.word if self.is_shown else self.word
        self.world.program({"match": match(self.word), "text": f"reply {answered}", "repeat": 2})
        self.speech = self.world.start(self.word, steer=True, **turn.fields)
        await self.speech.until("start" if turn.is_over else "queued")
        self.world.acknowledged.append(self.word)

    async def check(self) -> None:
        assert self.speech is not None
        speech = await ended(self.speech)
        await self.world.idle()
        history = (await self.world.talk.history(self.world.agent, self.world.sender, all=True)).messages
        assert [message.steered for message in history if message.content == self.word] == [self.is_shown]
        if self.is_shown:
            assert speech is not None
            assert (speech.outcome, speech.text) == ("completed", "")
            return
        if self.restarts == self.world.restarts:
            assert speech is not None
            assert join_written(speech) == f"reply {self.word}"
        self.world.outcomes[self.word] = "completed"


@dataclass
class PeerMail(Event):
    """Another agent writes to the conversation; it is shown once, now or in the next turn."""

    name = "mail"
    text: str = ""

    async def apply(self, turn: Turn) -> None:
        world = self.world
        self.text = world.word("letter")
        goals = (await world.talk.ask(list_goals=pb.ListGoalsMsg(agent=world.agent))).goals.goals
        (goal,) = [goal.goal_id for goal in goals if goal.sender == world.sender]
        mail = pb.SendMailMsg(agent=world.agent, sender=world.sender, content=self.text, goal_id=goal)
        assert list((await world.talk.ask(send_mail=mail)).mail_report.delivered_to) == [goal]

    async def check(self) -> None:
        world = self.world
        await world.idle()
        word = world.word("reads")
        world.program({"match": SUMMARY, "text": "They talked. Nothing is open.", "repeat": 2})
        world.program({"match": match(word), "text": f"reply {word}"})
        speech = await world.start(word).end()
        assert (speech.outcome, join_written(speech)) == ("completed", f"reply {word}")
        world.acknowledged.append(word)
        world.outcomes[word] = "completed"
        history = (await world.talk.history(world.agent, world.sender, all=True)).messages
        shown = [(entry.role, entry.agent) for entry in history if self.text in entry.content]
        assert shown == [("injected", "@peers")]


@dataclass
class BrokerLoss(Event):
    """The broker of the daemon stops in the middle of a turn, and comes back after it. No conversation waits for it."""

    name = "broker loss"

    async def apply(self, turn: Turn) -> None:
        await self.world.lose_broker()

    async def check(self) -> None:
        await self.world.idle()
        await self.world.return_broker()


@dataclass
class Automation(Event):
    """A job of the conversation fires, and a workflow that reports to it runs; each result is told in it once."""

    name = "automation"
    word: str = ""

    async def apply(self, turn: Turn) -> None:
        world = self.world
        self.word = world.word("automated")
        tasks = [f"{task} {self.word}" for task in ("job", "step", "last")]
        # After a restart a run asks its model again. The report of a result is a turn of the conversation.
        world.program(
            *({"match": match(task), "text": f"result {task}", "repeat": 3} for task in tasks),
            {"match": f"result [a-z]+ {self.word}", "text": f"heard of {self.word}", "repeat": 4},
        )
        job = pb.SaveCronJobMsg(agent=world.agent, sender=world.sender, name=self.word, prompt=tasks[0])
        job.schedule_type, job.schedule = "every", "1h"
        await world.talk.ask(save_cron_job=job)
        await world.talk.ask(change_cron_job=pb.ChangeCronJobMsg(job=self.word, action="run", sender=world.sender))
        # What an assistant only writes is no result.
        worker = "cyd" if world.is_assistant else world.agent
        steps = [
            {"id": "one", "agent": worker, "prompt": tasks[1]},
            {"id": "two", "agent": worker, "prompt": tasks[2], "depends_on": ["one"]},
        ]
        source = json.dumps({"name": self.word, "steps": steps})
        started = pb.StartWorkflowMsg(source=source, sender=world.sender, report_to=world.agent)
        await world.talk.ask(start_workflow=started)

    async def check(self) -> None:
        world = self.world

        async def is_told() -> bool:
            history = (await world.talk.history(world.agent, world.sender, all=True)).messages
            told = [entry.content for entry in history if entry.role == "user" and entry.agent]
            return all(any(f"result {task} {self.word}" in each for each in told) for task in ("job", "last"))

        async def is_completed() -> bool:
            (run,) = (await world.talk.ask(list_workflow_runs=runs)).workflow_runs.runs
            (firing,) = (await world.talk.ask(list_firings=firings)).firings.firings
            return bool(run.status == "completed" == firing.status)

        runs = pb.ListWorkflowRunsMsg(sender=world.sender, name=self.word)
        firings = pb.ListFiringsMsg(sender=world.sender, job=self.word)
        await eventually(is_completed)
        # What an assistant only writes is not its result.
        if not world.is_assistant:
            await eventually(is_told)
            world.results |= {f"result {task} {self.word}" for task in ("job", "last")}
        await world.idle()


@dataclass
class WaitingRerun(Event):
    """A message that failed before is sent again under its id and waits behind the turn."""

    name = "waiting rerun"
    word: str = ""
    speech: Speech | None = None

    async def prepare(self) -> None:
        self.word = self.world.word("again")
        await fail(self.world, self.word)

    async def apply(self, turn: Turn) -> None:
        self.world.program({"match": match(self.word), "text": f"reply {self.word}", "repeat": 2})
        self.speech = self.world.start(self.word, client_message_id=self.word)
        await self.speech.until("start" if turn.is_over else "queued")

    async def check(self) -> None:
        assert self.speech is not None
        await ended(self.speech)
        await self.world.idle()
        history = (await self.world.talk.history(self.world.agent, self.world.sender, all=True)).messages
        # The message stands again where it is answered, behind the one it waited for.
        outcomes = [message.outcome for message in history if message.content == self.word]
        assert outcomes == ["model_error", "completed"]
        assert [message.content for message in history].count(f"reply {self.word}") == 1


@dataclass
class ExportStopped(Event):
    """A conversation with a stopped turn is exported, in the middle of the next turn and after it, and imported."""

    name = "export of a stopped turn"

    async def prepare(self) -> None:
        turn = Turn(self.world)
        await turn.begin()
        await Kill(self.world).apply(turn)
        await turn.finish()
        await self.world.release()

    async def apply(self, turn: Turn) -> None:
        await self._copy()

    async def check(self) -> None:
        await self.world.idle()

        async def is_same() -> bool:
            """Whether all was copied; a result that is reported meanwhile is in the next copy."""
            imported = await self._copy()
            exported = (await self.world.talk.history(self.world.agent, self.world.sender, all=True)).messages
            told = [(message.role, message.content, message.agent) for message in imported]
            return told == [(message.role, message.content, message.agent) for message in exported]

        await eventually(is_same)

    async def _copy(self) -> list[pb.HistoryMessage]:
        """Export the conversation, import it under another sender, and return the history of that one."""
        world, copy = self.world, f"{self.world.sender} {self.world.word('copy')}"
        await world.talk.import_(await world.talk.export(world.agent, world.sender), agent=world.agent, sender=copy)
        imported = list((await world.talk.history(world.agent, copy, all=True)).messages)
        stopped = {message.content: message.outcome for message in imported if message.outcome in STOPPED}
        for word, outcome in world.outcomes.items():
            assert (stopped.get(word) == outcome) == (outcome in STOPPED), f"{word!r} was {outcome}"
        return imported


@dataclass
class Reload(Event):
    name = "reload"

    async def apply(self, turn: Turn) -> None:
        instruction = self.world.word("instruction")
        write_agent(self.world.running.daemon.home, self.world.agent, f"You are {self.world.agent}. {instruction}")
        await self.world.talk.ask(reload=pb.ReloadMsg())
        self.world.instruction = instruction


@dataclass
class SmallWindow:
    """The agent's model has a small window."""

    world: World
    name = "small window"

    async def apply(self) -> None:
        self.world.agent = SMALL_LEAD if self.world.agent == LEAD else "small"


@dataclass
class Import:
    """The conversation begins as an imported one, longer than a small window."""

    world: World
    name = "import"
    lines: list[str] = field(default_factory=list)

    async def apply(self) -> None:
        self.world.program({"match": SUMMARY, "text": "It was imported. Nothing is open.", "repeat": 5})
        jsonl = [f'{{"agent": "{self.world.agent}", "created_by": "{self.world.sender}", "title": "imported"}}']
        for number in range(60):
            role = "user" if number % 2 == 0 else "assistant"
            agent = ', "agent": "bob"' if number == 1 else ""
            jsonl.append(f'{{"role": "{role}", "content": "imported {number} {"word " * 80}"{agent}}}')
        await self.world.talk.import_("\n".join(jsonl), agent=self.world.agent, sender=self.world.sender)
        history = await self.world.talk.history(self.world.agent, self.world.sender, all=True)
        self.world.guest_words[history.messages[1].content] = "bob"


@dataclass
class ProjectFiles:
    """The conversation works in a project with an instruction file that nobody has approved."""

    world: World
    name = "project files"

    async def apply(self) -> None:
        world = self.world
        world.project_text = world.word("project")
        (world.folder / "AGENTS.md").write_text(world.project_text)
        message = pb.WorkingDirectoryMsg(agent=world.agent, sender=world.sender, cwd=str(world.folder))
        await world.talk.ask(working_directory=message)


@dataclass
class Remembering:
    """The agent has noted a preference in earlier work for the person, and is reminded of it in every turn."""

    world: World
    name = "agent memory"

    async def apply(self) -> None:
        world = self.world
        task, world.remembered = world.word("noting"), world.word("remembered")
        arguments = {"key": "preference", "content": world.remembered, "kind": "preference"}
        world.program(
            {"match": match(task), "calls": [{"name": "memory_agent_save", "arguments": arguments}]},
            {"match": match(task), "text": f"noted {task}"},
        )
        started = pb.StartRunMsg(agent=world.agent, sender=world.sender, content=task)
        run = (await world.talk.ask(start_run=started)).run
        await world.talk.ask(wait_runs=pb.WaitRunsMsg(run_ids=[run.run_id], seconds=30))


@dataclass
class Knowing:
    """The librarian has saved something for the person; it is theirs, whatever happens to a conversation."""

    world: World
    name = "knowledge"

    async def apply(self) -> None:
        world = self.world
        task, world.known = world.word("saving"), world.word("known")
        arguments = {"key": "known", "category": "fact", "content": world.known}
        world.program(
            {"match": match(task), "calls": [{"name": "save_knowledge", "arguments": arguments}]},
            {"match": match(task), "text": f"saved {task}"},
        )
        started = pb.StartRunMsg(agent="librarian", sender=world.sender, content=task)
        run = (await world.talk.ask(start_run=started)).run
        await world.talk.ask(wait_runs=pb.WaitRunsMsg(run_ids=[run.run_id], seconds=30))


@dataclass
class Documents:
    """A folder is indexed for the librarian and the person; its passages are found, whatever happens."""

    world: World
    name = "documents"

    async def apply(self) -> None:
        world = self.world
        world.indexed = world.word("indexed")
        folder = world.running.daemon.home.path.parent / world.indexed.replace(" ", "-").replace(":", "-")
        folder.mkdir()
        (folder / "page.md").write_text(f"{world.indexed}\n")
        asked = pb.IndexDocumentsMsg(agent="librarian", sender=world.sender, place=str(folder), cwd=str(folder))
        await world.talk.ask(index_documents=asked)

        async def is_complete() -> bool:
            listing = pb.ListSourcesMsg(agent="librarian", sender=world.sender)
            sources = (await world.talk.ask(list_sources=listing)).sources.sources
            return all(each.complete for each in sources)

        await eventually(is_complete)


@dataclass
class Inquiring:
    """Something about the person is not known; the agent asks it in one turn, and never again."""

    world: World
    name = "inquiry"

    async def apply(self) -> None:
        world = self.world
        world.inquiry = f"Which {world.word('inquiry')} do you use?"
        names = "id, agent, sender, topic, question, context, priority, status, taint, created_at, fingerprint, subject"
        row = (world.inquiry, world.agent, world.sender, "use", world.inquiry, "", "high", "pending", "", 1.0)
        statement = f"INSERT INTO inquiries ({names}) VALUES ({', '.join('?' * 12)})"
        world.running.daemon.home.change(statement, [(*row, world.inquiry, "use")])


@dataclass
class Vocabularies:
    """A model has written once what people say when they need a teammate; it is kept, whatever happens."""

    world: World
    name = "vocabulary"

    async def apply(self) -> None:
        world = self.world
        path = world.running.daemon.home.path / "agents" / SCRIBE / "AGENT.md"
        path.parent.mkdir(exist_ok=True)
        front = f"name: {SCRIBE}\ndescription: Writes letters by hand.\nalways_include: true"
        path.write_text(f"---\n{front}\n---\nYou write.\n")
        world.program({"match": f"^Name: {SCRIBE}\n", "text": ", ".join(TERMS), "repeat": 5})
        message = pb.WriteVocabularyMsg(agent=SCRIBE, only_if_missing=True)
        await world.talk.ask(write_vocabulary=message)
        world.has_vocabulary = True


@dataclass
class WorkMode:
    """The conversation is in mode work: edits that can be undone need no approval."""

    world: World
    name = "mode work"

    async def apply(self) -> None:
        await self.world.set_mode("work")


@dataclass
class PlanMode:
    """The conversation is in mode plan: nothing is written."""

    world: World
    name = "mode plan"

    async def apply(self) -> None:
        await self.world.set_mode("plan")


@dataclass
class AssistantRole:
    """The agent's text is not sent to the person. What the world checks of it is in its history."""

    world: World
    name = "assistant role"

    async def apply(self) -> None:
        self.world.agent = "small-aide" if self.world.agent == "small" else "aide"


@dataclass
class AutoApproveEdits:
    """Edits that can be undone are approved by the dial of the conversation."""

    world: World
    name = "auto-approve edits"

    async def apply(self) -> None:
        await self.world.set_level("edits")


TURNS: tuple[type[Turn], ...] = (
    GuestTurn,
    SmallGuestTurn,
    TeammateTurn,
    ContinuedTurn,
    AskTurn,
    ApprovalTurn,
    PatchTurn,
    TaintTurn,
    TaintedTeammateTurn,
    GraphTurn,
    BackgroundTurn,
    RerunTurn,
)
EVENTS = (
    Kill,
    Restart,
    Takeover,
    Compaction,
    NewStretch,
    Resume,
    Queue,
    Steer,
    Automation,
    PeerMail,
    BrokerLoss,
    WaitingRerun,
    Reload,
    ExportStopped,
)
SETTINGS: tuple[type[Any], ...] = (
    SmallWindow,
    AssistantRole,
    Import,
    ProjectFiles,
    Remembering,
    Knowing,
    Documents,
    Inquiring,
    Vocabularies,
    WorkMode,
    PlanMode,
    AutoApproveEdits,
)
