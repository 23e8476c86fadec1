"""EventPublisher hook: announces that a call has finished, its duration and success."""

import logging
from collections import Counter
from collections.abc import Callable

from moot.domain.learning import CallRecord
from moot.domain.ports.clock import Clock
from moot.domain.ports.hook import GateCall, Proceed
from moot.domain.ports.tool import ToolResult

logger = logging.getLogger(__name__)


class EventPublisher:
    name = "EventPublisher"
    phase = "post-execute"

    def __init__(self, *, publish: Callable[[GateCall, CallRecord], None], clock: Clock) -> None:
        self._send = publish
        self._clock = clock
        self._counts: Counter[str] = Counter()

    def counts(self) -> dict[str, int]:
        return dict(self._counts)

    async def __call__(self, call: GateCall, proceed: Proceed) -> ToolResult:
        started = self._clock.monotonic()
        ok = False
        try:
            result = await proceed(call)
            ok = not result.is_error
            return result
        finally:
            self._publish(call, ok, self._clock.monotonic() - started)

    def _publish(self, call: GateCall, ok: bool, seconds: float) -> None:
        context = call.context
        record = CallRecord(
            agent=context.speaker,
            sender=context.key.sender,
            run_id=context.run_id,
            call_id=call.id,
            tool=call.tool.spec.name,
            ok=ok,
            seconds=seconds,
            at=self._clock.now(),
        )
        try:
            self._send(call, record)
            self._counts["published"] += 1
        except Exception:
            self._counts["failed"] += 1
            logger.exception("the end of a call of %s was not published", record.tool)
