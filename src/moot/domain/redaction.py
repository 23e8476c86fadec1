"""Masks secret arguments of tool calls before they are recorded. Pure."""

from typing import Any, Protocol

import msgspec

from moot.domain.prompt import ToolSpec

# The schema key that marks a parameter as secret: {"x-secret": true}. Only the tool gets its value.
SECRET_MARK = "x-secret"
MASK = "[SECRET]"

# Which specs have a secret parameter.
_known_specs: dict[int, tuple[ToolSpec, bool]] = {}
_MOST_KNOWN = 1024


class Redaction(Protocol):
    """Removes every known secret from a text."""

    def __call__(self, text: str) -> str: ...

    @property
    def margin(self) -> int:
        """How many characters next to a cut may be an unrecognisable part of a secret."""
        ...


def after_cut(text: str, redact: Redaction) -> str:
    """Redact a text whose beginning was cut off, and drop the margin after the cut."""
    return redact(text)[redact.margin :]


def before_cut(text: str, redact: Redaction) -> str:
    """Redact a text whose end was cut off, and drop the margin before the cut."""
    cleaned = redact(text)
    return cleaned[: max(0, len(cleaned) - redact.margin)]


def has_secret_arguments(spec: ToolSpec) -> bool:
    """Whether any parameter of a tool is marked secret. Kept for each spec, since every call asks."""
    known = _known_specs.get(id(spec))
    if known is None:
        if len(_known_specs) >= _MOST_KNOWN:
            _known_specs.clear()
        # The spec is kept too, so that its id() cannot be reused by another object.
        known = _known_specs[id(spec)] = (spec, _has_secret_mark(spec.parameters))
    return known[1]


def mask_arguments(spec: ToolSpec, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments as they may be recorded, with secrets masked; the same object if none are secret."""
    if not has_secret_arguments(spec):
        return arguments
    masked: dict[str, Any] = _mask(spec.parameters, arguments)
    return masked


def mask_call(spec: ToolSpec, arguments: str) -> str:
    """Mask secrets in arguments that are still JSON text. Invalid JSON cannot be masked and becomes "{}"."""
    if not has_secret_arguments(spec):
        return arguments
    try:
        read = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        return "{}"
    return msgspec.json.encode(_mask(spec.parameters, read)).decode() if isinstance(read, dict) else "{}"


def is_masked(spec: ToolSpec, arguments: str) -> bool:
    """Whether these are stored arguments in which a secret was masked."""
    if MASK not in arguments or not has_secret_arguments(spec):
        return False
    try:
        read = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return False
    return isinstance(read, dict) and _mask(spec.parameters, read) == read and _holds_mask(read)


def _holds_mask(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_mask(part) for part in value.values())
    return any(_holds_mask(part) for part in value) if isinstance(value, list) else value == MASK


def _has_secret_mark(schema: Any) -> bool:
    """Whether anything in a schema is marked secret."""
    if isinstance(schema, dict):
        return schema.get(SECRET_MARK) is True or any(_has_secret_mark(part) for part in schema.values())
    return isinstance(schema, list) and any(_has_secret_mark(part) for part in schema)


def _mask(schema: Any, value: Any) -> Any:
    if not isinstance(schema, dict) or not _has_secret_mark(schema):
        return value
    if schema.get(SECRET_MARK) is True:
        return MASK
    properties = schema.get("properties")
    if isinstance(value, dict) and isinstance(properties, dict):
        # An undeclared argument beside a secret one may be the secret one misspelt.
        return {name: _mask(properties[name], part) if name in properties else MASK for name, part in value.items()}
    if isinstance(value, list):
        return [_mask(schema.get("items", {}), part) for part in value]
    # Marked secret somewhere inside, but the value has a different shape than declared.
    return MASK
