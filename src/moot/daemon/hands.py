"""The hands of the daemon: its tools and the hook chain in front of them, chosen and joined here."""

from collections.abc import Mapping

from moot.daemon.config import ConfigFile
from moot.domain.ports import Clock, GateCall, Hook, Tool, ToolResult
from moot.engine.approvals import Approvals
from moot.engine.gate import Gate
from moot.hooks.approval import ApprovalGate
from moot.store.sqlite import SqliteStore
from moot.tools.ask import AskUser
from moot.tools.conversation import Recall, SetTitle

RESULT_CHARACTERS = 64_000


class Hands:
    def __init__(self, *, store: SqliteStore, approvals: Approvals, config: ConfigFile, clock: Clock) -> None:
        built_in: list[Tool] = [SetTitle(store), AskUser(), Recall(store, clock)]
        self._tools = {tool.spec.name: tool for tool in built_in}
        hooks: list[Hook] = []
        if config.current.interceptor.enabled:
            hooks.append(ApprovalGate(approvals, lambda: config.current.interceptor))
        self.gate = Gate(tools=self.tools, hooks=hooks, budget=_cut)

    def tools(self) -> Mapping[str, Tool]:
        return self._tools


async def _cut(call: GateCall, result: ToolResult) -> ToolResult:  # noqa: ARG001
    return result
