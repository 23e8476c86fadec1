"""The actions on entities, each a tool `ontology_action_…`. Listed by read_tools.py, built by graph_tools.py."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from msgspec import Struct

from moot.domain.errors import MootError
from moot.domain.graph import AssertedFact, NewFact, check_reason, check_source
from moot.domain.ontology import STATUS_PREDICATE
from moot.domain.ports.tool import ToolResult
from moot.tools.graph.graph_tool import GraphCall, GraphPlan, dump_conflict, get_id, get_text, make_spec
from moot.tools.store_tool import Arguments, answer

_REASON = {"type": "string", "description": "Why."}


class Action(Struct, frozen=True):
    """A named change of entities. Its result names the fact that it has made."""

    name: str
    description: str
    required: dict[str, str]
    optional: dict[str, dict[str, Any]]
    line: Callable[[Arguments], str]
    run: Callable[[GraphCall, Arguments], Awaitable[AssertedFact]]


async def _link_entities(call: GraphCall, arguments: Arguments) -> AssertedFact:
    subject, target = get_id(arguments, "source"), get_id(arguments, "target")
    # Both must be there: a link to a misspelt name would make an entity of it.
    for entity_id in (subject, target):
        await call.graph.get_entity(call.owner, entity_id)
    source = check_source(get_text(arguments, "reason") or "action")
    new = NewFact(subject=subject, predicate=get_text(arguments, "predicate"), object=target, source=source)
    return await call.graph.assert_fact(call.owner, new, call.statement)


async def _set_entity_status(call: GraphCall, arguments: Arguments) -> AssertedFact:
    entity_id = get_id(arguments, "entity_id")
    await call.graph.get_entity(call.owner, entity_id)
    reason = check_reason(get_text(arguments, "reason") or "the status has changed")
    new = NewFact(subject=entity_id, predicate=STATUS_PREDICATE, object=get_id(arguments, "status"), source="action")
    return await call.graph.replace_fact(call.owner, new, reason, call.statement)


ACTIONS = (
    Action(
        "link_entities",
        "Connect two entities that exist with a predicate.",
        {
            "source": "The id of the entity that the link begins at.",
            "predicate": "The predicate.",
            "target": "The id of the other entity.",
        },
        {"reason": _REASON},
        lambda it: f"link {it.get('source', '')} {it.get('predicate', '')} {it.get('target', '')}",
        _link_entities,
    ),
    Action(
        "set_entity_status",
        "Set the status of an entity. The one before is kept as what was true until now.",
        {"entity_id": "The id of the entity.", "status": "The new status."},
        {"reason": _REASON},
        lambda it: f"status of {it.get('entity_id', '')}: {it.get('status', '')}",
        _set_entity_status,
    ),
)


async def _run_action(action: Action, call: GraphCall, arguments: Arguments) -> ToolResult:
    try:
        asserted = await action.run(call, arguments)
    except MootError as error:
        failed = {"logID": "", "status": "failed", "effects": [], "error": error.sentence}
        return answer(failed, error.taint, is_error=True)
    fact = asserted.fact
    effects = [f"{fact.subject} {fact.predicate} {fact.object}"] if asserted.is_new else []
    data: dict[str, Any] = {"logID": f"fact-{fact.number}", "status": "completed", "effects": effects, "error": ""}
    if asserted.conflict is not None:
        data["conflict"] = dump_conflict(asserted.conflict)
    return answer(data, fact.taint)


PLANS = [
    GraphPlan(
        make_spec(f"ontology_action_{action.name}", action.description, action.required, action.optional, changes=True),
        action.line,
        partial(_run_action, action),
    )
    for action in ACTIONS
]
