"""The Graph port: the knowledge graph of each owner. Implemented in store/graph.py and store/memory/graph.py."""

from collections.abc import Sequence
from typing import Protocol

from moot.domain.graph import (
    AssertedFact,
    Entity,
    Fact,
    FactConflict,
    FactFilter,
    Imported,
    MergedEntity,
    NewEntity,
    NewFact,
    Statement,
    Traversal,
    TraversalResult,
)
from moot.domain.ontology import GraphHealth, Term, TermKind, TermStatus, TermUsage

# A property, one of PROPERTY_TESTS, and the value to compare with.
PropertyFilter = tuple[str, str, str]


class Graph(Protocol):
    """Facts, entities, types and predicates. Each owner, which is a sender, has a graph of its own."""

    # ---- facts ----

    async def assert_fact(
        self, owner: str, new: NewFact, statement: Statement, *, proposes: bool = False
    ) -> AssertedFact:
        """Store a fact, unless it is known. What contradicts it is found in the same transaction.

        An unknown predicate is an error with the nearest name, unless the caller `proposes` it.
        """
        ...

    async def retract(
        self, owner: str, triple: tuple[str, str, str], reason: str, statement: Statement, *, is_wrong: bool = False
    ) -> list[Fact]:
        """End the facts with this subject, predicate and object, or say that they were never true."""
        ...

    async def replace_fact(self, owner: str, new: NewFact, reason: str, statement: Statement) -> AssertedFact:
        """Store a fact and end the others of the same subject and predicate."""
        ...

    async def list_facts(self, owner: str, wanted: FactFilter) -> list[Fact]:
        """Return facts in the order they were recorded."""
        ...

    async def walk(self, owner: str, walk: Traversal) -> TraversalResult: ...

    # ---- conflicts ----

    async def list_conflicts(self, owner: str) -> list[FactConflict]: ...
    async def resolve(self, owner: str, conflict_id: str, winner: str, reason: str, statement: Statement) -> list[Fact]:
        """Retract all facts of a conflict but those with the winning object, as wrong; return these."""
        ...

    # ---- entities ----

    async def get_entity(self, owner: str, entity_id: str) -> Entity:
        """Return an entity by its id or an alias. Raises NotFound with the nearest id."""
        ...

    async def list_entities(
        self, owner: str, *, type_name: str = "", filters: Sequence[PropertyFilter] = (), after: int = 0, limit: int
    ) -> list[Entity]:
        """Return entities in the order they were made, those that were merged into others left out."""
        ...

    async def merge(
        self, owner: str, canonical: str, duplicate: str, reason: str, statement: Statement
    ) -> MergedEntity: ...
    async def unmerge(self, owner: str, alias: str, *, now: float) -> MergedEntity:
        """Undo the merge of an entity into another."""
        ...

    async def import_entities(
        self, owner: str, entities: Sequence[NewEntity], declared: Sequence[Term], statement: Statement
    ) -> Imported:
        """Add entities with their facts in one transaction; those that cannot be added are refused with a reason."""
        ...

    # ---- types and predicates ----

    async def list_terms(self, owner: str) -> list[Term]: ...
    async def list_changes(self, owner: str, kind: TermKind, name: str) -> list[Term]:
        """Return all states of a type or predicate, oldest first."""
        ...

    async def add_term(self, owner: str, term: Term) -> Term:
        """Add a type or predicate that a person has named. Raises Conflict if there is one."""
        ...

    async def promote(  # noqa: PLR0913 — what one transaction writes
        self,
        owner: str,
        kind: TermKind,
        name: str,
        target: TermStatus | None,
        reason: str,
        statement: Statement,
        *,
        is_exclusive: bool | None = None,
    ) -> Term:
        """Change the status of a type or predicate, and whether it allows one object at a time."""
        ...

    async def measure_type(self, owner: str, name: str) -> TermUsage: ...
    async def measure(self, owner: str) -> GraphHealth: ...

    # ---- everything ----

    async def clear(self, owner: str) -> int:
        """Delete the whole graph of an owner; return how many facts it had."""
        ...
