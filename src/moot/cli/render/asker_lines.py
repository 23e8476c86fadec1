"""Renders which agent and run opened an ask. Pure."""

from moot.cli.render import sanitize
from moot.domain.senders import OWNED_SENDERS, owner_of
from moot.wire import moot_pb2 as pb

# As much of an id as tells runs apart.
_SHORT = 13
_TASK_COLUMNS = 60

Asking = pb.AskUserEvent | pb.ApprovalEvent | pb.AskInfo


def asker_name(ask: Asking) -> str:
    """The agent and its abbreviated run id; empty for the user's own turn."""
    if not ask.HasField("by"):
        return ""
    return f"{sanitize.name(ask.by.agent)} ({sanitize.name(ask.by.run_id)[:_SHORT]})"


def render_asker(ask: Asking) -> list[str]:
    """A line that says who asks and for what; empty for the user's own turn."""
    who = asker_name(ask)
    if not who:
        return []
    task = sanitize.cut_at_word(ask.by.task, _TASK_COLUMNS)
    why = sanitize.exact_line(ask.by.spawn_reason) or (f"“{task}”" if task else "")
    return [f"asked by {who}" + (f": {why}" if why else "")]


def render_conversation(info: pb.AskInfo) -> str:
    """The conversation in which the ask is shown; background runs have their own."""
    beside = " in the background" if info.sender.startswith(OWNED_SENDERS) else ""
    return f"{sanitize.name(info.agent)} as {sanitize.name(owner_of(info.sender))}{beside}"
