"""LearningObserver hook: writes an audit row for each call and learns from failures."""

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable

from moot.domain.learning import CallRecord, Failure, Lesson, failure
from moot.domain.ports.agent_data import Learnings
from moot.domain.ports.clock import Clock
from moot.domain.ports.hook import GateCall, Proceed
from moot.domain.ports.tool import ToolResult
from moot.hooks.backlog import Backlog, Later

# How many failures of active runs are remembered; the oldest are dropped first.
_REMEMBERED = 1_024
_EACH = 8

logger = logging.getLogger(__name__)


class LearningObserver:
    """Stores each failure as a learning. When its run then succeeds with the same tool, the learning is confirmed."""

    name = "LearningObserver"
    phase = "post-execute"

    def __init__(self, *, learnings: Learnings, later: Later, clock: Clock, redact: Callable[[str], str]) -> None:
        self._clock = clock
        self._redact = redact
        self._backlog: Backlog[Lesson] = Backlog("learning", learnings.learn, later)
        self._failed: OrderedDict[tuple[str, str], list[str]] = OrderedDict()
        self._counts: Counter[str] = Counter()

    def counts(self) -> dict[str, int]:
        return {**self._counts, **self._backlog.counts()}

    async def __call__(self, call: GateCall, proceed: Proceed) -> ToolResult:
        started = self._clock.monotonic()
        result: ToolResult | None = None
        try:
            result = await proceed(call)
            return result
        finally:
            # A call that was killed is recorded too, but nothing is learned from it.
            self._record(call, result, self._clock.monotonic() - started)

    def _record(self, call: GateCall, result: ToolResult | None, seconds: float) -> None:
        try:
            self._backlog.put(self._build_lesson(call, result, seconds))
        except Exception:
            logger.exception("a call of %s was not recorded", call.tool.spec.name)

    def _build_lesson(self, call: GateCall, result: ToolResult | None, seconds: float) -> Lesson:
        context, tool = call.context, call.tool.spec.name
        record = CallRecord(
            agent=context.speaker,
            sender=context.key.sender,
            run_id=context.run_id,
            call_id=call.id,
            tool=tool,
            ok=result is not None and not result.is_error,
            seconds=seconds,
            at=self._clock.now(),
        )
        self._counts["observed"] += 1
        if result is None:
            return Lesson(record=record)
        if result.is_error:
            return Lesson(record=record, failure=self._record_failure(context.run_id, tool, result))
        overcome = self._failed.pop((context.run_id, tool), ())
        self._counts["overcome"] += len(overcome)
        return Lesson(record=record, overcome=tuple(overcome))

    def _record_failure(self, run_id: str, tool: str, result: ToolResult) -> Failure:
        learnt = failure(tool, self._redact(result.content[:4_000]), result.taint)
        self._counts["failures"] += 1
        patterns = self._failed.setdefault((run_id, tool), [])
        if learnt.pattern not in patterns and len(patterns) < _EACH:
            patterns.append(learnt.pattern)
        while len(self._failed) > _REMEMBERED:
            self._failed.popitem(last=False)
        return learnt
