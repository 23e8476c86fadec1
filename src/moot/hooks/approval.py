"""ApprovalGate: puts a call before its owner when it could do harm, and lets it through once they said yes."""

from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Protocol

import msgspec

from moot.domain.approval import Approval, AskState, digest
from moot.domain.events import Event
from moot.domain.gate_config import InterceptorConfig
from moot.domain.ports import GateCall, Previews, Proceed, Renders, ToolResult
from moot.domain.prompt import Safety, Sink
from moot.domain.redaction import mask_arguments
from moot.domain.secret import references
from moot.domain.text import clean

_LINE = 300
_PREVIEW = 20_000


class Asks(Protocol):
    def allowed(self, approval: Approval, *, exactly: bool = False) -> bool: ...
    async def request(self, approval: Approval, emit: Callable[[Event], None], *, seconds: float) -> AskState: ...


class Keeps(Protocol):
    async def close(self, approval: Approval, arguments: dict[str, Any]) -> Approval: ...


class ApprovalGate:
    name = "ApprovalGate"
    phase = "pre-execute"

    def __init__(self, approvals: Asks, config: Callable[[], InterceptorConfig], *, kept: Keeps) -> None:
        self._approvals = approvals
        self._config = config
        self._kept = kept
        self._counts: Counter[str] = Counter()

    def counts(self) -> dict[str, int]:
        return dict(self._counts)

    async def __call__(self, call: GateCall, proceed: Proceed) -> ToolResult:
        config = self._config()
        tainted = _tainted(call)
        reason = "; ".join(filter(None, (tainted, _doubtful(call)))) or _reason(call, config)
        if not reason or (call.approved and not tainted):
            self._counts["passed"] += 1
            return await proceed(call)
        if tainted:
            self._counts.update(f"tainted by {stranger}" for stranger in call.context.taint)
        approval = await self._approval(call, reason)
        # A rule was made without a stranger's words in sight; with them it does not hold.
        if not tainted and self._approvals.allowed(approval, exactly=bool(call.doubt)):
            self._counts["by rule"] += 1
            return await proceed(call)
        if config.unattended:
            self._counts["refused"] += 1
            return _refused(f"{approval.tool} needs an approval and there is nobody to ask; it was not run.")
        self._counts["asked"] += 1
        with call.context.waiting():
            state = await self._approvals.request(approval, call.context.emit, seconds=config.approval_seconds)
        self._counts[state.value] += 1
        match state:
            case AskState.GRANTED:
                return await proceed(call)
            case AskState.DENIED:
                return _refused(
                    f"The owner said no to {approval.tool}. Do not try the same again; ask or go on without."
                )
            case _:
                return _refused(f"Nobody decided on {approval.tool} in time; it was not run.")

    async def _approval(self, call: GateCall, reason: str) -> Approval:
        shown = mask_arguments(call.tool.spec, call.arguments)
        approval = await describe(call, shown, reason)
        return approval if shown is call.arguments else await self._kept.close(approval, call.arguments)


def _refused(sentence: str) -> ToolResult:
    return ToolResult(content=sentence, is_error=True)


def _tainted(call: GateCall) -> str:
    sinks, strangers = call.tool.spec.sinks, call.context.taint
    if strangers and references(msgspec.json.encode(call.arguments).decode()):
        sinks |= {Sink.SECRETS}
    if not sinks or not strangers:
        return ""
    seen, reached = ", ".join(sorted(strangers)), ", ".join(sorted(sinks))
    return f"this run has seen words from outside ({seen}), and this reaches {reached}"


def _doubtful(call: GateCall) -> str:
    """No policy and no exemption lets a doubtful call through unseen; only a rule for exactly it does."""
    return f"it must be looked at first: {call.doubt}" if call.doubt else ""


def _reason(call: GateCall, config: InterceptorConfig) -> str:
    spec = call.tool.spec
    if _listed(spec.name, config.sensitive_tools):
        return "it is on the list of tools that always ask"
    if _listed(spec.name, config.exempt_tools):
        return ""
    match config.policy:
        case "none" | "configured":
            return ""
        case "all":
            return "every tool asks"
        case _:
            return "it is dangerous" if spec.safety is Safety.DANGEROUS else ""


def _listed(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


async def describe(call: GateCall, shown: dict[str, Any], reason: str) -> Approval:
    """The call as a person is asked about it."""
    context, tool = call.context, call.tool
    arguments = msgspec.json.encode(shown, order="sorted").decode()
    return Approval(
        id=f"ask-{context.run_id}-{call.id}",
        key=context.asks_in,
        run_id=context.run_id,
        call_id=call.id,
        speaker=context.speaker,
        tool=tool.spec.name,
        arguments=arguments,
        subject=_subject(call.arguments),
        line=one_line(tool, shown),
        preview=clean(await tool.preview(call.arguments, context))[:_PREVIEW] if isinstance(tool, Previews) else "",
        reason=reason,
        digest=digest(context.run_id, tool.spec.name, arguments),
    )


def _subject(arguments: dict[str, Any]) -> str:
    """What "always" would be about: the exact command where there is one, else the tool as such."""
    command = arguments.get("command")
    return command if isinstance(command, str) else ""


def one_line(tool: Any, arguments: dict[str, Any]) -> str:
    said = tool.line(arguments) if isinstance(tool, Renders) else ""
    text = said or f"{tool.spec.name} {msgspec.json.encode(arguments).decode()}"
    line = " ".join(clean(text).split())
    return f"{line[:_LINE]} …" if len(line) > _LINE else line
