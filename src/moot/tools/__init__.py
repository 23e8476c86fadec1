"""The tools that agents can call. Exports what authors of tools need."""

from moot.domain.errors import BadRequest
from moot.domain.ports.tool import RunContext, ToolResult
from moot.domain.prompt import Safety, Sink
from moot.tools.plugins.function import tool

__all__ = ["BadRequest", "RunContext", "Safety", "Sink", "ToolResult", "tool"]
