"""Inspects the tools an MCP server lists: naming, limits, sanitizing, and digests for pinning. Pure."""

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from moot.domain.mcp import McpConfig, Offer, OfferState
from moot.domain.prompt import Sink, ToolSpec
from moot.domain.text import clean, defuse

PREFIX = "mcp__"
NAME_LENGTH = 64
DESCRIPTION_LENGTH = 2000
SCHEMA_BYTES = 32 * 1024
SCHEMA_DEPTH = 24
MOST_TOOLS = 128

SERVER_NAME = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")
SERVER_NAME_LENGTH = 24
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
_HASH = 8


class ListedTool(Struct, frozen=True, kw_only=True):
    """A tool as its server lists it."""

    name: str
    description: str
    schema: dict[str, Any]


class InspectedTool(Struct, frozen=True, kw_only=True):
    """A listed tool after inspection; `spec` is set if it can be offered to a model."""

    offer: Offer
    spec: ToolSpec | None


def inspect_tools(config: McpConfig, listed: Iterable[ListedTool], pins: dict[str, str]) -> list[InspectedTool]:
    """Return the inspected tools. If nothing is pinned yet, all are accepted as they are, to be pinned."""
    found: list[InspectedTool] = []
    taken: set[str] = set()
    for number, tool in enumerate(listed):
        name = make_model_name(config.name, tool.name)
        digest = tool_digest(tool)
        reason = "it is one tool too many" if number >= MOST_TOOLS else _find_flaw(tool)
        if not reason and name in taken:
            reason = "another tool of this server has the same name"
        taken.add(name)
        news = "" if reason else _find_change(tool.name, digest, pins)
        state = OfferState.REFUSED if reason else OfferState.CHANGED if news else OfferState.READY
        offer = Offer(
            server=config.name,
            tool=tool.name,
            name=name,
            description=_clean_words(tool.description, DESCRIPTION_LENGTH),
            digest=digest,
            state=state,
            reason=reason or news,
        )
        found.append(InspectedTool(offer=offer, spec=None if reason else _build_spec(config, offer, tool)))
    return found


def _find_change(tool: str, digest: str, pins: dict[str, str]) -> str:
    """Return what differs from the pins and needs the owner's approval; empty if nothing does."""
    if not pins or pins.get(tool) == digest:
        return ""
    if tool not in pins:
        return "it is new: the server did not have it when its tools were agreed to"
    return "its description or parameters changed since it was approved"


def make_model_name(server: str, tool: str) -> str:
    """Return mcp__server__tool in the characters that models accept; a changed name ends in a hash of the original."""
    fit = _UNFIT.sub("_", tool)
    name = f"{PREFIX}{server}__{fit}"
    if fit == tool and len(name) <= NAME_LENGTH:
        return name
    mark = hashlib.sha256(tool.encode(errors="surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: NAME_LENGTH - _HASH - 1]}_{mark}"


def tool_digest(tool: ListedTool) -> str:
    """Return a digest of everything that a model is told about the tool."""
    told = json.dumps([tool.name, tool.description, tool.schema], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


def _find_flaw(tool: ListedTool) -> str:
    if not tool.name or len(tool.name) > 256:
        return "it has no usable name"
    if _measure_depth(tool.schema) > SCHEMA_DEPTH:
        return "its parameters are nested too deeply"
    if tool.schema.get("type", "object") != "object" or not isinstance(tool.schema.get("properties", {}), dict):
        return "its parameters are not those of an object"
    if not all(isinstance(entry, dict) for entry in tool.schema.get("properties", {}).values()):
        return "its parameters are not described"
    required = tool.schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return "its required parameters are not a list of names"
    if len(json.dumps(tool.schema)) > SCHEMA_BYTES:
        return f"its parameters take more than {SCHEMA_BYTES // 1024} KiB"
    return ""


def _build_spec(config: McpConfig, offer: Offer, tool: ListedTool) -> ToolSpec:
    return ToolSpec(
        name=offer.name,
        description=f"(From the MCP server {config.name}, in its own words) {offer.description}",
        parameters={"properties": {}, **_defuse_schema(tool.schema), "type": "object"},
        safety=config.tools.get(tool.name, config.safety),
        sinks=frozenset({Sink.EGRESS}) if config.egress else frozenset(),
        taint="mcp",
        group="mcp",
        added=True,
        takes_more=True,
    )


def _clean_words(text: str, length: int) -> str:
    said = defuse(clean(text))
    return said if len(said) <= length else said[:length] + " …"


def _measure_depth(value: Any) -> int:
    """Return the depth of a value, without recursion."""
    deepest, level = 0, [value]
    while level and deepest <= SCHEMA_DEPTH:
        deepest += 1
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())
        ]
    return deepest


def _defuse_schema(value: Any) -> Any:
    """Return the schema with marks reserved for the daemon defused in its texts. Its depth has been checked."""
    if isinstance(value, str):
        return defuse(clean(value))
    if isinstance(value, dict):
        return {defuse(clean(str(key))): _defuse_schema(inner) for key, inner in value.items()}
    return [_defuse_schema(inner) for inner in value] if isinstance(value, list) else value
