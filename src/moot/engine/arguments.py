"""Parses and checks the arguments of a tool call against the tool's schema. Used by gate.py."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import msgspec
from msgspec.structs import replace

from moot.domain.brief_tools import is_placeholder
from moot.domain.message import ToolCall
from moot.domain.ports.tool import ToolResult
from moot.domain.prompt import ToolSpec
from moot.domain.text import clean

# Argument names: how many characters are compared, how many are listed, and the similarity that counts as a typo.
_NAME = 64
_MOST_NAMED = 5
_LIKENESS = 0.75
# A description of fewer words may be a value as well, such as "name".
_FEWEST_WORDS = 3
# The most characters, such as brackets, around a description that a model repeats.
_AROUND = 8
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def parse_arguments(call: ToolCall, spec: ToolSpec, shown: ToolSpec | None = None) -> dict[str, Any] | str:
    """Return the checked arguments, or a sentence that says what is wrong with them.

    `shown` is how the tool was described to the model, if that was not its own description.
    """
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, RecursionError) as error:
        return f"The arguments of {call.name} are not valid JSON: {error}."
    if not isinstance(arguments, dict):
        return f"The arguments of {call.name} must be a JSON object."
    return _describe_mismatch(call.name, arguments, spec, shown or spec) or _drop_nulls(arguments, spec)


def add_ignored(result: ToolResult, arguments: dict[str, Any], spec: ToolSpec) -> ToolResult:
    """Append to a successful result which arguments were ignored."""
    unknown = [] if result.is_error else _list_unknown(arguments, spec)
    if not unknown:
        return result
    named = ", ".join(repr(clean(each[:_NAME])) for each in unknown[:_MOST_NAMED])
    return replace(result, content=f"{result.content}\n({spec.name} does not know {named}, which was ignored.)")


def _drop_nulls(arguments: dict[str, Any], spec: ToolSpec) -> dict[str, Any]:
    """Return the arguments without meaningless nulls: many models write null for an argument they leave out."""
    if None not in arguments.values():
        return arguments
    properties: dict[str, dict[str, Any]] = spec.parameters.get("properties", {})
    return {
        name: value for name, value in arguments.items() if value is not None or not _is_plain(properties.get(name, {}))
    }


def _describe_mismatch(name: str, arguments: dict[str, Any], spec: ToolSpec, shown: ToolSpec) -> str:
    if spec.checks_arguments:
        return ""
    required: Sequence[str] = spec.parameters.get("required", ())
    properties: dict[str, dict[str, Any]] = spec.parameters.get("properties", {})
    for parameter in required:
        if parameter not in arguments or _is_missing(arguments[parameter], properties.get(parameter, {})):
            return f"missing {parameter} parameter"
    for parameter, value in arguments.items():
        if value is None and parameter not in required:
            continue
        kinds = _list_types(properties.get(parameter, {}))
        expected = tuple(kind for each in kinds for kind in _TYPES[each])
        wrong_bool = isinstance(value, bool) and bool not in expected
        if kinds and (wrong_bool or not isinstance(value, expected)):
            return f"{name}: {parameter} must be of type {' or '.join(kinds)}"
    return _describe_placeholder(name, arguments, spec, shown) or _describe_misspelt(name, arguments, spec)


def _describe_placeholder(name: str, arguments: dict[str, Any], spec: ToolSpec, shown: ToolSpec) -> str:
    """Return the error for an argument that is what its parameter is described as, or "".

    A small model that does not know a value copies what it was shown in its place.
    """
    if not any(isinstance(value, str) for value in arguments.values()):
        return ""
    properties: dict[str, Any] = spec.parameters.get("properties", {})
    for parameter, value in arguments.items():
        if isinstance(value, str) and (
            is_placeholder(shown, parameter, value) or _is_description(value, properties.get(parameter))
        ):
            return (
                f"{name}: {parameter} is a placeholder and not a value; nothing was done. Make the call again with the "
                f"real {parameter}. If your task does not contain it, report that it is missing"
            )
    return ""


def _is_description(value: str, described: Any) -> bool:
    description = described.get("description") if isinstance(described, dict) else None
    if not isinstance(description, str) or len(value) > len(description) + _AROUND:
        return False
    return len(description.split()) >= _FEWEST_WORDS and _normalise_text(value) == _normalise_text(description)


def _normalise_text(text: str) -> str:
    """Return a text without differences in case, brackets and the full stop at its end."""
    return text.strip(" \n.<>").casefold()


def _describe_misspelt(name: str, arguments: dict[str, Any], spec: ToolSpec) -> str:
    """Return the error for an unknown argument, or "".

    Ignoring it silently could, for example, drop a misspelt limit.
    """
    properties: dict[str, Any] = spec.parameters.get("properties", {})
    for unknown in _list_unknown(arguments, spec):
        nearest = get_close_matches(_normalise_name(unknown), map(_normalise_name, properties), n=1, cutoff=_LIKENESS)
        meant = next((each for each in properties if _normalise_name(each) in nearest), "")
        if meant or spec.parameters.get("additionalProperties") is False:
            did = f"did you mean {meant!r}? Nothing was done" if meant else f"it has {', '.join(properties) or 'none'}"
            return f"{name} has no parameter {clean(unknown[:_NAME])!r}; {did}"
    return ""


def _list_unknown(arguments: dict[str, Any], spec: ToolSpec) -> list[str]:
    """Return the names of arguments that the tool does not have. Null values are ignored: many models add them."""
    known, more = spec.parameters.get("properties"), spec.parameters.get("additionalProperties")
    if more is not False and (more or spec.takes_more or known is None):
        return []
    return [each for each, value in arguments.items() if each not in (known or {}) and value is not None]


def _normalise_name(parameter: str) -> str:
    """Return a name without differences in spelling style: maxLength equals max_length."""
    return "".join(parameter[:_NAME].lower().replace("-", "_").split("_"))


def _list_types(described: dict[str, Any]) -> list[str]:
    """Return the types a schema names, or [] if it names none or an unknown one.

    The schema may come from a third party.
    """
    named = described.get("type")
    kinds: list[Any] = named if isinstance(named, list) else [named]
    return kinds if all(isinstance(kind, str) and kind in _TYPES for kind in kinds) else []


def _is_plain(described: dict[str, Any]) -> bool:
    """Whether the schema names types and null is not one of them, so that null means "left out"."""
    return "null" not in _list_types(described) and bool(_list_types(described))


def _is_missing(value: Any, described: dict[str, Any]) -> bool:
    """Whether a value is missing: null unless the schema allows it, or "" unless it has minLength 0 (an empty file)."""
    return (value is None and "null" not in _list_types(described)) or (value == "" and described.get("minLength") != 0)
