"""Renders what happened while a person was away. Used by the chat, `moot ask` and `moot digest`. Pure."""

from collections import Counter
from typing import Any

from moot.cli.render import numbers, sanitize
from moot.cli.render.user_messages import dump_user_message
from moot.domain.ids import shorten_ask_id
from moot.wire import moot_pb2 as pb

_MOST_LINES = 8
_COLUMNS = 50
_NOUNS = {"message": "message", "run": "run ended", "mail": "mail", "ask": "ask waiting"}
_PLURALS = {"message": "messages", "run": "runs ended", "mail": "mails", "ask": "asks waiting"}


def render_digest(info: pb.DigestInfo, *, now: float, most: int = _MOST_LINES) -> list[str]:
    """The counts, then the first line of each item, the newest last."""
    counts = Counter(item.kind for item in info.items)
    summary = ", ".join(
        f"{counts[kind]} {(_NOUNS if counts[kind] == 1 else _PLURALS)[kind]}" for kind in _NOUNS if counts[kind]
    )
    # A conversation that nobody has opened yet has no time since which the person was away.
    away = f" ({numbers.format_span(int(max(0.0, now - info.since)))})" if info.since else ""
    left_out = max(0, info.total - most)
    lines = [f"While you were away{away}: {summary or 'nothing'}"]
    lines += [f"  … {left_out} earlier"] if left_out else []
    return lines + [_render_item(item) for item in info.items[-most:]]


def _render_item(item: pb.DigestItemInfo) -> str:
    first = sanitize.exact_line(item.text.strip().partition("\n")[0], _COLUMNS)
    name = shorten_ask_id(item.id) if item.kind == "ask" else sanitize.line(item.id)
    where = f" ({name})" if item.kind in ("run", "ask") else ""
    return f"  {item.kind} {sanitize.name(item.agent)}: {first}{where}"


def list_unread_messages(info: pb.DigestInfo) -> list[pb.DigestItemInfo]:
    """The messages that were sent without being asked for while nobody read them."""
    return [item for item in info.items if item.kind == "message" and item.message.status == "proactive"]


def dump_digest(info: pb.DigestInfo) -> dict[str, Any]:
    items = []
    for item in info.items:
        data = {"kind": item.kind, "at": item.at, "agent": item.agent, "text": item.text, "id": item.id}
        items.append(data | ({"message": dump_user_message(item.message)} if item.HasField("message") else {}))
    return {"since": info.since, "items": items, "total": info.total}
