"""A history with tool calls told as plain text, for a reader who has no tools. Pure."""

from collections.abc import Sequence

from moot.domain.message import Message, Role
from moot.domain.text import defuse

# Around what was done with tools; nobody said it.
CALL, CALL_END = "<moot-call>", "</moot-call>"


def as_text(messages: Sequence[Message], names: dict[str, str] | None = None) -> list[Message]:
    """The same history without tool calls: calls become lines, results become the user's, both inside a mark of ours.

    Contents come with reserved tags already defused; the names and arguments of calls are defused here.
    Attribution is kept, and nothing is left empty. A caller that tells a history piece by piece hands the same `names`
    to each piece, so that a result finds its call.
    """
    told: list[Message] = []
    names = {} if names is None else names
    for message in messages:
        plain = tell(message, names)
        if plain is not None:
            told.append(plain)
    return told


def tell_foreign_calls(messages: Sequence[Message], names: dict[str, str]) -> list[Message]:
    """The history for a speaker with tools: calls that another agent made are told as text, the speaker's own stay.

    `names` maps the calls of others that wait for their result to their tools.
    """
    seen: list[Message] = []
    for message in messages:
        is_foreign = bool(message.agent and message.tool_calls) or message.tool_call_id in names
        plain = tell(message, names) if is_foreign else message
        if plain is not None:
            seen.append(plain)
    return seen


def tell(message: Message, names: dict[str, str]) -> Message | None:
    """One message as text, None if it says nothing. `names` maps call ids to tools and is kept up to date."""
    done = [f"{CALL}\n{each}\n{CALL_END}" for each in done_in(message, names)]
    if message.role is Role.TOOL:
        return Message(role=Role.USER, content=done[0])
    lines = [message.content] if message.content.strip() else []
    lines += done
    if not lines:
        return None
    return Message(role=message.role, content="\n".join(lines), agent=message.agent)


def done_in(message: Message, names: dict[str, str]) -> list[str]:
    """What the message calls, or what came of a call, each in words; `names` as above.

    A person can type such words too, but not the mark around them.
    """
    if message.role is Role.TOOL:
        name = names.get(message.tool_call_id, "a tool")
        verb = "failed" if message.is_error else "answered"
        return [f"[{defuse(name)} {verb}]\n{message.content.strip() or 'nothing'}"]
    names.update((call.id, call.name) for call in message.tool_calls)
    return [f"[called {defuse(call.name)} with {defuse(call.arguments)}]" for call in message.tool_calls]
