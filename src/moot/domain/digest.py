"""Digest: what happened in a conversation while the person was away, and when they last read it. Pure.

Built by daemon/requests/visits.py from stored rows; shown by the chat, `moot ask` and `moot digest`.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from moot.domain.ask import Ask
from moot.domain.mail import MAIL_AUTHOR, Mail, describe_request, list_mail_in
from moot.domain.message import Entry, Role
from moot.domain.run import Run, RunKind
from moot.domain.user_message import UserMessage, find_user_messages


class Visit(Struct, frozen=True, kw_only=True):
    """When a person last read a conversation, and the beginning of their last absence; 0 if there was none."""

    at: float = 0.0
    away_since: float = 0.0


class DigestKind(StrEnum):
    MESSAGE = "message"
    RUN = "run"
    MAIL = "mail"
    ASK = "ask"


class DigestItem(Struct, frozen=True, kw_only=True):
    """One thing that happened. `text` is what it says, `id` the run or ask to look at."""

    kind: DigestKind
    at: float
    agent: str
    text: str
    id: str = ""
    message: UserMessage | None = None


def find_last_presence(entries: Sequence[Entry], visit: Visit) -> float:
    """Return when the person was last there: they read the conversation, or wrote in it."""
    written = (entry.created_at for entry in entries if entry.message.role is Role.USER and not entry.message.agent)
    return max(visit.at, *written, 0.0)


def list_items(
    entries: Sequence[Entry], runs: Iterable[Run], unread: Iterable[Mail], asks: Iterable[Ask], *, since: float
) -> list[DigestItem]:
    """Return what happened after `since`, and what waits for the person, oldest first."""
    items = [*_list_messages(entries), *_list_runs(runs), *_list_mail(entries, unread)]
    found = [item for item in items if item.at > since]
    waiting = [
        DigestItem(kind=DigestKind.ASK, at=ask.opened_at, agent=ask.speaker, text=ask.waits_for, id=ask.id)
        for ask in asks
    ]
    return sorted([*found, *waiting], key=lambda item: item.at)


def _list_messages(entries: Sequence[Entry]) -> Iterable[DigestItem]:
    sent = find_user_messages(entry.message for entry in entries)
    for entry in entries:
        for call in entry.message.tool_calls:
            if (message := sent.get(call.id)) is not None:
                yield DigestItem(
                    kind=DigestKind.MESSAGE,
                    at=entry.created_at,
                    agent=entry.message.agent,
                    text=message.content,
                    id=entry.run_id,
                    message=message,
                )


def _list_runs(runs: Iterable[Run]) -> Iterable[DigestItem]:
    for run in runs:
        if run.end is not None and run.kind is not RunKind.TEAMMATE:
            text = f"{run.end.outcome}: {describe_request(run.instruction, run.request.author)}"
            yield DigestItem(kind=DigestKind.RUN, at=run.ended_at, agent=run.agent, text=text, id=run.id)


def _list_mail(entries: Sequence[Entry], unread: Iterable[Mail]) -> Iterable[DigestItem]:
    for entry in entries:
        if entry.message.agent == MAIL_AUTHOR:
            for sender, body in list_mail_in(entry.message.content):
                yield DigestItem(kind=DigestKind.MAIL, at=entry.created_at, agent=sender, text=body)
    for mail in unread:
        yield DigestItem(kind=DigestKind.MAIL, at=mail.sent_at, agent=mail.from_agent, text=mail.body)
