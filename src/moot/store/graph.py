"""The knowledge graph in SQLite: its rows, for the rules in graph_rules.py. Built by sqlite_storage.py."""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from math import inf
from typing import Any, TypeVar

import apsw
import msgspec

from moot.domain.graph import Fact, FactFilter, NewFact, Period, Statement, Traversal, matches
from moot.domain.ontology import BUILT_IN_TERMS, Term, TermKind, Terms, TermStatus
from moot.domain.ports.graph import PropertyFilter
from moot.store import dialect, rows
from moot.store.graph_operations import GraphOperations
from moot.store.graph_rows import EntityRow, GraphRows
from moot.store.sqlite import SqliteStore

T = TypeVar("T")

_TERM = "kind, name, status, is_exclusive, reason, changed_at, taint"
_ENTITY = "SELECT number, id, type, root, parent, merge_reason, merge_taint, created_at, taint FROM graph_entities"
# A fact with the names of its entities before and after merges: s and o are those it was asserted with.
_FACT = (
    "SELECT f.label, sr.id, f.predicate, orr.id, sr.type, s.type, orr.type, o.type, f.confidence, f.source,"
    " f.valid_from, f.valid_to, f.recorded_at, f.retracted_at, f.is_wrong, f.reason, f.run_id,"
    " f.taint || ',' || s.taint || ',' || s.merge_taint || ',' || sr.taint || ',' || o.taint || ',' || o.merge_taint"
    " || ',' || orr.taint, s.id, o.id, f.lost_to FROM graph_facts AS f"
    " JOIN graph_entities AS s ON s.number = f.subject JOIN graph_entities AS sr ON sr.number = s.root"
    " JOIN graph_entities AS o ON o.number = f.object JOIN graph_entities AS orr ON orr.number = o.root"
)
_ROOTS_OF_TYPE = "(SELECT root FROM graph_entities WHERE owner = ? AND type = ?)"
_OF_TYPE = f"IN (SELECT number FROM graph_entities WHERE root IN {_ROOTS_OF_TYPE})"
# The entities that have this root.
_IN_GROUP = "(SELECT number FROM graph_entities WHERE root = ?)"
_IS_ABOUT = (
    f"f.number IN (SELECT number FROM graph_facts WHERE subject IN {_IN_GROUP} UNION"
    f" SELECT number FROM graph_facts WHERE object IN {_IN_GROUP})"
)
_SIMILAR = 500


class SqliteGraph(GraphOperations):
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def clear(self, owner: str) -> int:
        count = await super().clear(owner)
        await self._store.purge()
        return count

    async def _read(self, owner: str, work: Callable[[GraphRows], T]) -> T:
        return await self._store.read(lambda db: work(SqlGraphRows(db, owner)))

    async def _write(self, owner: str, work: Callable[[GraphRows], T]) -> T:
        return await self._store.write(lambda db: work(SqlGraphRows(db, owner)), "graph")


class SqlGraphRows:
    """The rows of an owner, in one transaction."""

    def __init__(self, db: apsw.Connection, owner: str) -> None:
        self._db = db
        self._owner = owner
        self._terms: Terms | None = None
        self._facts = -1

    # ---- types and predicates ----

    def load_terms(self) -> Terms:
        if self._terms is None:
            found = self._db.execute(
                f"SELECT {_TERM} FROM graph_terms WHERE number IN"
                " (SELECT max(number) FROM graph_terms WHERE owner = ? GROUP BY kind, name) ORDER BY kind, name",
                (self._owner,),
            )
            self._terms = {**BUILT_IN_TERMS, **{(term.kind, term.name): term for term in map(_read_term, found)}}
        return self._terms

    def list_changes(self, kind: TermKind, name: str) -> list[Term]:
        found = self._db.execute(
            f"SELECT {_TERM} FROM graph_terms WHERE owner = ? AND kind = ? AND name = ? ORDER BY number",
            (self._owner, kind.value, name),
        )
        built_in = BUILT_IN_TERMS.get((kind, name))
        return [*([built_in] if built_in else []), *map(_read_term, found)]

    def add_term(self, term: Term) -> None:
        self._db.execute(
            f"INSERT INTO graph_terms (owner, {_TERM}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self._owner,
                term.kind.value,
                term.name,
                term.status.value,
                int(term.is_exclusive),
                term.reason,
                term.changed_at,
                rows.encode_taint(term.taint),
            ),
        )
        self.load_terms()[term.kind, term.name] = term

    # ---- entities ----

    def find_entity(self, entity_id: str) -> EntityRow | None:
        row = self._db.execute(f"{_ENTITY} WHERE owner = ? AND id = ?", (self._owner, entity_id)).fetchone()
        return None if row is None else _read_entity(row)

    def get_entity(self, number: int) -> EntityRow:
        return _read_entity(rows.one(self._db.execute(f"{_ENTITY} WHERE number = ?", (number,))))

    def add_entity(self, entity_id: str, type_name: str, statement: Statement) -> EntityRow:
        self._db.execute(
            "INSERT INTO graph_entities (owner, id, type, root, created_at, taint) VALUES (?, ?, ?, 0, ?, ?)",
            (self._owner, entity_id, type_name, statement.now, rows.encode_taint(statement.taint)),
        )
        number = self._db.last_insert_rowid()
        self._db.execute("UPDATE graph_entities SET root = number WHERE number = ?", (number,))
        return EntityRow(
            number=number,
            id=entity_id,
            type=type_name,
            root=number,
            created_at=statement.now,
            taint=statement.taint,
        )

    def put_entity(self, row: EntityRow) -> None:
        self._db.execute(
            "UPDATE graph_entities SET type = ?, root = ?, parent = ?, merge_reason = ?, merge_taint = ?, taint = ?"
            " WHERE number = ?",
            (
                row.type,
                row.root,
                row.parent,
                row.merge_reason,
                rows.encode_taint(row.merge_taint),
                rows.encode_taint(row.taint),
                row.number,
            ),
        )

    def list_group(self, root: int) -> list[EntityRow]:
        found = self._db.execute(f"{_ENTITY} WHERE root = ? ORDER BY number", (root,))
        return [_read_entity(row) for row in found]

    def list_similar(self, entity_id: str) -> list[EntityRow]:
        found = self._db.execute(
            f"{_ENTITY} WHERE owner = ?1 AND {dialect.begins_with('id', '?2')} LIMIT ?3",
            (self._owner, entity_id[:1], _SIMILAR),
        )
        return [_read_entity(row) for row in found]

    def list_roots(self, type_name: str, filters: Sequence[PropertyFilter], after: int, limit: int) -> list[EntityRow]:
        conditions = "owner = ? AND root = number AND number > ?"
        values: list[Any] = [self._owner, after]
        if type_name:
            conditions += " AND number IN (SELECT root FROM graph_entities WHERE owner = ? AND type = ?)"
            values += [self._owner, type_name]
        for name, op, value in filters:
            if op == "eq":
                conditions += (
                    " AND number IN (SELECT root FROM graph_entities AS named JOIN graph_properties AS had"
                    " ON had.entity = named.number WHERE had.name = ? AND had.value = ? AND named.owner = ?)"
                )
                values += [name, value, self._owner]
        found: list[EntityRow] = []
        for each in self._db.execute(f"{_ENTITY} WHERE {conditions} ORDER BY number", values):
            row = _read_entity(each)
            if filters:
                properties = {name: value for name, (value, _) in self.load_properties(row.number).items()}
                if not all(matches(properties, *wanted) for wanted in filters):
                    continue
            found.append(row)
            if len(found) == limit:
                break
        return found

    def load_properties(self, root: int) -> dict[str, tuple[str, frozenset[str]]]:
        found = self._db.execute(
            "SELECT name, value, graph_properties.taint FROM graph_properties JOIN graph_entities ON number = entity"
            " WHERE root = ?1 ORDER BY number = ?1, number DESC, name",
            (root,),
        )
        return {name: (value, rows.decode_taint(taint)) for name, value, taint in found}

    def put_property(self, number: int, name: str, value: str, taint: frozenset[str]) -> None:
        self._db.execute(
            "INSERT INTO graph_properties (entity, name, value, taint) VALUES (?1, ?2, ?3, ?4)"
            " ON CONFLICT (entity, name) DO UPDATE SET value = ?3, taint = ?4",
            (number, name, value, rows.encode_taint(taint)),
        )

    # ---- facts ----

    def count_facts(self) -> int:
        if self._facts < 0:
            self._facts = int(self._db.execute("SELECT count(*) FROM graph_facts WHERE owner = ?", (self._owner,)).get)
        return self._facts

    def add_fact(self, new: NewFact, valid: Period, subject: EntityRow, target: EntityRow, statement: Statement) -> int:
        label = self._db.execute(
            "INSERT INTO graph_facts (owner, subject, predicate, object, confidence, source, valid_from, valid_to,"
            " recorded_at, run_id, taint, label) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,"
            " coalesce(max(label), 0) + 1 FROM graph_facts WHERE owner = ?1 RETURNING label",
            (
                self._owner,
                subject.number,
                new.predicate,
                target.number,
                new.confidence,
                new.source,
                None if valid.start == -inf else valid.start,
                None if valid.end == inf else valid.end,
                statement.now,
                statement.run_id,
                rows.encode_taint(statement.taint),
            ),
        ).get
        self._facts = self.count_facts() + 1 if self._facts >= 0 else -1
        return int(label)

    def confirm_fact(self, number: int, confidence: float, source: str, taint: frozenset[str]) -> None:
        self._db.execute(
            "UPDATE graph_facts SET confidence = ?, source = ?, taint = ? WHERE owner = ? AND label = ?",
            (confidence, source, rows.encode_taint(taint), self._owner, number),
        )

    def retract_fact(self, fact: Fact, statement: Statement, reason: str, *, is_wrong: bool, lost_to: int = 0) -> None:
        taint = rows.encode_taint(fact.taint | statement.taint)
        self._db.execute(
            "UPDATE graph_facts SET retracted_at = ?1, is_wrong = ?2, reason = ?3, taint = ?4, lost_to = ?5,"
            " earlier_retracted_at = CASE ?5 WHEN 0 THEN 0 ELSE retracted_at END,"
            " earlier_reason = CASE ?5 WHEN 0 THEN '' ELSE reason END,"
            " earlier_lost_to = CASE ?5 WHEN 0 THEN 0 ELSE lost_to END WHERE owner = ?6 AND label = ?7",
            (statement.now, int(is_wrong), reason, taint, lost_to, self._owner, fact.number),
        )

    def restore_fact(self, number: int) -> None:
        self._db.execute(
            "UPDATE graph_facts SET retracted_at = earlier_retracted_at, is_wrong = 0, reason = earlier_reason,"
            " lost_to = earlier_lost_to, earlier_retracted_at = 0, earlier_reason = '', earlier_lost_to = 0"
            " WHERE owner = ? AND label = ?",
            (self._owner, number),
        )

    def end_lost_fact(self, fact: Fact, statement: Statement, reason: str) -> None:
        self._db.execute(
            "UPDATE graph_facts SET earlier_retracted_at = ?, earlier_reason = ?, earlier_lost_to = 0, taint = ?"
            " WHERE owner = ? AND label = ? AND (earlier_retracted_at = 0 OR earlier_lost_to <> 0)",
            (statement.now, reason, rows.encode_taint(fact.taint | statement.taint), self._owner, fact.number),
        )

    def list_lost(self, root: int) -> list[Fact]:
        found = self._db.execute(
            f"{_FACT} WHERE f.number IN (SELECT number FROM graph_facts WHERE subject IN {_IN_GROUP} AND lost_to <> 0"
            " UNION SELECT number FROM graph_facts WHERE owner = ? AND lost_to IN"
            f" (SELECT label FROM graph_facts WHERE subject IN {_IN_GROUP}) AND lost_to <> 0) ORDER BY f.label",
            (root, self._owner, root),
        )
        return [_read_fact(row) for row in found]

    def get_fact(self, number: int) -> Fact:
        found = self._db.execute(f"{_FACT} WHERE f.owner = ? AND f.label = ?", (self._owner, number))
        return _read_fact(rows.one(found))

    def find_same(self, subject: EntityRow, predicate: str, target: EntityRow, valid: Period) -> int:
        found = self._db.execute(
            f"SELECT label FROM graph_facts WHERE subject IN {_IN_GROUP} AND predicate = ? AND object IN {_IN_GROUP}"
            " AND is_wrong = 0 AND retracted_at = 0 AND (valid_from IS NULL OR valid_from <= ?)"
            " AND (valid_to IS NULL OR valid_to >= ?) ORDER BY subject <> ? OR object <> ?, label LIMIT 1",
            (subject.root, predicate, target.root, valid.start, valid.end, subject.number, target.number),
        ).fetchone()
        return 0 if found is None else int(found[0])

    def count_alike(self, subject: str, predicate: str, target: str, *, limit: int) -> int:
        entities = [self.find_entity(name) for name in (subject, *([target] if target else []))]
        roots = [entity.root for entity in entities if entity is not None]
        if len(roots) < len(entities):
            return 0
        condition = f"subject IN {_IN_GROUP}" + (f" AND object IN {_IN_GROUP}" if target else "")
        counted = f"SELECT 1 FROM graph_facts WHERE {condition} AND predicate = ? LIMIT ?"
        return int(self._db.execute(f"SELECT count(*) FROM ({counted})", (*roots, predicate, limit)).get)

    def list_facts(self, wanted: FactFilter, hidden: frozenset[str]) -> list[Fact]:
        # An entity belongs to the owner. With the owner as a condition beside it, all facts of the owner would be read.
        is_about = bool(wanted.about or wanted.subject or wanted.object)
        conditions = "f.label > ?" if is_about else "f.label > ? AND f.owner = ?"
        values: list[Any] = [wanted.after] if is_about else [wanted.after, self._owner]
        named = (("f.subject", wanted.subject), ("f.object", wanted.object), ("about", wanted.about))
        for column, entity_id in named:
            if entity_id:
                entity = self.find_entity(entity_id)
                if entity is None:
                    return []
                condition = _IS_ABOUT if column == "about" else f"{column} IN {_IN_GROUP}"
                conditions += f" AND {condition}"
                values += [entity.root] * condition.count("?")
        if wanted.predicate:
            conditions += " AND f.predicate = ?"
            values.append(wanted.predicate)
        if hidden:
            conditions += f" AND f.predicate NOT IN {dialect.among('?')}"
            values.append(_encode(hidden))
        found = self._db.execute(f"{_FACT} WHERE {conditions} ORDER BY f.label", values)
        return _take(found, wanted.accepts, wanted.limit)

    def list_about(self, ids: Collection[str], wanted: Traversal, hidden: frozenset[str], limit: int) -> list[Fact]:
        among = (
            "IN (SELECT number FROM graph_entities WHERE root IN"
            f" (SELECT root FROM graph_entities WHERE owner = ?1 AND id IN {dialect.among('?2')}))"
        )
        found = self._db.execute(
            f"{_FACT} WHERE f.number IN (SELECT number FROM graph_facts WHERE subject {among} UNION"
            f" SELECT number FROM graph_facts WHERE object {among}) AND f.predicate NOT IN {dialect.among('?3')}"
            f" AND (?4 = '[]' OR f.predicate IN {dialect.among('?4')}) ORDER BY f.label",
            (self._owner, _encode(ids), _encode(hidden), _encode(wanted.predicates)),
        )
        return _take(found, wanted.follows, limit)

    def list_contested(self, predicates: Collection[str]) -> list[Fact]:
        found = self._db.execute(
            f"{_FACT} JOIN (SELECT named.root AS root, each.predicate AS predicate FROM graph_facts AS each"
            " JOIN graph_entities AS named ON named.number = each.subject"
            " JOIN graph_entities AS target ON target.number = each.object"
            f" WHERE each.owner = ?1 AND each.predicate IN {dialect.among('?2')} AND each.is_wrong = 0"
            " GROUP BY named.root, each.predicate HAVING count(DISTINCT target.root) > 1) AS contested"
            " ON contested.root = s.root AND contested.predicate = f.predicate WHERE f.owner = ?1 AND f.is_wrong = 0",
            (self._owner, _encode(predicates)),
        )
        return [_read_fact(row) for row in found]

    # ---- counts, and the end ----

    def measure_type(self, name: str) -> tuple[int, dict[str, int], dict[str, int]]:
        key = (self._owner, name)
        entities = self._db.execute(f"SELECT count(DISTINCT root) FROM {_ROOTS_OF_TYPE}", key).get
        properties = self._count_by("name", f"graph_properties WHERE entity {_OF_TYPE}", key)
        predicates = self._count_by("predicate", f"graph_facts WHERE subject {_OF_TYPE}", key)
        return int(entities), properties, predicates

    def find_type_taint(self, name: str) -> frozenset[str]:
        found = self._db.execute(
            f"SELECT DISTINCT taint || ',' || merge_taint FROM graph_entities WHERE number {_OF_TYPE}"
            f" UNION SELECT DISTINCT taint FROM graph_properties WHERE entity {_OF_TYPE}",
            (self._owner, name) * 2,
        )
        return frozenset().union(*(rows.decode_taint(taint) for (taint,) in found))

    def _count_by(self, column: str, source: str, values: tuple[str, ...]) -> dict[str, int]:
        found = self._db.execute(f"SELECT {column}, count(*) FROM {source} GROUP BY {column} ORDER BY {column}", values)
        return {str(name): int(count) for name, count in found}

    def measure(self) -> tuple[int, int, int, int]:
        entities, merged = rows.one(
            self._db.execute(
                "SELECT count(*), count(nullif(parent, 0)) FROM graph_entities WHERE owner = ?", (self._owner,)
            )
        )
        retracted = self._db.execute(
            "SELECT count(*) FROM graph_facts WHERE owner = ? AND retracted_at > 0", (self._owner,)
        ).get
        return entities - merged, merged, self.count_facts(), int(retracted)

    def clear(self) -> None:
        for table in ("graph_facts", "graph_entities", "graph_terms"):
            self._db.execute(f"DELETE FROM {table} WHERE owner = ?", (self._owner,))


def _take(found: Iterable[rows.Row], accepts: Callable[[Fact], bool], limit: int) -> list[Fact]:
    """Return the first facts that are wanted; reads no more than needed."""
    return list(islice(filter(accepts, map(_read_fact, found)), limit))


def _encode(names: Collection[str]) -> str:
    return msgspec.json.encode(sorted(names)).decode()


def _read_term(row: rows.Row) -> Term:
    kind, name, status, is_exclusive, reason, changed_at, taint = row
    return Term(
        kind=TermKind(kind),
        name=name,
        status=TermStatus(status),
        is_exclusive=bool(is_exclusive),
        reason=reason,
        changed_at=changed_at,
        taint=rows.decode_taint(taint),
    )


def _read_entity(row: rows.Row) -> EntityRow:
    number, entity_id, type_name, root, parent, merge_reason, merge_taint, created_at, taint = row
    return EntityRow(
        number=number,
        id=entity_id,
        type=type_name,
        root=root,
        parent=parent,
        merge_reason=merge_reason,
        merge_taint=rows.decode_taint(merge_taint),
        created_at=created_at,
        taint=rows.decode_taint(taint),
    )


def _read_fact(row: rows.Row) -> Fact:
    start, end = row[10], row[11]
    return Fact(
        number=row[0],
        subject=row[1],
        predicate=row[2],
        object=row[3],
        subject_type=row[4] or row[5],
        object_type=row[6] or row[7],
        confidence=row[8],
        source=row[9],
        valid=Period(-inf if start is None else start, inf if end is None else end),
        recorded_at=row[12],
        retracted_at=row[13],
        is_wrong=bool(row[14]),
        reason=row[15],
        run_id=row[16],
        taint=rows.decode_taint(row[17]),
        stated_subject=row[18],
        stated_object=row[19],
        lost_to=row[20],
    )
