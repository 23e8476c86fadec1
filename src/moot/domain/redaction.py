"""What may be written down of a tool call: arguments marked secret are masked before anything is recorded. Pure."""

from typing import Any, Protocol

import msgspec

from moot.domain.prompt import ToolSpec

# A parameter whose schema says {"x-secret": true} is for the tool alone.
SECRET_MARK = "x-secret"
MASK = "[SECRET]"


class Redaction(Protocol):
    """Takes every known secret out of a text."""

    def __call__(self, text: str) -> str: ...

    @property
    def margin(self) -> int:
        """How many characters beside a cut may be a part of a secret that nobody can know any more."""
        ...


def after_cut(text: str, redact: Redaction) -> str:
    """A text whose beginning was cut off before anyone could look for secrets in it."""
    return redact(text)[redact.margin :]


def before_cut(text: str, redact: Redaction) -> str:
    """The same for one whose end was cut off."""
    cleaned = redact(text)
    return cleaned[: max(0, len(cleaned) - redact.margin)]


def has_secret_arguments(spec: ToolSpec) -> bool:
    return _has_secret_mark(spec.parameters)


def mask_arguments(spec: ToolSpec, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as history, events, asks and logs may hold them; the very same object where nothing is secret."""
    if not _has_secret_mark(spec.parameters):
        return arguments
    masked: dict[str, Any] = _mask(spec.parameters, arguments)
    return masked


def mask_call(spec: ToolSpec, arguments: str) -> str:
    """The same for arguments that are still the text a model wrote. What cannot be read cannot be masked: it goes."""
    if not _has_secret_mark(spec.parameters):
        return arguments
    try:
        read = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        return "{}"
    return msgspec.json.encode(_mask(spec.parameters, read)).decode() if isinstance(read, dict) else "{}"


def is_masked(spec: ToolSpec, arguments: str) -> bool:
    """Whether these are arguments as they were written down, with something taken out of them."""
    if MASK not in arguments or not _has_secret_mark(spec.parameters):
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
        # An argument nobody declared, beside one that is secret, may well be that one misspelt.
        return {name: _mask(properties[name], part) if name in properties else MASK for name, part in value.items()}
    if isinstance(value, list):
        return [_mask(schema.get("items", {}), part) for part in value]
    # Marked somewhere inside, but of another shape than declared.
    return MASK
