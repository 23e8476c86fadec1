"""Inspects the tools an MCP server lists: naming, limits, sanitizing, and whether their texts were approved. Pure."""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.mcp import (
    McpConfig,
    Offer,
    OfferState,
    TextDecision,
    ToolText,
    decode_text,
    encode_text,
    text_digest,
)
from moot.domain.prompt import Sink, ToolSpec
from moot.domain.text import clean, defuse

PREFIX = "mcp__"
NAME_LENGTH = 64
DESCRIPTION_LENGTH = 2000
SCHEMA_BYTES = 32 * 1024
SCHEMA_DEPTH = 24
MOST_TOOLS = 128
# Of all tools of a server together: what its owner is asked to read.
TEXT_BYTES = 512 * 1024

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


def inspect_tools(
    config: McpConfig, listed: Iterable[ListedTool], decisions: Sequence[TextDecision]
) -> list[InspectedTool]:
    """Return the inspected tools. Only those whose exact text the owner has approved can be used.

    `decisions` are those about this server, oldest first.
    """
    found: list[InspectedTool] = []
    taken: set[str] = set()
    room = TEXT_BYTES
    for number, tool in enumerate(listed):
        name = make_model_name(config.name, tool.name)
        reason = "the server has too many tools" if number >= MOST_TOOLS else _find_flaw(tool)
        if not reason and name in taken:
            reason = "another tool of this server has the same name"
        taken.add(name)
        text = "" if reason else encode_text(_build_text(name, tool))
        if len(text.encode()) > room:
            reason, text = f"the texts of this server take more than {TEXT_BYTES // 1024} KiB", ""
        room -= len(text.encode())
        offer = Offer(
            server=config.name,
            tool=tool.name,
            name=name,
            description=_clean_words(tool.description, DESCRIPTION_LENGTH),
            digest=text_digest(text) if text else "",
            state=OfferState.REFUSED,
            reason=reason,
            text=text,
        )
        found.append(_apply_decisions(config, offer, decisions) if text else InspectedTool(offer=offer, spec=None))
    return found


def _apply_decisions(config: McpConfig, offer: Offer, decisions: Sequence[TextDecision]) -> InspectedTool:
    about = [each for each in decisions if each.tool == offer.tool]
    exact = next((each for each in about if each.digest == offer.digest), None)
    if exact is not None and exact.is_approved:
        # The spec is built from the approved text, so that models are told nothing else.
        return InspectedTool(offer=replace(offer, state=OfferState.READY), spec=_build_spec(config, exact))
    approved = next((each.text for each in reversed(about) if each.is_approved), "")
    if exact is not None:
        state, reason = OfferState.DENIED, "it was denied"
    elif approved:
        state, reason = OfferState.CHANGED, "its description or parameters changed since it was approved"
    else:
        state, reason = OfferState.NEW, "it is new and was not approved yet"
    return InspectedTool(offer=replace(offer, state=state, reason=reason, approved_text=approved), spec=None)


def make_model_name(server: str, tool: str) -> str:
    """Return mcp__server__tool in the characters that models accept; a changed name ends in a hash of the original."""
    fit = _UNFIT.sub("_", tool)
    name = f"{PREFIX}{server}__{fit}"
    if fit == tool and len(name) <= NAME_LENGTH:
        return name
    mark = hashlib.sha256(tool.encode(errors="surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: NAME_LENGTH - _HASH - 1]}_{mark}"


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


def _build_text(name: str, tool: ListedTool) -> ToolText:
    """Return what models would be told about the tool: cleaned, cut, and without marks reserved for the daemon."""
    return ToolText(
        tool=clean(tool.name),
        name=name,
        description=_clean_words(tool.description, DESCRIPTION_LENGTH),
        parameters={"properties": {}, **_defuse_schema(tool.schema), "type": "object"},
    )


def _build_spec(config: McpConfig, approved: TextDecision) -> ToolSpec:
    text = decode_text(approved.text)
    return ToolSpec(
        name=text.name,
        description=f"(From the MCP server {config.name}, in its own words) {text.description}",
        parameters=text.parameters,
        safety=config.tools.get(approved.tool, config.safety),
        sinks=frozenset({Sink.EGRESS}) if config.egress else frozenset(),
        taint="mcp",
        group="mcp",
        added=True,
        takes_more=True,
    )


def _clean_words(text: str, length: int) -> str:
    # Cut before as well: cleaning a description of many megabytes would hold the event loop.
    cleaned = defuse(clean(text[: 2 * length]))
    return cleaned if len(cleaned) <= length and len(text) <= 2 * length else cleaned[:length] + " …"


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
