"""The tools that take data into the knowledge graph: JSON, CSV, results of MCP tools. Built by graph_tools.py."""

from msgspec.structs import replace

from moot.domain.graph import Statement
from moot.domain.graph_import import (
    MOST_ROWS,
    ParsedGraph,
    check_rows,
    check_size,
    parse_csv,
    parse_json,
    parse_result,
)
from moot.domain.ports.tool import ToolResult
from moot.tools.graph.graph_tool import GraphCall, GraphPlan, get_text, make_spec
from moot.tools.store_tool import Arguments, answer
from moot.tools.threads import run_in_thread

# Refusals that are listed; all are counted.
_LISTED = 50
_MCP = "mcp"


async def _import_json(call: GraphCall, arguments: Arguments) -> ToolResult:
    data = str(arguments["data"])
    check_size(data)
    return await _add(call, await run_in_thread(parse_json, data, most_rows=MOST_ROWS), call.statement)


async def _import_csv(call: GraphCall, arguments: Arguments) -> ToolResult:
    data = str(arguments["data"])
    check_size(data)
    parsed = await run_in_thread(parse_csv, data, get_text(arguments, "type"), most_rows=MOST_ROWS)
    return await _add(call, parsed, call.statement)


async def _add(call: GraphCall, parsed: ParsedGraph, statement: Statement) -> ToolResult:
    """Import everything that can be imported in one transaction."""
    check_rows(parsed)
    done = await call.graph.import_entities(call.owner, parsed.entities, parsed.declared, statement)
    refusals = [*parsed.refusals, *done.refusals]
    data = {
        "imported": done.entities,
        "errors": [{"place": each.place, "reason": each.reason} for each in refusals[:_LISTED]],
        "total": parsed.total,
        "refused": len(refusals),
        "facts": done.facts,
        "conflicts": done.conflicts,
        "proposed": done.proposed,
    }
    return answer(data, statement.taint | done.taint)


async def _from_mcp(call: GraphCall, arguments: Arguments) -> ToolResult:
    result = str(arguments["result_json"])
    check_size(result)
    names = [get_text(arguments, name) for name in ("tool_name", "entity_type", "predicate")]
    entity = await run_in_thread(parse_result, names[0], result, names[1], names[2])
    statement = replace(call.statement, taint=call.context.taint | {_MCP})
    done = await call.graph.import_entities(call.owner, [entity], (), statement)
    if done.refusals:
        return answer({"entity_id": "", "error": done.refusals[0].reason}, done.taint, is_error=True)
    data = {
        "entity_id": entity.id,
        "properties": len(entity.properties),
        "facts": done.facts,
        "proposed": done.proposed,
    }
    return answer(data, statement.taint)


_PLANS = [
    (
        make_spec(
            "ontology_import_json",
            "Import entities with properties and relations from JSON. Entities that cannot be imported are listed. "
            "New predicates are declared in the list `predicates`: {name, exclusive}.",
            {
                "data": '{"entities": [{"id", "type", "properties": {}, "relations": [{"predicate", "object"}]}]}',
            },
            changes=True,
        ),
        lambda _: "import entities from JSON",
        _import_json,
    ),
    (
        make_spec(
            "ontology_import_csv",
            "Import entities from CSV: the first row names the properties, each other row is an entity. "
            "The column id, entity_id or name has its id. Rows that cannot be imported are listed.",
            {"data": "The CSV text.", "type": "The type of the entities."},
            changes=True,
        ),
        lambda it: f"import {it.get('type', '')} entities from CSV",
        _import_csv,
    ),
    (
        make_spec(
            "ontology_from_mcp",
            "Store the result of an MCP tool as an entity that is linked with the tool.",
            {
                "tool_name": "The MCP tool.",
                "result_json": "Its result: a JSON object that describes one entity.",
                "entity_type": "The type of the entity.",
                "predicate": "The predicate that links the entity with the tool.",
            },
            changes=True,
        ),
        lambda it: f"store the result of {it.get('tool_name', '')}",
        _from_mcp,
    ),
]

PLANS = [GraphPlan(*each) for each in _PLANS]
