"""MailCounters: counts mail between agents, and how long it waits to be read, from the events of the bus.

Part of counters.py. How much waits is read from the store by metrics_page.py.
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram

from moot.daemon.telemetry.labels import describe_mail_sender
from moot.domain.events import Event, MailDelivered, MailEvicted, MailRead, MailSent

MAIL_EVENTS = (MailSent, MailDelivered, MailRead, MailEvicted)
_WAIT_SECONDS = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 86_400)


class MailCounters:
    """`label` bounds the number of names."""

    def __init__(self, *, registry: CollectorRegistry, label: Callable[[str], str]) -> None:
        self._label = label
        self._mail = Counter("moot_mail", "Mail between agents.", ("agent", "event"), registry=registry)
        self._wait = Histogram(
            "moot_mail_wait_seconds",
            "Time from sending mail until it was read.",
            ("agent",),
            buckets=_WAIT_SECONDS,
            registry=registry,
        )

    def read(self, event: Event) -> None:
        match event.body:
            case MailSent(mail):
                self._count(describe_mail_sender(mail), "sent")
            case MailDelivered(mail):
                self._count(mail.to_agent, "delivered")
            case MailRead(mail):
                self._count(mail.to_agent, "read")
                # The clock of another daemon may differ.
                self._wait.labels(self._label(mail.to_agent)).observe(max(0.0, event.at - mail.sent_at))
            # Of mail between agents of this daemon the sender is told as well.
            case MailEvicted(mail) if "@" in mail.to_agent or event.source.key.agent != mail.from_agent:
                self._count(mail.to_agent, "evicted")
            case _:
                return

    def _count(self, agent: str, what: str) -> None:
        self._mail.labels(self._label(agent), what).inc()
