"""The tools an agent can call. What somebody who writes one needs is importable from here."""

from moot.domain.errors import BadRequest
from moot.domain.ports.tool import RunContext, ToolResult
from moot.domain.prompt import Safety, Sink
from moot.tools.plugins.function import tool

__all__ = ["BadRequest", "RunContext", "Safety", "Sink", "ToolResult", "tool"]
