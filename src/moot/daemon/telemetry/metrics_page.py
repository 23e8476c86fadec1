"""MetricsPage: the answer of GET /metrics and who may read it. Combines counters.py with what is counted elsewhere."""

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from prometheus_client import CONTENT_TYPE_LATEST, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from moot import __version__
from moot.daemon.requests.admission import Admission
from moot.daemon.telemetry.counters import MetricCounters
from moot.domain.ask import AskKind
from moot.domain.ports.mail import MailStore
from moot.domain.ports.store import CommitCounts, Store
from moot.domain.run import RunStatus
from moot.engine.asks import Asks


class MetricsPageDependencies(Struct, frozen=True, kw_only=True):
    counters: MetricCounters
    store: Store
    mail: MailStore
    commits: CommitCounts
    asks: Asks
    admission: Admission
    # How many messages of other daemons were not accepted, by the kind of reason.
    dropped_mail: Mapping[str, int]
    # The token that a reader must send; empty if every process of this machine may read.
    token: str


class MetricsPage:
    def __init__(self, dependencies: MetricsPageDependencies) -> None:
        self._d = dependencies
        self._read: list[Metric] = []
        registry = dependencies.counters.registry
        registry.register(self)
        ProcessCollector(registry=registry)

    @property
    def content_type(self) -> str:
        return CONTENT_TYPE_LATEST

    def may_read(self, token: str) -> bool:
        wanted = self._d.token
        return not wanted or secrets.compare_digest(token.encode(), wanted.encode())

    async def render(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        runs = await self._d.store.list_live_runs()
        asks = await self._d.asks.list_pending()
        owed = await self._d.store.list_owed_runs()
        unread = await self._d.mail.count_unread()
        statuses, kinds = [each.run.status for each in runs], [ask.kind for ask in asks]
        # No await from here on, so that a second request cannot change what this one prints.
        self._read = [
            _gauge(
                "moot_runs_live",
                "Runs that have not ended.",
                "status",
                _count((RunStatus.QUEUED, RunStatus.RUNNING), statuses),
            ),
            _gauge("moot_asks_open", "Asks that wait for a person.", "kind", _count(AskKind, kinds)),
            GaugeMetricFamily("moot_results_owed", "Results of teammates not delivered yet.", value=len(owed)),
            GaugeMetricFamily("moot_mail_unread", "Mail that waits to be read.", value=sum(unread.values())),
            GaugeMetricFamily(
                "moot_mailbox_unread_max", "Unread mail of the fullest inbox.", value=max(unread.values(), default=0)
            ),
            self._read_dropped_mail(),
            *self._read_connections(),
            *self._read_commits(),
            _gauge("moot_info", "Version of the daemon.", "version", {__version__: 1}),
        ]
        return generate_latest(self._d.counters.registry)

    def collect(self) -> Iterator[Metric]:
        """Return what was read last. Called by the registry."""
        yield from self._read

    def _read_connections(self) -> Iterator[Metric]:
        admission = self._d.admission
        yield _gauge(
            "moot_connections_open",
            "Open connections.",
            "kind",
            {
                "owner": admission.owners,
                "token": admission.network - admission.unauthenticated,
                "unauthenticated": admission.unauthenticated,
            },
        )
        rejected = CounterMetricFamily("moot_connections_rejected", "Rejected connections.", labels=("reason",))
        for reason, count in admission.rejected.items():
            rejected.add_metric((reason,), count)
        yield rejected

    def _read_dropped_mail(self) -> Metric:
        family = CounterMetricFamily("moot_mail_dropped", "Mail that was not accepted.", labels=("reason",))
        for reason, count in self._d.dropped_mail.items():
            family.add_metric((reason,), count)
        return family

    def _read_commits(self) -> Iterator[Metric]:
        counts = self._d.commits
        yield CounterMetricFamily("moot_store_commits", "Commits of the store.", value=counts.commits)
        yield CounterMetricFamily("moot_store_transactions", "Committed transactions.", value=counts.transactions)


def _gauge(name: str, help_: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, help_, labels=(label,))
    for value, count in values.items():
        family.add_metric((value,), count)
    return family


def _count(known: Iterable[str], found: Sequence[str]) -> dict[str, int]:
    """Return how often each known value was found, also if that is never."""
    return {str(value): found.count(value) for value in known}


def load_token(path: Path) -> str:
    """Return the token in the file, which only the owner can read; created if it does not exist."""
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        token = secrets.token_urlsafe(32)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, token.encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(draft, path)
    return token
