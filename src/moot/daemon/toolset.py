"""Toolset: builds the tools of the daemon and keeps them in engine/tool_registry as configuration and files change."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from msgspec import Struct

from moot.daemon.config.agent_keys import find_agents_folder, find_foreign_folders
from moot.daemon.config.config_file import ConfigFile
from moot.daemon.paths import Paths, make_folder
from moot.daemon.vault.content_seal import FileContentSeal
from moot.daemon.vault.keychain import Keychain
from moot.daemon.vault.vault import Vault
from moot.domain.agent import FileProblem
from moot.domain.config import ToolsConfig
from moot.domain.conversation import ConversationKey
from moot.domain.events import Compacted, Event
from moot.domain.ports.clock import Clock
from moot.domain.ports.storage import Storage
from moot.domain.ports.tool import Tool
from moot.domain.sandbox import SandboxReport
from moot.domain.scope import CONTINUE
from moot.engine.bus import Bus
from moot.engine.notes import NoteTaker
from moot.engine.supervisor import Supervisor
from moot.engine.tool_registry import ToolRegistry
from moot.hooks.approval import is_free
from moot.models.keys import reveal
from moot.multiagent.teammates import control
from moot.redaction.redactor import Redactor
from moot.tools import crypto, memory, notes, outputs, secrets, tasks
from moot.tools.ask import AskUser
from moot.tools.exec import exec_tools
from moot.tools.exec.created_files import CreatedFiles
from moot.tools.exec.jobs import Jobs
from moot.tools.exec.script import ScriptRunner
from moot.tools.files import file_tools
from moot.tools.files.change_log import ChangeLog
from moot.tools.files.off_limits import OffLimits
from moot.tools.files.private_places import private_places
from moot.tools.files.project_approvals import ProjectApprovals
from moot.tools.files.project_files import ProjectReader
from moot.tools.files.read_files import ReadFiles
from moot.tools.graph import graph_tools
from moot.tools.knowledge import knowledge_tools
from moot.tools.mcp.server import McpDependencies
from moot.tools.mcp.servers import McpServers
from moot.tools.plugins.loader import Plugins
from moot.tools.recall import Recall
from moot.tools.sandbox import cgroup, orphans
from moot.tools.sandbox.sandbox import Sandbox
from moot.tools.set_title import SetTitle
from moot.tools.shell.grammar import classify, classify_script
from moot.tools.skills import skill_tools
from moot.tools.skills.library import SkillLibrary
from moot.tools.skills.skill_tools import SkillTools
from moot.tools.user_message import SendUserMessage
from moot.tools.web import web_tools

_EVERYDAY = (
    "ask_user",
    "set_title",
    "recall",
    "fs_read",
    "fs_list",
    "fs_search",
    "fs_write",
    "fs_edit",
    "exec",
    "web_fetch",
    "web_search",
    "memory_agent_save",
    "memory_agent_recall",
    "tool_output_get",
    "fs_glob",
    "fs_patch",
)


class ToolsetDependencies(Struct, frozen=True, kw_only=True):
    paths: Paths
    storage: Storage
    config: ConfigFile
    redactor: Redactor
    vault: Vault
    notes: NoteTaker
    supervisor: Supervisor
    clock: Clock
    rng: Random
    bus: Bus
    # Whether an agent is a coordinator.
    has_coordinator: Callable[[], bool]


class Toolset:
    def __init__(self, dependencies: ToolsetDependencies) -> None:
        self._d = d = dependencies
        config = self._config()
        self.registry = ToolRegistry(config=lambda: d.config.current, clock=d.clock, has_coordinator=d.has_coordinator)
        self.sandbox = self._new_sandbox(config)
        self.jobs = Jobs(most=lambda: d.config.current.tools.sandbox.background_jobs, publish=d.bus.publish)
        self.skills = SkillLibrary(d.paths.skills)
        self._scripts = self._script_tools()
        self._reveal = _KeyReader(d.redactor, d.vault)
        self._reads = ReadFiles()
        self.changes = ChangeLog(
            d.paths.data / "file-changes",
            limits=lambda: d.config.current.tools.files,
            now=d.clock.now,
            seal=FileContentSeal(d.redactor, d.paths.data / "file-changes.key"),
        )
        self._created = CreatedFiles(self.changes.has_created)
        self.read_project = ProjectReader(
            off_limits=partial(_find_off_limits, d.paths, d.config),
            approvals=ProjectApprovals(d.paths.project_approvals),
            max_bytes=lambda: d.config.current.tools.project.max_bytes,
            redact=d.redactor,
            edition=lambda: (d.config.current, d.redactor.edition),
            workspaces=str(d.paths.workspaces),
        )
        d.bus.observe(self._forget_reads, Compacted)
        self.servers = McpServers(config.mcp, self._mcp_dependencies())
        self._built_from = config
        self._built_with_inquiries = self._asks_inquiries()
        built_in = self._build_tools(config)
        self.plugins = Plugins(
            d.paths.tools, taken=(*(tool.spec.name for tool in built_in), *control.names(), CONTINUE)
        )
        self._set_built_in(built_in)

    @property
    def flaws(self) -> tuple[FileProblem, ...]:
        return (*self.plugins.flaws, *self.skills.flaws)

    async def reload(self) -> None:
        config = self._config()
        if config != self._built_from or self._asks_inquiries() != self._built_with_inquiries:
            self._rebuild(config)
        # In a thread, because it loads foreign code, which may take long, up to a limit.
        await asyncio.to_thread(self.plugins.reload)
        self.skills.reload()
        self.registry.look_again()
        self._d.supervisor.start("list MCP tools", self._replace_servers())

    def describe_sandbox(self) -> SandboxReport:
        """Return the current state of the sandbox. May block for some milliseconds."""
        return self.sandbox.describe()

    async def has_sandbox(self) -> bool:
        """Return whether commands run in a sandbox."""
        return (await self.sandbox.find_report()).confined

    def _rebuild(self, config: ToolsConfig) -> None:
        """Rebuild the tools for a new configuration. Active calls finish with the old ones."""
        if config.sandbox != self._built_from.sandbox:
            self.sandbox = self._new_sandbox(config)
            self._scripts = self._script_tools()
        self._built_from = config
        self._built_with_inquiries = self._asks_inquiries()
        self._set_built_in(self._build_tools(config))

    def _set_built_in(self, tools: list[Tool]) -> None:
        plugins = self.plugins
        by_name = _order_tools({tool.spec.name: tool for tool in tools})
        self.registry.set_built_in(by_name, (self._scripts.current, lambda: plugins.tools, self.servers.tools))

    async def start(self) -> None:
        await self._d.vault.start()
        await asyncio.to_thread(cgroup.claim_own_group)
        await asyncio.to_thread(lambda: self.changes.recover(self.off_limits()))
        # A daemon that forgets its conversations forgets what they changed too.
        if self._is_store_in_memory():
            await asyncio.to_thread(self.changes.clear)
        self._d.supervisor.start("end what a killed daemon left", asyncio.to_thread(orphans.sweep))
        if self.servers.names():
            self.registry.await_listing(self._d.supervisor.start("list MCP tools", self.servers.refresh()))

    def _is_store_in_memory(self) -> bool:
        return self._d.config.current.store.kind == "memory"

    async def close(self) -> None:
        if self._is_store_in_memory():
            await asyncio.to_thread(self.changes.clear)
        await self.jobs.close()
        await self.servers.close()

    def stop(self, key: ConversationKey) -> None:
        """Stop the background commands of a conversation."""
        self._d.supervisor.start("stop background commands", self._end_jobs(key, tree=False))

    def stop_tree(self, key: ConversationKey) -> int:
        """Stop the background commands of a conversation and of the teammates spawned for it; return how many."""
        running = self.jobs.running(key)
        self._d.supervisor.start("stop background commands", self._end_jobs(key, tree=True))
        return running

    async def _end_jobs(self, key: ConversationKey, *, tree: bool) -> None:
        await self.jobs.stop(key, tree=tree)

    def _forget_reads(self, event: Event) -> None:
        """Forget the reads that a compaction has taken out of the history, not those of the turn that goes on."""
        self._reads.forget(event.source.key, but_of=event.source.run_id)

    async def _replace_servers(self) -> None:
        await self.servers.replace(self._config().mcp, self._mcp_dependencies())
        await self.servers.refresh()

    def _script_tools(self) -> SkillTools:
        redact = self._d.redactor
        runner = ScriptRunner(sandbox=self.sandbox, classify_script=classify_script, redact=redact)
        return SkillTools(self.skills, runner, held_in=runner.bind, sinks=runner.sinks)

    def _new_sandbox(self, config: ToolsConfig) -> Sandbox:
        own = _list_own_places(self._d.paths, self._d.config)
        return Sandbox(config.sandbox, clock=self._d.clock, protected=own, workspaces=self._d.paths.workspaces)

    def _mcp_dependencies(self) -> McpDependencies:
        d = self._d
        return McpDependencies(
            decisions=d.storage.mcp_decisions,
            start=d.supervisor.start,
            clock=d.clock,
            reveal=self._reveal,
            sandbox=self.sandbox,
            room=partial(_server_folder, d.paths.workspaces),
            redact=d.redactor,
            changed=self.registry.look_again,
        )

    async def tidy(self) -> None:
        oldest = self._d.clock.now() - self._config().outputs.keep_seconds
        await self._d.storage.outputs.expire(before=oldest)
        await asyncio.to_thread(self.changes.tidy)

    def off_limits(self) -> OffLimits:
        return _find_off_limits(self._d.paths, self._d.config)

    def _asks_inquiries(self) -> bool:
        return self._d.config.current.librarian.enabled

    def _config(self) -> ToolsConfig:
        return self._d.config.current.tools

    def _build_tools(self, config: ToolsConfig) -> list[Tool]:
        d = self._d
        off_limits = self.off_limits()
        keychain = Keychain(keys=d.storage.keys, vault=d.vault, clock=d.clock)
        memories, store = d.storage.memories, d.storage.store

        def lasting() -> bool:
            return d.config.current.agent_memory.enabled

        return [
            AskUser(),
            SetTitle(store),
            SendUserMessage(off_limits),
            Recall(store, d.clock, d.redactor, memories=memories, owner=memory.Owner(lasting)),
            *file_tools.tools(
                off_limits=off_limits,
                clock=d.clock,
                config=config.files,
                redact=d.redactor,
                reads=self._reads,
                log=self.changes,
                reads_freely=lambda: is_free("fs_read", d.config.current.tools.interceptor),
            ),
            *exec_tools.tools(
                sandbox=self.sandbox,
                jobs=self.jobs,
                classify=classify,
                redact=d.redactor,
                secrets=d.vault,
                created=self._created,
            ),
            *web_tools.tools(config.web, reveal=self._reveal, redact=d.redactor, clock=d.clock),
            *memory.tools(
                memories=memories,
                config=lambda: d.config.current.tools.memory,
                lasting=lasting,
                clock=d.clock,
            ),
            *notes.tools(notes=d.storage.notes, reflect=d.notes.reflect, clock=d.clock),
            *tasks.tools(tasks=d.storage.tasks, clock=d.clock, rng=d.rng),
            *outputs.tools(
                outputs=d.storage.outputs,
                config=lambda: d.config.current.tools.outputs,
                clock=d.clock,
                redact=d.redactor,
            ),
            *knowledge_tools.build_tools(knowledge=d.storage.knowledge, learnings=d.storage.learnings, clock=d.clock),
            *(
                knowledge_tools.build_inquiry_tools(inquiries=d.storage.inquiries, clock=d.clock)
                if self._asks_inquiries()
                else ()
            ),
            *(graph_tools.build_tools(graph=d.storage.graph, clock=d.clock) if config.graph.enabled else ()),
            *secrets.tools(secrets=d.vault),
            *crypto.tools(keys=keychain, secrets=d.vault),
            *skill_tools.tools(skills=self.skills, off_limits=off_limits, config=config.skills),
        ]


class _KeyReader:
    """Looks up keys and registers them with the redactor."""

    def __init__(self, redactor: Redactor, vault: Vault) -> None:
        self._redactor = redactor
        self._vault = vault

    async def __call__(self, reference: str, *, place: str, host: str = "") -> str:
        read_secret = partial(self._vault.read_for_configuration, host=host)
        value = await reveal(reference, place=place, read_secret=read_secret)
        self._redactor.register_key(reference.partition(":")[2], value)
        return value


def _list_own_places(paths: Paths, config: ConfigFile) -> list[Path]:
    """Return Moot's own files and the folders of agents, which define the instructions and tools of agents."""
    agents, foreign = find_agents_folder(config.current, paths), find_foreign_folders(config.current)
    return list(dict.fromkeys([*paths.own, agents, *foreign]))


def _find_off_limits(paths: Paths, config: ConfigFile) -> OffLimits:
    return OffLimits(
        places=[str(place) for place in _list_own_places(paths, config)],
        workspaces=str(paths.workspaces),
        private=private_places(),
    )


def _server_folder(workspaces: Path, server: str) -> str:
    """Return the default folder of an MCP server. No agent name has this prefix, so no conversation uses it."""
    return str(make_folder(workspaces / f"_mcp-{server}"))


def _order_tools(tools: dict[str, Tool]) -> dict[str, Tool]:
    """Order the tools, most needed first: a model without room for all is offered the first ones."""
    first = [name for name in _EVERYDAY if name in tools]
    return {name: tools[name] for name in (*first, *(name for name in tools if name not in _EVERYDAY))}
