"""The tools that read the knowledge graph: traverse, query, entities, types, conflicts. Built by graph_tools.py."""

from typing import Any

from msgspec.structs import replace

from moot.domain.errors import BadRequest
from moot.domain.graph import (
    DEFAULT_DEPTH,
    MOST_DEPTH,
    PROPERTY_TESTS,
    Entity,
    Fact,
    FactFilter,
    Traversal,
)
from moot.domain.near_names import suggest_name
from moot.domain.ontology import Term, TermKind, format_time, parse_period
from moot.domain.ports.graph import PropertyFilter
from moot.domain.ports.tool import ToolResult
from moot.tools.graph.actions import ACTIONS
from moot.tools.graph.graph_tool import (
    GraphCall,
    GraphPlan,
    answer_facts,
    dump_conflict,
    dump_triple,
    get_id,
    get_limit,
    get_text,
    make_spec,
)
from moot.tools.store_tool import Arguments, answer, join_taint

_ENTITIES = 100
_MOST_ENTITIES = 500
# Outgoing facts shown of each of several entities.
_FACTS_OF_EACH = 20
_EXCLUDE = {
    "type": "boolean",
    "description": "Leave out what may come from mail of an unknown sender; default true.",
}


# ---- graph_* --------------------------------------------------------------------------------------


async def _traverse(call: GraphCall, arguments: Arguments) -> ToolResult:
    walked = await call.graph.walk(
        call.owner,
        Traversal(
            start=get_id(arguments, "start_node"),
            depth=get_limit(arguments, "max_depth", DEFAULT_DEPTH, MOST_DEPTH),
            predicates=frozenset(str(each) for each in arguments.get("predicates") or ()),
            subject_type=get_text(arguments, "node_type_filter"),
            during=call.today,
        ),
    )
    return answer_facts("triples", walked.facts, **_mark_cut(walked.is_cut))


async def _query(call: GraphCall, arguments: Arguments) -> ToolResult:
    subject, target = get_text(arguments, "subject"), get_text(arguments, "object")
    if not subject and not target:
        raise BadRequest("either subject or object is required", fix="Name the node to search for.")
    found, is_cut = await _list_facts(
        call,
        FactFilter(
            subject=subject and get_id(arguments, "subject"),
            object=target and get_id(arguments, "object"),
            predicate=get_text(arguments, "predicate"),
            subject_type=get_text(arguments, "subject_type"),
            object_type=get_text(arguments, "object_type"),
            during=call.today,
        ),
    )
    return answer_facts("triples", found, **_mark_cut(is_cut))


async def _list_facts(call: GraphCall, wanted: FactFilter) -> tuple[list[Fact], bool]:
    """Return the facts, and whether there are more than the filter lists."""
    found = await call.graph.list_facts(call.owner, replace(wanted, limit=wanted.limit + 1))
    return found[: wanted.limit], len(found) > wanted.limit


def _mark_cut(is_cut: bool) -> dict[str, Any]:
    return {"truncated": True} if is_cut else {}


# ---- ontology_*: facts and entities ---------------------------------------------------------------


def _includes_unverified(arguments: Arguments) -> bool:
    return arguments.get("exclude_unverified") is False


async def _facts_at(call: GraphCall, arguments: Arguments) -> ToolResult:
    subject = get_id(arguments, "subject")
    during = parse_period(get_text(arguments, "valid_at"), "valid_at")
    # An unknown subject is an error with the nearest name; an answer without facts would hide it.
    await call.graph.get_entity(call.owner, subject)
    wanted = FactFilter(subject=subject, during=during, includes_unverified=_includes_unverified(arguments))
    found, is_cut = await _list_facts(call, wanted)
    return answer_facts("facts", found, **_mark_cut(is_cut))


async def _get_entity(call: GraphCall, arguments: Arguments) -> ToolResult:
    entity = await call.graph.get_entity(call.owner, get_id(arguments, "entity_id"))
    unverified = _includes_unverified(arguments)
    shared: dict[str, Any] = {"during": call.today, "includes_unverified": unverified}
    outgoing, is_cut_out = await _list_facts(call, FactFilter(subject=entity.id, **shared))
    incoming, is_cut_in = await _list_facts(call, FactFilter(object=entity.id, **shared))
    data = _dump_entity(entity) | {
        "outgoing": [dump_triple(fact) for fact in outgoing],
        "incoming": [dump_triple(fact) for fact in incoming],
        **_mark_cut(is_cut_out or is_cut_in),
    }
    return answer(data, join_taint([entity.taint], (fact.taint for fact in (*outgoing, *incoming))))


async def _query_entities(call: GraphCall, arguments: Arguments) -> ToolResult:
    limit = get_limit(arguments, "limit", _ENTITIES, _MOST_ENTITIES)
    found = await call.graph.list_entities(
        call.owner, type_name=get_text(arguments, "type"), filters=_read_filters(arguments), limit=limit + 1
    )
    is_cut, found = len(found) > limit, found[:limit]
    taints = [entity.taint for entity in found]
    entities = []
    for entity in found:
        wanted = FactFilter(
            subject=entity.id,
            during=call.today,
            includes_unverified=_includes_unverified(arguments),
            limit=_FACTS_OF_EACH,
        )
        facts, has_more = await _list_facts(call, wanted)
        taints += [fact.taint for fact in facts]
        shown = {"outgoing": [dump_triple(fact) for fact in facts], **_mark_cut(has_more)}
        entities.append(_dump_entity(entity) | shown)
    return answer({"entities": entities, "count": len(entities), **_mark_cut(is_cut)}, join_taint(taints))


def _read_filters(arguments: Arguments) -> list[PropertyFilter]:
    given = list(arguments.get("filters") or ())
    if arguments.get("property"):
        given.append({name: arguments.get(name) for name in ("property", "op", "value")})
    found: list[PropertyFilter] = []
    for each in given:
        if not isinstance(each, dict) or not each.get("property"):
            raise BadRequest("a filter needs a property", fix='Write {"property": …, "op": "eq", "value": …}.')
        op = str(each.get("op") or PROPERTY_TESTS[0])
        if op not in PROPERTY_TESTS:
            near = suggest_name(op, PROPERTY_TESTS)
            raise BadRequest(f"{op!r} is not a test of a property", fix=f"{near}Use {', '.join(PROPERTY_TESTS)}.")
        value = each.get("value")
        found.append((str(each["property"]), op, "" if value is None else str(value)))
    return found


def _dump_entity(entity: Entity) -> dict[str, Any]:
    return {
        "id": entity.id,
        "type": entity.type,
        "properties": entity.properties,
        "aliases": entity.aliases,
        "created_at": format_time(entity.created_at),
    }


# ---- ontology_*: types, conflicts, actions --------------------------------------------------------


async def _list_types(call: GraphCall, _arguments: Arguments) -> ToolResult:
    terms = await call.graph.list_terms(call.owner)
    types = [_dump_term(term) for term in terms if term.kind is TermKind.TYPE]
    predicates = [_dump_term(term) for term in terms if term.kind is TermKind.PREDICATE]
    return answer(
        {"types": types, "count": len(types), "predicates": predicates}, join_taint(term.taint for term in terms)
    )


async def _describe_type(call: GraphCall, arguments: Arguments) -> ToolResult:
    name = get_text(arguments, "type_name")
    usage = await call.graph.measure_type(call.owner, name)
    changes = await call.graph.list_changes(call.owner, TermKind.TYPE, name)
    terms = {term.name: term for term in await call.graph.list_terms(call.owner) if term.kind is TermKind.PREDICATE}
    data = _dump_term(changes[-1]) | {
        "entities": usage.entities,
        "properties": list(usage.properties),
        "predicates": [_dump_term(terms[each]) for each in usage.predicates if each in terms],
        "history": [{"status": term.status, "reason": term.reason} for term in changes],
    }
    return answer(data, join_taint([usage.taint], (term.taint for term in changes)))


async def _type_usage(call: GraphCall, arguments: Arguments) -> ToolResult:
    name = get_text(arguments, "type_name")
    usage = await call.graph.measure_type(call.owner, name)
    (term, *_) = reversed(await call.graph.list_changes(call.owner, TermKind.TYPE, name))
    data = {
        "type": name,
        "status": term.status,
        "entities": usage.entities,
        "facts": usage.facts,
        "properties": usage.properties,
        "predicates": usage.predicates,
    }
    return answer(data, usage.taint)


async def _schema_health(call: GraphCall, _arguments: Arguments) -> ToolResult:
    health = await call.graph.measure(call.owner)
    return answer(
        {
            "types": health.types,
            "predicates": health.predicates,
            "entities": health.entities,
            "merged_entities": health.merged,
            "facts": health.facts,
            "retracted_facts": health.retracted,
            "open_conflicts": health.conflicts,
        }
    )


async def _list_conflicts(call: GraphCall, _arguments: Arguments) -> ToolResult:
    found = await call.graph.list_conflicts(call.owner)
    data = {"conflicts": [dump_conflict(each) for each in found], "count": len(found)}
    return answer(data, join_taint(fact.taint for each in found for fact in each.facts))


async def _list_actions(_call: GraphCall, _arguments: Arguments) -> ToolResult:
    actions = [
        {
            "name": action.name,
            "tool": f"ontology_action_{action.name}",
            "description": action.description,
            "parameters": {**action.required, **{name: each["description"] for name, each in action.optional.items()}},
            "required": list(action.required),
            "permission": "write",
        }
        for action in ACTIONS
    ]
    return answer({"actions": actions, "count": len(actions)})


def _dump_term(term: Term) -> dict[str, Any]:
    data: dict[str, Any] = {"name": term.name, "status": term.status, "reason": term.reason}
    return data | ({"exclusive": True} if term.is_exclusive else {})


_PLANS = [
    (
        make_spec(
            "graph_traverse",
            "List what the knowledge graph knows around a node, breadth first and in both directions.",
            {"start_node": "The id of the node to begin at."},
            {
                "max_depth": {"type": "integer", "description": f"How far; default {DEFAULT_DEPTH}."},
                "predicates": {
                    "type": "array", "items": {"type": "string"}, "description": "Follow only these predicates."
                },
                "node_type_filter": {"type": "string", "description": "Only facts whose subject has this type."},
            },
        ),
        lambda it: f"walk the graph from {it.get('start_node', '')}",
        _traverse,
    ),
    (
        make_spec(
            "graph_query",
            "Find facts of the knowledge graph by their subject or object.",
            {},
            {
                "subject": {"type": "string", "description": "The subject; this or object is needed."},
                "object": {"type": "string", "description": "The object."},
                "predicate": {"type": "string", "description": "Only facts with this predicate."},
                "subject_type": {"type": "string", "description": "Only subjects of this type."},
                "object_type": {"type": "string", "description": "Only objects of this type."},
            },
        ),
        lambda it: f"query the graph for {it.get('subject') or it.get('object') or ''}",
        _query,
    ),
    (
        make_spec(
            "ontology_facts_at",
            "List the facts about an entity that were true at a time or on a day.",
            {"subject": "The id of the entity.", "valid_at": "A time such as 2026-03-30T12:00:00Z, or a day."},
            {"exclude_unverified": _EXCLUDE},
        ),
        lambda it: f"facts about {it.get('subject', '')} at {it.get('valid_at', '')}",
        _facts_at,
    ),
    (
        make_spec(
            "ontology_get_entity",
            "Show an entity: its type, properties, aliases, and the facts about it.",
            {"entity_id": "The id of the entity, or an alias."},
            {"exclude_unverified": _EXCLUDE},
        ),
        lambda it: f"read the entity {it.get('entity_id', '')}",
        _get_entity,
    ),
    (
        make_spec(
            "ontology_query_entities",
            "Find entities by type and properties.",
            {"type": "The type."},
            {
                "filters": {
                    "type": "array",
                    "description": "All must hold: {property, op, value} with op eq, neq or contains.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "property": {"type": "string"},
                            "op": {"type": "string", "enum": list(PROPERTY_TESTS)},
                            "value": {"type": "string"},
                        },
                    },
                },
                "property": {"type": "string", "description": "One property to test, instead of filters."},
                "op": {"type": "string", "enum": list(PROPERTY_TESTS), "description": "The test; default eq."},
                "value": {"type": "string", "description": "The value to compare with."},
                "limit": {"type": "integer", "description": f"How many at most; default {_ENTITIES}."},
                "exclude_unverified": _EXCLUDE,
            },
        ),
        lambda it: f"find entities of type {it.get('type', '')}",
        _query_entities,
    ),
    (
        make_spec("ontology_list_types", "List the types and predicates, with the status of each.", {}),
        lambda _: "list the types",
        _list_types,
    ),
    (
        make_spec(
            "ontology_describe_type",
            "Show a type: its status, and the properties and predicates of its entities.",
            {"type_name": "The type."},
        ),
        lambda it: f"describe the type {it.get('type_name', '')}",
        _describe_type,
    ),
    (
        make_spec("ontology_type_usage", "Show how much a type is used.", {"type_name": "The type."}),
        lambda it: f"usage of the type {it.get('type_name', '')}",
        _type_usage,
    ),
    (
        make_spec("ontology_schema_health", "Count types and predicates by status, entities, facts and conflicts.", {}),
        lambda _: "check the schema",
        _schema_health,
    ),
    (
        make_spec("ontology_list_conflicts", "List the facts that contradict each other and are not resolved.", {}),
        lambda _: "list the conflicts",
        _list_conflicts,
    ),
    (
        make_spec("ontology_list_actions", "List the actions on entities, each with its parameters.", {}),
        lambda _: "list the actions",
        _list_actions,
    ),
]  # fmt: skip

PLANS = [GraphPlan(*each) for each in _PLANS]
