"""How the entities of a knowledge graph are found, read and made. Works with graph_rules.py."""

from collections.abc import Sequence

from msgspec.structs import replace

from moot.domain.errors import Conflict, NotFound
from moot.domain.graph import Entity, Statement
from moot.domain.near_names import suggest_name
from moot.domain.ontology import TermKind, TermStatus, check_open, require_term
from moot.store.graph_rows import EntityRow, GraphRows


def require_entity(rows: GraphRows, entity_id: str) -> EntityRow:
    found = rows.find_entity(entity_id)
    if found is None:
        near = suggest_name(entity_id, rows.list_similar_ids(entity_id))
        raise NotFound(f"there is no entity {entity_id!r}", fix=near or "Search with ontology_query_entities.")
    return found


def read_entity(rows: GraphRows, row: EntityRow) -> Entity:
    """Return the entity that a row belongs to, with the properties of all its names."""
    group = rows.list_group(row.root)
    root = next(each for each in group if each.number == row.root)
    properties = rows.load_properties(row.root)
    taints = [each.taint | each.merge_taint for each in group] + [taint for _, taint in properties.values()]
    return Entity(
        id=root.id,
        type=type_of(group),
        properties={name: value for name, (value, _) in properties.items()},
        aliases=tuple(each.id for each in group if each.number != root.number),
        taint=frozenset().union(*taints),
        number=root.number,
        created_at=root.created_at,
    )


def type_of(group: Sequence[EntityRow]) -> str:
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
    known = row.type or type_of(rows.list_group(row.root))
    if known and known != type_name:
        raise Conflict(
            f"{entity_id!r} is a {known}, not a {type_name}", fix="Leave the type out, or name another entity."
        )
    row = replace(row, type=type_name, taint=row.taint | statement.taint)
    rows.put_entity(row)
    return row
