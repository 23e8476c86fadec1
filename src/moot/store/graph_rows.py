"""The rows of one owner's graph that graph_rules.py works on. Implemented by graph.py and memory/graph.py."""

from collections.abc import Collection, Sequence
from typing import Protocol

from msgspec import Struct

from moot.domain.graph import Fact, FactFilter, NewFact, Period, Statement, Traversal
from moot.domain.ontology import Term, TermKind, Terms


class EntityRow(Struct, frozen=True, kw_only=True):
    """An entity. `parent` is the one it was merged into, 0 for none; `root` the end of that chain, at first itself."""

    number: int
    id: str
    type: str
    root: int
    parent: int = 0
    merge_reason: str = ""
    merge_taint: frozenset[str] = frozenset()
    created_at: float = 0.0
    taint: frozenset[str] = frozenset()


class GraphRows(Protocol):
    """Access to rows inside one transaction."""

    def load_terms(self) -> Terms:
        """Return the current types and predicates, the built-in ones included."""
        ...

    def list_changes(self, kind: TermKind, name: str) -> list[Term]: ...
    def add_term(self, term: Term) -> None: ...
    def find_entity(self, entity_id: str) -> EntityRow | None: ...
    def get_entity(self, number: int) -> EntityRow: ...
    def add_entity(self, entity_id: str, type_name: str, statement: Statement) -> EntityRow: ...
    def put_entity(self, row: EntityRow) -> None: ...
    def list_group(self, root: int) -> list[EntityRow]:
        """Return the entities with this root, in the order they were made."""
        ...

    def list_similar(self, entity_id: str) -> list[EntityRow]:
        """Return some entities whose ids begin like this one."""
        ...

    def list_roots(
        self, type_name: str, filters: Sequence[tuple[str, str, str]], after: int, limit: int
    ) -> list[EntityRow]: ...
    def load_properties(self, root: int) -> dict[str, tuple[str, frozenset[str]]]:
        """Return the properties of an entity and of its aliases, where it has none of that name itself."""
        ...

    def put_property(self, number: int, name: str, value: str, taint: frozenset[str]) -> None: ...
    def count_facts(self) -> int: ...
    def add_fact(
        self, new: NewFact, valid: Period, subject: EntityRow, target: EntityRow, statement: Statement
    ) -> int: ...
    def confirm_fact(self, number: int, confidence: float, source: str, taint: frozenset[str]) -> None: ...
    def retract_fact(
        self, fact: Fact, statement: Statement, reason: str, *, is_wrong: bool, lost_to: int = 0
    ) -> None: ...
    def restore_fact(self, number: int) -> None:
        """Take back the retraction of a fact that has a `lost_to`. An earlier retraction holds again."""
        ...

    def end_lost_fact(self, fact: Fact, statement: Statement, reason: str) -> None:
        """Have a fact that has a `lost_to` be ended when it is restored, unless it ended before it lost."""
        ...

    def list_lost(self, root: int) -> list[Fact]:
        """Return the facts about an entity that have a `lost_to`, and those that lost to one of its facts."""
        ...

    def get_fact(self, number: int) -> Fact: ...
    def find_same(self, subject: EntityRow, predicate: str, target: EntityRow, valid: Period) -> int:
        """Return the number of a fact that says the same of a time that includes this one; 0 if there is none.

        One that was stated with the same names comes first.
        """
        ...

    def count_alike(self, subject: str, predicate: str, target: str, *, limit: int) -> int:
        """Return how many facts have this subject, predicate and, unless it is empty, object; at most `limit`."""
        ...

    def list_facts(self, wanted: FactFilter, hidden: frozenset[str]) -> list[Fact]: ...
    def list_about(self, ids: Collection[str], wanted: Traversal, hidden: frozenset[str], limit: int) -> list[Fact]:
        """Return facts with one of these entities as subject or object that a traversal follows, in order."""
        ...

    def list_contested(self, predicates: Collection[str]) -> list[Fact]:
        """Return facts of these predicates; at least those that are not wrong and whose subject has several objects."""
        ...

    def measure_type(self, name: str) -> tuple[int, dict[str, int], dict[str, int]]:
        """Return how many entities have a type, and how often its properties and predicates are used."""
        ...

    def find_type_taint(self, name: str) -> frozenset[str]:
        """Return the taint of the entities of a type and of their properties."""
        ...

    def measure(self) -> tuple[int, int, int, int]:
        """Return the entities, the merged ones, the facts, the retracted ones."""
        ...

    def clear(self) -> None: ...
