"""SpanExport: sends ended spans to an OpenTelemetry collector in batches, in one task of the Supervisor.

Spans wait in a bounded queue and each batch is sent by a thread of its own, so a collector that is slow or gone
neither delays a run nor the end of the daemon.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import Tracer

from moot import __version__
from moot.domain.errors import MootError
from moot.domain.ports.clock import Clock
from moot.models.proxy import is_loopback_host

logger = logging.getLogger(__name__)

MAX_WAITING = 4_096
_BATCH = 512
_EVERY_SECONDS = 1.0
# How long one request may take, with its retries.
_TIMEOUT_SECONDS = 5.0
# How long the last batch may take when the daemon stops.
_LAST_SECONDS = 2.0
_LOG_SECONDS = 60.0


class SpanExport(SpanProcessor):
    """`authorization` returns the value of the Authorization header, or an empty text."""

    def __init__(self, clock: Clock, *, endpoint: str, authorization: Callable[[], Awaitable[str]]) -> None:
        self._clock = clock
        self._endpoint = endpoint
        self._authorization = authorization
        self._waiting: deque[ReadableSpan] = deque(maxlen=MAX_WAITING)
        self._dropped = 0
        self._logged_at = float("-inf")
        # The exporter logs every failure; one line a minute is enough.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        resource = Resource.create({"service.name": "moot", "service.version": __version__})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(self)

    def get_tracer(self) -> Tracer:
        return self._provider.get_tracer("moot", __version__)

    def on_end(self, span: ReadableSpan) -> None:
        self._dropped += len(self._waiting) == MAX_WAITING
        self._waiting.append(span)

    async def run(self) -> None:
        """Send what waits every second. When cancelled, try once more for a short time."""
        try:
            while True:
                await self._clock.sleep(_EVERY_SECONDS)
                await self._send_waiting()
        finally:
            with suppress(TimeoutError):
                async with self._clock.timeout(_LAST_SECONDS):
                    await self._send_waiting()

    async def _send_waiting(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
            try:
                is_sent, reason = await self._send(batch, await self._authorization()), "there is no usable answer"
            except MootError as error:
                is_sent, reason = False, error.sentence
            if not is_sent:
                self._dropped += len(batch)
                self._report(reason)
                return

    async def _send(self, batch: Sequence[ReadableSpan], authorization: str) -> bool:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bool] = loop.create_future()

        def work() -> None:
            headers = {"authorization": authorization} if authorization else {}
            http = _build_http(self._endpoint)
            exporter = OTLPSpanExporter(
                endpoint=self._endpoint, headers=headers, timeout=_TIMEOUT_SECONDS, session=http
            )
            try:
                succeeded = exporter.export(batch) is SpanExportResult.SUCCESS
            except Exception:  # noqa: BLE001 - whatever it is, the spans were not sent
                succeeded = False
            try:
                loop.call_soon_threadsafe(_resolve, done, succeeded)
            except RuntimeError:
                # The daemon has stopped meanwhile.
                return

        threading.Thread(target=work, name="export traces", daemon=True).start()
        return await done

    def _report(self, reason: str) -> None:
        now = self._clock.monotonic()
        if now - self._logged_at >= _LOG_SECONDS:
            self._logged_at = now
            lost = f"{self._dropped} spans are lost so far"
            logger.warning("traces could not be sent to %s (%s); %s", self._endpoint, reason, lost)


def _build_http(endpoint: str) -> requests.Session:
    http = requests.Session()
    # A proxy of the environment cannot reach a collector of this machine, and is not to read what it is sent.
    http.trust_env = not is_loopback_host(urlsplit(endpoint).hostname or "")
    return http


def _resolve(done: "asyncio.Future[bool]", succeeded: bool) -> None:
    if not done.done():
        done.set_result(succeeded)
