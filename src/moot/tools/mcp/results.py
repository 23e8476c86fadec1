"""Converts the result of an MCP tool to text. Pure."""

import json
from collections.abc import Callable
from typing import Any

from moot.domain.ports.tool import ToolResult
from moot.domain.text import clean

MOST_CHARACTERS = 256_000


def to_tool_result(result: Any, redact: Callable[[str], str]) -> ToolResult:
    """Convert the SDK's CallToolResult. Secrets are removed before texts are cut, as a cut secret is not recognised."""
    pieces: list[str] = []
    room = MOST_CHARACTERS
    for block in result.content:
        piece = redact(clean(_render_block(block)))
        pieces.append(piece[:room])
        room -= len(piece)
        if room <= 0:
            pieces.append(f"… more than {MOST_CHARACTERS} characters; the rest was cut")
            break
    if not pieces and result.structured_content is not None:
        text = redact(clean(json.dumps(result.structured_content, ensure_ascii=False)))
        pieces.append(text[:MOST_CHARACTERS])
    return ToolResult(content="\n".join(pieces) or "(the result is empty)", is_error=bool(result.is_error))


def _render_block(block: Any) -> str:
    if block.type == "text":
        return str(block.text)
    if block.type == "resource":
        text = getattr(block.resource, "text", None)
        return text if isinstance(text, str) else f"[a file that is not text: {str(block.resource.uri)[:500]}]"
    if block.type == "resource_link":
        return f"[a link: {str(block.uri)[:500]}]"
    kind = str(getattr(block, "mime_type", "") or "of an unknown kind")[:80]
    return f"[{str(block.type)[:40]}, {kind}: left out: only text is supported]"
