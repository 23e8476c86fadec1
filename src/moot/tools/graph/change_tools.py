"""The tools that change the knowledge graph: facts, conflicts, merges, life cycles. Built by graph_tools.py."""

from moot.domain.graph import check_reason
from moot.domain.ontology import TARGETS, TermKind, parse_status
from moot.domain.ports.tool import ToolResult
from moot.tools.graph.graph_tool import (
    CONFIDENCE,
    VALID_FROM,
    VALID_TO,
    GraphCall,
    GraphPlan,
    dump_conflict,
    get_id,
    get_text,
    make_spec,
    read_fact,
)
from moot.tools.store_tool import Arguments, answer, join_taint

_REASON = "Why."
_TARGETS = f"The new status: {', '.join(TARGETS)}."


async def _assert_fact(call: GraphCall, arguments: Arguments) -> ToolResult:
    proposes = arguments.get("propose") is True
    asserted = await call.graph.assert_fact(call.owner, read_fact(arguments), call.statement, proposes=proposes)
    message = "The fact is stored." if asserted.is_new else "The fact was known already."
    if asserted.conflict is not None:
        message += f" It contradicts others: {asserted.conflict.id} is open until it is resolved."
    if asserted.proposed:
        message += f" Proposed because it is new: {', '.join(asserted.proposed)}."
    data = {"stored": asserted.is_new, "message": message}
    taint = asserted.fact.taint
    if asserted.conflict is not None:
        data["conflict"] = dump_conflict(asserted.conflict)
        taint |= join_taint(fact.taint for fact in asserted.conflict.facts)
    return answer(data, taint)


async def _retract_fact(call: GraphCall, arguments: Arguments) -> ToolResult:
    triple = (get_id(arguments, "subject"), get_text(arguments, "predicate"), get_id(arguments, "object"))
    reason = check_reason(get_text(arguments, "reason"))
    is_wrong = arguments.get("was_wrong") is True
    found = await call.graph.retract(call.owner, triple, reason, call.statement, is_wrong=is_wrong)
    return answer({"status": "retracted", "count": len(found)})


async def _resolve_conflict(call: GraphCall, arguments: Arguments) -> ToolResult:
    losers = await call.graph.resolve(
        call.owner,
        get_text(arguments, "conflict_id"),
        get_id(arguments, "winner_object"),
        check_reason(get_text(arguments, "reason")),
        call.statement,
    )
    data = {"status": "resolved", "retracted": [fact.object for fact in losers]}
    return answer(data, join_taint(fact.taint for fact in losers))


async def _merge_entities(call: GraphCall, arguments: Arguments) -> ToolResult:
    merged = await call.graph.merge(
        call.owner,
        get_id(arguments, "canonical"),
        get_id(arguments, "duplicate"),
        check_reason(get_text(arguments, "reason") or "the same entity"),
        call.statement,
    )
    data = {"status": "merged", "triples_updated": merged.facts, "aliases_created": len(merged.aliases)}
    taint = join_taint(fact.taint for each in merged.conflicts for fact in each.facts)
    if merged.conflicts:
        data["conflicts"] = [dump_conflict(each) for each in merged.conflicts]
    return answer(data, taint)


async def _promote_type(call: GraphCall, arguments: Arguments) -> ToolResult:
    term = await call.graph.promote(
        call.owner,
        TermKind.TYPE,
        get_text(arguments, "type_name"),
        parse_status(get_text(arguments, "target_status")),
        check_reason(get_text(arguments, "reason")),
        call.statement,
    )
    return answer({"status": "promoted", "type": term.name, "newStatus": term.status})


async def _promote_predicate(call: GraphCall, arguments: Arguments) -> ToolResult:
    exclusive = arguments.get("exclusive")
    term = await call.graph.promote(
        call.owner,
        TermKind.PREDICATE,
        get_text(arguments, "predicate_name"),
        parse_status(get_text(arguments, "target_status")),
        check_reason(get_text(arguments, "reason")),
        call.statement,
        is_exclusive=exclusive if isinstance(exclusive, bool) else None,
    )
    data = {"status": "promoted", "predicate": term.name, "newStatus": term.status, "exclusive": term.is_exclusive}
    return answer(data)


_PLANS = [
    (
        make_spec(
            "ontology_assert_fact",
            "Store a fact: subject, predicate, object. Tells whether it contradicts others. "
            "An unknown predicate is an error, unless `propose` is set.",
            {"subject": "The id of the subject.", "predicate": "The predicate.", "object": "The id of the object."},
            {
                "subject_type": {"type": "string", "description": "The type of the subject."},
                "object_type": {"type": "string", "description": "The type of the object."},
                "source": {"type": "string", "description": "Where it comes from; default manual."},
                "confidence": CONFIDENCE,
                "valid_from": VALID_FROM,
                "valid_to": VALID_TO,
                "propose": {"type": "boolean", "description": "Add the predicate if it is unknown; default false."},
            },
            changes=True,
        ),
        lambda it: f"fact: {it.get('subject', '')} {it.get('predicate', '')} {it.get('object', '')}",
        _assert_fact,
    ),
    (
        make_spec(
            "ontology_retract_fact",
            "Retract a fact. It is kept as what was true until now, or as an error.",
            {
                "subject": "The id of the subject.", "predicate": "The predicate.", "object": "The id of the object.",
                "reason": _REASON,
            },
            {"was_wrong": {"type": "boolean", "description": "It was never true; default false."}},
            changes=True,
            repeatable=False,
        ),
        lambda it: f"retract: {it.get('subject', '')} {it.get('predicate', '')} {it.get('object', '')}",
        _retract_fact,
    ),
    (
        make_spec(
            "ontology_resolve_conflict",
            "Resolve a conflict: the facts with other objects are retracted as errors.",
            {"conflict_id": "The id of the conflict.", "winner_object": "The object that is right.", "reason": _REASON},
            changes=True,
            repeatable=False,
        ),
        lambda it: f"resolve {it.get('conflict_id', '')}: {it.get('winner_object', '')}",
        _resolve_conflict,
    ),
    (
        make_spec(
            "ontology_merge_entities",
            "Merge an entity into another one that is the same. Its id becomes an alias; a person can undo it.",
            {"canonical": "The id that stays.", "duplicate": "The id that becomes an alias."},
            {"reason": {"type": "string", "description": "How you know that they are the same."}},
            changes=True,
            repeatable=False,
        ),
        lambda it: f"merge {it.get('duplicate', '')} into {it.get('canonical', '')}",
        _merge_entities,
    ),
    (
        make_spec(
            "ontology_promote_type",
            "Change the status of a type: proposed, shadow, active, quarantined, deprecated.",
            {"type_name": "The type.", "target_status": _TARGETS, "reason": _REASON},
            changes=True,
            repeatable=False,
        ),
        lambda it: f"type {it.get('type_name', '')}: {it.get('target_status', '')}",
        _promote_type,
    ),
    (
        make_spec(
            "ontology_promote_predicate",
            "Change the status of a predicate: proposed, shadow, active, quarantined, deprecated.",
            {"predicate_name": "The predicate.", "target_status": _TARGETS, "reason": _REASON},
            {"exclusive": {"type": "boolean", "description": "Whether a subject has one object at a time."}},
            changes=True,
            repeatable=False,
        ),
        lambda it: f"predicate {it.get('predicate_name', '')}: {it.get('target_status', '')}",
        _promote_predicate,
    ),
]  # fmt: skip

PLANS = [GraphPlan(*each) for each in _PLANS]
