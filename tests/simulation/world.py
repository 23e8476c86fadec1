"""A simulated daemon: the real Runtime on storage in memory, in virtual time, with a seeded model.

Everything that is committed is in one Database. A crash stops the event loop between two steps; nothing of the daemon
runs after it. A pause lets the old one go on later, when another has taken over.
"""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

from msgspec.structs import replace

from moot.agents.registry import Registry
from moot.automation.automation import Automation
from moot.daemon.vault.seal import Seal
from moot.domain.config import Config, ModelConfig, default_config
from moot.domain.conversation import ConversationKey
from moot.domain.ports.storage import Storage
from moot.domain.ports.tool import RunContext, Tool
from moot.domain.prompt import Safety, ToolSpec
from moot.engine.budget import Budgets
from moot.engine.bus import Bus
from moot.engine.completion import CountedCompletion
from moot.engine.notes import NoteTaker, Reflections
from moot.engine.supervisor import Supervisor
from moot.engine.tool_registry import ToolRegistry
from moot.multiagent.runtime import Runtime, RuntimeDependencies
from moot.redaction.redactor import Redactor
from moot.store.memory.database import Database
from moot.store.memory.storage import build_memory_storage
from moot.store.memory.store import MemoryStore
from moot.tools.ask import AskUser
from moot.tools.files.off_limits import OffLimits
from tests.simulation.clock import VirtualClock
from tests.simulation.event_loop import VirtualLoop
from tests.simulation.seeded_model import SeededModel

# The built-in agents. Shared by all seeds, because nothing changes it: its folder does not exist.
_AGENTS = Registry(Path(__file__).parent / "no-agents")
_PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


class SimulatedConfig:
    """A configuration that can be replaced, as a reload does."""

    def __init__(self) -> None:
        base = default_config()
        self.current: Config = replace(
            base,
            default_model="seeded",
            models={"seeded": ModelConfig(name="seeded", provider="scripted")},
            agent=replace(base.agent, multi_agent=True),
            tools=replace(base.tools, memory=replace(base.tools.memory, observe_every=4, reflect_every=2)),
        )


class FixedSeal:
    async def seal(self) -> Seal:
        return Seal(bytes(32))


class NoSecrets:
    async def judge(self, text: str, context: object, *, tool: str, host: str) -> tuple[str, str]:
        return "", ""


class FileTool:
    """A tool that takes a while and notes that it was executed. Deleting needs approval, and is not repeatable."""

    def __init__(self, name: str, safety: Safety, executed: Callable[[str], None], rng: Random) -> None:
        self.spec = ToolSpec(
            name=name,
            safety=safety,
            group="files",
            description=name,
            parameters=_PATH,
            repeatable=safety is Safety.SAFE,
        )
        self._executed = executed
        self._rng = rng

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        self._executed(f"{self.spec.name} {context.run_id} {context.call_id}")
        await asyncio.sleep(self._rng.choice((0.0, 0.02, 1.0)))
        return f"done with {arguments['path']}"


class Daemon:
    """One incarnation: from its start until it is stopped, crashes or is paused."""

    def __init__(self, world: "World") -> None:
        world.daemons += 1
        self.number = world.daemons
        self.world = world
        self.loop = VirtualLoop(world.now)
        # Its own, so that what it does while it is discarded decides nothing about the daemons after it.
        self.rng = Random(f"{world.seed} daemon {world.daemons}")
        self.model = SeededModel(self.rng, str(world.daemons))
        self.is_dead = False

    def build(self) -> None:
        """Called inside the loop."""
        world, clock, redactor = self.world, VirtualClock(), Redactor()
        self.clock = clock
        self.store = MemoryStore(world.database, clock, self._choose_latency)
        self.storage = storage = build_memory_storage(self.store)
        self.supervisor = supervisor = Supervisor(clock)
        self.bus = Bus(clock=clock, reserve=storage.reserve_event_numbers)
        config = world.config
        tools = ToolRegistry(config=lambda: config.current, clock=clock, has_coordinator=lambda: False)
        built_in: list[Tool] = [
            AskUser(),
            FileTool("fs_read", Safety.SAFE, world.note_execution, self.rng),
            FileTool("fs_delete", Safety.DANGEROUS, world.note_execution, self.rng),
        ]
        tools.set_built_in({tool.spec.name: tool for tool in built_in})
        self.budgets = Budgets(store=storage.store, config=lambda: self.world.config.current)
        self.notes = self._build_notes(storage, clock, redactor)
        self.runtime = Runtime(
            RuntimeDependencies(
                storage=storage,
                clock=clock,
                rng=self.rng,
                config=config,
                registry=_AGENTS,
                models=lambda _name: self.model,
                redactor=redactor,
                seals=FixedSeal(),
                secrets=NoSecrets(),
                workspace=lambda _key: "/",
                tools=tools,
                notes=self.notes,
                budgets=self.budgets,
                supervisor=supervisor,
                bus=self.bus,
                has_sandbox=_has_none,
                stop_jobs=_stop_nothing,
            )
        )

        if world.automates:
            self.automation = Automation(
                self.runtime, find_local_zone=lambda: "UTC", workflows=Path("no-workflows"), off_limits=_make_off_limits
            )

    def _build_notes(self, storage: Storage, clock: VirtualClock, redactor: Redactor) -> NoteTaker:
        config = self.world.config
        reflections = Reflections(
            notes=storage.notes,
            store=storage.store,
            clock=clock,
            config=lambda: config.current.tools.memory,
            redact=redactor,
        )
        return NoteTaker(
            reflections=reflections,
            agents=_AGENTS.get,
            models=lambda _name: self.model,
            complete=CountedCompletion(storage.store),
            charge=self.budgets.charge,
            supervisor=self.supervisor,
        )

    async def start(self) -> None:
        self.build()
        await self.bus.reserve_numbers()
        await self.runtime.recover()
        if self.world.automates:
            await self.automation.start()

    async def shut_down(self) -> None:
        """What SIGTERM does."""
        if self.world.automates:
            self.automation.close()
        self.runtime.close()
        await self.runtime.runs.stop(grace=self.rng.choice((0.0, 1.0, 10.0)))
        await self.supervisor.stop()
        await self.storage.store.close()

    def crash(self) -> None:
        """What kill -9 does. Nothing that happens from here on counts: a real one would do nothing."""
        self.is_dead = True
        if hasattr(self, "store"):
            self.store.crash()
        self.loop.discard()

    def _choose_latency(self) -> float:
        """How long a step of the store takes."""
        return self.rng.choice((0.0, 0.0, 0.001, 0.02))


async def _has_none() -> bool:
    return False


def _make_off_limits() -> OffLimits:
    raise AssertionError("no workflow is read from a file")


def _stop_nothing(_key: ConversationKey) -> None:
    return


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.daemons = 0
        # Whether its daemons have schedules and workflows.
        self.automates = False
        self.config = SimulatedConfig()
        self.database = Database()
        self.executed: dict[str, int] = {}
        self.trace: list[str] = []
        # Every event that a living daemon published.
        self.events: list[str] = []
        self._time = 0.0
        self._loop: VirtualLoop | None = None

    @property
    def now(self) -> float:
        return self._loop.time() if self._loop is not None else self._time

    def note_execution(self, call: str) -> None:
        self.executed[call] = self.executed.get(call, 0) + 1
        self.note(f"executes {call}")

    def note(self, text: str) -> None:
        self.trace.append(f"{self.now:10.3f} {text}")

    def run(self, daemon: Daemon, work: Coroutine[Any, Any, None], most_steps: int | None = None) -> bool:
        """Run work in a daemon's loop; False where it was stopped after so many steps."""
        return self.go_on(daemon, daemon.loop.create_task(work), most_steps)

    def go_on(self, daemon: Daemon, task: "asyncio.Task[None]", most_steps: int | None) -> bool:
        loop = self._loop = daemon.loop
        loop.advance(self._time - loop.time())
        try:
            is_done = loop.run_steps(task, most_steps)
        finally:
            self._time, self._loop = loop.time(), None
        if is_done:
            task.result()
        return is_done
