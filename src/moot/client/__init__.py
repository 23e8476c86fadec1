"""The Python client: `Moot` (synchronous) and `AsyncMoot`, their values and their errors. Imported on first use."""

from importlib import import_module

# As in `typing`, which takes longer to import than everything here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from moot.client.async_client import AsyncMoot
    from moot.client.errors import RunFailed, TimedOut, Unreachable, WaitingForPerson
    from moot.client.event_values import EventInfo, Gap
    from moot.client.options import Denial
    from moot.client.sync_client import Moot
    from moot.client.user_messages import Attachment, UserMessage
    from moot.client.values import (
        Agent,
        Approval,
        AskClosed,
        Asker,
        Compacted,
        Conversation,
        Discarded,
        Ended,
        Limits,
        Message,
        Option,
        Pattern,
        Preparing,
        Question,
        QuestionItem,
        Queued,
        Reply,
        Retrying,
        RunInfo,
        Started,
        StreamItem,
        Text,
        Thinking,
        ToolCall,
        ToolResult,
        Usage,
    )
    from moot.domain.errors import MootError

_VALUES = (
    "Agent", "Approval", "AskClosed", "Asker", "Compacted", "Conversation", "Discarded", "Ended",
    "Limits", "Message", "Option", "Pattern", "Preparing", "Question", "QuestionItem", "Queued", "Reply",
    "Retrying", "RunInfo", "Started", "StreamItem", "Text", "Thinking", "ToolCall", "ToolResult", "Usage",
)  # fmt: skip
_MODULES = {
    "AsyncMoot": "moot.client.async_client",
    "Denial": "moot.client.options",
    "Moot": "moot.client.sync_client",
    "MootError": "moot.domain.errors",
    **dict.fromkeys(("RunFailed", "TimedOut", "Unreachable", "WaitingForPerson"), "moot.client.errors"),
    **dict.fromkeys(("EventInfo", "Gap"), "moot.client.event_values"),
    **dict.fromkeys(("Attachment", "UserMessage"), "moot.client.user_messages"),
    **dict.fromkeys(_VALUES, "moot.client.values"),
}

__all__ = [
    "Agent", "Approval", "AskClosed", "Asker", "AsyncMoot", "Attachment", "Compacted", "Conversation", "Denial",
    "Discarded", "Ended", "EventInfo", "Gap", "Limits", "Message", "Moot", "MootError", "Option", "Pattern",
    "Preparing", "Question", "QuestionItem", "Queued", "Reply", "Retrying", "RunFailed", "RunInfo", "Started",
    "StreamItem", "Text", "Thinking", "TimedOut", "ToolCall", "ToolResult", "Unreachable", "Usage", "UserMessage",
    "WaitingForPerson",
]  # fmt: skip


def __getattr__(name: str) -> "Any":
    # The protocol and asyncio take 40 ms to import, and a program that only checks types or errors needs neither.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
