"""Grants: gives a teammate a tool of its role that its spawn left out, by a rule or by the owner (engine/asks.py)."""

import asyncio
from collections.abc import Callable, Mapping
from weakref import WeakValueDictionary

from msgspec.structs import replace

from moot.domain.ask import Ask, AskKind, AskState, grant_id
from moot.domain.config import InterceptorConfig
from moot.domain.ports.hook import GateCall
from moot.domain.ports.tool import Tool, ToolResult
from moot.domain.ports.traces import TraceNotes
from moot.domain.redaction import mask_arguments
from moot.domain.run import Run
from moot.domain.text import clean
from moot.domain.trace import TraceKind
from moot.engine.asks import Asks
from moot.hooks.approval import (
    ArgumentSealer,
    bind_call_to_ask,
    explain_taint,
    find_changed_tool,
    is_removed,
    refuse_removed,
)
from moot.hooks.call_description import describe
from moot.multiagent.teammates.live_runs import LiveRuns


class Grants:
    def __init__(
        self,
        *,
        live: LiveRuns,
        asks: Asks,
        sealer: ArgumentSealer,
        config: Callable[[], InterceptorConfig],
        tools: Callable[[], Mapping[str, Tool]],
        traces: TraceNotes,
    ) -> None:
        self._live = live
        self._traces = traces
        self._asks = asks
        self._sealer = sealer
        self._config = config
        self._tools = tools
        # Concurrent calls of one run for the same tool share one request.
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def admit(self, call: GateCall) -> GateCall | ToolResult:
        """Return the call if the run may use the tool, or a rule or the owner grants it; otherwise an error result.

        The owner is asked once; the grant applies to the rest of the run.
        """
        view = self._live.find(call.context.run_id)
        tool = call.tool.spec.name
        if view is None or view.run.may_use(tool):
            return call
        while True:
            async with self._locks.setdefault((view.id, tool), asyncio.Lock()):
                run = (self._live.find(view.id) or view).run
                # Another call may have obtained the grant while this one waited for the lock.
                admitted = replace(call) if run.may_use(tool) else await self._request(run, call)
            if not isinstance(admitted, Ask):
                return admitted
            with call.context.waiting():
                await self._asks.wait_for_change(admitted)

    async def _request(self, run: Run, call: GateCall) -> GateCall | ToolResult | Ask:
        """Obtain the tool through a rule or from the owner. A grant by a rule lasts only as long as the rule exists.

        Return the pending ask if an earlier daemon has asked about another call of the run, which may come later.
        """
        config, tool = self._config(), call.tool.spec.name
        reason = f"{run.agent} was not given {tool} for this run; yes gives it for the rest of the run"
        shown = mask_arguments(call.tool.spec, call.arguments)
        grant = replace(await describe(call, shown, reason), id=grant_id(run.id, tool), kind=AskKind.GRANT)
        # Rules do not apply to tainted calls: the owner made the rule without seeing the untrusted text.
        if not explain_taint(call) and await self._asks.rules.grant(grant):
            self._note(run, tool, "granted", f"a rule gives {tool} to {run.agent}")
            # The grant of the tool does not approve this call.
            return replace(call)
        if await self._asks.is_grant_denied(grant.id):
            return _refuse(tool, AskState.DENIED, await self._asks.find_denial_reason(grant.id))
        if config.unattended or not config.enabled:
            text = f"{tool} is not among the tools this run was allowed, and there is nobody to ask; it was not run."
            self._note(run, tool, "refused", text)
            # If unattended, the run ends as denied; if approvals are disabled, it continues without the tool.
            return ToolResult(content=text, is_error=True, is_denied=True, unasked=config.unattended)
        if (other := self._asks.find_other_call(grant)) is not None:
            # Asking about this call would discard what the owner was shown, or has decided already.
            return other if other.state is AskState.PENDING else replace(call)
        if shown is not call.arguments:
            grant = await self._sealer.seal(grant, call.arguments)
        return await self._ask(run, call, grant)

    def _note(self, run: Run, tool: str, state: str, reason: str) -> None:
        self._traces.note(
            run.id, TraceKind.POLICY_DECISION, run.agent, about="grant", tool=tool, state=state, reason=reason
        )

    async def _ask(self, run: Run, call: GateCall, grant: Ask) -> GateCall | ToolResult | Ask:
        tool, seconds = grant.tool, self._config().approval_seconds
        with call.context.waiting():
            state = await self._asks.request_approval(grant, call.context.emit, seconds=seconds)
        if state is not AskState.GRANTED:
            return _refuse(tool, state, await self._asks.find_denial_reason(grant.id))
        if is_removed(call, self._tools()):
            return refuse_removed(call)
        changed = await find_changed_tool(call, self._tools())
        if changed is not None:
            # What was shown is not what would be done now, so it is shown again, as another attempt.
            return await self._request(run, replace(call, tool=changed))
        self._live.grant(run.id, tool)
        # The owner has seen this call, so it needs no further approval.
        return replace(bind_call_to_ask(call, grant, granted=True), approved=True)


def _refuse(tool: str, state: AskState, reason: str = "") -> ToolResult:
    message = "The owner denied" if state is AskState.DENIED else "Nobody decided in time on"
    given = f" The reason: {clean(reason)}\n" if reason else " "
    text = f"{message} {tool} for this run.{given}Continue with the tools you have, or say what is missing."
    return ToolResult(content=text, is_error=True, is_denied=True)
