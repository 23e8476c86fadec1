"""Turn, Progress and Briefing: what the loop works with, what it has done so far, and what a speaker is told."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct, field

from moot.domain.agent import Agent
from moot.domain.config import Config
from moot.domain.events import EventBody
from moot.domain.interruption import close_call
from moot.domain.message import Message, ToolCall, tool_result
from moot.domain.ports.model import Model
from moot.domain.ports.tool import ToolResult
from moot.domain.run import Limits, Outcome, RunEnd, RunRequest
from moot.domain.scope import ALL_TOOLS, Scope
from moot.domain.step_record import StepRecord
from moot.domain.usage import RunUsage, Usage
from moot.engine.budget import Budget
from moot.engine.deadline import Deadline
from moot.engine.history import History
from moot.engine.outcome import SAID, explain
from moot.engine.recorder import Recorder
from moot.engine.step import Step


class Progress(Struct, kw_only=True):
    """What a run has done so far. It outlives a cancelled loop, so that the end can be recorded truly."""

    recorder: Recorder
    model: Model
    steps: int = 0
    usage: Usage = Usage()
    cost: float = 0.0
    # Seconds at work before a restart, and the clock since.
    seconds: float = 0.0
    clock: Deadline | None = None
    used_tools: bool = False
    # A call was not made because nobody was there to be asked.
    unasked: bool = False
    # Calls made, and those among them of tools that are not the speaker's.
    made: int = 0
    refused: int = 0
    step: Step | None = None
    # What the request in flight was made of.
    request: StepRecord | None = None
    calls: Sequence[ToolCall] = ()
    results: dict[str, ToolResult] = field(default_factory=dict)
    # The calls whose tools were entered: of any other it is known that it was not executed.
    begun: set[str] = field(default_factory=set)
    flushed: int = 0
    # Whether a tool has no effect that could be in doubt; it waits, or asks.
    is_harmless: Callable[[str], bool] = lambda _: False

    @property
    def spent(self) -> RunUsage:
        worked = self.clock.worked if self.clock is not None else 0.0
        return RunUsage(steps=self.steps, usage=self.usage, cost=self.cost, seconds=self.seconds + worked)

    @property
    def all_failed(self) -> bool:
        """Whether every call of the last step that made any has failed."""
        return bool(self.results) and all(result.is_error for result in self.results.values())

    def flush(self) -> None:
        """Write the results that have all earlier ones before them: history keeps the order of the calls."""
        done: list[ToolCall] = []
        for call in self.calls[self.flushed :]:
            if call.id not in self.results:
                break
            done.append(call)
        self.flushed += len(done)
        left = self._write_shown(done)
        if left:
            # Nothing waits for these: the model reads them already, and what it says of them goes to the disk next.
            self.recorder.write(left, can_wait=True)

    def close_calls(self) -> list[Message]:
        """Results for the calls that have none yet: what finished, and that the rest was interrupted."""
        closing = self._write_shown(self.calls[self.flushed :])
        self.calls, self.flushed = (), 0
        return closing

    def _write_shown(self, calls: Sequence[ToolCall]) -> list[Message]:
        """The results of these calls. Those up to the last that delivers something are written, with what it shows."""
        ready: list[Message] = []
        for call in calls:
            output = self.results.get(call.id)
            ready.append(self._close(call) if output is None else _result_message(call.id, output))
            if output is not None and output.delivers:
                self.recorder.write(ready, delivers=output.delivers, can_wait=True)
                ready = []
        return ready

    def _close(self, call: ToolCall) -> Message:
        is_begun = call.id in self.begun
        return close_call(call.id, is_begun=is_begun, is_harmless=is_begun and self.is_harmless(call.name))

    def end(self, outcome: Outcome, *, error: str = "", limit: str = "", content: str = "") -> RunEnd:
        outcome = Outcome.DENIED if self.unasked and outcome in SAID else outcome
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
            seconds=self.spent.seconds,
        )


class Turn(Struct, frozen=True, kw_only=True):
    """What one run works with: its request, who speaks, the history, and where events go.

    The agents, the model and the configuration are looked up once, when the turn begins; a reload counts from the next.
    """

    request: RunRequest
    agent: Agent
    # Whose conversation it is; the same agent, but for a guest.
    primary: Agent
    model: Model
    config: Config
    history: History
    cwd: str
    limits: Limits
    # What it spends from, together with whatever it sets off.
    budget: Budget
    emit: Callable[[EventBody], None]


Ending = tuple[RunEnd, list[Message]]


def _nothing() -> str:
    return ""


def _not_denied() -> bool:
    return False


class TurnConduct(Struct, frozen=True):
    """What is expected of a speaker that works with others."""

    # How often it is told to go on before its silence, or its running in circles, ends the run.
    nudges: int = 0
    # Whether it hands a task back that is not for it.
    escalates: bool = False
    # What it has set going and would leave unfinished if it ended now, told to it once; empty where there is nothing.
    unfinished: Callable[[], str] = _nothing
    # Whether something it has set going, or is told of, was denied because nobody was there to be asked.
    is_denied: Callable[[], bool] = _not_denied


class Briefing(Struct, frozen=True):
    """What a speaker is told for one run beside its instructions: at their end, before the history and after it.

    Nothing of it is stored. What others have said is no instruction: it goes before the history, and stays the same.
    """

    system: tuple[str, ...] = ()
    opening: tuple[Message, ...] = ()
    tail: tuple[Message, ...] = ()
    # What it may use at most; its own scope and the request's hold as well.
    scope: Scope = ALL_TOOLS
    # What of that it is told of; it may ask its owner for the rest.
    offers: Scope = ALL_TOOLS
    conduct: TurnConduct = TurnConduct()


Brief = Callable[[Turn], Awaitable[Briefing]]


def _result_message(call_id: str, output: ToolResult) -> Message:
    return tool_result(call_id, output.content, is_error=output.is_error, taint=output.taint)
