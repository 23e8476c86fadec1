"""The engine over a real store, with a scripted model, one tool, and a disk that can be made to wait or to fail."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from moot.daemon.clock import SystemClock
from moot.domain.agent import Agent
from moot.domain.config import Config, ModelConfig
from moot.domain.errors import MootError, StoreError
from moot.domain.events import Event, RunEnded
from moot.domain.message import Entry
from moot.domain.ports.hook import GateCall
from moot.domain.ports.tool import RunContext, Tool, ToolResult
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.run import RunEnd, RunRequest
from moot.domain.trace import TraceKind
from moot.engine.budget import Budgets
from moot.engine.bus import Bus
from moot.engine.compaction import Compaction
from moot.engine.dependencies import RunsDependencies
from moot.engine.gate import Gate
from moot.engine.history import Histories
from moot.engine.loop import Loop, LoopDependencies
from moot.engine.mailboxes import Mailboxes
from moot.engine.run_stream import RunStream
from moot.engine.runs import Runs
from moot.engine.supervisor import Supervisor
from moot.engine.turn import Brief, Briefing, Turn
from moot.models.scripted import Rule, RuleCall, ScriptedModel
from moot.store.inquiries import SqliteInquiries
from moot.store.mail import SqliteMail
from moot.store.memories import SqliteMemories
from moot.store.sqlite import SqliteStore, open_store
from moot.store.steps import SqliteSteps
from tests.unit.shelves import ADA, SetClock, asks_over

CALLING = Rule(match="act", calls=(RuleCall(name="act"),), after_tool="Done.")
TALKING = Rule(reply="You said: {user}")


class Disk:
    """The store, with writes that wait until they are let through, or that fail before or after they are done."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.appends = asyncio.Event()
        self.append_asked = asyncio.Event()
        self.enqueues = asyncio.Event()
        self.appends.set()
        self.enqueues.set()
        # Methods whose next call raises: `before` it did anything, or `after` it is on disk all the same.
        self.failing: dict[str, str] = {}
        self._last: asyncio.Task[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def _faulty(self, name: str, work: Callable[[], Any]) -> Any:
        when = self.failing.pop(name, "")
        if when == "before":
            raise StoreError("the disk is full")
        done = await work()
        if when == "after":
            raise StoreError("the disk says it failed")
        return done

    def begin(self, request: RunRequest, *, now: float, epoch: int = 0) -> Any:
        return self._later(self._faulty("begin", lambda: self._store.begin(request, now=now, epoch=epoch)))

    async def enqueue(self, request: RunRequest, *, now: float) -> None:
        await self.enqueues.wait()
        await self._faulty("enqueue", lambda: self._store.enqueue(request, now=now))

    def append(self, *given: Any, **more: Any) -> Any:
        async def appended() -> Any:
            await self.appends.wait()
            return await self._faulty("append", lambda: self._store.append(*given, **more))

        self.append_asked.set()
        return self._later(appended())

    def end(self, *given: Any, **more: Any) -> Any:
        return self._later(self._faulty("end", lambda: self._store.end(*given, **more)))

    def _later(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """One after the other, as they were handed over."""
        before = self._last

        async def in_order() -> Any:
            if before is not None:
                await asyncio.wait({before})
            return await work

        self._last = asyncio.get_running_loop().create_task(in_order())
        return self._last


class Act:
    """A tool with an effect: it notes what the disk holds at the moment it is run."""

    spec = ToolSpec(
        name="act", description="Do it.", parameters={"type": "object", "properties": {}}, safety=Safety.DANGEROUS
    )

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.found: list[list[str]] = []
        self.first: Callable[[RunContext], None] = lambda _context: None
        # What comes of it.
        self.result = ToolResult(content="acted")

    def line(self, arguments: dict[str, Any]) -> str:
        return "do\nit"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        self.first(context)
        entries: list[Entry] = await self._store.list_entries(context.key)
        self.found.append([call.name for entry in entries for call in entry.message.tool_calls])
        return self.result


class Notes:
    """What is noted for traces."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, TraceKind, dict[str, object]]] = []

    def note(self, run_id: str, kind: TraceKind, agent: str, /, **payload: Any) -> None:
        self.kept.append((run_id, kind, {"agent": agent, **payload}))


class NoneSpawned:
    """No run has spawned another."""

    def has_spawned(self, run_id: str) -> bool:
        return False

    def mark_shown(self, items: Sequence[str]) -> None:
        # Mail is shown in the same way.
        assert all(item.startswith("mail-") for item in items)


async def _unbriefed(_turn: Turn) -> Briefing:
    return Briefing()


@dataclass(kw_only=True)
class Engine:
    store: SqliteStore
    disk: Disk
    runs: Runs
    bus: Bus
    act: Act
    notes: Notes
    clock: SetClock
    mail: SqliteMail
    mailboxes: Mailboxes

    def start(self, content: str, run_id: str) -> "asyncio.Task[RunEnd | MootError]":
        return asyncio.get_running_loop().create_task(self.say(content, run_id))

    async def say(self, content: str, run_id: str) -> RunEnd | MootError:
        """The end of a turn, or the error that took its place."""
        stream = await self.runs.submit(RunRequest(id=run_id, key=ADA, speaker="ada", content=content))
        return await self.follow(stream)

    async def follow(self, stream: RunStream) -> RunEnd | MootError:
        over: asyncio.Future[RunEnd | MootError] = asyncio.get_running_loop().create_future()

        def read(item: Event | MootError) -> None:
            if over.done():
                return
            if isinstance(item, MootError):
                over.set_result(item)
            elif isinstance(item.body, RunEnded):
                over.set_result(item.body.end)

        leave = stream.subscribe(read)
        try:
            async with asyncio.timeout(30):
                return await over
        finally:
            leave()


async def _whole(_call: GateCall, result: ToolResult) -> ToolResult:
    return result


async def _lost(run_id: str, call_id: str) -> str:
    raise AssertionError((run_id, call_id))


def _agent(name: str) -> Agent:
    return Agent(name=name, description="", instruction="You act.")


def _config() -> Config:
    return Config(default_model="m", models={})


@asynccontextmanager
async def engine(
    folder: Path,
    *rules: Rule,
    brief: Brief = _unbriefed,
    agents: Callable[[str], Agent] = _agent,
    config: Callable[[], Config] = _config,
) -> AsyncIterator[Engine]:
    store = await open_store(folder / "moot.db", SystemClock())
    supervisor, clock, disk, act, notes = Supervisor(SetClock()), SetClock(), Disk(store), Act(store), Notes()
    bus, mail = Bus(clock=clock), SqliteMail(store)
    mailboxes = Mailboxes(mail)
    model = ScriptedModel(
        ModelConfig(name="m", provider="scripted"), rules=rules or (CALLING, TALKING), clock=SystemClock()
    )
    tools: dict[str, Tool] = {"act": act}
    compaction, asks = Compaction(store=disk, clock=clock), asks_over(store, clock=clock)
    loop = Loop(
        LoopDependencies(
            gate=Gate(tools=lambda: tools, hooks=lambda _: [], budget=_whole, restore=_lost),
            brief=brief,
            asks=asks,
            compaction=compaction,
            mailboxes=mailboxes,
            notes=notes,
            steps=SqliteSteps(store),
            clock=clock,
            rng=Random(1),
            memories=SqliteMemories(store),
            inquiries=SqliteInquiries(store),
        )
    )
    dependencies = RunsDependencies(
        store=disk,
        histories=Histories(disk),
        loop=loop,
        compaction=compaction,
        agents=agents,
        models=lambda _name: model,
        config=config,
        workspace=lambda _key: str(folder),
        clock=clock,
        asks=asks,
        supervisor=supervisor,
        bus=bus,
        budgets=Budgets(store=disk, config=config),
        spawned=NoneSpawned(),
    )
    runs = Runs(dependencies)
    try:
        yield Engine(
            store=store,
            disk=disk,
            runs=runs,
            bus=bus,
            act=act,
            notes=notes,
            clock=clock,
            mail=mail,
            mailboxes=mailboxes,
        )
    finally:
        disk.appends.set()
        disk.enqueues.set()
        await runs.stop(grace=0.0)
        await supervisor.stop()
        await store.close()
