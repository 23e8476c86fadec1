"""Limits how long the reply of a model may be. Used by step.py and completion.py."""

from moot.domain.errors import ModelError

# No useful reply is this long; a model that repeats itself must not fill memory, disk and frames.
LONGEST_REPLY = 2_000_000


class ReplyLength:
    """Counts the characters of one reply: its text, reasoning and calls."""

    __slots__ = ("_length",)

    def __init__(self) -> None:
        self._length = 0

    def add(self, text: str) -> None:
        """Count a text. Raise ModelError once the reply is too long."""
        self._length += len(text)
        if self._length > LONGEST_REPLY:
            raise ModelError(
                f"the model's reply is longer than {LONGEST_REPLY} characters and does not end",
                fix="Ask for less at once, or set max_output_tokens for the model.",
            )
