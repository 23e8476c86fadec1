"""The Graph port over transactions on rows; graph_rules.py has the rules. Used by graph.py and memory/graph.py."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

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
from moot.domain.ports.graph import PropertyFilter
from moot.store import graph_counts, graph_import, graph_terms
from moot.store import graph_rules as rules
from moot.store.graph_rows import GraphRows

T = TypeVar("T")


class GraphOperations(ABC):
    """The Graph port. A store adds how work on the rows of an owner is done in one transaction."""

    @abstractmethod
    async def _read(self, owner: str, work: Callable[[GraphRows], T]) -> T: ...

    @abstractmethod
    async def _write(self, owner: str, work: Callable[[GraphRows], T]) -> T: ...

    # ---- facts ----

    async def assert_fact(
        self, owner: str, new: NewFact, statement: Statement, *, proposes: bool = False
    ) -> AssertedFact:
        return await self._write(owner, lambda rows: rules.assert_fact(rows, new, statement, proposes=proposes))

    async def retract(
        self, owner: str, triple: tuple[str, str, str], reason: str, statement: Statement, *, is_wrong: bool = False
    ) -> list[Fact]:
        return await self._write(owner, lambda rows: rules.retract(rows, triple, reason, statement, is_wrong=is_wrong))

    async def replace_fact(self, owner: str, new: NewFact, reason: str, statement: Statement) -> AssertedFact:
        return await self._write(owner, lambda rows: rules.replace_fact(rows, new, reason, statement))

    async def list_facts(self, owner: str, wanted: FactFilter) -> list[Fact]:
        return await self._read(owner, lambda rows: rules.list_facts(rows, wanted))

    async def walk(self, owner: str, walk: Traversal) -> TraversalResult:
        return await self._read(owner, lambda rows: rules.walk(rows, walk))

    # ---- conflicts ----

    async def list_conflicts(self, owner: str) -> list[FactConflict]:
        return await self._read(owner, rules.list_conflicts)

    async def resolve(self, owner: str, conflict_id: str, winner: str, reason: str, statement: Statement) -> list[Fact]:
        return await self._write(owner, lambda rows: rules.resolve(rows, conflict_id, winner, reason, statement))

    # ---- entities ----

    async def get_entity(self, owner: str, entity_id: str) -> Entity:
        return await self._read(owner, lambda rows: rules.read_entity(rows, rules.require_entity(rows, entity_id)))

    async def list_entities(
        self, owner: str, *, type_name: str = "", filters: Sequence[PropertyFilter] = (), after: int = 0, limit: int
    ) -> list[Entity]:
        return await self._read(owner, lambda rows: rules.list_entities(rows, type_name, filters, after, limit))

    async def merge(
        self, owner: str, canonical: str, duplicate: str, reason: str, statement: Statement
    ) -> MergedEntity:
        return await self._write(owner, lambda rows: rules.merge(rows, canonical, duplicate, reason, statement))

    async def unmerge(self, owner: str, alias: str, *, now: float) -> MergedEntity:
        return await self._write(owner, lambda rows: rules.unmerge(rows, alias, now))

    async def import_entities(
        self, owner: str, entities: Sequence[NewEntity], declared: Sequence[Term], statement: Statement
    ) -> Imported:
        return await self._write(owner, lambda rows: graph_import.import_entities(rows, entities, declared, statement))

    # ---- types and predicates ----

    async def list_terms(self, owner: str) -> list[Term]:
        return await self._read(owner, lambda rows: list(rows.load_terms().values()))

    async def list_changes(self, owner: str, kind: TermKind, name: str) -> list[Term]:
        return await self._read(owner, lambda rows: rows.list_changes(kind, name))

    async def add_term(self, owner: str, term: Term) -> Term:
        return await self._write(owner, lambda rows: graph_terms.add_term(rows, term))

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
        return await self._write(
            owner,
            lambda rows: graph_terms.promote(rows, kind, name, target, reason, statement, is_exclusive=is_exclusive),
        )

    async def measure_type(self, owner: str, name: str) -> TermUsage:
        return await self._read(owner, lambda rows: graph_counts.measure_type(rows, name))

    async def measure(self, owner: str) -> GraphHealth:
        return await self._read(owner, graph_counts.measure)

    # ---- everything ----

    async def clear(self, owner: str) -> int:
        def clear(rows: GraphRows) -> int:
            count = rows.count_facts()
            rows.clear()
            return count

        return await self._write(owner, clear)
