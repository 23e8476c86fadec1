"""Suggests the existing name that a mistyped one is close to. Pure."""

from collections.abc import Iterable

# Longer texts are no mistyped names, and comparing them takes long.
_LONGEST = 64


def suggest_name(typed: str, names: Iterable[str]) -> str:
    """Return "Did you mean 'NAME'? " for the closest name; "" if none is close."""
    from difflib import get_close_matches  # noqa: PLC0415  only for a mistake

    if len(typed) > _LONGEST:
        return ""
    by_folded = {name.casefold(): name for name in names if len(name) <= _LONGEST}
    near = get_close_matches(typed.casefold(), by_folded, n=1)
    return f"Did you mean {by_folded[near[0]]!r}? " if near else ""
