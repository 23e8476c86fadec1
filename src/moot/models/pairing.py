"""Every tool call a provider is shown has exactly one result, right after it. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from moot.domain.message import Message, Role, tool_result, user

NO_RESULT = "This call was interrupted; whether it had an effect is not known."


def open_calls(messages: Sequence[Message], count: int) -> list[str]:
    """The ids of calls among messages[:count] that still wait for their result."""
    answered: list[str] = []
    for index in range(count - 1, -1, -1):
        message = messages[index]
        if message.role is Role.TOOL:
            answered.append(message.tool_call_id)
            continue
        waiting = [call.id for call in message.tool_calls]
        for call_id in answered:
            if call_id in waiting:
                waiting.remove(call_id)
        return waiting
    return []


def paired(messages: Iterable[Message], waiting: list[str]) -> Iterator[Message]:
    """The messages, with a result for each call left open and no result without its call.

    `waiting` is what was open before; afterwards it holds what is open at the end.
    """
    for message in messages:
        if message.role is Role.TOOL:
            if message.tool_call_id in waiting:
                waiting.remove(message.tool_call_id)
                yield message
            elif not waiting:
                yield user(f"(A result without its call: {message.content})")
            continue
        yield from closing(waiting)
        waiting.extend(call.id for call in message.tool_calls)
        yield message


def closing(waiting: list[str]) -> Iterator[Message]:
    """A result for each open call; none is open afterwards."""
    while waiting:
        yield tool_result(waiting.pop(0), NO_RESULT, is_error=True)
