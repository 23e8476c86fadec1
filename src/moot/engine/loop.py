"""The agent loop: sends history and framing to a model and its tool calls through the gate, until the run ends."""

import asyncio
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.bridge import find_shutdown
from moot.domain.errors import ModelError
from moot.domain.events import (
    ModelPreparing,
    Stage,
    TextChunk,
    TextEnded,
    TextStarted,
    ToolFinished,
    ToolsCompleted,
    ToolsStarted,
)
from moot.domain.message import Message, Role, ToolCall
from moot.domain.ports.agent_data import Memories
from moot.domain.ports.clock import Clock
from moot.domain.ports.knowledge import Inquiries
from moot.domain.ports.project import ReadProject, read_nothing
from moot.domain.ports.tool import RunContext
from moot.domain.ports.traces import StepStore, TraceNotes
from moot.domain.run import Outcome, least
from moot.domain.scope import CONTINUE, NO_TOOLS, SPAWN, TOOL_SEARCH
from moot.domain.trace import TraceKind
from moot.domain.usage import Usage
from moot.engine.asker import make_asker
from moot.engine.asks import Asks
from moot.engine.budget import Hold, Shortfall
from moot.engine.compaction import Compaction
from moot.engine.completion import make_price_error
from moot.engine.context_window import ContextWindow
from moot.engine.deadline import Deadline, WaitTimer
from moot.engine.gate import AT_ONCE, Gate
from moot.engine.injection import show_arrivals
from moot.engine.mailboxes import Mailboxes
from moot.engine.outcome import Repetition, judge
from moot.engine.step import ModelReply, Step, emit_refusal
from moot.engine.step_calls import make_calls
from moot.engine.step_records import StepRecords
from moot.engine.turn import Brief, Ending, RunProgress, Turn
from moot.engine.turn_framing import FramingSources, frame_turn
from moot.engine.turn_state import TurnState
from moot.failpoint import reach

# Outcomes of which a speaker in a team is warned once before the run ends with them.
_NUDGED = (Outcome.EMPTY_AFTER_TOOL_USE, Outcome.TOOL_ERROR)


class LoopDependencies(Struct, frozen=True, kw_only=True):
    """What the loop is built from."""

    gate: Gate
    brief: Brief
    asks: Asks
    compaction: Compaction
    mailboxes: Mailboxes
    # Where facts for traces are recorded.
    notes: TraceNotes
    # Where the records of model requests are stored.
    steps: StepStore
    clock: Clock
    rng: Random
    memories: Memories
    inquiries: Inquiries
    read_project: ReadProject = read_nothing


class Loop:
    def __init__(self, dependencies: LoopDependencies) -> None:
        self._gate = dependencies.gate
        self._brief = dependencies.brief
        self._asks = dependencies.asks
        self._context = ContextWindow(compaction=dependencies.compaction, notes=dependencies.notes)
        self._mailboxes = dependencies.mailboxes
        self._notes = dependencies.notes
        self._clock = dependencies.clock
        self._rng = dependencies.rng
        d = dependencies
        self._sources = FramingSources(d.memories, d.inquiries, d.read_project, d.clock)
        self._records = StepRecords(dependencies.steps)

    async def run(self, turn: Turn, progress: RunProgress) -> Ending:
        """Run the loop to its end and return the ending. If cancelled, `progress` has what was done so far."""
        own = turn.limits.seconds
        left = None if own is None else max(0.0, own - progress.seconds)
        deadline = Deadline(self._clock, least(left, turn.budget.seconds_left()), idle_seconds=turn.limits.idle_seconds)
        progress.clock = deadline
        if deadline.watches:
            turn = replace(turn, emit=deadline.watch(turn.emit))
        try:
            async with deadline:
                return await self._run_steps(await self._prepare(turn, progress, deadline))
        except TimeoutError:
            if not deadline.expired:
                raise
            return progress.end(Outcome.TIMEOUT, limit=deadline.limit), []

    async def _prepare(self, turn: Turn, progress: RunProgress, deadline: Deadline) -> TurnState:
        if turn.request.scope != NO_TOOLS and (listing := self._gate.find_listing()) is not None:
            turn.emit(ModelPreparing(Stage.TOOLS, 0))
            await listing
        if turn.model.window_is_assumed:
            await turn.model.find_window()
        briefing = await self._brief(turn)
        project = await frame_turn(turn, briefing, self._sources)
        turn.history.open_with((*project.opening, *briefing.opening))
        toolbox = self._gate.box(turn.agent.scope & turn.request.scope & briefing.scope)
        progress.is_harmless, progress.effects = toolbox.is_harmless, toolbox.effects
        # A blocked tool stays in the box: a call of it gets the reason.
        within = briefing.offers & turn.config.tools.not_blocked
        offer = toolbox.choose_tools(
            turn.model, turn.agent.prefixes, within, most=turn.config.tools.tool_search.max_offered
        )
        return TurnState(
            turn=turn,
            progress=progress,
            deadline=deadline,
            briefing=briefing,
            toolbox=toolbox,
            offer=offer,
            repetition=Repetition(),
            began=turn.budget.spent.seconds,
            nudges=briefing.conduct.nudges,
            project=project,
        )

    async def _run_steps(self, state: TurnState) -> Ending:
        turn = state.turn
        if state.spends_money and not await turn.model.has_price():
            raise make_price_error(turn.model.name, turn.model.model)
        await self._resume_calls(state)
        if ending := self._end_early(state):
            return ending
        while True:
            await show_arrivals(self._mailboxes, state)
            await self._context.fit(state)
            hold, estimated = await self._reserve(state)
            if isinstance(hold, Shortfall):
                return state.progress.end(Outcome.LIMIT, limit=hold.limit, error=hold.error), []
            reply = await self._try_step(state, hold, estimated)
            if reply is None:
                continue
            if reply.calls and state.specs:
                await self._execute_calls(state, reply)
                ending = self._check_after_calls(state, reply)
            else:
                await self._note_denials(state)
                ending = self._end_with_text(state, reply)
            if ending is not None:
                return ending

    async def _reserve(self, state: TurnState) -> tuple[Hold | Shortfall, int]:
        """Reserve budget for the next call. Return the reservation or shortfall, and the estimated prompt tokens."""
        turn = state.turn
        is_teammate = bool(turn.request.parent_id)
        if not is_teammate and turn.budget.is_last_step(state.progress.steps):
            state.ask_for_answer()
        if (step := state.reserve_step(is_teammate=is_teammate)) is not None:
            return step, 0
        need = state.need()
        hold = await turn.budget.reserve(need, turn.limits, state.progress.spent, is_teammate=is_teammate)
        return hold, need.prompt

    async def _try_step(self, state: TurnState, hold: Hold, estimated: int) -> ModelReply | None:
        """Make one model call and return its reply; None if the request was too long and must be retried, shortened."""
        try:
            return await self._step(state, hold, estimated)
        except ModelError as error:
            if not await self._context.fit_after_refusal(state, error):
                raise
        if state.progress.step is not None:
            state.progress.step.discard()
        return None

    async def _step(self, state: TurnState, hold: Hold, estimated: int) -> ModelReply:
        turn, progress = state.turn, state.progress
        taken = turn.history.call_ids
        emit = state.event_sink()
        step = progress.step = Step(speaker=turn.request.speaker, emit=emit, rng=self._rng, taken=taken)
        prompt = state.prompt(hold)
        progress.request = self._records.describe(turn, progress.steps + 1, prompt)
        try:
            reply = await step.read(turn.model, prompt)
        except BaseException:
            turn.budget.release(hold)
            raise
        self.record_request(progress)
        progress.steps += 1
        cost, state.context_tokens = 0.0, 0
        if reply.usage is not None:
            cost = turn.model.cost(reply.usage)
            progress.usage += reply.usage
            progress.cost += cost
            # Stored with the reply.
            state.count_context(reply.usage.prompt)
        # If the provider reports no usage, it is estimated, so that limits still apply.
        usage = reply.usage or Usage(prompt=estimated, completion=len(reply.text) // 4 if estimated else 0)
        turn.budget.settle(hold, usage, cost, state.began + progress.elapsed)
        self._warn(turn)
        if reply.calls and not state.specs:
            step.discard()
        if reply.calls:
            state.release()
        progress.step = None
        return reply

    def record_request(self, progress: RunProgress) -> None:
        """Store the record of the last request, even if the request failed."""
        if progress.request is not None:
            self._records.add(progress.request)
            progress.request = None

    def _warn(self, turn: Turn) -> None:
        for alarm in turn.budget.alarms():
            request = turn.request
            used = {"limit": alarm.limit, "used": alarm.used, "most": alarm.most}
            self._notes.note(request.id, TraceKind.BUDGET_WARNING, request.speaker, **used)

    # ---- how a step ends a run ----------------------------------------------------------------

    def _check_after_calls(self, state: TurnState, reply: ModelReply) -> Ending | None:
        if ending := self._end_early(state):
            return ending
        if not state.is_looping(reply.calls) or self._nudge(state, Outcome.LOOP_DETECTED):
            return None
        return state.progress.end(Outcome.LOOP_DETECTED), []

    def _end_early(self, state: TurnState) -> Ending | None:
        """Return the ending of a run whose last calls escalated its task, or approved that it is stopped; else None."""
        if peer := find_shutdown(state.turn.history.entries):
            return state.progress.end(
                Outcome.CANCELLED, error=f"Stopped: {peer} asked for it, and it was approved."
            ), []
        turn, results = state.turn, state.progress.results
        reason = next((result.escalation for result in results.values() if result.escalation), "") if results else ""
        if not reason:
            return None
        self._say(turn, reason)
        taint = state.project.taint
        message = Message(role=Role.ASSISTANT, content=reason, agent=turn.request.guest, taint=taint)
        return state.progress.end(Outcome.ESCALATED, content=reason), [message]

    def _end_with_text(self, state: TurnState, reply: ModelReply) -> Ending | None:
        if reply.calls:
            # The speaker has no tools. It is told so once and may answer with text, if a step is left.
            emit_refusal(state.turn.emit, reply.calls)
            if state.refused is None and not state.is_last_step:
                state.refused = reply
                return None
        return self._finish(state, reply)

    async def _note_denials(self, state: TurnState) -> None:
        """Take over what was denied to teammates, or failed, if this run has any."""
        progress = state.progress
        if not progress.succeeded.isdisjoint((SPAWN, CONTINUE)) or state.turn.request.delivers:
            progress.take_over(await state.briefing.conduct.find_denial())

    def _finish(self, state: TurnState, reply: ModelReply) -> Ending | None:
        turn, progress, refused = state.turn, state.progress, state.refused
        text = reply.text
        if not text.strip() and refused is not None:
            text = refused.text
        outcome = judge(
            text,
            used_tools=progress.used_tools,
            all_failed=progress.all_failed,
            out_of_place=state.is_misrouted,
            has_messaged=progress.has_messaged,
        )
        if self._may_continue(state, outcome, text):
            return None
        state.release()
        if text.strip() and (reply.calls or text is not reply.text):
            # The text was discarded when its calls were refused, but it is the only text of the run, so it is published
            # again.
            self._say(turn, text)
        limit, tokens = "", turn.limits.tokens
        if outcome is Outcome.COMPLETED and tokens is not None and progress.usage.total > tokens:
            # The text is kept, but the outcome says that the token limit was exceeded.
            outcome, limit = Outcome.LIMIT, "tokens"
        error = state.render_remarks(reply)
        message = state.make_message(reply, text)
        answer = "" if state.is_private else text
        return progress.end(outcome, error=error, limit=limit, content=answer), [message] if text.strip() else []

    def _may_continue(self, state: TurnState, outcome: Outcome, text: str) -> bool:
        """Whether the run continues with a note: that it gave no text, or that teammates are still unfinished."""
        if outcome in _NUDGED:
            return self._nudge(state, outcome)
        if outcome is not Outcome.COMPLETED or not state.may_remind(text):
            return False
        self._note_recovery(state, action="remind", cause="results of teammates were not fetched")
        return True

    def _nudge(self, state: TurnState, outcome: Outcome) -> bool:
        """Continue a run that would end badly, once, if others depend on it. Return whether it continues."""
        if not state.may_nudge(outcome):
            return False
        self._note_recovery(state, action="nudge", cause=str(outcome))
        return True

    def _note_recovery(self, state: TurnState, **what: str) -> None:
        request = state.turn.request
        self._notes.note(request.id, TraceKind.RECOVERY_ATTEMPT, request.speaker, **what)

    def _say(self, turn: Turn, text: str) -> None:
        for event in (TextStarted(turn.request.speaker), TextChunk(text), TextEnded(turn.request.speaker)):
            turn.emit(event)

    # ---- tool calls ---------------------------------------------------------------------------

    async def _execute_calls(self, state: TurnState, reply: ModelReply) -> None:
        """Record the calls, execute them and record their results. No call executes before it is on disk."""
        progress = state.progress
        progress.used_tools = True
        # Secret arguments are kept out of storage, events and asks; the executed calls have the original arguments.
        masked = tuple(state.toolbox.mask_call(call) for call in reply.calls)
        progress.calls, progress.results, progress.flushed = masked, {}, 0
        progress.recorder.write([state.make_message(reply, reply.text, calls=masked)], progress.spent)
        await progress.recorder.settle()
        reach("tool.recorded")
        await self._make_calls(state, reply)

    async def _resume_calls(self, state: TurnState) -> None:
        """Resume calls that were open when the daemon stopped: they had not begun, or can safely be repeated."""
        calls = state.turn.history.open_calls()
        if not calls:
            return
        progress = state.progress
        progress.used_tools = True
        progress.calls, progress.results, progress.flushed = calls, {}, 0
        # A daemon that was paused while it started learns here that another one has taken over, and made the calls.
        progress.recorder.write([], progress.spent)
        await progress.recorder.settle()
        await self._make_calls(state, ModelReply(calls=list(calls)))

    async def _make_calls(self, state: TurnState, reply: ModelReply) -> None:
        turn, progress = state.turn, state.progress
        turn.emit(ToolsStarted(tuple(progress.calls), tuple(map(state.toolbox.line, progress.calls))))
        at_work = asyncio.Semaphore(AT_ONCE)
        await make_calls(
            reply.calls, state.specs, lambda call: self._call(state, call, reply.flaws.get(call.id, ""), at_work)
        )
        turn.emit(ToolsCompleted())
        reach("tools.completed")
        progress.calls, progress.flushed = (), 0
        if any(call.name == TOOL_SEARCH for call in reply.calls):
            state.load_tools()

    async def _call(self, state: TurnState, call: ToolCall, flaw: str, at_work: asyncio.Semaphore) -> None:
        turn, progress, deadline, toolbox = state.turn, state.progress, state.deadline, state.toolbox
        started, waited = self._clock.monotonic(), WaitTimer(self._clock.monotonic)
        own_deadline = Deadline(self._clock, turn.config.tool_seconds)
        context = RunContext(
            run_id=turn.request.id,
            key=turn.request.key,
            speaker=turn.request.speaker,
            cwd=turn.cwd,
            search_path=turn.request.search_path,
            emit=turn.emit,
            ask=make_asker(self._asks, state, call, lambda: waited.during(deadline.pause()), own_deadline),
            root=turn.request.root,
            root_id=turn.request.root_id,
            parent_id=turn.request.parent_id,
            chain=turn.request.chain,
            call_id=call.id,
            step=progress.steps,
            taint=turn.history.taint | state.project.taint,
            offered=tuple(state.specs),
            loadable=state.list_loadable(),
            waiting=lambda: waited.during(deadline.pause()),
            attending=own_deadline.pause,
            begin=lambda: progress.begun.add(call.id),
            charge=turn.charge,
        )
        with deadline.tool():
            unknown = toolbox.reject_unknown(call, state.specs, context) or state.reject_unloaded(call.name)
            output = unknown or await toolbox.execute(call, flaw, context, own_deadline, at_work)
        took = int((self._clock.monotonic() - started - waited.seconds) * 1000)
        output = replace(output, duration_ms=took)
        progress.made += 1
        progress.refused += output.is_refused
        progress.results[call.id] = output
        progress.count_result(call.name, output)
        progress.flush()
        turn.emit(ToolFinished(call.id, call.name, output.content, took, output.is_error))
        reach("tool.result")
