"""THE loop: history and framing go to a model, its tool calls through the one gate, until it has said its piece."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from moot.domain.agent import Agent
from moot.domain.ask import Question
from moot.domain.config import Config
from moot.domain.errors import Conflict, ModelError
from moot.domain.events import (
    AskClosed,
    AskOpened,
    Compacted,
    Event,
    TextChunk,
    TextEnded,
    TextStarted,
    ToolFinished,
    ToolsCompleted,
    ToolsStarted,
)
from moot.domain.message import Message, Role, ToolCall, assistant, tool_result
from moot.domain.ports import AskHuman, Clock, Model, RunContext, ToolResult, ToolSupport
from moot.domain.prompt import Prompt, ToolSpec
from moot.domain.run import Limits, Outcome, RunEnd, RunRequest
from moot.domain.usage import Usage
from moot.engine.asks import Asks
from moot.engine.compaction import Compaction
from moot.engine.deadline import Deadline, Waited, Waiting
from moot.engine.framing import guest_framing, place_framing, primary_framing, refusal, shown
from moot.engine.gate import Gate, Toolbox
from moot.engine.history import History
from moot.engine.outcome import SAID, Repetition, exceeded, explain, judge
from moot.engine.recorder import Recorder
from moot.engine.step import Reply, Step
from moot.failpoint import reach

logger = logging.getLogger(__name__)

# A model that sees little is offered the everyday tools only; the rest would fill its window.
_SMALL_WINDOW = 16_384
_FEW_TOOLS = 12

_INTERRUPTED = "This call was interrupted; it is not known whether it took effect."


@dataclass(slots=True, kw_only=True)
class Progress:
    """What a run has done so far. It outlives a cancelled loop, so that the end can be recorded truly."""

    recorder: Recorder
    model: Model
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0
    used_tools: bool = False
    # A call was not made because nobody was there to be asked.
    unasked: bool = False
    step: Step | None = None
    calls: Sequence[ToolCall] = ()
    results: dict[str, ToolResult] = field(default_factory=dict)
    flushed: int = 0

    def flush(self) -> None:
        """Write the results that have all earlier ones before them: history keeps the order of the calls."""
        ready: list[Message] = []
        for call in self.calls[self.flushed :]:
            output = self.results.get(call.id)
            if output is None:
                break
            ready.append(_result_message(call.id, output))
        if ready:
            self.flushed += len(ready)
            self.recorder.write(ready)

    def close_calls(self) -> list[Message]:
        """Results for the calls that have none yet: what finished, and that the rest was interrupted."""
        interrupted = ToolResult(content=_INTERRUPTED, is_error=True)
        closing: list[Message] = []
        for call in self.calls[self.flushed :]:
            output = self.results.get(call.id, interrupted)
            closing.append(_result_message(call.id, output))
        self.calls, self.flushed = (), 0
        return closing

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
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one run works with: its request, who speaks, the history, and where events go."""

    request: RunRequest
    agent: Agent
    # Whose conversation it is; the same agent, but for a guest.
    primary: Agent
    model: Model
    history: History
    cwd: str
    limits: Limits
    emit: Callable[[Event], None]


Ending = tuple[RunEnd, list[Message]]


def _result_message(call_id: str, output: ToolResult) -> Message:
    return tool_result(call_id, output.content, is_error=output.is_error, taint=output.taint)


class Loop:
    def __init__(
        self,
        *,
        gate: Gate,
        asks: Asks,
        compaction: Compaction,
        config: Callable[[], Config],
        clock: Clock,
        rng: Random,
    ) -> None:
        self._gate = gate
        self._asks = asks
        self._compaction = compaction
        self._config = config
        self._clock = clock
        self._rng = rng

    async def run(self, turn: Turn, progress: Progress) -> Ending:
        """Run to an end. A cancelled run raises; what it did until then stands in the progress."""
        deadline = Deadline(turn.limits.seconds)
        try:
            async with deadline:
                return await self._steps(turn, progress, deadline)
        except TimeoutError:
            if not deadline.expired:
                raise
            return progress.end(Outcome.TIMEOUT, limit="seconds"), []

    async def _steps(self, turn: Turn, progress: Progress, deadline: Deadline) -> Ending:
        toolbox = self._gate.box(turn.agent.scope & turn.request.scope)
        specs = _offered(toolbox, turn.model)
        repetition = Repetition()
        refused: Reply | None = None
        if turn.limits.spend is not None and not await turn.model.priced():
            raise _no_price(turn.model)
        await self._take_up(turn, progress, toolbox, deadline)
        while True:
            limit = exceeded(turn.limits, steps=progress.steps, usage=progress.usage, cost=progress.cost)
            limit = limit or self._too_long(turn, progress)
            if limit:
                return progress.end(Outcome.LIMIT, limit=limit), []
            await self._make_room(turn)
            reply = await self._step(turn, progress, specs, refused)
            if not reply.calls:
                return self._finish(turn, progress, reply, refused)
            if not specs:
                self._refuse(turn, reply)
                if refused is not None:
                    return self._finish(turn, progress, reply, refused)
                refused = reply
                continue
            await self._act(turn, progress, toolbox, reply, deadline)
            if repetition.seen(reply.calls):
                return progress.end(Outcome.LOOP_DETECTED), []

    async def _step(self, turn: Turn, progress: Progress, specs: tuple[ToolSpec, ...], refused: Reply | None) -> Reply:
        taken = turn.history.call_ids
        step = progress.step = Step(speaker=turn.request.speaker, emit=turn.emit, rng=self._rng, taken=taken)
        reply = await step.read(turn.model, self._prompt(turn, progress, specs, refused))
        progress.steps += 1
        if reply.usage is not None:
            progress.usage += reply.usage
            progress.cost += turn.model.cost(reply.usage)
            # The prompt is what the history took; the reply joins the history with the next entry.
            turn.history.count(reply.usage.prompt)
        if reply.calls and not specs:
            step.discard()
        progress.step = None
        return reply

    def _too_long(self, turn: Turn, progress: Progress) -> str:
        """Whether the prompt alone would take more tokens than are left."""
        tokens = turn.limits.tokens
        if tokens is None:
            return ""
        instruction = len(turn.agent.instruction) // 4
        return "tokens" if progress.usage.total + turn.history.estimated_tokens() + instruction >= tokens else ""

    def _prompt(self, turn: Turn, progress: Progress, specs: tuple[ToolSpec, ...], refused: Reply | None) -> Prompt:
        tail: tuple[Message, ...] = ()
        if refused is not None:
            own = shown(assistant(refused.text, agent=turn.request.guest))
            said = (own,) if refused.text.strip() else ()
            tail = (*said, refusal([call.name for call in refused.calls]))
        limits = turn.limits
        return Prompt(
            system=tuple(self._system(turn, specs)),
            transcript=turn.history.transcript(with_tools=bool(specs)),
            tail=tail,
            tools=specs,
            max_tokens=None if limits.tokens is None else max(1, limits.tokens - progress.usage.total),
        )

    def _system(self, turn: Turn, specs: tuple[ToolSpec, ...]) -> list[str]:
        """Instructions first, framing after: what is before it stays the same from turn to turn."""
        blocks = [turn.agent.instruction]
        request = turn.request
        if request.guest:
            blocks.append(guest_framing(guest=request.speaker, primary=request.key.agent))
        elif turn.history.guests:
            blocks.append(primary_framing(primary=request.key.agent))
        if specs:
            blocks.append(place_framing(turn.cwd))
        return blocks

    def _refuse(self, turn: Turn, reply: Reply) -> None:
        turn.emit(ToolsStarted(tuple(reply.calls)))
        for call in reply.calls:
            turn.emit(ToolFinished(call.id, call.name, "There are no tools here; nothing was run.", 0, True))
        turn.emit(ToolsCompleted())

    def _finish(self, turn: Turn, progress: Progress, reply: Reply, refused: Reply | None) -> Ending:
        text = reply.text
        if not text.strip() and refused is not None:
            text = refused.text
        if text.strip() and (reply.calls or text is not reply.text):
            # It was taken back when its calls were refused, and turns out to be all the speaker has to say.
            for event in (
                TextStarted(turn.request.speaker),
                TextChunk(text),
                TextEnded(turn.request.speaker),
            ):
                turn.emit(event)
        outcome, limit = judge(text, used_tools=progress.used_tools), ""
        tokens = turn.limits.tokens
        if outcome is Outcome.COMPLETED and tokens is not None and progress.usage.total > tokens:
            # What was said is kept; that it took more than it was allowed is told.
            outcome, limit = Outcome.LIMIT, "tokens"
        error = "The reply was cut off at the model's output limit." if reply.truncated else ""
        said = Message(role=Role.ASSISTANT, content=text, agent=turn.request.guest, thinking=tuple(reply.thinking))
        return progress.end(outcome, error=error, limit=limit, content=text), [said] if text.strip() else []

    async def _act(self, turn: Turn, progress: Progress, toolbox: Toolbox, reply: Reply, deadline: Deadline) -> None:
        """Record the calls, make them, record their results. Nothing runs before its intent is on disk."""
        progress.used_tools = True
        # What a tool alone may know is kept from disk, events and asks; the calls made are those the model wrote.
        shown = tuple(toolbox.masked(call) for call in reply.calls)
        progress.calls, progress.results, progress.flushed = shown, {}, 0
        progress.recorder.write(
            [
                Message(
                    role=Role.ASSISTANT,
                    content=reply.text,
                    agent=turn.request.guest,
                    tool_calls=shown,
                    thinking=tuple(reply.thinking),
                )
            ]
        )
        await progress.recorder.settle()
        reach("tool.recorded")
        await self._make_calls(turn, progress, toolbox, reply, deadline)

    async def _take_up(self, turn: Turn, progress: Progress, toolbox: Toolbox, deadline: Deadline) -> None:
        """Go on with the calls of a run that waited for an approval when the daemon stopped. None of them has begun."""
        calls = turn.history.open_calls()
        if calls:
            progress.used_tools = True
            progress.calls, progress.results, progress.flushed = calls, {}, 0
            await self._make_calls(turn, progress, toolbox, Reply(calls=list(calls)), deadline)

    async def _make_calls(
        self, turn: Turn, progress: Progress, toolbox: Toolbox, reply: Reply, deadline: Deadline
    ) -> None:
        turn.emit(ToolsStarted(tuple(progress.calls), tuple(map(toolbox.line, progress.calls))))
        async with asyncio.TaskGroup() as group:
            for call in reply.calls:
                group.create_task(
                    self._call(turn, progress, toolbox, call, reply.flaws.get(call.id, ""), deadline),
                    name=f"tool {call.name}",
                )
        turn.emit(ToolsCompleted())
        reach("tools.completed")
        progress.calls, progress.flushed = (), 0

    async def _call(
        self, turn: Turn, progress: Progress, toolbox: Toolbox, call: ToolCall, flaw: str, deadline: Deadline
    ) -> None:
        started, waited = self._clock.monotonic(), Waited(self._clock.monotonic)
        own_deadline = Deadline(self._config().tool_seconds)
        context = RunContext(
            run_id=turn.request.id,
            key=turn.request.key,
            speaker=turn.request.speaker,
            cwd=turn.cwd,
            emit=turn.emit,
            ask=self._asker(turn, lambda: waited.during(deadline.paused()), own_deadline),
            taint=turn.history.taint,
            waiting=lambda: waited.during(deadline.paused()),
        )
        output = await toolbox.execute(call, flaw, context, own_deadline)
        took = int((self._clock.monotonic() - started - waited.seconds) * 1000)
        progress.results[call.id] = output
        progress.unasked |= output.unasked
        progress.flush()
        turn.emit(ToolFinished(call.id, call.name, output.content, took, output.is_error))
        reach("tool.result")

    def _asker(self, turn: Turn, waiting: Waiting, tool_deadline: Deadline) -> AskHuman:
        async def ask(questions: Sequence[Question]) -> str:
            seconds = self._config().ask_seconds
            opened = self._asks.open(turn.request.key, turn.request.id, questions, seconds=seconds)
            turn.emit(AskOpened(opened))
            reach("ask.opened")
            answered = False
            try:
                with waiting(), tool_deadline.paused():
                    answer = await self._asks.answer(opened, seconds=seconds)
                answered = True
                reach("ask.answered")
                return answer
            finally:
                turn.emit(AskClosed(opened.id, answered))

        return ask

    async def _make_room(self, turn: Turn) -> None:
        """Compact what came before this turn's message when the model's window is nearly full."""
        config = self._config().compaction
        history = turn.history
        if not config.auto or history.estimated_tokens() < turn.model.window * config.threshold:
            return
        last_seq = history.last_user_seq() - 1
        if not history.entries or history.entries[0].seq > last_seq:
            return
        try:
            archive = await self._compaction.compact(history, turn.primary, turn.model, last_seq=last_seq)
        except (ModelError, Conflict) as error:
            logger.warning("automatic compaction of %s failed: %s", history.key, error)
            return
        turn.emit(Compacted(archive.number, archive.title))


def _offered(toolbox: Toolbox, model: Model) -> tuple[ToolSpec, ...]:
    if model.tools is ToolSupport.NONE:
        return ()
    specs = toolbox.specs
    return specs[:_FEW_TOOLS] if model.window <= _SMALL_WINDOW else specs


def _no_price(model: Model) -> ModelError:
    return ModelError(
        f"the price of {model.model} is not known, so a limit on spend cannot be kept",
        fix=f"Set price_prompt and price_completion in [models.{model.name}], or take the limit away.",
    )
