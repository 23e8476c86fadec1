"""Ensures that every tool call in a request is followed by exactly one result. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from moot.domain.message import Message, Role, tool_result, user

NO_RESULT = "This call was interrupted; whether it had an effect is not known."

_TOOL = Role.TOOL

# The ids of calls without a result, in the order of the calls, each with its number of occurrences.
Waiting = dict[str, int]


def open_calls(messages: Sequence[Message], count: int) -> Waiting:
    """Return the ids of calls in messages[:count] that have no result yet."""
    if not count or not (messages[count - 1].tool_calls or messages[count - 1].role is _TOOL):
        return {}
    answered: Counter[str] = Counter()
    for index in range(count - 1, -1, -1):
        message = messages[index]
        if message.role is _TOOL:
            answered[message.tool_call_id] += 1
            continue
        if not message.tool_calls:
            return {}
        made = Counter(call.id for call in message.tool_calls)
        return {call_id: times - answered[call_id] for call_id, times in made.items() if times > answered[call_id]}
    return {}


def pair_results(messages: Iterable[Message], waiting: Waiting) -> Iterator[Message]:
    """Yield the messages with a result for each open call; a result without its call becomes text or is dropped.

    `waiting` has the calls that were open before; it is updated to those open at the end.
    """
    for message in messages:
        if message.role is _TOOL:
            if message.tool_call_id in waiting:
                _mark_answered(waiting, message.tool_call_id)
                yield message
            elif not waiting:
                yield user(f"(A result without its call: {message.content})")
            continue
        if waiting:
            yield from close_calls(waiting)
        for call in message.tool_calls:
            waiting[call.id] = waiting.get(call.id, 0) + 1
        yield message


def close_calls(waiting: Waiting) -> Iterator[Message]:
    """Yield a result for each open call; `waiting` is empty afterwards."""
    for call_id in [call_id for call_id, times in waiting.items() for _ in range(times)]:
        _mark_answered(waiting, call_id)
        yield tool_result(call_id, NO_RESULT, is_error=True)


def _mark_answered(waiting: Waiting, call_id: str) -> None:
    if waiting[call_id] == 1:
        del waiting[call_id]
    else:
        waiting[call_id] -= 1
