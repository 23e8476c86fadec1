"""Owner: which node works on a conversation and its runs, as the store of one node sees it. Read by handlers. Pure."""

from enum import StrEnum

from msgspec import Struct

from moot.domain.errors import Fenced
from moot.domain.run import Run


class Location(StrEnum):
    """Where a run is, seen from one node."""

    HERE = "here"
    # On another living node.
    ELSEWHERE = "elsewhere"
    # On no living node; the next one that starts takes it over.
    NOWHERE = "nowhere"
    ENDED = "ended"


class Owner(Struct, frozen=True):
    """The node that owns a conversation, and where that is; 0 if no node has written it yet."""

    node: int
    location: Location

    @property
    def other_node(self) -> int:
        """The number of the other living node that works on it; 0 if it is this node's or nobody's."""
        return self.node if self.location is Location.ELSEWHERE else 0


class OwnedRun(Struct, frozen=True):
    """A stored run and the owner of its conversation."""

    run: Run
    owner: Owner

    @property
    def location(self) -> Location:
        return self.owner.location if self.run.end is None else Location.ENDED


def locate(node: int, *, seen_from: int, is_alive: bool) -> Owner:
    """Return the owner with the number `node` as another node, or the same one, sees it."""
    if node == seen_from:
        return Owner(node, Location.HERE)
    return Owner(node, Location.ELSEWHERE if is_alive else Location.NOWHERE)


def check_here(what: str, owner: Owner | None) -> None:
    """Raise Fenced if another living node works on it: that one must be asked."""
    if owner is not None and owner.other_node:
        raise taken_over_error(what, owner.other_node)


def taken_over_error(what: str, node: int) -> Fenced:
    """Return the error about something that the node works on, or that this node has lost to one unknown: 0."""
    named = f": node {node}" if node else ""
    return Fenced(f"another daemon has taken over {what}{named}", fix="Ask the daemon that has it.")
