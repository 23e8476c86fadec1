"""The knowledge graph in memory: its rows, for the rules in store/graph_rules.py. Built by storage.py."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from msgspec.structs import replace

from moot.domain.graph import Fact, FactFilter, NewFact, Period, Statement, Traversal, matches
from moot.domain.ontology import BUILT_IN_TERMS, Term, TermKind, Terms
from moot.domain.ports.graph import PropertyFilter
from moot.store.graph_operations import GraphOperations
from moot.store.graph_rows import EntityRow, GraphRows
from moot.store.memory.database import Database, check_text
from moot.store.memory.graph_tables import (
    EarlierRetraction,
    GraphEntityRow,
    GraphFactRow,
    GraphPropertyRow,
    GraphTermRow,
)
from moot.store.memory.transactions import Transactions

T = TypeVar("T")


class MemoryGraph(GraphOperations):
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def _read(self, owner: str, work: Callable[[GraphRows], T]) -> T:
        return await self._transactions.read(lambda db: work(MemoryGraphRows(db, owner)))

    async def _write(self, owner: str, work: Callable[[GraphRows], T]) -> T:
        return await self._transactions.write(lambda db: work(MemoryGraphRows(db, owner)))


class MemoryGraphRows:
    """The rows of an owner, in one transaction."""

    def __init__(self, db: Database, owner: str) -> None:
        self._db = db
        self._owner = owner

    # ---- types and predicates ----

    def load_terms(self) -> Terms:
        changes = sorted(self._db.graph_terms.find("owner", self._owner), key=lambda row: row.number)
        newest = {(row.term.kind, row.term.name): row.term for row in changes}
        return {**BUILT_IN_TERMS, **dict(sorted(newest.items()))}

    def list_changes(self, kind: TermKind, name: str) -> list[Term]:
        built_in = BUILT_IN_TERMS.get((kind, name))
        changes = sorted(self._db.graph_terms.find("owner", self._owner), key=lambda row: row.number)
        made = [row.term for row in changes if (row.term.kind, row.term.name) == (kind, name)]
        return [*([built_in] if built_in else []), *made]

    def add_term(self, term: Term) -> None:
        check_text(term.name, term.reason)
        number = self._db.count_up("graph_terms")
        self._db.graph_terms.put(number, GraphTermRow(number=number, owner=self._owner, term=term))

    # ---- entities ----

    def find_entity(self, entity_id: str) -> EntityRow | None:
        check_text(entity_id)
        return next((row.entity for row in self._db.graph_entities.find("id", (self._owner, entity_id))), None)

    def get_entity(self, number: int) -> EntityRow:
        return self._db.graph_entities[number].entity

    def add_entity(self, entity_id: str, type_name: str, statement: Statement) -> EntityRow:
        number = self._db.count_up("graph_entities")
        row = EntityRow(
            number=number,
            id=entity_id,
            type=type_name,
            root=number,
            created_at=statement.now,
            taint=statement.taint,
        )
        self._db.graph_entities.put(number, GraphEntityRow(owner=self._owner, entity=row))
        return row

    def put_entity(self, row: EntityRow) -> None:
        check_text(row.merge_reason)
        self._db.graph_entities.put(row.number, GraphEntityRow(owner=self._owner, entity=row))

    def list_group(self, root: int) -> list[EntityRow]:
        found = (row.entity for row in self._db.graph_entities.find("root", root))
        return sorted(found, key=lambda row: row.number)

    def list_similar(self, entity_id: str) -> list[EntityRow]:
        return [row for row in self._entities() if row.id.startswith(entity_id[:1])]

    def list_roots(self, type_name: str, filters: Sequence[PropertyFilter], after: int, limit: int) -> list[EntityRow]:
        everything = self._entities()
        typed = {row.root for row in everything if row.type == type_name}
        found = [
            row
            for row in everything
            if row.root == row.number > after and (not type_name or row.number in typed) and self._has(row, filters)
        ]
        return found[:limit]

    def _has(self, row: EntityRow, filters: Sequence[PropertyFilter]) -> bool:
        properties = {name: value for name, (value, _) in self.load_properties(row.number).items()} if filters else {}
        return all(matches(properties, *wanted) for wanted in filters)

    def _entities(self) -> list[EntityRow]:
        found = (row.entity for row in self._db.graph_entities.find("owner", self._owner))
        return sorted(found, key=lambda row: row.number)

    def load_properties(self, root: int) -> dict[str, tuple[str, frozenset[str]]]:
        found: dict[str, tuple[str, frozenset[str]]] = {}
        group = self.list_group(root)
        for row in sorted(group, key=lambda each: (each.number == root, -each.number)):
            for each in sorted(self._db.graph_properties.find("entity", row.number), key=lambda item: item.name):
                found[each.name] = (each.value, each.taint)
        return found

    def put_property(self, number: int, name: str, value: str, taint: frozenset[str]) -> None:
        check_text(name, value)
        row = GraphPropertyRow(entity=number, name=name, value=value, taint=taint)
        self._db.graph_properties.put((number, name), row)

    # ---- facts ----

    def count_facts(self) -> int:
        return self._db.graph_facts.count("owner", self._owner)

    def add_fact(self, new: NewFact, valid: Period, subject: EntityRow, target: EntityRow, statement: Statement) -> int:
        check_text(new.source)
        # Facts are removed all together.
        number = self.count_facts() + 1
        fact = Fact(
            number=number,
            subject="",
            predicate=new.predicate,
            object="",
            confidence=new.confidence,
            source=new.source,
            valid=valid,
            recorded_at=statement.now,
            run_id=statement.run_id,
            taint=statement.taint,
        )
        row = GraphFactRow(owner=self._owner, subject=subject.number, target=target.number, fact=fact)
        self._db.graph_facts.put((self._owner, number), row)
        return number

    def confirm_fact(self, number: int, confidence: float, source: str, taint: frozenset[str]) -> None:
        self._change_fact(number, confidence=confidence, source=source, taint=taint)

    def retract_fact(self, fact: Fact, statement: Statement, reason: str, *, is_wrong: bool, lost_to: int = 0) -> None:
        check_text(reason)
        taint = fact.taint | statement.taint
        row = self._db.graph_facts[self._owner, fact.number]
        known = row.fact
        earlier = EarlierRetraction(at=known.retracted_at, reason=known.reason, lost_to=known.lost_to)
        self._db.graph_facts.put(
            (self._owner, fact.number), replace(row, earlier=earlier if lost_to else EarlierRetraction())
        )
        self._change_fact(
            fact.number, retracted_at=statement.now, is_wrong=is_wrong, reason=reason, taint=taint, lost_to=lost_to
        )

    def restore_fact(self, number: int) -> None:
        row = self._db.graph_facts[self._owner, number]
        self._db.graph_facts.put((self._owner, number), replace(row, earlier=EarlierRetraction()))
        end = row.earlier
        self._change_fact(number, retracted_at=end.at, is_wrong=False, reason=end.reason, lost_to=end.lost_to)

    def end_lost_fact(self, fact: Fact, statement: Statement, reason: str) -> None:
        check_text(reason)
        row = self._db.graph_facts[self._owner, fact.number]
        if not row.earlier.at or row.earlier.lost_to:
            end = EarlierRetraction(at=statement.now, reason=reason)
            self._db.graph_facts.put((self._owner, fact.number), replace(row, earlier=end))
            self._change_fact(fact.number, taint=fact.taint | statement.taint)

    def list_lost(self, root: int) -> list[Fact]:
        group = {row.id for row in self.list_group(root)}
        everything = self._facts()
        theirs = {fact.number for fact in everything if fact.stated_subject in group}
        return [fact for fact in everything if fact.lost_to and (fact.number in theirs or fact.lost_to in theirs)]

    def _change_fact(self, number: int, **changes: object) -> None:
        row = self._db.graph_facts[self._owner, number]
        self._db.graph_facts.put((self._owner, number), replace(row, fact=replace(row.fact, **changes)))

    def get_fact(self, number: int) -> Fact:
        return self._read_fact(self._db.graph_facts[self._owner, number])

    def _read_fact(self, row: GraphFactRow) -> Fact:
        subject, target = self.get_entity(row.subject), self.get_entity(row.target)
        one, other = self.get_entity(subject.root), self.get_entity(target.root)
        names = subject.taint | subject.merge_taint | one.taint | target.taint | target.merge_taint | other.taint
        return replace(
            row.fact,
            subject=one.id,
            object=other.id,
            subject_type=one.type or subject.type,
            object_type=other.type or target.type,
            taint=row.fact.taint | names,
            stated_subject=subject.id,
            stated_object=target.id,
        )

    def _facts(self) -> list[Fact]:
        found = self._db.graph_facts.find("owner", self._owner)
        return [self._read_fact(row) for row in sorted(found, key=lambda row: row.fact.number)]

    def find_same(self, subject: EntityRow, predicate: str, target: EntityRow, valid: Period) -> int:
        found = self._list_alike(subject.id, predicate, target.id)
        for fact in sorted(
            found, key=lambda each: (each.stated_subject, each.stated_object) != (subject.id, target.id)
        ):
            is_true = not (fact.is_wrong or fact.is_retracted)
            if is_true and fact.valid.start <= valid.start and valid.end <= fact.valid.end:
                return fact.number
        return 0

    def count_alike(self, subject: str, predicate: str, target: str, *, limit: int) -> int:
        return len(self._list_alike(subject, predicate, target)[:limit])

    def _list_alike(self, subject: str, predicate: str, target: str) -> list[Fact]:
        wanted = FactFilter(
            subject=subject, predicate=predicate, object=target, includes_hidden=True, limit=1_000_000_000
        )
        return self.list_facts(wanted, frozenset())

    def list_facts(self, wanted: FactFilter, hidden: frozenset[str]) -> list[Fact]:
        check_text(wanted.about, wanted.subject, wanted.object, wanted.predicate)
        facts = self._db.graph_facts
        rows = facts.find("owner", self._owner)
        named = (
            (wanted.subject, ("subject",)),
            (wanted.object, ("target",)),
            (wanted.about, ("subject", "target")),
        )
        for entity_id, indexes in named:
            if entity_id:
                entity = self.find_entity(entity_id)
                group = self.list_group(entity.root) if entity else []
                numbers = {
                    row.fact.number for each in group for index in indexes for row in facts.find(index, each.number)
                }
                rows = [row for row in rows if row.fact.number in numbers]
        found = [
            self._read_fact(row)
            for row in sorted(rows, key=lambda row: row.fact.number)
            if row.fact.number > wanted.after
            and wanted.predicate in ("", row.fact.predicate)
            and row.fact.predicate not in hidden
        ]
        return [fact for fact in found if wanted.accepts(fact)][: wanted.limit]

    def list_about(self, ids: Collection[str], wanted: Traversal, hidden: frozenset[str], limit: int) -> list[Fact]:
        found = [
            fact
            for fact in self._facts()
            if (fact.subject in ids or fact.object in ids) and fact.predicate not in hidden and wanted.follows(fact)
        ]
        return found[:limit]

    def list_contested(self, predicates: Collection[str]) -> list[Fact]:
        return [fact for fact in self._facts() if fact.predicate in predicates and not fact.is_wrong]

    # ---- counts, and the end ----

    def measure_type(self, name: str) -> tuple[int, dict[str, int], dict[str, int]]:
        roots, numbers = self._find_group_of_type(name)
        properties = Counter(row.name for number in numbers for row in self._db.graph_properties.find("entity", number))
        predicates = Counter(
            row.fact.predicate for number in numbers for row in self._db.graph_facts.find("subject", number)
        )
        return len(roots), dict(sorted(properties.items())), dict(sorted(predicates.items()))

    def _find_group_of_type(self, name: str) -> tuple[set[int], set[int]]:
        roots = {row.root for row in self._entities() if row.type == name}
        return roots, {row.number for root in roots for row in self.list_group(root)}

    def find_type_taint(self, name: str) -> frozenset[str]:
        _, numbers = self._find_group_of_type(name)
        entities = [self.get_entity(number) for number in numbers]
        properties = [row.taint for number in numbers for row in self._db.graph_properties.find("entity", number)]
        return frozenset().union(*(row.taint | row.merge_taint for row in entities), *properties)

    def measure(self) -> tuple[int, int, int, int]:
        everything = self._entities()
        merged = sum(1 for row in everything if row.parent)
        retracted = sum(1 for row in self._db.graph_facts.find("owner", self._owner) if row.fact.is_retracted)
        return len(everything) - merged, merged, self.count_facts(), retracted

    def clear(self) -> None:
        for row in self._entities():
            self._db.graph_properties.remove_all("entity", row.number)
        for table in (self._db.graph_facts, self._db.graph_entities, self._db.graph_terms):
            table.remove_all("owner", self._owner)
