"""Adds imported entities and their facts to a knowledge graph. Works with graph_rules.py; called in one transaction."""

from collections.abc import Sequence

from msgspec.structs import replace

from moot.domain.errors import BadRequest, Conflict, MootError
from moot.domain.graph import (
    MOST_FACTS,
    Imported,
    NewEntity,
    Refusal,
    Statement,
    check_properties,
)
from moot.domain.ontology import BUILT_IN_TERMS, Term, TermKind, TermStatus, check_number, check_proposal
from moot.store.graph_rows import EntityRow, GraphRows
from moot.store.graph_rules import MOST_ALIASES, add_fact, check_alike, find_conflicts_about, find_type_of, use_entity
from moot.store.graph_terms import check_term, use_term

_REASON = "imported as an alias"


def import_entities(
    rows: GraphRows, entities: Sequence[NewEntity], declared: Sequence[Term], statement: Statement
) -> Imported:
    if not statement.run_id:
        # An export also has what was stated before its types and predicates were closed.
        closed = frozenset((term.kind, term.name) for term in declared if term.is_closed)
        statement = replace(statement, closed_terms=closed)
    work = _Import(rows, statement)
    for term in declared:
        work.declare(term)
    for entity in entities:
        work.add(entity)
    return work.result()


class _Import:
    """One import in progress."""

    def __init__(self, rows: GraphRows, statement: Statement) -> None:
        self._rows = rows
        self._statement = statement
        self._entities = 0
        self._facts: set[int] = set()
        # The subjects and predicates of the new facts.
        self._changed: set[tuple[str, str]] = set()
        self._proposed: list[str] = []
        self._refusals: list[Refusal] = []
        self._taint: frozenset[str] = frozenset()

    def result(self) -> Imported:
        contested = {
            fact.number
            for subject, predicate in sorted(self._changed)
            for conflict in find_conflicts_about(self._rows, subject, predicate)
            for fact in conflict.facts
        }
        return Imported(
            entities=self._entities,
            facts=len(self._facts),
            refusals=tuple(self._refusals),
            conflicts=len(self._facts & contested),
            proposed=tuple(self._proposed),
            taint=self._taint,
        )

    def declare(self, term: Term) -> None:
        """Add a type or predicate, unless it is known. A run proposes it, and not one that looks misspelt."""
        terms = self._rows.load_terms()
        if (known := terms.get((term.kind, term.name))) is not None:
            if self._changes_built_in(known, term):
                self._rows.add_term(replace(term, changed_at=self._statement.now))
            return
        try:
            if self._statement.run_id:
                term = replace(term, status=TermStatus.PROPOSED)
                check_proposal(terms, term.kind, term.name)
            check_number(terms, term.kind, term.name)
        except MootError as error:
            self._refuse(f"{term.kind} {term.name}", error)
            return
        self._rows.add_term(replace(term, changed_at=self._statement.now, taint=self._statement.taint))
        self._proposed.append(f"{term.kind} {term.name}")

    def _changes_built_in(self, known: Term, declared: Term) -> bool:
        """Whether a person's own file has another state of a built-in type or predicate that nobody has changed here.

        Only a declaration with a status says in which state it is.
        """
        is_own = not self._statement.run_id and not self._statement.taint
        is_untouched = known == BUILT_IN_TERMS.get((known.kind, known.name))
        has_changed = (declared.status, declared.is_exclusive) != (known.status, known.is_exclusive)
        return is_own and is_untouched and has_changed and declared.status is not TermStatus.PROPOSED

    def add(self, entity: NewEntity) -> None:
        rows, statement = self._rows, self._statement
        try:
            # Everything that can refuse an entity is checked before anything of it is written.
            self._check(entity)
        except MootError as error:
            self._refuse(entity.place or entity.id, error)
            return
        if entity.type:
            self._proposed += use_term(rows, TermKind.TYPE, entity.type, statement)
        row = use_entity(rows, entity.id, entity.type, statement)
        for name, value in entity.properties.items():
            rows.put_property(row.number, name, value, statement.taint)
        for alias in entity.aliases:
            self._add_alias(alias, row)
        for new in entity.facts:
            asserted = add_fact(rows, new, statement, proposes=False)
            self._proposed += asserted.proposed
            if asserted.is_new:
                self._facts.add(asserted.fact.number)
                self._changed.add((asserted.fact.subject, asserted.fact.predicate))
        self._entities += 1

    def _add_alias(self, alias: str, row: EntityRow) -> None:
        if self._rows.find_entity(alias) is None:
            made = self._rows.add_entity(alias, "", self._statement)
            merge = replace(made, root=row.root, parent=row.root, merge_reason=_REASON)
            self._rows.put_entity(replace(merge, merge_taint=self._statement.taint))

    def _refuse(self, place: str, error: MootError) -> None:
        self._refusals.append(Refusal(place=place, reason=error.sentence))
        self._taint |= error.taint

    def _check(self, entity: NewEntity) -> None:
        rows = self._rows
        check_properties(entity.properties)
        check_alike(rows, entity.facts)
        types: dict[str, str] = {}
        uses = [(entity.id, entity.type)]
        for new in entity.facts:
            check_term(rows, TermKind.PREDICATE, new.predicate, self._statement, proposes=False)
            uses += [(new.subject, new.subject_type), (new.object, new.object_type)]
        for entity_id, type_name in uses:
            if not type_name:
                continue
            check_term(rows, TermKind.TYPE, type_name, self._statement)
            row = rows.find_entity(entity_id)
            known = types.get(entity_id) or ((row.type or find_type_of(rows.list_group(row.root))) if row else "")
            if known and known != type_name:
                fix = "Give it that type, or another id."
                raise Conflict(f"{entity_id!r} is a {known}, not a {type_name}", fix=fix)
            types[entity_id] = type_name
        self._check_aliases(entity)
        if rows.count_facts() + len(entity.facts) > MOST_FACTS:
            raise BadRequest(f"the graph has {MOST_FACTS} facts already", fix="Export it and clear it.")

    def _check_aliases(self, entity: NewEntity) -> None:
        """Raise if an alias is another entity: an import merges nothing that is known already."""
        if not entity.aliases:
            return
        row = self._rows.find_entity(entity.id)
        for alias in entity.aliases:
            known = self._rows.find_entity(alias)
            if alias == entity.id or (known is not None and (row is None or known.root != row.root)):
                raise Conflict(f"the alias {alias!r} is an entity already", fix="Merge them, or leave it out.")
        group = self._rows.list_group(row.root) if row else []
        if len(group) + len(entity.aliases) > MOST_ALIASES:
            raise BadRequest(f"{entity.id!r} would have too many aliases", fix=f"At most {MOST_ALIASES} are kept.")
