"""Turn, RunProgress and Briefing: what the loop works with, what it has done so far, and what a speaker is told."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from moot.domain.agent import Agent
from moot.domain.config import Config
from moot.domain.events import EventBody, MessageSteered
from moot.domain.interruption import close_call, is_interrupted
from moot.domain.message import Message, Role, ToolCall, tool_result
from moot.domain.mode import explain_plan
from moot.domain.ports.model import Model
from moot.domain.ports.tool import ToolResult
from moot.domain.run import Limits, Outcome, RunEnd, RunRequest
from moot.domain.scope import ALL_TOOLS, Scope
from moot.domain.step_record import StepRecord
from moot.domain.usage import Charge, RunUsage, Usage
from moot.domain.user_message import SEND_USER_MESSAGE
from moot.engine.budget import Budget
from moot.engine.deadline import Deadline
from moot.engine.effects import NO_EFFECTS, Effects
from moot.engine.history import History
from moot.engine.outcome import SAID, explain, explain_denial, explain_failure, explain_mode, explain_unexecuted
from moot.engine.recorder import Recorder
from moot.engine.step import Step


class RunProgress(Struct, kw_only=True):
    """What a run has done so far. It outlives a cancelled loop, so that the end can be recorded correctly."""

    recorder: Recorder
    model: Model
    steps: int = 0
    usage: Usage = Usage()
    cost: float = 0.0
    # Seconds of work before a restart, and the deadline that measures the time since.
    seconds: float = 0.0
    clock: Deadline | None = None
    used_tools: bool = False
    # Whether a call was denied because there was nobody to ask; what was denied; the tools whose calls succeeded.
    unasked: bool = False
    denied: set[str] = field(default_factory=set)
    succeeded: set[str] = field(default_factory=set)
    # The tools whose calls failed although they were made, and the teammates whose changes failed, in words.
    failed: set[str] = field(default_factory=set)
    failed_teammates: set[str] = field(default_factory=set)
    # The tools whose calls were not executed: unknown ones, unusable arguments, commands that could not be started.
    unexecuted: set[str] = field(default_factory=set)
    # The tools whose calls were refused because the conversation is in mode plan.
    refused_by_mode: set[str] = field(default_factory=set)
    # The number of calls made, and of those that were refused because the tool belongs to another agent.
    made: int = 0
    refused: int = 0
    step: Step | None = None
    # The record of the current request.
    request: StepRecord | None = None
    calls: Sequence[ToolCall] = ()
    results: dict[str, ToolResult] = field(default_factory=dict)
    # Calls whose tools have begun; all others were certainly not executed. And how many had before a restart.
    begun: set[str] = field(default_factory=set)
    begun_before: int = 0
    flushed: int = 0
    # Whether an interrupted call of a tool leaves no doubt about its effect.
    is_harmless: Callable[[str], bool] = lambda _: False
    # Which of its tools change something.
    effects: Effects = NO_EFFECTS

    @property
    def elapsed(self) -> float:
        """Seconds of work so far, also before a restart."""
        return self.seconds + self.clock.worked if self.clock is not None else self.seconds

    @property
    def spent(self) -> RunUsage:
        return RunUsage(
            steps=self.steps, usage=self.usage, cost=self.cost, seconds=self.elapsed, tool_uses=self.tool_uses
        )

    @property
    def tool_uses(self) -> int:
        """The number of tool calls that were really made."""
        return self.begun_before + len(self.begun)

    @property
    def all_failed(self) -> bool:
        """Whether all calls of the last step with calls have failed."""
        return bool(self.results) and all(result.is_error for result in self.results.values())

    @property
    def has_messaged(self) -> bool:
        """Whether it has sent a message to the person."""
        return SEND_USER_MESSAGE in self.succeeded

    @property
    def _has_changed_something(self) -> bool:
        return any(map(self.effects.may_change, self.succeeded))

    @property
    def _failed_changes(self) -> list[str]:
        """What was to change something and failed."""
        failed = filter(self.effects.always_changes, self.failed | self.unexecuted)
        return sorted({*failed, *self.failed_teammates})

    def count_result(self, name: str, output: ToolResult) -> None:
        self.unasked |= output.unasked
        if output.is_denied:
            self.denied.add(name)
        elif output.is_refused_by_mode:
            self.refused_by_mode.add(name)
        elif output.is_unexecuted:
            self.unexecuted.add(name)
        elif output.is_error:
            self.failed.add(name)
        else:
            self.succeeded.add(name)

    def take_over(self, denial: "DeniedWork") -> None:
        """Count what was denied, or failed, in other runs as that of this one."""
        self.unasked |= denial.unasked
        self.denied |= set(denial.calls)
        self.failed_teammates |= set(denial.failed)

    def restore_calls(self, messages: Sequence[Message]) -> list[tuple[str, str]]:
        """Count the calls of a resumed run. Return the id and tool of those that were denied or failed."""
        names = {call.id: call.name for message in messages for call in message.tool_calls}
        results = [message for message in messages if message.role is Role.TOOL]
        self.used_tools, self.made = bool(results), len(results)
        self.succeeded = {names.get(result.tool_call_id, "") for result in results if not result.is_error}
        # The stored number lacks the calls of the last step.
        self.begun_before = max(self.begun_before, sum(not result.is_error for result in results))
        unsuccessful: list[tuple[str, str]] = []
        for result in results:
            name = names.get(result.tool_call_id, "")
            if result.is_error and result.content == explain_plan(name):
                self.refused_by_mode.add(name)
            elif result.is_unexecuted:
                self.unexecuted.add(name)
            elif result.is_error and not is_interrupted(result.content):
                unsuccessful.append((result.tool_call_id, name))
        return unsuccessful

    def flush(self) -> None:
        """Write the finished results in the order of the calls, up to the first unfinished one."""
        done: list[ToolCall] = []
        for call in self.calls[self.flushed :]:
            if call.id not in self.results:
                break
            done.append(call)
        self.flushed += len(done)
        left = self._write_shown(done)
        if left:
            # These need no commit of their own: the model's next message is written soon after.
            self.recorder.write(left, can_wait=True)

    def close_calls(self) -> list[Message]:
        """Return results for all calls that are not yet written; unfinished ones are marked as interrupted."""
        closing = self._write_shown(self.calls[self.flushed :])
        self.calls, self.flushed = (), 0
        return closing

    def _write_shown(self, calls: Sequence[ToolCall]) -> list[Message]:
        """Return the results of these calls. Those up to the last one that delivers something are written at once."""
        ready: list[Message] = []
        for call in calls:
            output = self.results.get(call.id)
            ready.append(self._close(call) if output is None else _make_result_message(call.id, output))
            if output is not None and output.delivers:
                self.recorder.write(ready, delivers=output.delivers, can_wait=True)
                ready = []
        return ready

    def _close(self, call: ToolCall) -> Message:
        is_begun = call.id in self.begun
        return close_call(call.id, is_begun=is_begun, is_harmless=is_begun and self.is_harmless(call.name))

    def end(self, outcome: Outcome, *, error: str = "", limit: str = "", content: str = "") -> RunEnd:
        if outcome in SAID:
            outcome, error = self._judge_work(outcome, error)
        return RunEnd(
            outcome=outcome,
            error=error or explain(outcome, limit=limit),
            limit=limit,
            content=content,
            provider=self.model.provider,
            model=self.model.model,
            usage=self.usage,
            cost=self.cost,
            steps=self.steps,
            seconds=self.elapsed,
            tool_uses=self.tool_uses,
        )

    def _judge_work(self, outcome: Outcome, error: str) -> tuple[Outcome, str]:
        """Return the outcome and error of a run that ended by itself: what was requested may not be done, whatever its
        text says.
        """
        if self.unasked:
            return Outcome.DENIED, error or explain_denial(())
        if self.denied and not self._has_changed_something:
            return Outcome.DENIED, error or explain_denial(sorted(self.denied))
        if self.refused_by_mode:
            # A run that has read something was able to plan, which is what mode plan is for.
            refused = sorted(self.refused_by_mode)
            return (outcome, error) if self.succeeded else (Outcome.DENIED, error or explain_mode(refused))
        if (failed := self._failed_changes) and not self._has_changed_something:
            return Outcome.TOOL_ERROR, error or explain_failure(failed)
        missed = sorted(filter(self.effects.is_missed, self.unexecuted))
        if missed and not self.succeeded and not self.failed:
            return Outcome.TOOL_ERROR, error or explain_unexecuted(missed)
        return outcome, error


class Steering(Protocol):
    """The queued messages that a run is to be shown. Implemented by lanes.py."""

    def take(self) -> list[RunRequest]:
        """Remove these messages from the queue and return them, oldest first."""
        ...

    def has_mail(self) -> bool:
        """Whether a queued message consists of mail, which was sent before all that is unread."""
        ...

    def has_waiting(self) -> bool:
        """Whether any message is queued."""
        ...

    def put_back(self, requests: Sequence[RunRequest]) -> None:
        """Queue messages again that could not be stored; they are next."""
        ...

    def finish(self, shown: MessageSteered) -> None:
        """End the run of a message that is stored as a message of this run."""
        ...


class Turn(Struct, frozen=True, kw_only=True):
    """What one run works with: its request, the speaker, the history, and where events go.

    Agents, model and configuration are looked up once, when the turn begins; a reload applies from the next turn on.
    """

    request: RunRequest
    agent: Agent
    # The agent whose conversation it is; differs from `agent` only for a guest.
    primary: Agent
    model: Model
    config: Config
    history: History
    cwd: str
    limits: Limits
    # The budget that it shares with all runs it spawns.
    budget: Budget
    steering: Steering | None
    emit: Callable[[EventBody], None]
    # Whether it began before a restart.
    is_resumed: bool = False

    @property
    def charge(self) -> Charge:
        """What model calls outside its steps count against."""
        return self.budget.make_charge(self.request.root_id or self.request.id)


Ending = tuple[RunEnd, list[Message]]


def _return_nothing() -> str:
    return ""


async def _find_no_denial() -> "DeniedWork":
    return DeniedWork()


class DeniedWork(Struct, frozen=True):
    """What was denied, or failed, in work that a run has started or was told about."""

    # The denied calls, if no other agent completed its work.
    calls: tuple[str, ...] = ()
    # Whether something was denied because there was nobody to ask.
    unasked: bool = False
    # The calls that failed, if nothing was denied and no other agent completed its work.
    failed: tuple[str, ...] = ()


class TurnConduct(Struct, frozen=True):
    """What is expected of a speaker that works in a team."""

    # How often it is nudged before missing text or a loop ends the run.
    nudges: int = 0
    # Whether it may escalate a task that is not for it.
    escalates: bool = False
    # Describes work it has started and would leave unfinished if it ended now (sent to it once); empty if there is
    # none.
    unfinished: Callable[[], str] = _return_nothing
    # What was denied, or failed, in work it has started or was told about.
    find_denial: Callable[[], Awaitable[DeniedWork]] = _find_no_denial


class Briefing(Struct, frozen=True):
    """What a speaker is told for one run: around its instructions, before the history and after it.

    Nothing of it is stored. Text of other agents is not an instruction: it is placed before the history and does not
    change.
    """

    # Before its instructions: the role that its file gives it.
    preamble: tuple[str, ...] = ()
    system: tuple[str, ...] = ()
    opening: tuple[Message, ...] = ()
    # After the message of the turn: what differs between turns, and the sources of untrusted text in it.
    facts: str = ""
    facts_taint: frozenset[str] = frozenset()
    tail: tuple[Message, ...] = ()
    # The tools it may use at most; its own scope and that of the request apply as well.
    scope: Scope = ALL_TOOLS
    # The tools it is offered; it may ask its owner for the others in `scope`.
    offers: Scope = ALL_TOOLS
    conduct: TurnConduct = TurnConduct()


Brief = Callable[[Turn], Awaitable[Briefing]]


def _make_result_message(call_id: str, output: ToolResult) -> Message:
    message = tool_result(
        call_id,
        output.content,
        is_error=output.is_error,
        taint=output.taint,
        author=output.author,
        duration_ms=output.duration_ms,
    )
    return replace(message, is_unexecuted=True) if output.is_unexecuted else message
