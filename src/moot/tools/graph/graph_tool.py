"""Shared by the tools on the knowledge graph: the owner of the graph, arguments, and the JSON of facts."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from moot.domain.errors import BadRequest
from moot.domain.graph import (
    Fact,
    FactConflict,
    NewFact,
    Period,
    Statement,
    check_confidence,
    check_source,
    normalize_id,
)
from moot.domain.ontology import dump_fact, parse_validity
from moot.domain.ports.graph import Graph
from moot.domain.ports.tool import ToolResult
from moot.tools.store_tool import Arguments, StoreCall, ToolPlan, answer, join_taint, make_store_spec


class GraphCall(StoreCall, frozen=True, kw_only=True):
    graph: Graph

    @property
    def statement(self) -> Statement:
        return Statement(now=self.now, run_id=self.context.run_id, taint=self.context.taint)

    @property
    def today(self) -> Period:
        return Period(self.now, self.now)


GraphPlan = ToolPlan[GraphCall]
make_spec = partial(make_store_spec, group="graph")


# ---- arguments ------------------------------------------------------------------------------------

CONFIDENCE = {"type": "number", "description": "From 0 to 1; default 0.8."}
VALID_FROM = {"type": "string", "description": "Since when it is true: a time or a day; default: now."}
VALID_TO = {"type": "string", "description": "Until when it is true: a time or a day; default: no end."}


def get_text(arguments: Arguments, name: str) -> str:
    return str(arguments.get(name) or "").strip()


def get_id(arguments: Arguments, name: str) -> str:
    return normalize_id(str(arguments.get(name) or ""), name)


def get_limit(arguments: Arguments, name: str, default: int, most: int) -> int:
    given = arguments.get(name)
    value = default if given is None else int(given)
    if value < 1:
        raise BadRequest(f"{name} must be at least 1", fix=f"Leave it out for {default}.")
    return min(value, most)


def read_fact(arguments: Arguments) -> NewFact:
    confidence = arguments.get("confidence")
    new = NewFact(
        subject=get_id(arguments, "subject"),
        predicate=get_text(arguments, "predicate"),
        object=get_id(arguments, "object"),
        subject_type=get_text(arguments, "subject_type"),
        object_type=get_text(arguments, "object_type"),
        source=check_source(get_text(arguments, "source")),
        valid=parse_validity(get_text(arguments, "valid_from"), get_text(arguments, "valid_to")),
    )
    return new if confidence is None else msgspec.structs.replace(new, confidence=check_confidence(confidence))


# ---- results --------------------------------------------------------------------------------------


def dump_triple(fact: Fact) -> dict[str, Any]:
    return {
        "Subject": fact.subject,
        "Predicate": fact.predicate,
        "Object": fact.object,
        "SubjectType": fact.subject_type,
        "ObjectType": fact.object_type,
        "Metadata": dump_fact(fact),
    }


def dump_conflict(conflict: FactConflict) -> dict[str, Any]:
    return {
        "id": conflict.id,
        "subject": conflict.subject,
        "predicate": conflict.predicate,
        "facts": [dump_triple(fact) for fact in conflict.facts],
    }


def answer_facts(name: str, facts: Iterable[Fact], **more: Any) -> ToolResult:
    found = list(facts)
    data = {name: [dump_triple(fact) for fact in found], "count": len(found), **more}
    return answer(data, join_taint(fact.taint for fact in found))
