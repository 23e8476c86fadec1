"""Describes a call for the person who is asked about it: the ask with its line, preview and digests.

Used by approval.py and by the grants of teammates.
"""

from typing import Any

import msgspec

from moot.domain.approval import COMMANDS, LINE, digest
from moot.domain.ask import Ask, AskKind, Binding, approval_id
from moot.domain.call_shape import CallShape
from moot.domain.ports.hook import GateCall
from moot.domain.ports.tool import Binds, Previews, Renders, Shapes
from moot.domain.secret import find_references
from moot.domain.text import clean


async def describe(call: GateCall, shown: dict[str, Any], reason: str) -> Ask:
    """Return the ask for a call, with all details; it is cut and redacted when it is stored."""
    context, tool = call.context, call.tool
    arguments = msgspec.json.encode(shown, order="sorted").decode()
    binding = await tool.bind(call.arguments, context) if isinstance(tool, Binds) else Binding()
    line = render_line(tool, shown)
    preview = await _render_preview(call, shown, line)
    exact = _digest_exact_call(call, arguments, binding)
    return Ask(
        kind=AskKind.APPROVAL,
        id=approval_id(context.run_id, call.id),
        key=context.asks_in,
        run_id=context.run_id,
        call_id=call.id,
        speaker=context.speaker,
        chain=context.chain,
        tool=tool.spec.name,
        arguments=arguments,
        subject=_describe_rule(call, line, binding, exact),
        line=line,
        preview=preview,
        reason=reason,
        digest=digest(
            context.run_id, tool.spec.name, arguments, context.cwd, preview, binding.what, binding.place, binding.seen
        ),
        exact=exact,
        binding=binding,
        shape=await _find_shape(call),
    )


async def _find_shape(call: GateCall) -> CallShape | None:
    """Return what patterns of rules look at; None if none can cover the call, such as one that uses a secret."""
    if not isinstance(call.tool, Shapes) or call.doubt or find_references(call.arguments):
        return None
    return await call.tool.shape(call.arguments, call.context)


async def _render_preview(call: GateCall, shown: dict[str, Any], line: str) -> str:
    """Return the tool's preview; for a tool without one, the arguments if they do not fit the line."""
    if isinstance(call.tool, Previews):
        return clean(await call.tool.preview(call.arguments, call.context))
    return msgspec.json.format(msgspec.json.encode(shown)).decode() if len(line) > LINE else ""


def _digest_exact_call(call: GateCall, arguments: str, binding: Binding) -> str:
    """Return the digest that a rule for exactly this call is bound to."""
    name, command = call.tool.spec.name, call.arguments.get("command")
    if name in COMMANDS and isinstance(command, str):
        linked = (binding.place,) if binding.place else ()
        return digest("command", name, command, call.context.cwd, binding.what, *linked)
    return digest("arguments", name, arguments, call.context.cwd, binding.what, binding.place)


def _describe_rule(call: GateCall, line: str, binding: Binding, exact: str) -> str:
    """Return what such a rule covers, in words."""
    cwd, what = clean(call.context.cwd), f", {binding.what}" if binding.what else ""
    place = f" at {clean(binding.place)}" if binding.place else ""
    if call.tool.spec.name in COMMANDS:
        return f"{clean(str(call.arguments.get('command', '')))} in {cwd}{place}{what}"
    return f"exactly these arguments (sha256 {exact[:16]}) in {cwd}{place}{what}: {line}"


def render_line(tool: Any, arguments: dict[str, Any]) -> str:
    """Return the call as its tool says it in one line; it is shown exactly when it is stored."""
    text = tool.line(arguments) if isinstance(tool, Renders) else ""
    return clean(text or f"{tool.spec.name} {msgspec.json.encode(arguments).decode()}")
