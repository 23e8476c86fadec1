"""Renders a history with tool calls as plain text, for a speaker without tools. Pure."""

from collections.abc import Sequence

from moot.domain.message import Message, Role
from moot.domain.text import defuse

# The mark around tool calls and results, which are not spoken text.
CALL, CALL_END = "<moot-call>", "</moot-call>"


def as_text(messages: Sequence[Message], names: dict[str, str] | None = None) -> list[Message]:
    """Return the history without tool calls: calls become lines, results become user messages, both inside a mark.

    Contents come with reserved tags already defused; the names and arguments of calls are defused here. Attribution is
    kept, and no message is empty. A caller that renders a history piece by piece passes the same `names` to each call,
    so that a result finds its call.
    """
    lines: list[Message] = []
    names = {} if names is None else names
    for message in messages:
        plain = render_message(message, names)
        if plain is not None:
            lines.append(plain)
    return lines


def render_message(message: Message, names: dict[str, str]) -> Message | None:
    """Render one message as text; None if it is empty. `names` maps call ids to tools and is updated."""
    done = [f"{CALL}\n{each}\n{CALL_END}" for each in render_calls(message, names)]
    if message.role is Role.TOOL:
        return Message(role=Role.USER, content=done[0])
    lines = [message.content] if message.content.strip() else []
    lines += done
    if not lines:
        return None
    return Message(role=message.role, content="\n".join(lines), agent=message.agent)


def render_calls(message: Message, names: dict[str, str]) -> list[str]:
    """Return each call or result of the message as text; `names` as above.

    A person can type the same text, but not the mark around it.
    """
    if message.role is Role.TOOL:
        name = names.get(message.tool_call_id, "a tool")
        verb = "failed" if message.is_error else "answered"
        return [f"[{defuse(name)} {verb}]\n{message.content.strip() or 'nothing'}"]
    names.update((call.id, call.name) for call in message.tool_calls)
    return [f"[called {defuse(call.name)} with {defuse(call.arguments)}]" for call in message.tool_calls]
