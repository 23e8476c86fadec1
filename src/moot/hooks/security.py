"""SecurityFilter hook: refuses blocked tools and dangerous commands, and redacts results."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from msgspec.structs import replace

from moot.domain.mode import Mode, explain_plan
from moot.domain.ports.hook import FindsMode, GateCall, Proceed
from moot.domain.ports.secrets import SecretConsent
from moot.domain.ports.tool import Scripted, ToolResult, has_ability
from moot.domain.prompt import Safety
from moot.domain.secret import find_references
from moot.domain.shell import Classify, Level, Verdict

# Longer texts are redacted on another thread.
_LONG = 16_384
_LONG_COMMAND = 1_024


class SecurityFilter:
    """Refuses calls and redacts results. `blocked` are patterns of tool names, `secrets` knows whose may be used.

    `classify` judges commands and `classify_script` the scripts of skills. `modes` knows whether a run may only read.
    """

    name = "SecurityFilter"
    phase = "pre-execute"

    def __init__(
        self,
        *,
        classify: Classify,
        redact: Callable[[str], str],
        secrets: SecretConsent,
        modes: FindsMode,
        classify_script: Classify | None = None,
        blocked: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._classify = classify
        self._classify_script = classify_script or classify
        self._redact = redact
        self._secrets = secrets
        self._modes = modes
        self._blocked = blocked
        self._counts: Counter[str] = Counter()

    def counts(self) -> dict[str, int]:
        return dict(self._counts)

    async def __call__(self, call: GateCall, proceed: Proceed) -> ToolResult:
        refused, verdict = await self._inspect(call)
        forbidden, uses = await self._judge_secrets(call)
        if refused or forbidden:
            return _make_refusal(call, refused or forbidden)
        if uses:
            self._counts["uses a secret"] += 1
            call = replace(call, uses=uses)
        if verdict.level is Level.ASK:
            self._counts["doubtful"] += 1
            call = replace(call, doubt=verdict.reason)
        else:
            self._counts["passed"] += 1
        return await self._redact_result(await proceed(call))

    async def find_refusal(self, call: GateCall) -> ToolResult | None:
        """Return the result of a call that may not be executed now; None if it may."""
        refused, _ = await self._inspect(call)
        forbidden, _ = await self._judge_secrets(call)
        return _make_refusal(call, refused or forbidden) if refused or forbidden else None

    async def _judge_secrets(self, call: GateCall) -> tuple[str, str]:
        """Return why the call may not use the secrets it refers to, and why their owner is asked first."""
        text = find_references(call.arguments)
        if not text:
            return "", ""
        name, host = call.tool.spec.name, _find_host(call)
        forbidden, uses = await self._secrets.judge(text, call.context, tool=name, host=host)
        if not forbidden:
            return "", uses
        self._counts["outside a scope"] += 1
        return f"The call was not made: {forbidden}. Go on without it, or tell the person.", ""

    async def _inspect(self, call: GateCall) -> tuple[str, Verdict]:
        name = call.tool.spec.name
        if any(fnmatchcase(name, pattern) for pattern in self._blocked()):
            self._counts["blocked"] += 1
            return f"tool '{name}' is blocked by security policy", Verdict(Level.DANGEROUS)
        if await self._is_planning(call):
            self._counts["refused in mode plan"] += 1
            return explain_plan(name), Verdict(Level.DANGEROUS)
        verdict = await self._judge(call)
        if verdict.level is not Level.DANGEROUS:
            return "", verdict
        self._counts["dangerous"] += 1
        text = (
            f"The command was not run: {verdict.reason}. It is blocked by the security filter and cannot be "
            "approved; reach the goal in another way, or tell the person what to run."
        )
        return text, verdict

    async def _is_planning(self, call: GateCall) -> bool:
        """Whether the run may only read, and the call does more."""
        spec = call.tool.spec
        if spec.safety is Safety.SAFE or spec.reads_only:
            return False
        return (await self._modes.find_of_run(call.context)).mode is Mode.PLAN

    async def _judge(self, call: GateCall) -> Verdict:
        name, arguments = call.tool.spec.name, call.arguments
        if name in ("exec", "exec_bg"):
            judge, text = self._classify, arguments.get("command", "")
        elif name == "create_skill" and arguments.get("type") == "script":
            judge, text = self._classify_script, arguments.get("definition", "")
        elif has_ability(type(call.tool), Scripted) and isinstance(call.tool, Scripted):
            judge, text = self._classify_script, await call.tool.script()
        else:
            return Verdict(Level.OK)
        if not isinstance(text, str):
            return Verdict(Level.DANGEROUS, "it is not text")
        return await asyncio.to_thread(judge, text) if len(text) > _LONG_COMMAND else judge(text)

    async def _redact_result(self, result: ToolResult) -> ToolResult:
        content = result.content
        cleaned = await asyncio.to_thread(self._redact, content) if len(content) > _LONG else self._redact(content)
        if cleaned == content:
            return result
        self._counts["redacted"] += 1
        return replace(result, content=cleaned)


def _make_refusal(call: GateCall, text: str) -> ToolResult:
    is_planning = text == explain_plan(call.tool.spec.name)
    return ToolResult(content=text, is_error=True, is_denied=not is_planning, is_refused_by_mode=is_planning)


def _find_host(call: GateCall) -> str:
    """Return the host that the call leads to, if its tool has a parameter for it; "" if that is not known.

    An argument that the tool does not have is ignored by it, so it says nothing about where the call leads.
    """
    url = call.arguments.get("url") if "url" in call.tool.spec.parameters.get("properties", {}) else None
    try:
        return (urlsplit(url).hostname or "") if isinstance(url, str) else ""
    except ValueError:
        return ""
