"""The one way to execute a tool: scope, arguments, then the tool itself, always ending in a result."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from moot.domain.errors import MootError
from moot.domain.message import ToolCall
from moot.domain.ports import RunContext, Tool
from moot.domain.prompt import ToolSpec
from moot.domain.scope import Scope
from moot.domain.text import clean
from moot.engine.deadline import Deadline
from moot.failpoint import reach

RESULT_CHARACTERS = 64_000

logger = logging.getLogger(__name__)

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


@dataclass(frozen=True, slots=True)
class ToolOutput:
    content: str
    is_error: bool = False


class Toolbox:
    """The tools a run has: those of the daemon that its scope allows."""

    def __init__(self, tools: Mapping[str, Tool], scope: Scope) -> None:
        self._tools = {name: tool for name, tool in tools.items() if scope.allows(name)}

    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self._tools.values())

    async def execute(self, call: ToolCall, flaw: str, context: RunContext, deadline: Deadline) -> ToolOutput:
        tool = self._tools.get(call.name)
        if tool is None:
            return ToolOutput(f"There is no tool {call.name!r} here. There are: {self._names()}.", is_error=True)
        try:
            arguments = flaw or _arguments(call, tool.spec)
            if isinstance(arguments, str):
                return ToolOutput(arguments, is_error=True)
            async with deadline:
                reach("tool.before")
                said = await tool(arguments, context)
                reach("tool.after")
                return ToolOutput(_bounded(said))
        except MootError as error:
            return ToolOutput(_bounded(error.sentence), is_error=True)
        except TimeoutError:
            return ToolOutput(f"{call.name} took too long and was stopped.", is_error=True)
        except asyncio.CancelledError:
            raise
        except Exception:
            # A tool's own failure must not end the run; the model is told, the operator finds the cause in the log.
            logger.exception("tool %s failed", call.name)
            return ToolOutput(f"{call.name} failed inside; the daemon's log has the cause.", is_error=True)

    def _names(self) -> str:
        return ", ".join(sorted(self._tools)) or "none"


def _arguments(call: ToolCall, spec: ToolSpec) -> dict[str, Any] | str:
    """The arguments, or a sentence on what is wrong with them."""
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except msgspec.DecodeError as error:
        return f"The arguments of {call.name} are not valid JSON: {error}."
    if not isinstance(arguments, dict):
        return f"The arguments of {call.name} must be a JSON object."
    return _mismatch(call.name, arguments, spec) or arguments


def _mismatch(name: str, arguments: dict[str, Any], spec: ToolSpec) -> str:
    required: Sequence[str] = spec.parameters.get("required", ())
    for parameter in required:
        if arguments.get(parameter) in (None, ""):
            return f"missing {parameter} parameter"
    properties: dict[str, dict[str, Any]] = spec.parameters.get("properties", {})
    for parameter, value in arguments.items():
        expected = _TYPES.get(properties.get(parameter, {}).get("type", ""))
        wrong_bool = isinstance(value, bool) and expected is not None and bool not in expected
        if expected is not None and (wrong_bool or not isinstance(value, expected)):
            return f"{name}: {parameter} must be of type {properties[parameter]['type']}"
    return ""


def _bounded(text: str) -> str:
    text = clean(text)
    if len(text) <= RESULT_CHARACTERS:
        return text
    return f"{text[:RESULT_CHARACTERS]}\n… {len(text) - RESULT_CHARACTERS} more characters were cut"
