"""THE loop: history and framing go to a model, its tool calls through the one gate, until it has said its piece."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from random import Random

from moot.domain.ask import Ask, AskKind, Question
from moot.domain.config import Config
from moot.domain.errors import Conflict, ModelError
from moot.domain.events import (
    Compacted,
    Event,
    TextChunk,
    TextEnded,
    TextStarted,
    ToolFinished,
    ToolsCompleted,
    ToolsStarted,
)
from moot.domain.message import Message, Role, ToolCall
from moot.domain.ports import AskHuman, Clock, Model, RunContext
from moot.domain.run import Outcome, RunEnd, least
from moot.domain.trace import Notes, TraceKind
from moot.domain.usage import Usage
from moot.engine.asks import Asks
from moot.engine.compaction import Compaction
from moot.engine.deadline import Deadline, Waited, Waiting
from moot.engine.gate import Gate
from moot.engine.outcome import Repetition, judge
from moot.engine.purse import Hold, Lack
from moot.engine.sitting import Sitting
from moot.engine.step import Reply, Step
from moot.engine.turn import Brief, Ending, Progress, Turn
from moot.failpoint import reach

logger = logging.getLogger(__name__)

# Outcomes that a speaker others wait for is told of once before they stand.
_NUDGED = (Outcome.EMPTY_AFTER_TOOL_USE, Outcome.TOOL_ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopParts:
    """What the loop is built from."""

    gate: Gate
    brief: Brief
    asks: Asks
    compaction: Compaction
    config: Callable[[], Config]
    # Where facts for traces go.
    notes: Notes
    clock: Clock
    rng: Random


class Loop:
    def __init__(self, parts: LoopParts) -> None:
        self._gate = parts.gate
        self._brief = parts.brief
        self._asks = parts.asks
        self._compaction = parts.compaction
        self._config = parts.config
        self._notes = parts.notes
        self._clock = parts.clock
        self._rng = parts.rng

    async def run(self, turn: Turn, progress: Progress) -> Ending:
        """Run to an end. A cancelled run raises; what it did until then stands in the progress."""
        own = turn.limits.seconds
        left = None if own is None else max(0.0, own - progress.seconds)
        deadline = Deadline(least(left, turn.purse.seconds_left()), idle_seconds=turn.limits.idle_seconds)
        progress.clock = deadline
        if deadline.watches:
            turn = replace(turn, emit=_stirring(turn.emit, deadline))
        try:
            async with deadline:
                return await self._steps(await self._sit_down(turn, progress, deadline))
        except TimeoutError:
            if not deadline.expired:
                raise
            return progress.end(Outcome.TIMEOUT, limit=deadline.limit), []

    async def _sit_down(self, turn: Turn, progress: Progress, deadline: Deadline) -> Sitting:
        briefing = await self._brief(turn)
        turn.history.open_with(briefing.opening)
        toolbox = self._gate.box(turn.agent.scope & turn.request.scope & briefing.scope)
        progress.is_harmless = toolbox.is_harmless
        return Sitting(
            turn=turn,
            progress=progress,
            deadline=deadline,
            briefing=briefing,
            toolbox=toolbox,
            specs=toolbox.offered(turn.model, turn.agent.prefixes),
            repetition=Repetition(),
            began=turn.purse.spent.seconds,
            nudges=briefing.conduct.nudges,
        )

    async def _steps(self, sitting: Sitting) -> Ending:
        turn = sitting.turn
        if sitting.spends_money and not await turn.model.priced():
            raise _no_price(turn.model)
        if await self._take_up(sitting) and (ending := self._handed_back(sitting)):
            return ending
        while True:
            await self._make_room(turn)
            need = sitting.need(self._config())
            hold = await turn.purse.reserve(need, turn.limits, sitting.progress.spent)
            if isinstance(hold, Lack):
                return _at_its_limit(sitting.progress, hold), []
            reply = await self._step(sitting, hold, need.prompt)
            if reply.calls and sitting.specs:
                await self._act(sitting, reply)
                ending = self._after_calls(sitting, reply)
            else:
                ending = self._after_words(sitting, reply)
            if ending is not None:
                return ending

    async def _step(self, sitting: Sitting, hold: Hold, estimated: int) -> Reply:
        turn, progress = sitting.turn, sitting.progress
        taken = turn.history.call_ids
        emit = sitting.hears()
        step = progress.step = Step(speaker=turn.request.speaker, emit=emit, rng=self._rng, taken=taken)
        try:
            reply = await step.read(turn.model, sitting.prompt(hold))
        except BaseException:
            turn.purse.release(hold)
            raise
        progress.steps += 1
        cost = 0.0
        if reply.usage is not None:
            cost = turn.model.cost(reply.usage)
            progress.usage += reply.usage
            progress.cost += cost
            # The prompt is what the history took; the reply joins the history with the next entry.
            turn.history.count(reply.usage.prompt)
        # A provider that does not count must not make a limit meaningless.
        usage = reply.usage or Usage(prompt=estimated, completion=len(reply.text) // 4 if estimated else 0)
        turn.purse.settle(hold, usage, cost, sitting.time_of_tree(progress.spent))
        self._warn(turn)
        if reply.calls and not sitting.specs:
            step.discard()
        if reply.calls:
            sitting.release()
        progress.step = None
        return reply

    def _warn(self, turn: Turn) -> None:
        for alarm in turn.purse.alarms():
            request = turn.request
            self._notes.note(
                request.id,
                TraceKind.BUDGET_WARNING,
                request.speaker,
                limit=alarm.limit,
                used=alarm.used,
                most=alarm.most,
            )

    # ---- how a step ends a run ----------------------------------------------------------------

    def _after_calls(self, sitting: Sitting, reply: Reply) -> Ending | None:
        if ending := self._handed_back(sitting):
            return ending
        if not sitting.runs_in_circles(reply.calls) or self._nudge(sitting, Outcome.LOOP_DETECTED):
            return None
        return sitting.progress.end(Outcome.LOOP_DETECTED), []

    def _handed_back(self, sitting: Sitting) -> Ending | None:
        """The end of a run whose last calls handed its task back: the reason is what it has said."""
        turn, results = sitting.turn, sitting.progress.results.values()
        reason = next((result.escalation for result in results if result.escalation), "")
        if not reason:
            return None
        self._say(turn, reason)
        said = Message(role=Role.ASSISTANT, content=reason, agent=turn.request.guest)
        return sitting.progress.end(Outcome.ESCALATED, content=reason), [said]

    def _after_words(self, sitting: Sitting, reply: Reply) -> Ending | None:
        if reply.calls:
            # There are no tools here. It is told so once and may answer in words.
            self._refuse(sitting.turn, reply)
            if sitting.refused is None:
                sitting.refused = reply
                return None
        return self._finish(sitting, reply)

    def _finish(self, sitting: Sitting, reply: Reply) -> Ending | None:
        turn, progress, refused = sitting.turn, sitting.progress, sitting.refused
        text = reply.text
        if not text.strip() and refused is not None:
            text = refused.text
        outcome = judge(
            text,
            used_tools=progress.used_tools,
            all_failed=progress.all_failed,
            out_of_place=sitting.out_of_place,
        )
        if self._goes_on(sitting, outcome, text):
            return None
        sitting.release()
        if text.strip() and (reply.calls or text is not reply.text):
            # It was taken back when its calls were refused, and turns out to be all the speaker has to say.
            self._say(turn, text)
        limit, tokens = "", turn.limits.tokens
        if outcome is Outcome.COMPLETED and tokens is not None and progress.usage.total > tokens:
            # What was said is kept; that it took more than it was allowed is told.
            outcome, limit = Outcome.LIMIT, "tokens"
        error = "The reply was cut off at the model's output limit." if reply.truncated else ""
        said = Message(role=Role.ASSISTANT, content=text, agent=turn.request.guest, thinking=tuple(reply.thinking))
        return progress.end(outcome, error=error, limit=limit, content=text), [said] if text.strip() else []

    def _goes_on(self, sitting: Sitting, outcome: Outcome, text: str) -> bool:
        """Whether the speaker is told something first: that it is silent, or that it leaves others at work."""
        if outcome in _NUDGED:
            return self._nudge(sitting, outcome)
        if outcome is not Outcome.COMPLETED or not sitting.may_remind(text):
            return False
        self._recovers(sitting, action="remind", cause="results of teammates were not fetched")
        return True

    def _nudge(self, sitting: Sitting, outcome: Outcome) -> bool:
        """Let a run that would end badly go on once, where somebody waits for it."""
        if not sitting.may_nudge(outcome):
            return False
        self._recovers(sitting, action="nudge", cause=str(outcome))
        return True

    def _recovers(self, sitting: Sitting, **what: str) -> None:
        request = sitting.turn.request
        self._notes.note(request.id, TraceKind.RECOVERY_ATTEMPT, request.speaker, **what)

    def _say(self, turn: Turn, text: str) -> None:
        for event in (TextStarted(turn.request.speaker), TextChunk(text), TextEnded(turn.request.speaker)):
            turn.emit(event)

    def _refuse(self, turn: Turn, reply: Reply) -> None:
        turn.emit(ToolsStarted(tuple(reply.calls)))
        for call in reply.calls:
            turn.emit(ToolFinished(call.id, call.name, "There are no tools here; nothing was run.", 0, True))
        turn.emit(ToolsCompleted())

    # ---- tool calls ---------------------------------------------------------------------------

    async def _act(self, sitting: Sitting, reply: Reply) -> None:
        """Record the calls, make them, record their results. Nothing runs before its intent is on disk."""
        turn, progress = sitting.turn, sitting.progress
        progress.used_tools = True
        # What a tool alone may know is kept from disk, events and asks; the calls made are those the model wrote.
        masked = tuple(sitting.toolbox.masked(call) for call in reply.calls)
        progress.calls, progress.results, progress.flushed = masked, {}, 0
        progress.recorder.write(
            [
                Message(
                    role=Role.ASSISTANT,
                    content=reply.text,
                    agent=turn.request.guest,
                    tool_calls=masked,
                    thinking=tuple(reply.thinking),
                )
            ],
            progress.spent,
        )
        await progress.recorder.settle()
        reach("tool.recorded")
        await self._make_calls(sitting, reply)

    async def _take_up(self, sitting: Sitting) -> bool:
        """Go on with calls that were open when the daemon stopped: none had begun, or a second time does no harm."""
        calls = sitting.turn.history.open_calls()
        if calls:
            progress = sitting.progress
            progress.used_tools = True
            progress.calls, progress.results, progress.flushed = calls, {}, 0
            await self._make_calls(sitting, Reply(calls=list(calls)))
        return bool(calls)

    async def _make_calls(self, sitting: Sitting, reply: Reply) -> None:
        turn, progress = sitting.turn, sitting.progress
        turn.emit(ToolsStarted(tuple(progress.calls), tuple(map(sitting.toolbox.line, progress.calls))))
        calls = [(call, self._call(sitting, call, reply.flaws.get(call.id, ""))) for call in reply.calls]
        if len(calls) == 1:
            await calls[0][1]
        else:
            async with asyncio.TaskGroup() as group:
                for call, made in calls:
                    group.create_task(made, name=f"tool {call.name}")
        turn.emit(ToolsCompleted())
        reach("tools.completed")
        progress.calls, progress.flushed = (), 0

    async def _call(self, sitting: Sitting, call: ToolCall, flaw: str) -> None:
        turn, progress, deadline, toolbox = sitting.turn, sitting.progress, sitting.deadline, sitting.toolbox
        started, waited = self._clock.monotonic(), Waited(self._clock.monotonic)
        own_deadline = Deadline(self._config().tool_seconds)
        context = RunContext(
            run_id=turn.request.id,
            key=turn.request.key,
            speaker=turn.request.speaker,
            cwd=turn.cwd,
            emit=turn.emit,
            ask=self._asker(sitting, call, lambda: waited.during(deadline.paused()), own_deadline),
            root=turn.request.root,
            origin=turn.request.origin,
            call_id=call.id,
            step=progress.steps,
            taint=turn.history.taint,
            waiting=lambda: waited.during(deadline.paused()),
            attending=deadline.attending(own_deadline),
            stir=deadline.stir,
        )
        with deadline.tool():
            output = await toolbox.execute(call, flaw, context, own_deadline, sitting.at_work)
        took = int((self._clock.monotonic() - started - waited.seconds) * 1000)
        progress.made += 1
        progress.refused += output.is_refused
        progress.results[call.id] = output
        progress.unasked |= output.unasked
        progress.flush()
        turn.emit(ToolFinished(call.id, call.name, output.content, took, output.is_error))
        reach("tool.result")

    def _asker(self, sitting: Sitting, call: ToolCall, waiting: Waiting, tool_deadline: Deadline) -> AskHuman:
        turn, request, number = sitting.turn, sitting.turn.request, count(1)

        async def ask(questions: Sequence[Question]) -> str:
            asked = Ask(
                # Asked again after a restart, it is the same question.
                id=f"ask-{request.id}-{call.id}-{next(number)}",
                kind=AskKind.QUESTION,
                key=request.asks_in,
                run_id=request.id,
                call_id=call.id,
                speaker=request.speaker,
                tool=call.name,
                questions=tuple(questions),
                is_resumable=sitting.toolbox.is_harmless(call.name),
            )
            with waiting(), tool_deadline.paused():
                return await self._asks.ask_question(asked, turn.emit, seconds=self._config().ask_seconds)

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
        turn.purse.count(archive.usage, archive.cost)
        turn.emit(Compacted(archive.number, archive.title))


def _stirring(emit: Callable[[Event], None], deadline: Deadline) -> Callable[[Event], None]:
    """Whatever a run announces shows that it is not idle."""

    def stirring(event: Event) -> None:
        deadline.stir()
        emit(event)

    return stirring


def _at_its_limit(progress: Progress, lack: Lack) -> RunEnd:
    whose = "The run and all it set to work have" if lack.shared else "The run has"
    told = f"{whose} no room for another step under the limit on {lack.limit}."
    return progress.end(Outcome.LIMIT, limit=lack.limit, error=told)


def _no_price(model: Model) -> ModelError:
    return ModelError(
        f"the price of {model.model} is not known, so a limit on spend cannot be kept",
        fix=f"Set price_prompt and price_completion in [models.{model.name}], or take the limit away.",
    )
