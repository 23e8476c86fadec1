"""Cuts a transcript to a number of tokens, for a model whose context window is too small for all of it. Pure.

Used by `history` for a single request; stored messages are not changed.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate

from msgspec.structs import replace

from moot.domain.message import Message, Role, ToolCall, user
from moot.domain.tokens import estimate_message, estimate_text
from moot.domain.transcript_text import CALL

LEFT_OUT = "(Earlier messages are not shown here: they do not fit your context window.)"
# The minimum tokens of a cut message; if that is still too much, whole steps are left out.
_LEAST = 48
# The share of the room (one quarter) for the summary and other messages before the conversation.
_LEAD_SHARE = 4
_NO_ARGUMENTS = '{"moot":"these arguments do not fit your context window and are left out here"}'


def shorten(messages: Sequence[Message], room: int, *, lead: int, redact: Callable[[str], str] = str) -> list[Message]:
    """Return about `room` tokens of messages: the latest turn, cut if necessary, then earlier turns, newest first.

    The first `lead` messages precede the conversation and are kept. Secrets are removed from a message before it is
    cut, because half a secret would not be recognised. Calls keep their results.
    """
    opening, later = messages[:lead], messages[lead:]
    kept_opening = _fit(opening, room // _LEAD_SHARE, redact)
    left = room - _estimate_size(kept_opening) - estimate_message(user(LEFT_OUT))
    begin = find_latest_turn(later)
    latest = _fit(_choose_recent_steps(later[begin:], left), left, redact)
    left -= _estimate_size(latest)
    earlier = _choose_earlier_turns(later[:begin], left)
    note = [user(LEFT_OUT)] if len(earlier) < begin else []
    return [*kept_opening, *note, *earlier, *latest]


def _estimate_size(messages: Sequence[Message]) -> int:
    return sum(map(estimate_message, messages))


def find_latest_turn(messages: Sequence[Message]) -> int:
    """Return the index of the latest message of a person; 0 if there is none.

    For a speaker without tools, results are user messages inside a mark; those are skipped.
    """
    return max((at for at, message in enumerate(messages) if _is_turn_start(message)), default=0)


def _is_turn_start(message: Message) -> bool:
    return message.role is Role.USER and not message.content.startswith(CALL)


def _choose_earlier_turns(messages: Sequence[Message], room: int) -> list[Message]:
    """Return as many whole turns from the end as fit."""
    begin = len(messages)
    for at in range(len(messages) - 1, -1, -1):
        room -= estimate_message(messages[at])
        if room < 0:
            break
        if _is_turn_start(messages[at]):
            begin = at
    return list(messages[begin:])


def _choose_recent_steps(turn: Sequence[Message], room: int) -> list[Message]:
    """Return the turn without its oldest steps if it has too many; its first message is kept."""
    most = max(2, room // _LEAST)
    if len(turn) <= most:
        return list(turn)
    steps = [at for at, message in enumerate(turn) if message.role is Role.ASSISTANT and at >= len(turn) - most + 1]
    # A last step with more results than fit is kept whole.
    last = max((at for at, message in enumerate(turn) if message.role is Role.ASSISTANT), default=1)
    return [turn[0], *turn[max(1, steps[0] if steps else last) :]]


def _fit(messages: Sequence[Message], room: int, redact: Callable[[str], str]) -> list[Message]:
    """Cut the messages to `room` tokens in total: the longest are cut, all to the same length."""
    sizes = [estimate_message(message) for message in messages]
    if sum(sizes) <= room:
        return list(messages)
    most = max(_LEAST, _find_level(sizes, room))
    return [
        message if size <= most else _cut(message, most, redact) for message, size in zip(messages, sizes, strict=True)
    ]


def _find_level(sizes: Sequence[int], room: int) -> int:
    """Return the largest size to which all larger ones must be cut so that the total fits."""
    ordered = sorted(sizes)
    sums = list(accumulate(ordered, initial=0))
    # The total when everything from index n on is cut to the size at n; increases with n.
    takes = [sums[at] + size * (len(ordered) - at) for at, size in enumerate(ordered)]
    at = bisect_left(takes, room)
    return ordered[-1] if at == len(ordered) else (room - sums[at]) // (len(ordered) - at)


def _cut(message: Message, most: int, redact: Callable[[str], str]) -> Message:
    """Cut a message to `most` tokens: keep the beginning and end of its text, and drop long arguments."""
    calls = tuple(_drop_arguments(call, most) for call in message.tool_calls)
    bare = replace(message, content="", tool_calls=calls)
    text = redact(message.content)
    return replace(bare, content=_cut_text(text, max(_LEAST // 2, most - estimate_message(bare))))


def _drop_arguments(call: ToolCall, most: int) -> ToolCall:
    return replace(call, arguments=_NO_ARGUMENTS) if estimate_text(call.arguments) > most // 2 else call


def _cut_text(text: str, most: int) -> str:
    tokens = estimate_text(text)
    if tokens <= most:
        return text
    kept = int(len(text) * most / tokens)
    begin = kept * 2 // 3
    end = len(text) - (kept - begin)
    note = f"[{end - begin} characters are left out here: they do not fit your context window]"
    return f"{text[:begin]}\n{note}\n{text[end:]}"
