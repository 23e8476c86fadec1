"""MetricCounters: counts the events of the bus and the model requests for /metrics (metrics_page.py).

Built only if [metrics] is enabled, so that a turn costs nothing otherwise.
"""

from collections.abc import Callable, Container

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

from moot.daemon.telemetry.labels import describe_kind, describe_outcome
from moot.daemon.telemetry.mail_counters import MAIL_EVENTS, MailCounters
from moot.domain.events import AskClosed, Compacted, Event, EventSource, RunEnded, ToolFinished
from moot.domain.ports.clock import Clock
from moot.engine.bus import Bus
from moot.models.observed import ModelCall

# Names beyond this many are counted together, so that the number of time series has a bound.
MAX_NAMES = 100
OTHER = "other"
_RUN_SECONDS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)
_CALL_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_LAG_EVERY_SECONDS = 1.0
_LAG_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


class BoundedNames:
    """Passes on the first names it sees and replaces all later ones."""

    def __init__(self, most: int = MAX_NAMES) -> None:
        self._most = most
        self._names: set[str] = set()

    def label(self, name: str) -> str:
        if name not in self._names:
            if len(self._names) >= self._most:
                return OTHER
            self._names.add(name)
        return name


class MetricCounters:
    """The counters of one daemon. docs/operations.md lists their names; docs/grafana-dashboard.json uses them."""

    def __init__(self, bus: Bus, clock: Clock, *, known_tools: Callable[[], Container[str]]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._clock = clock
        self._known_tools = known_tools
        self._agents, self._models, self._tools = BoundedNames(), BoundedNames(), BoundedNames()
        self._make_run_metrics()
        self._make_call_metrics()
        self._mail = MailCounters(registry=self.registry, label=self._agents.label)
        bus.observe(self._read, RunEnded, ToolFinished, AskClosed, Compacted)
        bus.observe(self._mail.read, *MAIL_EVENTS)

    def _make_run_metrics(self) -> None:
        registry = self.registry
        self._runs = Counter("moot_runs", "Ended runs.", ("agent", "kind", "outcome"), registry=registry)
        self._run_seconds = Histogram(
            "moot_run_seconds",
            "Duration of runs without the time they waited for people.",
            ("agent",),
            buckets=_RUN_SECONDS,
            registry=registry,
        )
        self._tokens = Counter("moot_tokens", "Tokens of ended runs.", ("agent", "model", "type"), registry=registry)
        self._cost = Counter("moot_cost_dollars", "Cost of ended runs.", ("agent", "model"), registry=registry)
        self._asks = Counter("moot_asks_closed", "Closed asks.", ("kind", "state"), registry=registry)
        self._compactions = Counter("moot_compactions", "Compacted histories.", registry=registry)
        self._lag = Histogram(
            "moot_event_loop_lag_seconds",
            "How late the event loop was, measured once a second.",
            buckets=_LAG_SECONDS,
            registry=registry,
        )

    def _make_call_metrics(self) -> None:
        registry, model = self.registry, ("provider", "model")
        self._requests = Counter("moot_model_requests", "Model requests.", (*model, "outcome"), registry=registry)
        self._retries = Counter("moot_model_retries", "Retries of model requests.", model, registry=registry)
        self._request_seconds = Histogram(
            "moot_model_request_seconds",
            "Duration of model requests, including retries.",
            model,
            buckets=_CALL_SECONDS,
            registry=registry,
        )
        self._first_token = Histogram(
            "moot_model_first_token_seconds",
            "Time from a model request to the first output.",
            model,
            buckets=_CALL_SECONDS,
            registry=registry,
        )
        self._tool_calls = Counter("moot_tool_calls", "Tool calls.", ("agent", "tool", "outcome"), registry=registry)
        self._tool_seconds = Histogram(
            "moot_tool_call_seconds", "Duration of tool calls.", ("tool",), buckets=_CALL_SECONDS, registry=registry
        )

    # ---- events -------------------------------------------------------------------------------

    def _read(self, event: Event) -> None:
        match event.body:
            case RunEnded() as body:
                self._count_run(event.source, body)
            case ToolFinished() as body:
                self._count_tool_call(event.source, body)
            case AskClosed(ask):
                self._asks.labels(ask.kind, ask.state).inc()
            case Compacted():
                self._compactions.inc()
            case _:
                return

    def _count_run(self, source: EventSource, body: RunEnded) -> None:
        agent, end = self._agents.label(body.agent), body.end
        self._runs.labels(agent, describe_kind(source), end.outcome).inc()
        self._run_seconds.labels(agent).observe(max(0.0, end.seconds))
        model = self._models.label(end.model)
        usage = end.usage
        for type_, count in (
            ("prompt", usage.prompt),
            ("completion", usage.completion),
            ("cache_read", usage.cache_hit),
            ("reasoning", usage.reasoning),
        ):
            if count > 0:
                self._tokens.labels(agent, model, type_).inc(count)
        if end.cost > 0:
            self._cost.labels(agent, model).inc(end.cost)

    def _count_tool_call(self, source: EventSource, body: ToolFinished) -> None:
        # A model may invent names; only those of real tools are labels.
        tool = self._tools.label(body.name) if body.name in self._known_tools() else OTHER
        outcome = "error" if body.is_error else "ok"
        self._tool_calls.labels(self._agents.label(source.speaker), tool, outcome).inc()
        self._tool_seconds.labels(tool).observe(body.duration_ms / 1000)

    # ---- model requests -----------------------------------------------------------------------

    def on_call_started(self, call: ModelCall) -> None:
        """Nothing is counted before the end."""

    def on_call_ended(self, call: ModelCall) -> None:
        labels = (call.model.provider, self._models.label(call.model.model))
        self._requests.labels(*labels, describe_outcome(call.error)).inc()
        if call.retries:
            self._retries.labels(*labels).inc(call.retries)
        self._request_seconds.labels(*labels).observe(call.seconds)
        if call.first_token_seconds is not None:
            self._first_token.labels(*labels).observe(call.first_token_seconds)

    # ---- the event loop -----------------------------------------------------------------------

    async def watch_lag(self) -> None:
        """Measure once a second how late the event loop is, until cancelled."""
        while True:
            due = self._clock.monotonic() + _LAG_EVERY_SECONDS
            await self._clock.sleep(_LAG_EVERY_SECONDS)
            self._lag.observe(max(0.0, self._clock.monotonic() - due))
