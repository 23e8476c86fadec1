"""ApprovalGate: puts a call before its owner when it could do harm, and lets it through once they said yes."""

from collections import Counter
from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from moot.domain.approval import COMMANDS, LINE, NO_RULE, digest
from moot.domain.ask import Ask, AskKind, AskState, Binding
from moot.domain.config import InterceptorConfig
from moot.domain.events import EventBody
from moot.domain.ports.hook import GateCall, Proceed
from moot.domain.ports.tool import Binds, Previews, Renders, ToolResult
from moot.domain.ports.traces import TraceNotes
from moot.domain.prompt import Safety, Sink
from moot.domain.redaction import mask_arguments
from moot.domain.secret import references
from moot.domain.text import clean
from moot.domain.trace import TraceKind

_REACHED = {Sink.SHELL: "a shell without a sandbox", Sink.EGRESS: "the network", Sink.SECRETS: "secrets"}
# Why a call may not be made after all; nothing where it may.
Refusal = Callable[[GateCall], Awaitable[str]]


class AllowsByRule(Protocol):
    def allow(self, ask: Ask, *, exactly: bool = False) -> bool: ...


class RequestsApproval(Protocol):
    @property
    def rules(self) -> AllowsByRule: ...
    def is_carried_over(self, run_id: str, call_id: str) -> bool: ...
    async def request_approval(self, ask: Ask, emit: Callable[[EventBody], None], *, seconds: float) -> AskState: ...


class ArgumentSealer(Protocol):
    async def seal(self, approval: Ask, arguments: dict[str, Any]) -> Ask: ...


class ApprovalGate:
    name = "ApprovalGate"
    phase = "pre-execute"

    def __init__(
        self,
        asks: RequestsApproval,
        config: Callable[[], InterceptorConfig],
        *,
        sealer: ArgumentSealer,
        refusal: Refusal,
        notes: TraceNotes | None = None,
    ) -> None:
        self._asks = asks
        self._config = config
        self._sealer = sealer
        self._refusal = refusal
        self._notes = notes
        self._counts: Counter[str] = Counter()

    def counts(self) -> dict[str, int]:
        return dict(self._counts)

    async def __call__(self, call: GateCall, proceed: Proceed) -> ToolResult:
        config = self._config()
        tainted = tainted_by(call)
        reason = (
            "; ".join(filter(None, (tainted, _doubtful(call)))) or _reason(call, config) or self._carried_over(call)
        )
        if not reason or (call.approved and not tainted):
            self._counts["passed"] += 1
            return await proceed(call)
        if tainted:
            self._counts.update(f"tainted by {stranger}" for stranger in call.context.taint)
        approval = await self._approval(call, reason)
        if tainted:
            approval = replace(approval, exact=NO_RULE)
        # A rule was made without a stranger's words in sight; with them it does not hold. What an earlier daemon asked
        # about this very call is answered there and used up with it: else the next one would make the call again.
        is_asked = self._asks.is_carried_over(call.context.run_id, call.id)
        if not tainted and not is_asked and self._asks.rules.allow(approval, exactly=bool(call.doubt)):
            self._counts["by rule"] += 1
            return await proceed(agreed(call, approval, granted=False))
        if config.unattended:
            self._counts["refused"] += 1
            return self._deny_unattended(approval)
        self._counts["asked"] += 1
        with call.context.waiting():
            state = await self._asks.request_approval(approval, call.context.emit, seconds=config.approval_seconds)
        self._counts[state.value] += 1
        match state:
            case AskState.GRANTED:
                # A day may have passed: what is blocked by now stays blocked.
                refused = await self._refusal(call)
                return _refusal_result(refused) if refused else await proceed(agreed(call, approval, granted=True))
            case AskState.DENIED:
                return _refusal_result(
                    f"The owner said no to {approval.tool}. Do not try the same again; ask or go on without."
                )
            case _:
                return _refusal_result(f"Nobody decided on {approval.tool} in time; it was not run.")

    def _carried_over(self, call: GateCall) -> str:
        """A call put before somebody is not made without them, whatever would be asked by now."""
        asked = self._asks.is_carried_over(call.context.run_id, call.id)
        return "you were asked about it before the daemon stopped" if asked else ""

    def _deny_unattended(self, approval: Ask) -> ToolResult:
        """Nobody is there to ask. What is asked is told in the trace by who asks; this is told here."""
        said = f"{approval.tool} needs an approval and there is nobody to ask; it was not run."
        if self._notes is not None:
            self._notes.note(
                approval.run_id,
                TraceKind.POLICY_DECISION,
                approval.speaker,
                about="approval",
                tool=approval.tool,
                state="refused",
                reason=said,
                call=approval.line,
            )
        return replace(_refusal_result(said), unasked=True)

    async def _approval(self, call: GateCall, reason: str) -> Ask:
        shown = mask_arguments(call.tool.spec, call.arguments)
        approval = await describe(call, shown, reason)
        return approval if shown is call.arguments else await self._sealer.seal(approval, call.arguments)


def agreed(call: GateCall, approval: Ask, *, granted: bool) -> GateCall:
    """The call, held to what was looked at: its tool refuses to act on anything else."""
    return replace(call, context=replace(call.context, agreed=approval.binding, granted=granted))


def _refusal_result(sentence: str) -> ToolResult:
    return ToolResult(content=sentence, is_error=True)


def tainted_by(call: GateCall) -> str:
    """Why no rule and no exemption lets the call through: whose words it could carry out, and where to."""
    sinks, strangers = call.tool.spec.sinks, call.context.taint
    if strangers and references(msgspec.json.encode(call.arguments).decode()):
        sinks |= {Sink.SECRETS}
    if not sinks or not strangers:
        return ""
    seen, reached = ", ".join(sorted(strangers)), " and ".join(_REACHED[sink] for sink in sorted(sinks))
    return f"this run has seen words from outside ({seen}), and this reaches {reached}"


def _doubtful(call: GateCall) -> str:
    """No policy and no exemption lets a doubtful call through unseen; only a rule for exactly it does."""
    return f"it must be looked at first: {call.doubt}" if call.doubt else ""


def _reason(call: GateCall, config: InterceptorConfig) -> str:
    spec = call.tool.spec
    if _matches_any(spec.name, config.sensitive_tools):
        return "it is on the list of tools that always ask"
    if _matches_any(spec.name, config.exempt_tools):
        return ""
    match config.policy:
        case "none" | "configured":
            return ""
        case "all":
            return "every tool asks"
        case _:
            return "it is dangerous" if spec.safety is Safety.DANGEROUS else ""


def _matches_any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


async def describe(call: GateCall, shown: dict[str, Any], reason: str) -> Ask:
    """The call as a person is asked about it, whole; what is kept of it is cut and cleaned where it is asked."""
    context, tool = call.context, call.tool
    arguments = msgspec.json.encode(shown, order="sorted").decode()
    binding = await tool.bind(call.arguments, context) if isinstance(tool, Binds) else Binding()
    line = one_line(tool, shown)
    preview = await _preview(call, shown, line)
    exact = _exact(call, arguments, binding)
    return Ask(
        kind=AskKind.APPROVAL,
        id=f"ask-{context.run_id}-{call.id}",
        key=context.asks_in,
        run_id=context.run_id,
        call_id=call.id,
        speaker=context.speaker,
        tool=tool.spec.name,
        arguments=arguments,
        subject=_subject(call, line, binding, exact),
        line=line,
        preview=preview,
        reason=reason,
        digest=digest(
            context.run_id, tool.spec.name, arguments, context.cwd, preview, binding.what, binding.place, binding.seen
        ),
        exact=exact,
        binding=binding,
    )


async def _preview(call: GateCall, shown: dict[str, Any], line: str) -> str:
    """What the tool would do; of a tool that cannot say, the arguments where the line has no room for them."""
    if isinstance(call.tool, Previews):
        return clean(await call.tool.preview(call.arguments, call.context))
    return msgspec.json.format(msgspec.json.encode(shown)).decode() if len(line) > LINE else ""


def _exact(call: GateCall, arguments: str, binding: Binding) -> str:
    """What a rule for this very call is bound to."""
    name, command = call.tool.spec.name, call.arguments.get("command")
    if name in COMMANDS and isinstance(command, str):
        linked = (binding.place,) if binding.place else ()
        return digest("command", name, command, call.context.cwd, binding.what, *linked)
    return digest("arguments", name, arguments, call.context.cwd, binding.what, binding.place)


def _subject(call: GateCall, line: str, binding: Binding, exact: str) -> str:
    """The same in words."""
    cwd, what = clean(call.context.cwd), f", {binding.what}" if binding.what else ""
    place = f" at {clean(binding.place)}" if binding.place else ""
    if call.tool.spec.name in COMMANDS:
        return f"{clean(str(call.arguments.get('command', '')))} in {cwd}{place}{what}"
    return f"exactly these arguments (sha256 {exact[:16]}) in {cwd}{place}{what}: {line}"


def one_line(tool: Any, arguments: dict[str, Any]) -> str:
    """The call on one line. Where a line ended is shown: what comes after it is a command of its own."""
    said = tool.line(arguments) if isinstance(tool, Renders) else ""
    text = said or f"{tool.spec.name} {msgspec.json.encode(arguments).decode()}"
    return " ⏎ ".join(" ".join(part.split()) for part in clean(text).strip().splitlines())
