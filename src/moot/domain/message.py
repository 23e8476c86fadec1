"""The contents of a history: messages and their tool calls."""

from enum import StrEnum

from msgspec import Struct


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    # A message that arrived while a run was active, and was shown to it between two steps. Models read it like one of
    # the user, but it does not begin a turn.
    INJECTED = "injected"


class ToolCall(Struct, frozen=True, kw_only=True):
    """One tool call as a model made it; `arguments` is the text of a JSON object."""

    id: str
    name: str
    arguments: str


class Thinking(Struct, frozen=True, kw_only=True):
    """A part of a model's reasoning. With the signature, its provider accepts it in later requests."""

    text: str
    signature: str = ""


class Message(Struct, frozen=True, kw_only=True):
    """One history entry. An empty `agent` is the primary; any other value names the guest."""

    role: Role
    content: str
    agent: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    is_error: bool = False
    thinking: tuple[Thinking, ...] = ()
    # The sources of untrusted text in it, such as "web"; copies of the message keep them.
    taint: frozenset[str] = frozenset()
    # The tokens of the request it answers, as counted by the provider; 0 if unknown.
    context_tokens: int = 0
    # Whether its text was not sent to the person: it was written by an agent with the role assistant.
    is_private: bool = False
    # On results of tools: how long the call took, without the time that a person was waited for; 0 if unknown.
    duration_ms: int = 0
    # On results of tools: whether the call was not executed, so that nothing was tried.
    is_unexecuted: bool = False


class Entry(Struct, frozen=True, kw_only=True):
    """A message with its number in the conversation. `seq` counts from 1 without gaps."""

    seq: int
    message: Message
    run_id: str
    created_at: float


_USER = Role.USER


def begins_turn(entry: Entry, before: Entry | None) -> bool:
    """Return whether an entry begins a turn; `before` is the entry before it. A message that steered a run does not.

    It follows entries of its run. A message that is run again in its place still has the id of its first run, so its
    own id does not tell.
    """
    if entry.message.role is not _USER:
        return False
    return before is None or not entry.run_id or entry.run_id != before.run_id


def user(content: str, *, author: str = "", taint: frozenset[str] = frozenset()) -> Message:
    """Return a user message; `author` is the agent that wrote it, if it was not a person."""
    return Message(role=_USER, content=content, agent=author, taint=taint)


def injected_message(content: str, *, author: str = "", taint: frozenset[str] = frozenset()) -> Message:
    """Return a message for an active run; `author` as in `user`."""
    return Message(role=Role.INJECTED, content=content, agent=author, taint=taint)


def assistant(content: str, *, agent: str = "", tool_calls: tuple[ToolCall, ...] = ()) -> Message:
    return Message(role=Role.ASSISTANT, content=content, agent=agent, tool_calls=tool_calls)


def tool_result(
    call_id: str,
    content: str,
    *,
    is_error: bool = False,
    taint: frozenset[str] = frozenset(),
    author: str = "",
    duration_ms: int = 0,
) -> Message:
    """Return the result of a call; `author` is that of a text which the daemon wrote, marks included."""
    return Message(
        role=Role.TOOL,
        content=content,
        agent=author,
        tool_call_id=call_id,
        is_error=is_error,
        taint=taint,
        duration_ms=duration_ms,
    )
