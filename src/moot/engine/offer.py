"""Which tools a model is offered where not all of them fit: what was chosen on purpose first. Pure."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from moot.domain.ports.model import Model, ToolSupport
from moot.domain.prompt import MOST_BY_SCHEMA, ToolSpec
from moot.domain.scope import CONTROL, LEFT_OUT_LAST
from moot.domain.tokens import BYTES_PER_TOKEN, tool_bytes

# The part of a window that tools may take; instructions, history and the reply need the rest.
_SHARE = 3


def choose_tools(specs: Sequence[ToolSpec], model: Model, prefixes: Sequence[str] | None) -> tuple[ToolSpec, ...]:
    """The tools a model is told of, in the order they are given.

    Where not all fit, those come first that the agent's file names, then what its owner added, then what is built in;
    where the window is too small, before all of these what a run cannot do without.
    """
    if model.tools is ToolSupport.NONE:
        return ()
    first = sorted(specs, key=lambda spec: _rank(spec, prefixes))
    if model.tools is ToolSupport.SCHEMA:
        chosen = {spec.name for spec in first[:MOST_BY_SCHEMA]}
    elif not model.window:
        return tuple(specs)
    else:
        first.sort(key=lambda spec: spec.name not in LEFT_OUT_LAST)
        chosen = _fitting(first, model.window // _SHARE)
    return tuple(spec for spec in specs if spec.name in chosen)


def _fitting(specs: Iterable[ToolSpec], room: int) -> set[str]:
    """As many as there is room for, in their order; one that is too large does not keep out a smaller one behind it."""
    left = room * BYTES_PER_TOKEN
    chosen: set[str] = set()
    for spec in specs:
        length = tool_bytes(spec)
        if length <= left:
            left -= length
            chosen.add(spec.name)
    return chosen


def _rank(spec: ToolSpec, prefixes: Sequence[str] | None) -> int:
    if _is_named(spec.name, prefixes):
        return 0
    # An agent without work of its own is there to set others to work, where its owner switched that on.
    leads = prefixes is None and spec.name in CONTROL
    return 1 if spec.added or leads else 2


def _is_named(name: str, prefixes: Sequence[str] | None) -> bool:
    # A pattern for everything names nothing.
    return any(pattern.strip("*") and fnmatchcase(name, pattern) for pattern in prefixes or ())
