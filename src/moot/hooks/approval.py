"""ApprovalGate: asks the owner about a call that could do harm, and lets it through once it is approved."""

from collections import Counter
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.approval import LINE, NO_RULE, Rule
from moot.domain.ask import Ask, AskState
from moot.domain.auto_approve import AutoApproveLevel, find_needed_level
from moot.domain.config import InterceptorConfig
from moot.domain.errors import Fenced, MootError
from moot.domain.events import EventBody
from moot.domain.mode import Mode
from moot.domain.ports.hook import FindRefusal, FindsMode, GateCall, Proceed
from moot.domain.ports.tool import Binds, Checks, KnowsSinks, Reaches, Tool, ToolResult, has_ability
from moot.domain.ports.traces import TraceNotes
from moot.domain.prompt import CALLABLE_WHEN_GONE, Safety, Sink
from moot.domain.redaction import mask_arguments
from moot.domain.safety import Reach, judge_safety
from moot.domain.secret import find_references
from moot.domain.text import clean
from moot.domain.trace import TraceKind
from moot.domain.visible import show_start
from moot.hooks.call_description import describe, render_line

# Tools that ask in every mode and under every policy.
ALWAYS_ASKING = ("payment_*",)
# Tools that ask in mode free too.
_SECRET_GROUPS = ("secrets", "crypto")
_REACHED = {Sink.SHELL: "a shell without a sandbox", Sink.EGRESS: "the network", Sink.SECRETS: "secrets"}


class AllowsByRule(Protocol):
    async def find(self, ask: Ask, *, exactly: bool = False) -> Rule | None: ...


class RequestsApproval(Protocol):
    @property
    def rules(self) -> AllowsByRule: ...
    def is_carried_over(self, run_id: str, call_id: str) -> bool: ...
    async def find_denial_reason(self, ask_id: str) -> str: ...
    async def request_approval(self, ask: Ask, emit: Callable[[EventBody], None], *, seconds: float) -> AskState: ...


class ArgumentSealer(Protocol):
    async def seal(self, approval: Ask, arguments: dict[str, Any]) -> Ask: ...


class Judgement(Struct, frozen=True, kw_only=True):
    """Whether a person is asked about a call, and why."""

    # Why the person is asked; empty if nobody is.
    reason: str = ""
    # The call, bound to what it was judged by.
    call: GateCall
    # The level of the auto-approve dial that approved it, and why a person would have been asked.
    level: AutoApproveLevel | None = None
    waived_reason: str = ""


class ApprovalGate:
    name = "ApprovalGate"
    phase = "pre-execute"

    def __init__(  # noqa: PLR0913 — each by name
        self,
        asks: RequestsApproval,
        config: Callable[[], InterceptorConfig],
        *,
        sealer: ArgumentSealer,
        find_refusal: FindRefusal,
        modes: FindsMode,
        tools: Callable[[], Mapping[str, Tool]],
        notes: TraceNotes | None = None,
    ) -> None:
        self._asks = asks
        self._config = config
        self._sealer = sealer
        self._find_refusal = find_refusal
        self._modes = modes
        self._tools = tools
        self._notes = notes
        self._counts: Counter[str] = Counter()

    def counts(self) -> dict[str, int]:
        return dict(self._counts)

    async def __call__(self, call: GateCall, proceed: Proceed) -> ToolResult:
        config = self._config()
        tainted = explain_taint(call)
        strict = "; ".join(filter(None, (tainted, _doubtful(call), call.uses)))
        judged = Judgement(reason=strict, call=call) if strict else await self._judge(call, config)
        reason = judged.reason or self._explain_second_ask(call)
        if not reason or (call.approved and not tainted):
            self._count_pass(judged, is_approved=not reason)
            return await proceed(judged.call)
        if tainted:
            self._counts.update(f"tainted by {source}" for source in call.context.taint)
        is_asked = self._asks.is_carried_over(call.context.run_id, call.id)
        failure = await _find_failure(call, is_asked=is_asked)
        if failure is not None:
            return failure
        approval = await self._describe_approval(call, reason)
        approval = replace(approval, exact=NO_RULE) if tainted else approval
        # A rule does not apply once the run has seen untrusted text, unless it was made with that in view. An ask of an
        # earlier daemon about this call must be closed by using it: otherwise the next daemon would execute the call
        # again.
        exactly = bool(call.doubt or call.uses)
        rule = None if is_asked else await self._asks.rules.find(approval, exactly=exactly)
        if rule is not None:
            self._counts["by rule"] += 1
            return await proceed(bind_call_to_ask(call, _bind_to_rule(approval, rule), granted=False))
        return await self._request(call, approval, proceed, config)

    async def _request(self, call: GateCall, approval: Ask, proceed: Proceed, config: InterceptorConfig) -> ToolResult:
        """Ask the person about the call, and make it once it is approved."""
        if config.unattended:
            self._counts["refused"] += 1
            return self._deny_unattended(approval)
        self._counts["asked"] += 1
        with call.context.waiting():
            state = await self._asks.request_approval(approval, call.context.emit, seconds=config.approval_seconds)
        self._counts[state.value] += 1
        if state is AskState.GRANTED:
            return await self._make(call, approval, proceed)
        if state is AskState.DENIED:
            return _refusal_result(explain_denial(approval.tool, await self._asks.find_denial_reason(approval.id)))
        return _refusal_result(f"Nobody decided on {approval.tool} in time; it was not run.")

    def _count_pass(self, judged: Judgement, *, is_approved: bool) -> None:
        """Count a call that nobody is asked about, and note it for the trace if the dial approved it."""
        level = judged.level if is_approved else None
        self._counts["passed" if level is None else "by auto_approve"] += 1
        if level is not None and self._notes is not None:
            call = judged.call
            self._notes.note(
                call.context.run_id,
                TraceKind.POLICY_DECISION,
                call.context.speaker,
                about="approval",
                tool=call.tool.spec.name,
                state="granted",
                by=f"auto_approve: {level}",
                reason=judged.waived_reason,
                call=show_start(render_line(call.tool, mask_arguments(call.tool.spec, call.arguments)), LINE),
            )

    async def _judge(self, call: GateCall, config: InterceptorConfig) -> Judgement:
        """Judge whether the person is asked about the call. docs/approvals.md has the table."""
        spec = call.tool.spec
        if _matches_any(spec.name, (*config.sensitive_tools, *ALWAYS_ASKING)):
            return Judgement(reason="it is in the list of tools that always need approval", call=call)
        if _matches_any(spec.name, config.exempt_tools) or config.policy == "none":
            return Judgement(call=call)
        if config.policy == "all":
            return await self._apply_auto_approve(call, "every tool needs approval")
        if spec.safety is not Safety.DANGEROUS:
            return Judgement(call=call)
        found = await self._modes.find_of_run(call.context)
        if config.policy == "configured" and not found.is_chosen:
            return Judgement(call=call)
        if found.mode not in (Mode.WORK, Mode.FREE):
            return await self._apply_auto_approve(call, "it is dangerous")
        reach = await _find_reach(call)
        reason = _explain_danger(call, reach, found.mode)
        return Judgement(reason=reason, call=call if reason or reach is None else _bind(call, reach))

    async def _apply_auto_approve(self, call: GateCall, reason: str) -> Judgement:
        """Judge a call that a mode or the policy asks about: the auto-approve dial may answer instead of a person.

        It never does once the run has seen untrusted text. Doubtful commands and secrets do not come here.
        """
        level = await self._modes.find_level_of_run(call.context)
        if level is AutoApproveLevel.NONE or call.context.taint:
            return Judgement(reason=reason, call=call)
        reach = await _find_reach(call)
        needed = find_needed_level(call.tool.spec, reach)
        if needed is None or needed.rank > level.rank:
            return Judgement(reason=reason, call=call)
        bound = call if reach is None else _bind(call, reach)
        return Judgement(call=bound, level=level, waived_reason=reason)

    async def _make(self, call: GateCall, approval: Ask, proceed: Proceed) -> ToolResult:
        """Make an approved call. A day may have passed, so the call is checked again: what is blocked stays blocked."""
        refusal = await self._find_refusal(call)
        if refusal is not None:
            return refusal
        if is_removed(call, self._tools()):
            return refuse_removed(call)
        changed = await find_changed_tool(call, self._tools())
        if changed is not None:
            # What was shown is not what would be done now, so it is shown again, as another attempt.
            self._counts["changed"] += 1
            return await self(replace(call, tool=changed), proceed)
        return await proceed(bind_call_to_ask(call, approval, granted=True))

    def _explain_second_ask(self, call: GateCall) -> str:
        """Return the reason if an earlier daemon asked about the call: it then always needs the owner's decision."""
        is_carried_over = self._asks.is_carried_over(call.context.run_id, call.id)
        return "you were asked about it before the daemon stopped" if is_carried_over else ""

    def _deny_unattended(self, approval: Ask) -> ToolResult:
        """Return the denial when nobody can be asked, and note it for the trace, since no ask records it."""
        text = f"{approval.tool} needs an approval and there is nobody to ask; it was not run."
        if self._notes is not None:
            self._notes.note(
                approval.run_id,
                TraceKind.POLICY_DECISION,
                approval.speaker,
                about="approval",
                tool=approval.tool,
                state="refused",
                reason=text,
                call=approval.line,
            )
        return replace(_refusal_result(text), unasked=True)

    async def _describe_approval(self, call: GateCall, reason: str) -> Ask:
        shown = mask_arguments(call.tool.spec, call.arguments)
        approval = await describe(call, shown, reason)
        return approval if shown is call.arguments else await self._sealer.seal(approval, call.arguments)


async def _find_reach(call: GateCall) -> Reach | None:
    tool = call.tool
    if not has_ability(type(tool), Reaches) or not isinstance(tool, Reaches):
        return None
    return await tool.reach(call.arguments, call.context)


async def _find_failure(call: GateCall, *, is_asked: bool) -> ToolResult | None:
    """Return the result of a call that would fail anyway, unless somebody was asked about it already.

    It is returned, not raised, because the outer hooks redact results.
    """
    if is_asked or not has_ability(type(call.tool), Checks) or not isinstance(call.tool, Checks):
        return None
    try:
        await call.tool.check(call.arguments, call.context)
    except Fenced:
        raise
    except MootError as error:
        return ToolResult(content=clean(error.sentence), is_error=True, taint=error.taint)
    return None


def bind_call_to_ask(call: GateCall, approval: Ask, *, granted: bool) -> GateCall:
    """Return the call bound to what was reviewed: its tool refuses to act on anything else."""
    return replace(call, context=replace(call.context, agreed=approval.binding, granted=granted))


def is_removed(call: GateCall, tools: Mapping[str, Tool]) -> bool:
    """Whether the tool was removed while the call waited, from the configuration or with its skill."""
    return call.tool.spec.name not in tools and call.tool.spec.group not in CALLABLE_WHEN_GONE


def refuse_removed(call: GateCall) -> ToolResult:
    return _refusal_result(f"{call.tool.spec.name} is no longer available; it was not run.")


async def find_changed_tool(call: GateCall, tools: Mapping[str, Tool]) -> Tool | None:
    """Return the call's tool as it is now, if it would act otherwise than as it was shown; None if it is the same.

    A reload of the configuration replaces tools, for example for another sandbox, while a call waits.
    """
    shown, current = call.tool, tools.get(call.tool.spec.name)
    if current is None or current is shown:
        return None
    if isinstance(shown, Binds) and isinstance(current, Binds):
        then = await shown.bind(call.arguments, call.context)
        return None if then == await current.bind(call.arguments, call.context) else current
    return None if current.spec == shown.spec else current


def _refusal_result(sentence: str) -> ToolResult:
    return ToolResult(content=sentence, is_error=True, is_denied=True)


def explain_denial(tool: str, reason: str) -> str:
    """Return what the model is told about a denied call, with the reason the person gave."""
    text = f"The owner denied {tool}"
    if reason:
        return f"{text}, for this reason: {clean(reason)}\nTake it into account; do not make the same call again."
    return f"{text}. Do not make the same call again; ask the person, or continue without it."


def _bind_to_rule(approval: Ask, rule: Rule) -> Ask:
    """Return the approval of a call that a rule allows. One about a host binds the call to that host."""
    if rule.matcher is None or not rule.matcher.host:
        return approval
    return replace(approval, binding=replace(approval.binding, place=rule.matcher.host))


def explain_taint(call: GateCall) -> str:
    """Return why no rule or exemption applies: which untrusted text the call could send, and where; "" if none."""
    tool, taint = call.tool, call.context.taint
    if not taint:
        return ""
    sinks = tool.find_sinks(call.arguments) if isinstance(tool, KnowsSinks) else tool.spec.sinks
    if find_references(call.arguments):
        sinks |= {Sink.SECRETS}
    if not sinks:
        return ""
    seen, reached = ", ".join(sorted(taint)), " and ".join(_REACHED[sink] for sink in sorted(sinks))
    return f"this run has read untrusted text ({seen}), and this reaches {reached}"


def _doubtful(call: GateCall) -> str:
    """Return the reason for a doubtful call: only a rule for exactly this call lets it through without asking."""
    return f"it has to be reviewed: {call.doubt}" if call.doubt else ""


def _explain_danger(call: GateCall, reach: Reach | None, mode: Mode) -> str:
    """Return why the modes work and free ask about a call of a dangerous tool; "" if they do not."""
    spec, taint = call.tool.spec, call.context.taint
    if judge_safety(spec, reach, doubt=call.doubt, uses=call.uses, taint=taint) is not Safety.DANGEROUS:
        return ""
    if mode is Mode.FREE and not taint and spec.group not in _SECRET_GROUPS and Sink.SECRETS not in spec.sinks:
        return ""
    if taint and reach is not None and reach.is_sandboxed:
        return f"this run has read untrusted text ({', '.join(sorted(taint))}), which may have chosen the command"
    if reach is not None and reach.destroys:
        return f"it {reach.destroys}, which cannot be undone"
    return "it is dangerous"


def _bind(call: GateCall, reach: Reach) -> GateCall:
    """Return the call bound to what it was judged by, so that nothing else can be put in its place meanwhile."""
    if reach.binding is None or call.context.agreed is not None:
        return call
    return replace(call, context=replace(call.context, agreed=reach.binding))


def is_free(name: str, config: InterceptorConfig) -> bool:
    """Whether a safe tool of this name is called without asking, whatever the mode."""
    if _matches_any(name, config.blocked_tools):
        return False
    if not config.enabled:
        return True
    if _matches_any(name, (*config.sensitive_tools, *ALWAYS_ASKING)):
        return False
    return config.policy != "all" or _matches_any(name, config.exempt_tools)


def _matches_any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
