"""Chooses the tools a model is offered when not all of them fit. Explicitly chosen tools come first. Pure."""

import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.brief_tools import BRIEF_TOOLS, shorten_tool
from moot.domain.ports.model import Model, ToolSupport
from moot.domain.prompt import MOST_BY_SCHEMA, ToolSpec
from moot.domain.scope import ASSISTANT, CONTROL, LEFT_OUT_LAST, PEERS, TOOL_SEARCH
from moot.domain.tokens import BYTES_PER_TOKEN, tool_bytes
from moot.domain.user_message import SEND_USER_MESSAGE

# The share of the window for tools (one third); instructions, history and the reply need the rest.
_SHARE = 3
_RECALL, _SPAWN = "recall", "agent_spawn"


def choose_tools(
    specs: Sequence[ToolSpec], model: Model, prefixes: Sequence[str] | None, *, most: int = 0
) -> tuple[ToolSpec, ...]:
    """Return the tools a model is offered, in the given order; at most `most`, unless that is 0.

    If not all fit, the indispensable ones (`LEFT_OUT_LAST`) come first, then those named in the agent's file, then what
    its owner added, then built-in ones; and tool_search is added, which finds the others, also deferred ones. A small
    model is offered few tools, described in few words. It and a model that chooses by a schema get no search: they
    would have to choose twice.
    """
    if model.tools is ToolSupport.NONE:
        return ()
    others = [spec for spec in specs if spec.name != TOOL_SEARCH and not is_deferred(spec, prefixes)]
    first = sorted(others, key=lambda spec: _rank(spec, prefixes))
    if model.config.small:
        first = [spec for spec in first if _is_for_small_model(spec, prefixes, first)]
        chosen = {spec.name for spec in first[:MOST_BY_SCHEMA]}
        return tuple(shorten_tool(spec) for spec in others if spec.name in chosen)
    if model.tools is ToolSupport.SCHEMA:
        chosen = {spec.name for spec in first[:MOST_BY_SCHEMA]}
        return tuple(spec for spec in others if spec.name in chosen)
    first.sort(key=lambda spec: _find_tier(spec.name, prefixes))
    room = model.window // _SHARE * BYTES_PER_TOKEN if model.window else sys.maxsize
    groups = sorted({spec.group for spec in specs if is_deferred(spec, prefixes)})
    if not groups and len(others) <= (most or len(others)) and len(_choose_fitting(first, room)) == len(others):
        return tuple(others)
    chosen = _choose_fitting(first[: most - 1] if most else first, room) | {TOOL_SEARCH}
    return tuple(_name_groups(spec, groups) for spec in specs if spec.name in chosen)


def is_deferred(spec: ToolSpec, prefixes: Sequence[str] | None) -> bool:
    """Whether an agent with these prefixes is not offered a tool although there is room for it."""
    return spec.deferred and not _is_named(spec.name, prefixes)


def _name_groups(spec: ToolSpec, groups: Sequence[str]) -> ToolSpec:
    """Return tool_search with what it can find besides tools without room; any other tool as it is."""
    if spec.name != TOOL_SEARCH or not groups:
        return spec
    return replace(spec, description=f"{spec.description} Among them are tools for: {', '.join(groups)}.")


def _find_tier(name: str, prefixes: Sequence[str] | None) -> int:
    """Return how soon a tool is left out: 0 is last. One that the agent's file names in full is as indispensable."""
    if name in (prefixes or ()):
        return 0
    if name in PEERS:
        return 1
    return 0 if name in LEFT_OUT_LAST else 2


class Offer(Struct, frozen=True):
    """The tools a model is offered, and those it may use that were left out."""

    specs: tuple[ToolSpec, ...] = ()
    left_out: tuple[ToolSpec, ...] = ()
    # Those of them for which there is no room.
    without_room: tuple[ToolSpec, ...] = ()
    # Whether the tool that messages the person is among those offered, and the names of those left out. Kept, because
    # they are needed often.
    can_message: bool = False
    left_out_names: frozenset[str] = frozenset()


def make_offer(specs: Sequence[ToolSpec], model: Model, prefixes: Sequence[str] | None, *, most: int = 0) -> Offer:
    offered = choose_tools(specs, model, prefixes, most=most)
    names = {TOOL_SEARCH, *(spec.name for spec in offered)}
    left_out = tuple(spec for spec in specs if spec.name not in names)
    without_room = tuple(spec for spec in left_out if not is_deferred(spec, prefixes))
    left_out_names = frozenset(spec.name for spec in left_out)
    return Offer(offered, left_out, without_room, SEND_USER_MESSAGE in names, left_out_names)


def _is_for_small_model(spec: ToolSpec, prefixes: Sequence[str] | None, specs: Sequence[ToolSpec]) -> bool:
    """Whether a small model is offered the tool: a brief one, one of the user, or one that its agent is there for."""
    if spec.name == _RECALL and spec.name not in (prefixes or ()) and any(each.name == _SPAWN for each in specs):
        # The leader of a team would search its memory for its teammates.
        return False
    if spec.added or spec.name in BRIEF_TOOLS or spec.name in (prefixes or ()):
        return True
    has_brief = any(each.name in BRIEF_TOOLS and _is_named(each.name, prefixes) for each in specs)
    return not has_brief and _is_named(spec.name, prefixes)


def _choose_fitting(specs: Iterable[ToolSpec], room: int) -> set[str]:
    """Return the names of as many tools as fit in so many bytes, in order; a tool that is too large is skipped."""
    left = room
    chosen: set[str] = set()
    for spec in specs:
        length = tool_bytes(spec)
        if length <= left:
            left -= length
            chosen.add(spec.name)
    return chosen


def _rank(spec: ToolSpec, prefixes: Sequence[str] | None) -> int:
    if _is_named(spec.name, prefixes) or spec.name in ASSISTANT:
        return 0
    # An agent without prefixes directs other agents, if its owner enabled that.
    is_control = prefixes is None and spec.name in CONTROL
    return 1 if spec.added or is_control else 2


def _is_named(name: str, prefixes: Sequence[str] | None) -> bool:
    # A pattern that matches everything does not name a tool.
    return any(pattern.strip("*") and fnmatchcase(name, pattern) for pattern in prefixes or ())
