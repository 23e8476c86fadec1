"""Patterns of calls: what a rule covers besides exactly one call. Works with approval (rules) and plain_words. Pure.

A pattern is written as text, shown as a sentence, and matched against the shape of a call, never against its text.
"""

import re
import shlex

from msgspec import Struct

from moot.domain.call_shape import CallShape
from moot.domain.errors import BadRequest
from moot.domain.safety import has_control_name
from moot.domain.visible import show

# The tools that an "edits below" pattern covers.
EDITS = ("fs_write", "fs_edit", "fs_patch")
_COMMANDS = ("exec", "exec_bg")
_WEB = ("web_fetch", "web_search")

_NUMBER = re.compile(r"[0-9]{1,18}")
# What a word for a path may begin with: no option, no file of options, no address.
_PATH_START = re.compile(r"[A-Za-z0-9_./]")
# What sed and perl execute, such as s/a/b/, has the form of a path.
_EDITOR_SCRIPT = re.compile(r"[sy]/[^/]*/[^/]*/\w*")
_SLOT = re.compile(r"\{(?:path:(?P<path>/[^{}]*)|(?P<number>number)|one:(?P<one>[^{}]+)|host:(?P<host>[^{}]+))\}")
_MOST_VALUES = 50
_MOST_WORDS = 64
_NO_PATTERN_FIX = "Decide without a pattern."
_PATTERN_FIX = "Write a program and its words, with {path:/DIR}, {number} or {one:A|B} where they may vary."


class Slot(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One word of a pattern: fixed, or of exactly one of the types. All paths are real."""

    fixed: str = ""
    below: str = ""
    is_number: bool = False
    one_of: tuple[str, ...] = ()

    def accepts(self, word: str, path: str) -> bool:
        """Whether the word, which would be this real path, fits."""
        if self.below:
            return _is_path_word(word) and is_below(path, self.below)
        if self.is_number:
            return _NUMBER.fullmatch(word) is not None
        return word in self.one_of if self.one_of else word == self.fixed

    def write(self) -> str:
        if self.below:
            return f"{{path:{self.below}}}"
        if self.is_number:
            return "{number}"
        return f"{{one:{'|'.join(self.one_of)}}}" if self.one_of else self.fixed

    def describe(self) -> str:
        if self.below:
            return f"‹any path below {show(self.below)}›"
        if self.is_number:
            return "‹any number›"
        return f"‹{' or '.join(map(show, self.one_of))}›" if self.one_of else show(shlex.quote(self.fixed))


class CallPattern(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Calls of some tools. Exactly one of `words`, `below` and `host` is set."""

    tools: tuple[str, ...]
    # A command: its words, the real working directory, and the sandbox, as the binding of the call describes it.
    words: tuple[Slot, ...] = ()
    cwd: str = ""
    what: str = ""
    # Edits of files below this real path.
    below: str = ""
    # Pages of this host. Only such a pattern can apply although the run has seen untrusted text.
    host: str = ""
    despite_taint: bool = False

    def matches(self, tool: str, what: str, shape: CallShape | None) -> bool:
        if shape is None or tool not in self.tools:
            return False
        if self.words:
            return self._matches_words(what, shape)
        if self.below:
            return bool(shape.places) and all(_is_ordinary_below(place, self.below) for place in shape.places)
        return bool(self.host) and shape.host == self.host

    def _matches_words(self, what: str, shape: CallShape) -> bool:
        if (what, shape.cwd, len(shape.words)) != (self.what, self.cwd, len(self.words)):
            return False
        return all(map(Slot.accepts, self.words, shape.words, shape.paths))

    def write(self) -> str:
        """Return the pattern as the text from which `parse_pattern` makes it again."""
        if self.words:
            return shlex.join(slot.write() for slot in self.words)
        return f"{{path:{self.below}}}" if self.below else f"{{host:{self.host}}}"

    def describe(self) -> str:
        """Return what the pattern covers, for a person."""
        if self.words:
            command = " ".join(slot.describe() for slot in self.words)
            return f"{self.tools[0]}: {command} in {show(self.cwd)}, {self.what}"
        if self.below:
            return f"edits ({', '.join(self.tools)}) below {show(self.below)}, except files that control other programs"
        kind = "searches with" if self.tools == ("web_search",) else "pages of"
        taint = ", also when the run has seen untrusted text, which could make it send what it knows there"
        return f"{kind} {show(self.host)}{taint if self.despite_taint else ''}"


def offer_patterns(tool: str, what: str, shape: CallShape | None, *, is_tainted: bool) -> tuple[CallPattern, ...]:
    """Return the patterns that are offered for a call; all of them match it."""
    found: list[CallPattern] = []
    if shape is None:
        return ()
    if tool in _COMMANDS and shape.words and not is_tainted:
        given = zip(shape.words[1:], shape.paths[1:], strict=True)
        words = (Slot(fixed=shape.words[0]), *(_offer_slot(word, path, shape.cwd) for word, path in given))
        if all(shape.words) and any(not slot.fixed for slot in words):
            found.append(CallPattern(tools=(tool,), words=words, cwd=shape.cwd, what=what))
    if tool in EDITS and shape.places and not is_tainted:
        found.append(CallPattern(tools=EDITS, below=shape.cwd))
    if tool in _WEB and shape.host:
        found.append(CallPattern(tools=(tool,), host=shape.host, despite_taint=is_tainted))
    return tuple(pattern for pattern in found if pattern.matches(tool, what, shape))


def parse_pattern(text: str, tool: str, what: str, shape: CallShape | None, *, is_tainted: bool) -> CallPattern:
    """Return the pattern that a person has written for a call. Raise BadRequest if it does not cover that call."""
    if shape is None:
        raise BadRequest("no pattern can cover this call", fix=_NO_PATTERN_FIX)
    pattern = _read_pattern(text, tool, what, shape, is_tainted=is_tainted)
    if is_tainted and not pattern.despite_taint:
        raise BadRequest("no rule of this kind applies to a run that has seen untrusted text", fix="Allow it once.")
    if not pattern.matches(tool, what, shape):
        raise BadRequest("the pattern does not cover this call", fix=_suggest_pattern(tool, what, shape))
    directories = (pattern.below, *(slot.below for slot in pattern.words))
    if not all(_is_within(each, shape.cwd) for each in directories if each):
        raise BadRequest("the paths of a pattern are in the working directory", fix=f"Use {{path:{shape.cwd}}}.")
    return pattern


def _suggest_pattern(tool: str, what: str, shape: CallShape) -> str:
    """Name a pattern that covers the call: one that is offered, or else the words of the command."""
    if offered := offer_patterns(tool, what, shape, is_tainted=False):
        return f"One that does: {offered[0].write()}"
    if tool in _COMMANDS and shape.words:
        words = shlex.join(shape.words)
        return f"Begin with {words}, and write {{path:/DIR}}, {{number}} or {{one:A|B}} for words that may vary."
    return _NO_PATTERN_FIX


def _read_pattern(text: str, tool: str, what: str, shape: CallShape, *, is_tainted: bool) -> CallPattern:
    try:
        written = shlex.split(text)
    except ValueError as error:
        raise BadRequest(f"the pattern cannot be read: {error}", fix=_PATTERN_FIX) from None
    slot = _SLOT.fullmatch(written[0]) if len(written) == 1 else None
    if slot is not None and slot["path"] and tool in EDITS:
        return CallPattern(tools=EDITS, below=slot["path"])
    if slot is not None and slot["host"] and tool in _WEB:
        return CallPattern(tools=(tool,), host=slot["host"], despite_taint=is_tainted)
    if tool not in _COMMANDS or not 0 < len(written) <= _MOST_WORDS:
        fix = _PATTERN_FIX if tool in _COMMANDS else _suggest_pattern(tool, what, shape)
        raise BadRequest(f"there is no such pattern for {tool}", fix=fix)
    words = tuple(map(_read_slot, written))
    if not words[0].fixed:
        raise BadRequest("the program of a pattern is fixed", fix=_PATTERN_FIX)
    return CallPattern(tools=(tool,), words=words, cwd=shape.cwd, what=what)


def _read_slot(word: str) -> Slot:
    found = _SLOT.fullmatch(word)
    if found is None or found["host"]:
        if not word or "{" in word or "}" in word:
            raise BadRequest(f"{word!r} is not a word of a pattern", fix=_PATTERN_FIX)
        return Slot(fixed=word)
    if found["one"]:
        values = tuple(found["one"].split("|"))
        if not all(values) or len(values) > _MOST_VALUES:
            raise BadRequest(f"a list has 1 to {_MOST_VALUES} values, none of them empty", fix=_PATTERN_FIX)
        return Slot(one_of=values)
    return Slot(is_number=True) if found["number"] else Slot(below=found["path"])


def _offer_slot(word: str, path: str, cwd: str) -> Slot:
    """Return the slot for one word: a number or a path below the working directory may vary, anything else is fixed."""
    if _NUMBER.fullmatch(word):
        return Slot(is_number=True)
    # A name without a slash could be anything, such as the name of a subcommand.
    is_path = "/" in word or re.fullmatch(r"[\w-]+(\.[\w-]+)+", word) is not None
    return Slot(below=cwd) if is_path and _is_path_word(word) and is_below(path, cwd) else Slot(fixed=word)


def _is_path_word(word: str) -> bool:
    """Whether a program would take the word as the path it looks like: no option, address, setting or pattern."""
    return (
        _PATH_START.match(word) is not None
        and _EDITOR_SCRIPT.fullmatch(word) is None
        and ":" not in word.replace("::", "")
        and not set(word) & set("=*?[]{}|<>&;$`\\\"'!#~()\n\r\t\x00")
    )


def is_below(path: str, folder: str) -> bool:
    """Whether the real path is in the folder, at any depth. The folder itself is not."""
    return bool(folder) and folder != "/" and path.startswith(f"{folder}/")


def _is_within(path: str, folder: str) -> bool:
    return path == folder or is_below(path, folder)


def _is_ordinary_below(place: str, folder: str) -> bool:
    return is_below(place, folder) and not has_control_name(place)
