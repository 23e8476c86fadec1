"""Assembles streamed tool calls and validates their ids, names and arguments. Pure."""

import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

from moot.domain.message import ToolCall
from moot.domain.ports.model import CallReady
from moot.domain.text import clean
from moot.models.scrub import one_line

MAX_ARGUMENTS = 1_000_000
MAX_CALLS = 128

_ID = re.compile(r"[a-zA-Z0-9_-]{8,64}")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
# A whole string, so that brackets in it do not count, or a bracket.
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}]')
# Far below the recursion limit of any interpreter, which differs between versions.
_MOST_NESTED = 200
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


class _ArgumentError(ValueError):
    """An error in arguments, described for the model that wrote them."""


class _PartialCall:
    """A call whose chunks are still arriving."""

    __slots__ = ("arguments", "id", "name", "size")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.size = 0


class CallAssembler:
    """Assembles the calls of one answer. Chunks are matched by index, or by id if there is none."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._open: list[_PartialCall] = []
        # The newest call with each index.
        self._by_index: dict[int | None, _PartialCall] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    def add(self, index: int | None, call_id: str, name: str, arguments: str) -> None:
        call = self._find(index, call_id, name)
        call.id = call.id or call_id
        # A name arrives whole; some servers repeat it in every chunk.
        call.name = call.name or name
        call.size += len(arguments)
        if call.size <= MAX_ARGUMENTS:
            call.arguments.append(arguments)

    def _find(self, index: int | None, call_id: str, name: str) -> _PartialCall:
        # Without an index, a chunk belongs to the newest call.
        found = self._by_index.get(index) if index is not None else self._open[-1] if self._open else None
        if found is None or _starts_new_call(found, index, call_id, name):
            found = _PartialCall()
            has_room = len(self._open) <= MAX_CALLS
            if has_room:
                self._open.append(found)
            if has_room or index in self._by_index:
                # Also if it is dropped: its other chunks do not belong to the call that had this index before.
                self._by_index[index] = found
        return found

    def ready(self, *, truncated: bool) -> Iterator[CallReady]:
        """Return each complete call. The last one of a truncated answer may have been cut."""
        taken: set[str] = set()
        for number, call in enumerate(self._open[:MAX_CALLS], start=1):
            call_id = call.id
            if not _ID.fullmatch(call_id) or call_id in taken:
                call_id = self._make_id()
            taken.add(call_id)
            cut = truncated and number == len(self._open)
            arguments = "".join(call.arguments) if call.size <= MAX_ARGUMENTS else None
            yield check_call(call_id, call.name, arguments, cut=cut)

    def _make_id(self) -> str:
        return "call_" + "".join(self._rng.choices(_ALPHABET, k=20))


def check_call(call_id: str, name: str, arguments: str | None, *, cut: bool = False) -> CallReady:
    """Return a call as every provider accepts it, and what is wrong with it. None for arguments that are too long.

    `cut` says that the answer ended inside the call.
    """
    name, flaw = _clean_name(name)
    checked = "{}"
    if not flaw:
        try:
            checked = _check_arguments(arguments)
        except _ArgumentError as error:
            flaw = f"the answer was cut off at its length limit inside this call ({error})" if cut else str(error)
    return CallReady(ToolCall(id=call_id, name=name, arguments=checked), flaw)


def _starts_new_call(call: _PartialCall, index: int | None, call_id: str, name: str) -> bool:
    """Whether a chunk begins a new call although its index is in use: some servers reuse an index."""
    if not name or not call.name:
        return False
    return call_id != call.id if call_id else index is None


def _clean_name(name: str) -> tuple[str, str]:
    """Return a name that every provider accepts, and what was wrong with the original."""
    fit = _NOT_IN_NAMES.sub("_", name)[:64]
    if not fit:
        return "unnamed", "the call names no tool"
    return fit, "" if fit == name else f"'{one_line(name, 80)}' is not the name of a tool"


def _check_arguments(arguments: str | None) -> str:
    if arguments is None or len(arguments) > MAX_ARGUMENTS:
        raise _ArgumentError(f"the arguments are longer than {MAX_ARGUMENTS} characters")
    text = clean(arguments).strip()
    if not text:
        return "{}"
    value = parse_object(text)
    if "\\u" in text:
        # An escape can contain half a surrogate pair or a NUL, which some stores, tools and providers reject.
        fit = _sanitize_value(value)
        if fit != value:
            return json.dumps(fit, ensure_ascii=False)
    return text


def _sanitize_value(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_sanitize_value(each) for each in value]
    if isinstance(value, dict):
        return {clean(name): _sanitize_value(each) for name, each in value.items()}
    return value


def _nesting_depth(text: str) -> int:
    """Return the maximum depth of nested brackets outside strings."""
    depth = deepest = 0
    for mark in _BRACKETS.findall(text):
        depth += (mark in "[{") - (mark in "]}")
        deepest = max(deepest, depth)
    return deepest


def parse_object(text: str) -> dict[str, Any]:
    """Parse a JSON object. Raises ValueError with a message for the model."""
    if _nesting_depth(text) > _MOST_NESTED:
        raise _ArgumentError("the arguments are nested too deeply")
    try:
        value = json.loads(text, object_pairs_hook=_reject_duplicates, parse_constant=_reject_constants)
    except _ArgumentError:
        raise
    except ValueError as error:
        raise _ArgumentError(f"the arguments are not valid JSON: {error}; they began {one_line(text, 80)!r}") from None
    if not isinstance(value, dict):
        raise _ArgumentError(f"the arguments must be a JSON object, not {one_line(text, 40)!r}")
    return value


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        known: set[str] = set()
        name = next(key for key, _ in pairs if key in known or known.add(key))  # type: ignore[func-returns-value]
        raise _ArgumentError(f"the arguments name {one_line(name, 40)!r} twice")
    return value


def _reject_constants(name: str) -> Any:
    raise _ArgumentError(f"the arguments contain {name}, which is not JSON")
