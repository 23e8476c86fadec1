"""Builds the tools of the daemon and the hook chain in front of them."""

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from moot.daemon.config.agent_keys import find_agents_folder, find_foreign_folders
from moot.daemon.config.config_file import ConfigFile
from moot.daemon.paths import Paths, make_folder
from moot.daemon.vault.master_key import MasterKey
from moot.daemon.vault.vault import Keychain, Vault
from moot.domain.agent import FileProblem
from moot.domain.config import ToolsConfig
from moot.domain.conversation import ConversationKey
from moot.domain.events import ToolExecuted
from moot.domain.learning import CallRecord
from moot.domain.note import Note
from moot.domain.ports.clock import Clock
from moot.domain.ports.hook import GateCall, Hook
from moot.domain.ports.storage import Storage
from moot.domain.ports.tool import Tool
from moot.domain.ports.traces import TraceNotes
from moot.domain.sandbox import SandboxReport
from moot.engine.asks import Asks
from moot.engine.bus import Bus
from moot.engine.gate import Gate, Whose
from moot.hooks.access import AccessControl, Admit
from moot.hooks.approval import ApprovalGate
from moot.hooks.kept_arguments import SealedArguments
from moot.hooks.knowledge import KnowledgeSaver
from moot.hooks.learning import LearningObserver
from moot.hooks.publish import EventPublisher
from moot.hooks.security import SecurityFilter
from moot.models.keys import reveal
from moot.multiagent.teammates import control
from moot.redaction.redactor import Redactor
from moot.tools import crypto, memory, notes, outputs, secrets, tasks
from moot.tools.ask import AskUser
from moot.tools.exec import exec_tools
from moot.tools.exec.jobs import Jobs
from moot.tools.exec.script import ScriptRunner
from moot.tools.files import file_tools
from moot.tools.files.off_limits import OffLimits
from moot.tools.files.private_places import private_places
from moot.tools.mcp.server import McpDependencies
from moot.tools.mcp.servers import McpServers
from moot.tools.plugins.loader import Plugins
from moot.tools.recall import Recall
from moot.tools.sandbox import orphans
from moot.tools.sandbox.sandbox import Sandbox
from moot.tools.set_title import SetTitle
from moot.tools.shell.grammar import classify, classify_script
from moot.tools.skills import skill_tools
from moot.tools.skills.library import SkillLibrary
from moot.tools.skills.skill_tools import SkillTools
from moot.tools.web import web_tools

_EVERYDAY = (
    "ask_user",
    "set_title",
    "recall",
    "fs_read",
    "fs_list",
    "fs_write",
    "fs_edit",
    "exec",
    "web_fetch",
    "web_search",
    "memory_agent_save",
    "memory_agent_recall",
    "tool_output_get",
)

# How long a new skill or server may take to be noticed.
_LOOK_AGAIN_SECONDS = 0.05

Later = Callable[[str, Coroutine[Any, Any, None]], "asyncio.Task[None]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsetParts:
    """What the hands are built from."""

    paths: Paths
    storage: Storage
    asks: Asks
    config: ConfigFile
    redactor: Redactor
    reflect: Callable[[ConversationKey], Coroutine[Any, Any, Note | None]]
    # The tools agents direct others with, and whether a teammate may make a call.
    control: Callable[[], Sequence[Tool]]
    admit: Admit
    notes: TraceNotes
    # Where a tool is to be had that a run does not have.
    whose: Whose
    later: Later
    clock: Clock
    rng: Random
    bus: Bus


class Toolset:
    def __init__(self, parts: ToolsetParts) -> None:
        self._parts = parts
        config = self._config()
        self.master = MasterKey(parts.paths.data / "vault.key", place=config.vault.key)
        self.vault = Vault(
            secrets=parts.storage.secrets,
            master=self.master,
            known=parts.redactor,
            clock=parts.clock,
            decrypted_seconds=config.vault.decrypted_seconds,
        )
        self.sandbox = self._new_sandbox(config)
        self.jobs = Jobs(most=lambda: self._config().sandbox.background_jobs, publish=parts.bus.publish)
        self.skills = SkillLibrary(parts.paths.skills)
        self._scripts = self._script_tools()
        self.servers = McpServers(config.mcp, self._mcp_dependencies())
        self._built_from = config
        self._built_in = _order_tools({tool.spec.name: tool for tool in self._build_tools(config)})
        self._tools: Mapping[str, Tool] = self._built_in
        self._added: list[Tool] = []
        self._looked_at = -math.inf
        self.plugins = Plugins(parts.paths.tools, taken=(*self._built_in, *control.names()))
        self.kept = SealedArguments(parts.asks, self.vault)
        self._chains = self._new_chains()
        self.gate = Gate(
            tools=self.tools,
            hooks=self._chain,
            budget=self._store_long_result(),
            restore=self.kept.restore,
            whose=parts.whose,
        )

    @property
    def flaws(self) -> tuple[FileProblem, ...]:
        return (*self.plugins.flaws, *self.skills.flaws)

    def tools(self) -> Mapping[str, Tool]:
        """All tools, the same mapping until they change. What was added never takes the name of what is built in."""
        now = self._parts.clock.monotonic()
        if now - self._looked_at > _LOOK_AGAIN_SECONDS:
            self._looked_at = now
            added = [*self._parts.control(), *self._scripts.current(), *self.plugins.tools, *self.servers.tools()]
            if added != self._added:
                self._added = added
                fresh = {tool.spec.name: tool for tool in added if tool.spec.name not in self._built_in}
                self._tools = {**self._built_in, **fresh}
        return self._tools

    async def reload(self) -> None:
        config = self._config()
        if config != self._built_from:
            self._rebuild(config)
        # Somebody's code is loaded, which may take as long as it likes up to a bound: nobody else waits for it.
        await asyncio.to_thread(self.plugins.reload)
        self.skills.reload()
        self._look_again()
        self._parts.later("list MCP tools", self._replace_servers())

    def describe_sandbox(self) -> SandboxReport:
        """What holds commands in as of now. May block for some milliseconds."""
        return self.sandbox.describe()

    def _rebuild(self, config: ToolsConfig) -> None:
        """Make again what was made for the configuration before. What runs now ends as it began."""
        if config.sandbox != self._built_from.sandbox:
            self.sandbox = self._new_sandbox(config)
            self._scripts = self._script_tools()
        self._built_from = config
        self._built_in = _order_tools({tool.spec.name: tool for tool in self._build_tools(config)})
        self._tools, self._added = self._built_in, []

    async def start(self) -> None:
        await self.vault.start()
        self._parts.later("end what a killed daemon left", asyncio.to_thread(orphans.sweep))
        self._parts.later("list MCP tools", self.servers.refresh())

    async def close(self) -> None:
        await self.jobs.close()
        await self.servers.close()

    def stop(self, key: ConversationKey) -> None:
        """End what runs in the background of a conversation."""
        self._parts.later("stop background commands", self._end_jobs(key, tree=False))

    def stop_tree(self, key: ConversationKey) -> None:
        """The same with what teammates that were set to work there have left running."""
        self._parts.later("stop background commands", self._end_jobs(key, tree=True))

    async def _end_jobs(self, key: ConversationKey, *, tree: bool) -> None:
        await self.jobs.stop(key, tree=tree)

    async def _replace_servers(self) -> None:
        await self.servers.replace(self._config().mcp, self._mcp_dependencies())
        await self.servers.refresh()

    def _script_tools(self) -> SkillTools:
        redact = self._parts.redactor
        runner = ScriptRunner(sandbox=self.sandbox, classify_script=classify_script, redact=redact)
        return SkillTools(self.skills, runner, held_in=runner.bind, sinks=runner.sinks)

    def _own_places(self) -> list[Path]:
        """Moot's own files, and wherever agents are defined: who writes there decides what they are told and may do."""
        paths, config = self._parts.paths, self._parts.config.current
        return list(dict.fromkeys([*paths.own, find_agents_folder(config, paths), *find_foreign_folders(config)]))

    def _new_sandbox(self, config: ToolsConfig) -> Sandbox:
        return Sandbox(config.sandbox, protected=self._own_places(), workspaces=self._parts.paths.workspaces)

    def _mcp_dependencies(self) -> McpDependencies:
        parts = self._parts
        return McpDependencies(
            pins=parts.storage.mcp_pins,
            start=parts.later,
            clock=parts.clock,
            reveal=self._reveal,
            sandbox=self.sandbox,
            room=self._server_folder,
            redact=parts.redactor,
            changed=self._look_again,
        )

    def _look_again(self) -> None:
        """Have whoever asks for the tools next look for new ones at once."""
        self._looked_at = -math.inf

    async def _reveal(self, reference: str, *, place: str) -> str:
        value = await reveal(reference, place=place)
        self._parts.redactor.register_key(reference.partition(":")[2], value)
        return value

    def _server_folder(self, server: str) -> str:
        """The folder of an MCP server that names none; no agent's name begins like it, so no conversation has it."""
        return str(make_folder(self._parts.paths.workspaces / f"_mcp-{server}"))

    async def tidy(self) -> None:
        oldest = self._parts.clock.now() - self._config().outputs.keep_seconds
        await self._parts.storage.outputs.expire(before=oldest)

    def _config(self) -> ToolsConfig:
        return self._parts.config.current.hands

    def _build_tools(self, config: ToolsConfig) -> list[Tool]:
        parts = self._parts
        off_limits = OffLimits(
            places=[str(place) for place in self._own_places()],
            workspaces=str(parts.paths.workspaces),
            private=private_places(),
        )
        keychain = Keychain(keys=parts.storage.keys, vault=self.vault, clock=parts.clock)
        memories, store = parts.storage.memories, parts.storage.store

        def lasting() -> bool:
            return parts.config.current.agent_memory.enabled

        return [
            AskUser(),
            SetTitle(store),
            Recall(store, parts.clock, parts.redactor, memories=memories, owner=memory.Owner(lasting)),
            *file_tools.tools(off_limits=off_limits, config=config.files, redact=parts.redactor),
            *exec_tools.tools(
                sandbox=self.sandbox,
                jobs=self.jobs,
                classify=classify,
                redact=parts.redactor,
                secrets=self.vault,
            ),
            *web_tools.tools(config.web, reveal=self._reveal, redact=parts.redactor),
            *memory.tools(
                memories=memories,
                config=lambda: self._config().memory,
                lasting=lasting,
                clock=parts.clock,
            ),
            *notes.tools(notes=parts.storage.notes, reflect=parts.reflect, clock=parts.clock),
            *tasks.tools(tasks=parts.storage.tasks, clock=parts.clock, rng=parts.rng),
            *outputs.tools(
                outputs=parts.storage.outputs,
                config=lambda: self._config().outputs,
                clock=parts.clock,
                redact=parts.redactor,
            ),
            *secrets.tools(secrets=self.vault),
            *crypto.tools(keys=keychain, secrets=self.vault),
            *skill_tools.tools(skills=self.skills, off_limits=off_limits, config=config.skills),
        ]

    def _publish(self, call: GateCall, record: CallRecord) -> None:
        if call.tool.spec.group == "skill":
            # It may have made one.
            self._look_again()
        call.context.emit(ToolExecuted(record.call_id, record.tool, record.ok, record.seconds))

    def _chain(self, call: GateCall | None) -> tuple[Hook, ...]:
        """What is switched on by now. A call that its owner was asked about waits for the answer all the same."""
        config, asks = self._config(), self._parts.asks
        was_asked = call is not None and asks.is_carried_over(call.context.run_id, call.id)
        return self._chains[config.interceptor.enabled or was_asked, config.knowledge.enabled]

    def _new_chains(self) -> dict[tuple[bool, bool], tuple[Hook, ...]]:
        """The chains there can be, outermost first, with approvals or without, with learning or without.

        What comes after the tool is wrapped inside out: learning sees a result first.
        """
        parts = self._parts
        security = SecurityFilter(
            classify=classify,
            classify_script=classify_script,
            redact=parts.redactor.secrets,
            blocked=lambda: self._config().interceptor.blocked_tools,
        )
        before = (security, AccessControl(parts.admit, refusal=security.refusal))
        asking = ApprovalGate(
            parts.asks,
            lambda: self._config().interceptor,
            kept=self.kept,
            refusal=security.refusal,
            notes=parts.notes,
        )
        publisher = EventPublisher(publish=self._publish, clock=parts.clock)
        learning = self._learning_hooks()
        return {
            (asks, learns): (*before, *((asking,) if asks else ()), publisher, *(learning if learns else ()))
            for asks in (False, True)
            for learns in (False, True)
        }

    def _learning_hooks(self) -> tuple[Hook, ...]:
        parts, learnings = self._parts, self._parts.storage.learnings
        redact = parts.redactor.for_log
        return (
            KnowledgeSaver(
                learnings=learnings,
                config=lambda: self._config().knowledge,
                later=parts.later,
                clock=parts.clock,
                redact=redact,
            ),
            LearningObserver(learnings=learnings, later=parts.later, clock=parts.clock, redact=redact),
        )

    def _store_long_result(self) -> outputs.StoreLongResult:
        parts = self._parts
        return outputs.StoreLongResult(parts.storage.outputs, lambda: self._config().outputs, parts.clock, parts.rng)


def _order_tools(tools: dict[str, Tool]) -> dict[str, Tool]:
    """Where a model has no room for all, the first ones are offered; so these are what nearly every agent needs."""
    first = [name for name in _EVERYDAY if name in tools]
    return {name: tools[name] for name in (*first, *(name for name in tools if name not in _EVERYDAY))}
