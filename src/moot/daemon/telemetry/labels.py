"""Words for kinds of runs and ends of requests, the same in metrics (counters.py) and in spans (run_spans.py)."""

from moot.domain.events import EventSource
from moot.domain.mail import Mail
from moot.domain.senders import OWNED_SENDERS
from moot.domain.text import clean


def describe_kind(source: EventSource) -> str:
    """Return what started a run: turn, guest, teammate or background."""
    if source.parent_id:
        return "teammate"
    if source.key.sender.startswith(OWNED_SENDERS):
        return "background"
    return "guest" if source.speaker != source.key.agent else "turn"


def describe_outcome(error: BaseException | None) -> str:
    if error is None:
        return "ok"
    return "error" if isinstance(error, Exception) else "stopped"


def describe_mail_sender(mail: Mail) -> str:
    """Return the agent that sent mail; "@" for a person, whose name is not exported."""
    return "@" if mail.from_agent.startswith("@") else clean(mail.from_agent)
