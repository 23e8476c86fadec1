"""Suggests the existing names that a mistyped one is close to. Pure."""

from collections.abc import Iterable
from itertools import islice

# Longer texts are no mistyped names, and comparing them takes long.
_LONGEST = 64
# More names are not compared: a suggestion may be made on the event loop.
_MOST_NAMES = 500


def find_near(typed: str, names: Iterable[str], *, most: int = 1) -> list[str]:
    """Return the closest names, first those with the same letters in another order; none if none is close.

    Only the first few hundred are compared.
    """
    from difflib import get_close_matches  # noqa: PLC0415  only for a mistake

    if len(typed) > _LONGEST:
        return []
    folded = typed.casefold()
    by_folded = {name.casefold(): name for name in islice(names, _MOST_NAMES) if len(name) <= _LONGEST}
    swapped = [name for name in by_folded if sorted(name) == sorted(folded)]
    near = [*swapped, *get_close_matches(folded, by_folded, n=most)]
    return [by_folded[name] for name in dict.fromkeys(near)][:most]


def suggest_name(typed: str, names: Iterable[str]) -> str:
    """Return "Did you mean 'NAME'? " for the closest name; "" if none is close."""
    near = find_near(typed, names)
    return f"Did you mean {near[0]!r}? " if near else ""
