"""Parses a function's docstring into its summary and parameter descriptions. Used by `function`. Pure."""

import inspect
import re

from msgspec import Struct

_SECTION = re.compile(r"(args|arguments|parameters|params):\s*", re.IGNORECASE)
# `name: text`, `name (type): text`; starred names are refused elsewhere.
_ENTRY = re.compile(r"(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_FIELD = re.compile(r":param\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)")


class Docstring(Struct, frozen=True, kw_only=True):
    description: str
    parameters: dict[str, str]


def parse_docstring(text: str) -> Docstring:
    """Return the first paragraph and the parameters from an `Args:` section or `:param name:` lines."""
    lines = inspect.cleandoc(text).split("\n")
    first = next((at for at, line in enumerate(lines) if not line.strip()), len(lines))
    description = " ".join(line.strip() for line in lines[:first])
    return Docstring(description=description, parameters=_parse_args_section(lines) | _parse_param_fields(lines))


def _parse_args_section(lines: list[str]) -> dict[str, str]:
    begin = next((at for at, line in enumerate(lines) if _SECTION.fullmatch(line)), None)
    if begin is None:
        return {}
    block: list[str] = []
    for line in lines[begin + 1 :]:
        if line.strip() and not line[0].isspace():
            break
        block.append(line)
    depth = min((len(line) - len(line.lstrip()) for line in block if line.strip()), default=0)
    return _parse_entries([line[depth:] for line in block])


def _parse_entries(block: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in block:
        entry = None if line[:1].isspace() else _ENTRY.fullmatch(line)
        if entry is not None:
            name = entry[1]
            found[name] = entry[2].strip()
        elif name and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _parse_param_fields(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        field = _FIELD.fullmatch(line.strip())
        if field is not None:
            name = field[1]
            found[name] = field[2].strip()
        elif not line.strip() or line.lstrip().startswith(":"):
            name = ""
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found
