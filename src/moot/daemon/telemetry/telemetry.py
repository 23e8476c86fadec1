"""Telemetry: builds what the configuration enables of this package. Imports nothing that is not enabled."""

from collections.abc import Awaitable, Callable, Container, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from moot.daemon.requests.admission import Admission
from moot.domain.config import Config
from moot.domain.errors import ConfigError
from moot.domain.ports.clock import Clock
from moot.domain.ports.model import Model
from moot.domain.ports.storage import Storage
from moot.domain.run import RunRequest
from moot.engine.asks import Asks
from moot.engine.bus import Bus
from moot.engine.supervisor import Supervisor
from moot.models.keys import reveal

if TYPE_CHECKING:
    from moot.daemon.telemetry.counters import MetricCounters
    from moot.daemon.telemetry.metrics_page import MetricsPage
    from moot.daemon.telemetry.run_spans import RunSpans
    from moot.daemon.telemetry.span_export import SpanExport
    from moot.models.observed import ModelCallObserver


class TelemetryDependencies(Struct, frozen=True, kw_only=True):
    config: Config
    clock: Clock
    bus: Bus
    # The names of all tools.
    known_tools: Callable[[], Container[str]]
    # Removes secrets and personal data from a text.
    redact: Callable[[str], str]
    # Remembers a secret by its name, so that it is redacted everywhere.
    register_key: Callable[[str, str], None]
    # Returns a secret of the vault by its name.
    read_secret: Callable[[str], Awaitable[str]]


class Telemetry:
    """The parts that are enabled. What they observe costs nothing if none is."""

    def __init__(self, dependencies: TelemetryDependencies) -> None:
        self._d = d = dependencies
        self.counters = self._build_counters() if d.config.metrics.enabled else None
        self._export: SpanExport | None = None
        self._spans: RunSpans | None = None
        if d.config.telemetry.enabled:
            self._export, self._spans = self._build_spans()

    def _build_counters(self) -> "MetricCounters":
        from moot.daemon.telemetry.counters import MetricCounters  # noqa: PLC0415 - only if enabled

        return MetricCounters(self._d.bus, self._d.clock, known_tools=self._d.known_tools)

    def _build_spans(self) -> "tuple[SpanExport, RunSpans]":
        d, config = self._d, self._d.config.telemetry
        try:
            from moot.daemon.telemetry.run_spans import RunSpans  # noqa: PLC0415 - an extra, only if enabled
            from moot.daemon.telemetry.span_content import SpanContent  # noqa: PLC0415
            from moot.daemon.telemetry.span_export import SpanExport  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError(
                "[telemetry] is enabled, and OpenTelemetry is not installed.",
                fix="Run: pip install 'moot[telemetry]', or set enabled = false.",
            ) from error
        export = SpanExport(d.clock, endpoint=config.endpoint, authorization=partial(_read_authorization, d))
        content = SpanContent(d.redact) if config.content else None
        return export, RunSpans(d.bus, export.get_tracer(), content)

    def make_model_observer(self) -> Callable[[Model, RunRequest], Model] | None:
        """Return a function that wraps the model of a run; None if nothing is enabled."""
        observers: list[ModelCallObserver] = [each for each in (self.counters, self._spans) if each is not None]
        if not observers:
            return None
        from moot.models.observed import ObservedModel  # noqa: PLC0415 - only if enabled

        clock = self._d.clock
        return lambda model, run: ObservedModel(model, run, observers, clock)

    def build_metrics_page(
        self,
        *,
        storage: Storage,
        asks: Asks,
        admission: Admission,
        dropped_mail: Mapping[str, int],
        token_file: Path,
    ) -> "MetricsPage | None":
        if self.counters is None:
            return None
        from moot.daemon.telemetry.metrics_page import (  # noqa: PLC0415 - only if enabled
            MetricsPage,
            MetricsPageDependencies,
            load_token,
        )

        return MetricsPage(
            MetricsPageDependencies(
                counters=self.counters,
                store=storage.store,
                mail=storage.mail,
                commits=storage.count_commits(),
                asks=asks,
                admission=admission,
                dropped_mail=dropped_mail,
                token=load_token(token_file) if self._d.config.metrics.access == "token" else "",
            )
        )

    def start(self, supervisor: Supervisor) -> None:
        """Start the tasks of the enabled parts."""
        if self.counters is not None:
            supervisor.start("measure the lag of the event loop", self.counters.watch_lag())
        if self._export is not None:
            supervisor.start("export traces", self._export.run())


async def _read_authorization(d: TelemetryDependencies) -> str:
    reference = d.config.telemetry.authorization
    if not reference:
        return ""
    value = await reveal(reference, place="[telemetry]", read_secret=d.read_secret)
    d.register_key(reference.partition(":")[2], value)
    return value
