"""The rows of the knowledge graph in memory. Used by database.py and graph.py."""

from msgspec import Struct

from moot.domain.graph import Fact
from moot.domain.ontology import Term
from moot.store.graph_rows import EntityRow


class GraphTermRow(Struct, frozen=True, kw_only=True):
    number: int
    owner: str
    term: Term


class GraphEntityRow(Struct, frozen=True, kw_only=True):
    owner: str
    entity: EntityRow


class GraphPropertyRow(Struct, frozen=True, kw_only=True):
    entity: int
    name: str
    value: str
    taint: frozenset[str]


class EarlierRetraction(Struct, frozen=True, kw_only=True):
    """How a fact had been ended before it lost a conflict."""

    at: float = 0.0
    reason: str = ""
    lost_to: int = 0


class GraphFactRow(Struct, frozen=True, kw_only=True):
    """A fact without names; subject and target are the entities it was asserted with."""

    owner: str
    subject: int
    target: int
    fact: Fact
    earlier: EarlierRetraction = EarlierRetraction()
