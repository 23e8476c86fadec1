"""What may be done with a knowledge graph, over the rows of either store. Called inside one transaction each."""

from collections import Counter
from collections.abc import Sequence
from math import inf

from msgspec.structs import replace

from moot.domain.errors import BadRequest, Conflict, NotFound
from moot.domain.graph import (
    MOST_FACTS,
    AssertedFact,
    Entity,
    Fact,
    FactConflict,
    FactFilter,
    MergedEntity,
    NewFact,
    Period,
    Statement,
    Traversal,
    TraversalResult,
    excludes,
    find_conflicts,
    walk_graph,
)
from moot.domain.near_names import find_near, suggest_name
from moot.domain.ontology import TermKind, TermStatus, check_open, list_exclusive, list_hidden, require_term
from moot.store.graph_rows import EntityRow, GraphRows
from moot.store.graph_terms import use_term

MOST_ALIASES = 1_000
# Facts of one subject and exclusive predicate, or that differ only in the time they are true.
MOST_ALIKE = 1_000
_EVERYTHING = 1_000_000_000
_LONGEST_NUMBER = 18


# ---- facts ----------------------------------------------------------------------------------------


def assert_fact(rows: GraphRows, new: NewFact, statement: Statement, *, proposes: bool) -> AssertedFact:
    check_alike(rows, [new])
    asserted = add_fact(rows, new, statement, proposes=proposes)
    if not asserted.is_new:
        return asserted
    found = find_conflicts_about(rows, asserted.fact.subject, asserted.fact.predicate)
    conflict = next((each for each in found if asserted.fact in each.facts), None)
    return replace(asserted, conflict=conflict)


def add_fact(rows: GraphRows, new: NewFact, statement: Statement, *, proposes: bool) -> AssertedFact:
    """Store a fact unless it is known, without a look at what it contradicts."""
    proposed = [
        *use_term(rows, TermKind.PREDICATE, new.predicate, statement, proposes=proposes),
        *(use_term(rows, TermKind.TYPE, new.subject_type, statement) if new.subject_type else ()),
        *(use_term(rows, TermKind.TYPE, new.object_type, statement) if new.object_type else ()),
    ]
    subject = use_entity(rows, new.subject, new.subject_type, statement)
    target = use_entity(rows, new.object, new.object_type, statement)
    # In microseconds, as times are written: what is exported and imported again is then known.
    valid = new.valid or Period(round(statement.now, 6), inf)
    known = rows.find_same(subject, new.predicate, target, valid)
    if known:
        _confirm(rows, rows.get_fact(known), new, statement)
        same = rows.get_fact(known)
        if (same.stated_subject, same.stated_object) == (subject.id, target.id):
            return AssertedFact(fact=same, is_new=False, proposed=tuple(proposed))
        # Another name of a merged entity has it. It is stored for this one too, which keeps it after an unmerge.
    if rows.count_facts() >= MOST_FACTS:
        raise BadRequest(f"the graph has {MOST_FACTS} facts already", fix="Export it and clear it.")
    number = rows.add_fact(new, valid, subject, target, statement)
    return AssertedFact(fact=rows.get_fact(number), is_new=not known, proposed=tuple(proposed))


def _confirm(rows: GraphRows, known: Fact, new: NewFact, statement: Statement) -> None:
    """Record that a known fact was stated again.

    Whoever has read nothing untrusted vouches for the fact, so nothing stays of the source that others gave. Whoever
    has read other untrusted text than the fact comes from changes nothing.
    """
    if known.taint and not statement.taint:
        rows.confirm_fact(known.number, new.confidence, new.source, frozenset())
    elif statement.taint <= known.taint and new.confidence > known.confidence:
        rows.confirm_fact(known.number, new.confidence, known.source, known.taint)


def find_conflicts_about(rows: GraphRows, subject: str, predicate: str = "") -> list[FactConflict]:
    exclusive = list_exclusive(rows.load_terms())
    if predicate and predicate not in exclusive:
        return []
    found: list[Fact] = []
    for each in [predicate] if predicate else exclusive:
        found += rows.list_facts(FactFilter(subject=subject, predicate=each, limit=_EVERYTHING), frozenset())
    return find_conflicts(found)


def check_alike(rows: GraphRows, facts: Sequence[NewFact]) -> None:
    """Raise if a subject would have too many facts that a new one is compared with.

    These are the facts with an exclusive predicate, and those that differ only in the time they are true.
    """
    exclusive = list_exclusive(rows.load_terms())
    counts = Counter((new.subject, new.predicate, new.object) for new in facts)
    counts += Counter((new.subject, new.predicate, "") for new in facts if new.predicate in exclusive)
    for (subject, predicate, target), more in counts.items():
        if rows.count_alike(subject, predicate, target, limit=MOST_ALIKE) + more > MOST_ALIKE:
            reason = f"{subject!r} would have more than {MOST_ALIKE} facts {predicate!r} that exclude each other"
            raise BadRequest(reason, fix="Begin with another entity.")


def retract(
    rows: GraphRows, triple: tuple[str, str, str], reason: str, statement: Statement, *, is_wrong: bool
) -> list[Fact]:
    subject, predicate, target = triple
    wanted = FactFilter(subject=subject, predicate=predicate, object=target, includes_hidden=True, limit=_EVERYTHING)
    stated = rows.list_facts(wanted, frozenset())
    # One that was ended can turn out to have never been true.
    found = [fact for fact in stated if not (fact.is_wrong if is_wrong else fact.is_retracted)]
    if not found:
        raise _no_fact_error(rows, triple)
    for fact in found:
        rows.retract_fact(fact, statement, reason, is_wrong=is_wrong)
    return [rows.get_fact(fact.number) for fact in found]


def _no_fact_error(rows: GraphRows, triple: tuple[str, str, str]) -> NotFound:
    """Return the error for a fact that is not there, with what is nearest to it."""
    subject, predicate, target = triple
    require_entity(rows, subject)
    require_term(rows.load_terms(), TermKind.PREDICATE, predicate)
    wanted = FactFilter(subject=subject, predicate=predicate, includes_hidden=True)
    found = [fact for fact in rows.list_facts(wanted, frozenset()) if not fact.is_retracted]
    objects = {fact.object for fact in found}
    near = suggest_name(target, objects)
    listed = f"It is known: {', '.join(sorted(objects)[:5])}." if objects else "There is no such fact about it."
    error = NotFound(f"there is no fact: {subject} {predicate} {target}", fix=near or listed)
    return error.with_taint(_join_taint(found))


def _join_taint(facts: Sequence[Fact]) -> frozenset[str]:
    return frozenset().union(*(fact.taint for fact in facts))


def replace_fact(rows: GraphRows, new: NewFact, reason: str, statement: Statement) -> AssertedFact:
    # As exact as the beginning of the new fact is stored: the one before must not be true a moment longer.
    statement = replace(statement, now=round(statement.now, 6))
    check_alike(rows, [new])
    asserted = add_fact(rows, new, statement, proposes=False)
    wanted = FactFilter(subject=asserted.fact.subject, predicate=new.predicate, limit=_EVERYTHING)
    for fact in rows.list_facts(wanted, frozenset()):
        if fact.object != asserted.fact.object:
            _replace(rows, fact, asserted.fact, reason, statement)
    return asserted


def _replace(rows: GraphRows, fact: Fact, new: Fact, reason: str, statement: Statement) -> None:
    """End a fact because a new one replaces it."""
    is_other = fact.stated_subject != new.stated_subject
    if not fact.is_retracted:
        # One that was stated of a merged entity under another name is true again when the merge is undone.
        rows.retract_fact(fact, statement, reason, is_wrong=False, lost_to=new.number if is_other else 0)
    elif fact.lost_to and not is_other:
        # It is not: by then the new one has replaced it.
        rows.end_lost_fact(fact, statement, reason)


def list_facts(rows: GraphRows, wanted: FactFilter) -> list[Fact]:
    terms = rows.load_terms()
    if wanted.predicate:
        require_term(terms, TermKind.PREDICATE, wanted.predicate)
    for name in (wanted.subject_type, wanted.object_type):
        if name:
            require_term(terms, TermKind.TYPE, name)
    return rows.list_facts(wanted, frozenset() if wanted.includes_hidden else list_hidden(terms))


def walk(rows: GraphRows, wanted: Traversal) -> TraversalResult:
    start = rows.get_entity(require_entity(rows, wanted.start).root).id
    terms = rows.load_terms()
    for predicate in wanted.predicates:
        require_term(terms, TermKind.PREDICATE, predicate)
    if wanted.subject_type:
        require_term(terms, TermKind.TYPE, wanted.subject_type)
    hidden = list_hidden(terms)
    return walk_graph(replace(wanted, start=start), lambda ids, limit: rows.list_about(ids, wanted, hidden, limit))


# ---- conflicts ------------------------------------------------------------------------------------


def list_conflicts(rows: GraphRows) -> list[FactConflict]:
    exclusive = list_exclusive(rows.load_terms())
    return find_conflicts(rows.list_contested(exclusive)) if exclusive else []


def _find_conflict(rows: GraphRows, conflict_id: str) -> FactConflict | None:
    """Return a conflict by its id, which has the number of its first fact."""
    number = conflict_id.removeprefix("conflict-")
    if not number.isdecimal() or len(number) > _LONGEST_NUMBER:
        return None
    found = rows.list_facts(FactFilter(after=int(number) - 1, includes_hidden=True, limit=1), frozenset())
    conflicts = find_conflicts_about(rows, found[0].subject, found[0].predicate) if found else []
    return next((each for each in conflicts if each.id == conflict_id), None)


def resolve(rows: GraphRows, conflict_id: str, winner: str, reason: str, statement: Statement) -> list[Fact]:
    conflict = _find_conflict(rows, conflict_id)
    if conflict is None:
        raise NotFound(
            f"there is no open conflict {conflict_id!r}",
            fix="List them with ontology_list_conflicts or `moot graph conflicts`.",
        )
    found = rows.find_entity(winner)
    canonical = rows.get_entity(found.root).id if found else winner
    winners = [fact for fact in conflict.facts if fact.object == canonical]
    if not winners:
        objects = sorted({fact.object for fact in conflict.facts})
        error = BadRequest(f"{winner!r} is not part of {conflict_id}", fix=f"Choose one of: {', '.join(objects)}.")
        raise error.with_taint(_join_taint(conflict.facts))
    # Of a chain of facts the first and the last need not exclude each other.
    losers = [fact for fact in conflict.facts if any(excludes(fact, winner) for winner in winners)]
    for fact in losers:
        rivals = [each for each in winners if excludes(fact, each)]
        # One that was stated with the same name excludes it also when a merge is undone.
        rival = next((each for each in rivals if each.stated_subject == fact.stated_subject), rivals[0])
        rows.retract_fact(fact, statement, reason, is_wrong=True, lost_to=rival.number)
    return [rows.get_fact(fact.number) for fact in losers]


# ---- entities -------------------------------------------------------------------------------------


def require_entity(rows: GraphRows, entity_id: str) -> EntityRow:
    found = rows.find_entity(entity_id)
    if found is None:
        similar = {row.id: row.taint for row in rows.list_similar(entity_id)}
        (near,) = find_near(entity_id, similar) or [""]
        fix = f"Did you mean {near!r}?" if near else "Search with ontology_query_entities or `moot graph facts`."
        raise NotFound(f"there is no entity {entity_id!r}", fix=fix).with_taint(similar.get(near, frozenset()))
    return found


def read_entity(rows: GraphRows, row: EntityRow) -> Entity:
    """Return the entity that a row belongs to, with the properties of all its names."""
    group = rows.list_group(row.root)
    root = next(each for each in group if each.number == row.root)
    properties = rows.load_properties(row.root)
    taints = [each.taint | each.merge_taint for each in group] + [taint for _, taint in properties.values()]
    return Entity(
        id=root.id,
        type=find_type_of(group),
        properties={name: value for name, (value, _) in properties.items()},
        aliases=tuple(each.id for each in group if each.number != root.number),
        taint=frozenset().union(*taints),
        number=root.number,
        created_at=root.created_at,
    )


def find_type_of(group: Sequence[EntityRow]) -> str:
    return next((each.type for each in group if each.type), "")


def list_entities(
    rows: GraphRows, type_name: str, filters: Sequence[tuple[str, str, str]], after: int, limit: int
) -> list[Entity]:
    if type_name:
        term = require_term(rows.load_terms(), TermKind.TYPE, type_name)
        if term.status is TermStatus.QUARANTINED:
            check_open(term)
    return [read_entity(rows, row) for row in rows.list_roots(type_name, filters, after, limit)]


def use_entity(rows: GraphRows, entity_id: str, type_name: str, statement: Statement) -> EntityRow:
    """Return the entity; make it if there is none, and give it the type if it has none."""
    row = rows.find_entity(entity_id)
    if row is None:
        return rows.add_entity(entity_id, type_name, statement)
    if not type_name or row.type == type_name:
        return row
    known = row.type or find_type_of(rows.list_group(row.root))
    if known and known != type_name:
        raise Conflict(
            f"{entity_id!r} is a {known}, not a {type_name}", fix="Leave the type out, or name another entity."
        )
    row = replace(row, type=type_name, taint=row.taint | statement.taint)
    rows.put_entity(row)
    return row


def merge(rows: GraphRows, canonical: str, duplicate: str, reason: str, statement: Statement) -> MergedEntity:
    target = rows.get_entity(require_entity(rows, canonical).root)
    row = require_entity(rows, duplicate)
    if row.root == target.number:
        raise BadRequest(f"{duplicate!r} and {canonical!r} are the same entity already", fix="Nothing has to be done.")
    if row.parent:
        into = rows.get_entity(row.parent)
        error = Conflict(f"{duplicate!r} is merged into {into.id!r}", fix=f"Merge {into.id!r}, or undo that first.")
        raise error.with_taint(into.taint)
    group, others = rows.list_group(row.number), rows.list_group(target.number)
    one, other = find_type_of(others), find_type_of(group)
    if one and other and one != other:
        raise Conflict(f"{canonical!r} is a {one} and {duplicate!r} a {other}", fix="Merge entities of one type.")
    if len(group) + len(others) > MOST_ALIASES:
        raise BadRequest(f"{canonical!r} would have too many aliases", fix=f"At most {MOST_ALIASES} are kept.")
    moved = _count_true(rows, row.id, statement.now)
    before = {each.id for name in (target.id, row.id) for each in find_conflicts_about(rows, name)}
    for each in group:
        rows.put_entity(replace(each, root=target.number))
    merged = replace(row, root=target.number, parent=target.number, merge_reason=reason, merge_taint=statement.taint)
    rows.put_entity(merged)
    made = tuple(each for each in find_conflicts_about(rows, target.id) if each.id not in before)
    aliases = tuple(each.id for each in group)
    return MergedEntity(canonical=target.id, duplicate=row.id, facts=moved, aliases=aliases, conflicts=made)


def unmerge(rows: GraphRows, alias: str, now: float) -> MergedEntity:
    row = require_entity(rows, alias)
    if not row.parent:
        others = [each.id for each in rows.list_group(row.root) if each.number != row.number]
        fix = f"Its aliases are: {', '.join(others[:5])}." if others else "It has no aliases either."
        raise BadRequest(f"{alias!r} is not merged into another entity", fix=fix)
    into = rows.get_entity(row.parent)
    group = rows.list_group(row.root)
    freed = {row.number}
    # An entity is always merged into one that has no parent yet, so a few passes over the group find all below it.
    while True:
        more = {each.number for each in group if each.parent in freed} - freed
        if not more:
            break
        freed |= more
    for each in group:
        if each.number in freed:
            rows.put_entity(replace(each, root=row.number))
    rows.put_entity(replace(row, root=row.number, parent=0, merge_reason="", merge_taint=frozenset()))
    aliases = tuple(each.id for each in group if each.number in freed)
    restored = _restore_separated(rows, row.number)
    facts = _count_true(rows, row.id, now)
    return MergedEntity(canonical=into.id, duplicate=row.id, facts=facts, aliases=aliases, restored=restored)


def _count_true(rows: GraphRows, entity_id: str, now: float) -> int:
    """Return how many facts about an entity are true, which are those that lists show."""
    return len(list_facts(rows, FactFilter(about=entity_id, during=Period(now, now), limit=_EVERYTHING)))


def _restore_separated(rows: GraphRows, root: int) -> tuple[Fact, ...]:
    """Restore the facts that were retracted for one which is about another entity now."""
    lost = [fact for fact in rows.list_lost(root) if _is_separated(rows, fact)]
    for fact in lost:
        # Before it lost a conflict, it may have been replaced by a fact that is about another entity now, too.
        while _is_separated(rows, rows.get_fact(fact.number)):
            rows.restore_fact(fact.number)
    return tuple(rows.get_fact(fact.number) for fact in lost)


def _is_separated(rows: GraphRows, fact: Fact) -> bool:
    return fact.lost_to > 0 and rows.get_fact(fact.lost_to).subject != fact.subject
