"""Chooses the tools a model is offered when not all of them fit. Explicitly chosen tools come first. Pure."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from moot.domain.brief_tools import BRIEF_TOOLS, shorten_tool
from moot.domain.ports.model import Model, ToolSupport
from moot.domain.prompt import MOST_BY_SCHEMA, ToolSpec
from moot.domain.scope import CONTROL, LEFT_OUT_LAST
from moot.domain.tokens import BYTES_PER_TOKEN, tool_bytes

# The share of the window for tools (one third); instructions, history and the reply need the rest.
_SHARE = 3


def choose_tools(specs: Sequence[ToolSpec], model: Model, prefixes: Sequence[str] | None) -> tuple[ToolSpec, ...]:
    """Return the tools a model is offered, in the given order.

    If not all fit, tools named in the agent's file have priority, then tools its owner added, then built-in ones. If
    the window is too small, the indispensable ones (`LEFT_OUT_LAST`) come before all of these. A small model is
    offered few tools, described in few words.
    """
    if model.tools is ToolSupport.NONE:
        return ()
    first = sorted(specs, key=lambda spec: _rank(spec, prefixes))
    if model.config.small:
        first = [spec for spec in first if _is_for_small_model(spec, prefixes, first)]
        chosen = {spec.name for spec in first[:MOST_BY_SCHEMA]}
        return tuple(shorten_tool(spec) for spec in specs if spec.name in chosen)
    if model.tools is ToolSupport.SCHEMA:
        chosen = {spec.name for spec in first[:MOST_BY_SCHEMA]}
    elif not model.window:
        return tuple(specs)
    else:
        first.sort(key=lambda spec: spec.name not in LEFT_OUT_LAST)
        chosen = _fitting(first, model.window // _SHARE)
    return tuple(spec for spec in specs if spec.name in chosen)


def _is_for_small_model(spec: ToolSpec, prefixes: Sequence[str] | None, specs: Sequence[ToolSpec]) -> bool:
    """Whether a small model is offered the tool: a brief one, one of the user, or one that its agent is there for."""
    if spec.added or spec.name in BRIEF_TOOLS or spec.name in (prefixes or ()):
        return True
    has_brief = any(each.name in BRIEF_TOOLS and _is_named(each.name, prefixes) for each in specs)
    return not has_brief and _is_named(spec.name, prefixes)


def _fitting(specs: Iterable[ToolSpec], room: int) -> set[str]:
    """Return the names of as many tools as fit, in order; a tool that is too large is skipped."""
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
    # An agent without prefixes directs other agents, if its owner enabled that.
    leads = prefixes is None and spec.name in CONTROL
    return 1 if spec.added or leads else 2


def _is_named(name: str, prefixes: Sequence[str] | None) -> bool:
    # A pattern that matches everything does not name a tool.
    return any(pattern.strip("*") and fnmatchcase(name, pattern) for pattern in prefixes or ())
