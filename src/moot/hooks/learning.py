"""LearningObserver hook: records each call, learns from failures, and offers the recorded fix of a known one."""

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.learning import (
    CallLearning,
    CallRecord,
    Failure,
    FixedFailure,
    Learning,
    choose_fix,
    describe_correction,
    generalise_failure,
    make_id,
    make_trigger,
    render_offer,
    summarise_arguments,
)
from moot.domain.ports.clock import Clock
from moot.domain.ports.hook import GateCall, Proceed
from moot.domain.ports.knowledge import Learnings
from moot.domain.ports.tool import ToolResult
from moot.domain.prompt import Sink
from moot.domain.redaction import has_secret_arguments
from moot.domain.senders import owner_of
from moot.hooks.backlog import Backlog, Later

# How many failures of active runs are remembered; the oldest are dropped first.
_REMEMBERED = 1_024
_EACH = 8

logger = logging.getLogger(__name__)


class _Failed(Struct):
    """A failure of an active run: what was called, and the learning whose fix was offered for it."""

    pattern: str
    # None if the arguments of the tool may be secret.
    arguments: dict[str, str] | None
    offered: str = ""


class LearningObserver:
    """Stores each failure as a learning. When its run then succeeds with the same tool, the fix is recorded.

    A run that fails in a known way is told the recorded fix, once.
    """

    name = "LearningObserver"
    phase = "post-execute"

    def __init__(self, *, learnings: Learnings, later: Later, clock: Clock, redact: Callable[[str], str]) -> None:
        self._clock = clock
        self._redact = redact
        self._learnings = learnings
        self._backlog: Backlog[CallLearning] = Backlog("learning", learnings.learn, later)
        self._failed: OrderedDict[tuple[str, str], dict[str, _Failed]] = OrderedDict()
        self._counts: Counter[str] = Counter()

    def counts(self) -> dict[str, int]:
        return {**self._counts, **self._backlog.counts()}

    async def __call__(self, call: GateCall, proceed: Proceed) -> ToolResult:
        started = self._clock.monotonic()
        result: ToolResult | None = None
        try:
            result = await proceed(call)
        finally:
            # A call that was killed is recorded too, but nothing is learned from it.
            failed = self._record(call, result, self._clock.monotonic() - started)
        return result if failed is None else await self._offer_fix(call, result, failed)

    def _record(self, call: GateCall, result: ToolResult | None, seconds: float) -> Failure | None:
        """Queue what is learned from a call; return how it failed, if it did."""
        try:
            learned = self._build_call_learning(call, result, seconds)
            self._backlog.put(learned)
            return learned.failure
        except Exception:
            logger.exception("a call of %s was not recorded", call.tool.spec.name)
            return None

    def _build_call_learning(self, call: GateCall, result: ToolResult | None, seconds: float) -> CallLearning:
        context, tool = call.context, call.tool.spec.name
        has_failed = result is None or result.is_error or bool(result.failure)
        record = CallRecord(
            agent=context.speaker,
            sender=context.key.sender,
            run_id=context.run_id,
            call_id=call.id,
            tool=tool,
            ok=not has_failed,
            seconds=seconds,
            at=self._clock.now(),
        )
        learned = CallLearning(record=record, root=context.asks_in)
        self._counts["observed"] += 1
        if result is None:
            return learned
        if has_failed:
            learnt = generalise_failure(tool, self._redact((result.failure or result.content)[:4_000]), result.taint)
            learnt = replace(learnt, run_taint=context.taint)
            self._counts["failures"] += 1
            return replace(learned, failure=learnt, unhelpful=self._remember(call, learnt))
        fixed = self._failed.pop((context.run_id, tool), {})
        self._counts["fixed"] += len(fixed)
        return replace(
            learned,
            fixed=tuple(self._describe(call, each) for each in fixed.values()),
            helpful=_list_other_fixes(learned.owner, tool, fixed.values()),
        )

    def _remember(self, call: GateCall, learnt: Failure) -> str:
        """Remember a failure of a run; return the learning that was offered before, if it failed like this then."""
        failures = self._failed.setdefault((call.context.run_id, call.tool.spec.name), {})
        known = failures.get(learnt.pattern)
        if known is not None:
            known.arguments = self._summarise(call)
            return known.offered
        if len(failures) < _EACH:
            failures[learnt.pattern] = _Failed(learnt.pattern, self._summarise(call))
        while len(self._failed) > _REMEMBERED:
            self._failed.popitem(last=False)
        return ""

    def _summarise(self, call: GateCall) -> dict[str, str] | None:
        spec = call.tool.spec
        if has_secret_arguments(spec) or Sink.SECRETS in spec.sinks:
            return None
        return {name: self._redact(text) for name, text in summarise_arguments(call.arguments).items()}

    def _describe(self, call: GateCall, failed: _Failed) -> FixedFailure:
        worked = self._summarise(call)
        fix = describe_correction(failed.arguments, worked) if failed.arguments and worked else ""
        return FixedFailure(pattern=failed.pattern, fix=fix, taint=call.context.taint)

    async def _offer_fix(self, call: GateCall, result: ToolResult, failed: Failure) -> ToolResult:
        """Return the result with the recorded fix of a failure like this one, if there is one."""
        known = self._failed.get((call.context.run_id, call.tool.spec.name), {}).get(failed.pattern)
        if known is None or known.offered:
            return result
        try:
            owner = owner_of(call.context.asks_in.sender)
            fix = choose_fix(await self._learnings.list_of_trigger(owner, make_trigger(failed.tool)), failed)
        except Exception:
            logger.exception("no fix was looked up for a failure of %s", failed.tool)
            return result
        if fix is None:
            return result
        known.offered = fix.id
        self._counts["offered"] += 1
        return _add_fix(result, fix)


def _list_other_fixes(owner: str, tool: str, fixed: Iterable[_Failed]) -> tuple[str, ...]:
    """Return the learnings that were offered for a failure without being about exactly its pattern."""
    offered = {each.offered for each in fixed if each.offered != make_id(owner, make_trigger(tool), each.pattern)}
    return tuple(sorted(offered - {""}))


def _add_fix(result: ToolResult, fix: Learning) -> ToolResult:
    return replace(result, content=f"{result.content.rstrip()}\n\n{render_offer(fix)}", taint=result.taint | fix.taint)
