"""Removes paths of the owner's files from what other principals are sent. Used by requests/reply.py."""

import os
import re
from collections.abc import Iterable, MutableSequence
from functools import cached_property

from google.protobuf.message import Message

PATH = "(a path of the owner)"

# Fields with text of the daemon itself. What was said in a conversation, and what its tools returned, is sent as it is.
_MASKED_FIELDS = frozenset(
    ("message", "fix", "problem", "error", "reason", "flaw", "skipped", "model", "preview", "rule", "whole_rule")
)
# Fields that are not sent. Patterns of an ask are paths for the most part, and only the owner writes rules with them.
_OMITTED_FIELDS = frozenset({"cwd", "path", "patterns"})


class PathMask:
    """Replaces absolute paths in a text: those below the given folders and every other one of two parts or more."""

    def __init__(self, folders: Iterable[str | os.PathLike[str]] = ()) -> None:
        self._roots = {os.path.normpath(folder) for folder in (*folders, os.path.expanduser("~"))}

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """Compiled when it is first needed: most daemons serve their owner alone."""
        # Known folders are matched literally, because their names may contain spaces. The longest comes first.
        known = sorted((re.escape(root) for root in self._roots if len(root) > 1), key=len, reverse=True)
        rest = r"[^\s'\"`,;:]*(?<!\.)"
        address = r"(?i:(?<=file:))//[^\s'\"`,;]*"
        below = [rf"{root}(?![\w.-]){rest}" for root in known]
        return re.compile("|".join([address, *below, rf"(?<![\w/.])/[\w.-]+/{rest}"]))

    def apply(self, text: str) -> str:
        return self._pattern.sub(PATH, text) if "/" in text else text

    def apply_to_message(self, message: Message) -> None:
        """Mask the daemon's own texts in a message and in the messages within it."""
        for field, value in message.ListFields():
            if field.name in _OMITTED_FIELDS:
                message.ClearField(field.name)
            elif field.type == field.TYPE_STRING:
                self._apply_to_field(message, field.name, value)
            elif isinstance(value, Message):
                self.apply_to_message(value)
            elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
                for each in value:
                    self.apply_to_message(each)

    def _apply_to_field(self, message: Message, name: str, value: str | MutableSequence[str]) -> None:
        if name not in _MASKED_FIELDS:
            return
        if isinstance(value, str):
            setattr(message, name, self.apply(value))
        else:
            value[:] = [self.apply(each) for each in value]
