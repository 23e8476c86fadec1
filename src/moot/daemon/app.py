"""The composition root: every part is chosen and joined here, started in order and stopped in reverse."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import Random, SystemRandom

from moot.daemon.clock import SystemClock
from moot.daemon.config.config_file import ConfigFile
from moot.daemon.listen import tcp, unix
from moot.daemon.lock import hold_home
from moot.daemon.log import start_logging
from moot.daemon.paths import Paths
from moot.daemon.principal import Principals
from moot.daemon.requests.daemon_info import DRAIN_SECONDS, DaemonFacts
from moot.daemon.requests.exchange import Listener
from moot.daemon.requests.team_info import build_registry
from moot.daemon.requests.wire_handlers import build_serving
from moot.daemon.team import Members, Team
from moot.daemon.toolset import Toolset, ToolsetParts
from moot.daemon.vault.placeholder_key import load_placeholder_key
from moot.daemon.workspaces import Workspaces
from moot.domain.agent import Agent
from moot.domain.conversation import ConversationKey
from moot.domain.errors import StoreError
from moot.domain.message import user
from moot.domain.note import Note
from moot.domain.ports.hook import GateCall
from moot.domain.ports.model import Model
from moot.domain.ports.storage import Storage
from moot.domain.ports.tool import Tool, ToolResult
from moot.domain.prompt import Prompt, Transcript
from moot.domain.run import Outcome, RunEnd, RunRequest, RunStatus
from moot.domain.trace import TraceKind
from moot.engine.asks import Asks
from moot.engine.bus import Bus
from moot.engine.compaction import Compaction
from moot.engine.completion import complete
from moot.engine.loop import Loop, LoopParts
from moot.engine.notes import Complete, Reflections
from moot.engine.rules import Rules
from moot.engine.runs import Runs
from moot.engine.supervisor import Supervisor
from moot.engine.turn import Briefing, Turn
from moot.engine.wiring import Wiring
from moot.failpoint import reach
from moot.models.catalog import Catalog
from moot.models.discretion import PromptMasker
from moot.redaction.masks import ModelMasks
from moot.redaction.redactor import LogRedaction, Redactor
from moot.store.sqlite import open_store
from moot.store.sqlite_storage import build_storage

logger = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = 0.05
# How long a thread keeps the interpreter while another one wants it.
_SWITCH_SECONDS = 0.0005
_TIDY_SECONDS = 5.0


class Daemon:
    """Everything that lives while the daemon runs."""

    def __init__(self, paths: Paths, config: ConfigFile, storage: Storage, redactor: Redactor) -> None:
        self.paths = paths
        self.store, self.steps = storage.store, storage.steps
        self._storage = storage
        self.clock = SystemClock()
        self.rng: Random = SystemRandom()
        self.supervisor = Supervisor(self.clock)
        self.bus = Bus(clock=self.clock, reserve=storage.reserve_event_numbers)
        self.config = config
        self.registry = build_registry(self.config, paths)
        self.redactor = redactor
        self.discretion = self._new_discretion()
        self.catalog = self._new_catalog()
        # Catalogs of earlier configurations, which runs in flight may still be using.
        self._outgoing: list[Catalog] = []
        self._looked_at = 0.0
        self._reloading = asyncio.Lock()
        self.workspaces = Workspaces(paths.workspaces)
        self.facts = DaemonFacts(started=self.clock.monotonic())
        self.asks = Asks(store=storage.asks, rules=Rules(storage.rules), clock=self.clock, redact=redactor.secrets)
        self.reflections = Reflections(
            notes=storage.notes,
            store=storage.store,
            clock=self.clock,
            config=lambda: self.config.current.hands.memory,
            redact=redactor,
        )
        self.hands = Toolset(
            ToolsetParts(
                paths=paths,
                storage=storage,
                asks=self.asks,
                config=self.config,
                redactor=redactor,
                reflect=self.reflect,
                control=self._control,
                admit=self._admit,
                notes=self,
                whose=self._whose,
                later=self.supervisor.start,
                clock=self.clock,
                rng=self.rng,
                bus=self.bus,
            )
        )
        self.runs = self._engine()
        self.team = self._new_team()
        self.principals = Principals(storage.store, self.clock)
        self.serving = build_serving(self)

    def agent(self, name: str) -> Agent | None:
        """The agent as its file is now: a change counts from the next message on."""
        now = self.clock.monotonic()
        if name and (now - self._looked_at > _LOOK_AGAIN_SECONDS or self.registry.get(name) is None):
            self._looked_at = now
            self.registry.refresh_if_changed()
        agent = self.registry.get(name)
        return self.team.orchestrator(agent) if agent is not None else None

    async def reflect(self, key: ConversationKey) -> Note | None:
        return await self.reflections.reflect(key, self._completion(key))

    def ended(self, request: RunRequest, end: RunEnd) -> None:
        """After a turn: see to those it set to work, and note what the conversation has come to if that is wanted."""
        self.team.teammates.parent_ended(request, end)
        if end.outcome is Outcome.COMPLETED and self.config.current.hands.memory.observe_every:
            key = request.key
            self.supervisor.start(f"notes on {key}", self.reflections.grow(key, self._completion(key)))

    def _completion(self, key: ConversationKey) -> Complete:
        async def completed(instructions: str, text: str) -> str:
            agent = self.agent(key.agent)
            model = self.model(agent.model if agent is not None else "")
            prompt = Prompt(system=(instructions,), transcript=Transcript([user(text)]), max_tokens=1024)
            return (await complete(model, prompt))[0]

        return completed

    def flaw(self, name: str) -> str:
        """What is wrong with the file of an agent that cannot be used."""
        return self.registry.problem(name)

    async def reload(self) -> list[str]:
        """Read configuration and agents again; what is broken keeps its last good version and is told."""
        async with self._reloading:
            if self.config.reload():
                self._outgoing.append(self.catalog)
                self.catalog = self._new_catalog()
            self.registry.reload()
            await self.hands.reload()
            self.know_keys()
        return [str(flaw) for flaw in (*self.config.flaws, *self.registry.flaws, *self.hands.flaws)]

    def hang_up(self) -> None:
        """What SIGHUP asks for. What is broken is told by whoever looks: the doctor, `moot status`."""
        self.supervisor.start("reload", self._reload_quietly())

    async def _reload_quietly(self) -> None:
        await self.reload()

    def know_keys(self) -> None:
        """Let no log or result show an API key the daemon uses."""
        references = [model.api_key for model in self.config.current.models.values()]
        references.append(self.config.current.hands.web.api_key)
        for reference in references:
            variable = reference.removeprefix("env:")
            value = os.environ.get(variable, "") if reference.startswith("env:") else ""
            self.redactor.register_key(variable, value)

    def model(self, name: str) -> Model:
        """The model of that name. Whoever asks it, it is told no secret, and no personal data where that is wanted."""
        return self.discretion.over(self.catalog.get(name))

    async def close_models(self) -> None:
        for catalog in (*self._outgoing, self.catalog):
            await catalog.close()

    async def tidy(self) -> None:
        """Small chores: write ends the disk refused, and close the models nobody can be using any more."""
        with suppress(StoreError):
            # The disk still refuses; whoever sent something has been told.
            await self.runs.settle_owed()
        if self._outgoing and not self.runs.lanes():
            outgoing, self._outgoing = self._outgoing, []
            for catalog in outgoing:
                await catalog.close()
        with suppress(StoreError):
            await self.hands.tidy()
            await self.team.tidy()
            await self.bus.reserve_numbers()

    def _new_catalog(self) -> Catalog:
        known = self.redactor.register_key
        return Catalog(self.config.current, data_dir=self.paths.data, rng=self.rng, known=known)

    def _new_discretion(self) -> PromptMasker:
        return PromptMasker(
            ModelMasks(
                self.redactor,
                wanted=lambda: self.config.current.hands.interceptor.redact_personal,
                key=lambda: load_placeholder_key(self.paths.data / "placeholders.key"),
            )
        )

    def _engine(self) -> Runs:
        compaction = Compaction(store=self.store, clock=self.clock, redact=self.redactor)
        loop = Loop(
            LoopParts(
                gate=self.hands.gate,
                brief=self._brief,
                asks=self.asks,
                compaction=compaction,
                notes=self,
                steps=self.steps,
                clock=self.clock,
                rng=self.rng,
            )
        )
        return Runs(
            Wiring(
                store=self.store,
                loop=loop,
                compaction=compaction,
                agents=self.agent,
                models=self.model,
                config=lambda: self.config.current,
                workspace=self.workspaces,
                clock=self.clock,
                asks=self.asks,
                supervisor=self.supervisor,
                bus=self.bus,
                ended=self.ended,
                outlasts=lambda request: self.team.teammates.leads(request.id),
                delivered=self._delivered,
            )
        )

    # The team is built on the engine, which is built on the hands; what these need of it is asked through here.

    def _control(self) -> Sequence[Tool]:
        return self.team.control()

    async def _admit(self, call: GateCall) -> GateCall | ToolResult:
        return await self.team.admit(call)

    def _whose(self, tool: str, offered: Collection[str]) -> str:
        return self.team.whose(tool, offered)

    def note(self, run_id: str, kind: TraceKind, agent: str, /, **payload: object) -> None:
        self.team.traces.note(run_id, kind, agent, **payload)

    def _delivered(self, run_ids: Sequence[str]) -> None:
        self.team.teammates.show(run_ids)

    async def _brief(self, turn: Turn) -> Briefing:
        return await self.team.brief(turn)

    def _new_team(self) -> Team:
        return Team(
            Members(
                runs=self.runs,
                storage=self._storage,
                asks=self.asks,
                kept=self.hands.kept,
                registry=self.registry,
                tools=self.hands.tools,
                stop=self.hands.stop,
                config=self.config,
                clock=self.clock,
                rng=self.rng,
                supervisor=self.supervisor,
                bus=self.bus,
                redact=self.redactor.for_log,
            )
        )

    async def recover(self) -> None:
        """End what the last daemon left and cannot go on, then take up the rest."""
        left = await self.store.recover()
        reach("daemon.recovered")
        await self.asks.start()
        turns = await self.team.teammates.recover(left)
        # In one go: what is owed to a turn must be kept for it before the turn asks for it.
        for run in sorted(turns, key=lambda run: run.status is RunStatus.QUEUED):
            self.runs.take_up(run)
        self.team.teammates.resume()
        reach("daemon.resumed")


@asynccontextmanager
async def running(paths: Paths, redactor: Redactor) -> AsyncIterator[Daemon]:
    """A whole daemon with its doors open. Leaving drains it."""
    async with AsyncExitStack() as stack:
        hold_home(paths, stack)
        config = ConfigFile(paths.config, last_good=paths.data / "config.last-good.toml")
        storage = await _open_storage(config, paths)
        stack.push_async_callback(storage.store.close)
        daemon = Daemon(paths, config, storage, redactor)
        daemon.know_keys()
        for flaw in (*daemon.config.flaws, *daemon.registry.flaws, *daemon.hands.flaws):
            logger.warning("%s", flaw)
        stack.push_async_callback(daemon.close_models)
        # Before the models: a note that is being written must not find its connection closed under it.
        stack.push_async_callback(daemon.supervisor.stop)
        stack.push_async_callback(daemon.hands.close)
        await daemon.hands.start()
        await daemon.bus.reserve_numbers()
        await daemon.recover()
        listeners: list[Listener] = [await unix.listen(paths.socket, daemon.serving)]
        stack.push_async_callback(_close_doors, daemon, listeners)
        reach("daemon.listening")
        listeners.extend(await _network_doors(daemon))
        daemon.supervisor.start("tidy", daemon.supervisor.repeat(_TIDY_SECONDS, daemon.tidy))
        yield daemon


async def _open_storage(config: ConfigFile, paths: Paths) -> Storage:
    if config.current.store.kind == "memory":
        from moot.store.memory.storage import open_memory_storage  # noqa: PLC0415 - few daemons need it

        logger.warning("everything is kept in memory and forgotten when the daemon stops ([store] kind)")
        return await open_memory_storage()
    return build_storage(await open_store(paths.store))


async def _close_doors(daemon: Daemon, listeners: list[Listener]) -> None:
    for listener in listeners:
        listener.stop_accepting()
    await daemon.runs.stop(grace=0.0)
    await daemon.serving.close()
    for listener in reversed(listeners):
        await listener.close()


async def _network_doors(daemon: Daemon) -> list[Listener]:
    opened: list[Listener] = []
    listen = daemon.config.current.listen
    if listen.tcp != "off":
        door = await tcp.listen(listen.tcp, daemon.serving)
        daemon.facts.tcp = door.address
        opened.append(door)
    if listen.http != "off":
        from moot.daemon.listen import http  # noqa: PLC0415 — a web server is not loaded where there is no web door

        page = await http.listen(listen.http, daemon.serving)
        daemon.facts.http = f"http://{page.address}"
        opened.append(page)
    return opened


def serve(paths: Paths) -> int:
    """Run the daemon in the foreground until a signal ends it."""
    redactor = Redactor()
    start_logging(paths, LogRedaction(redactor))
    try:
        import uvloop  # noqa: PLC0415 — not there on every system

        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    except ImportError:
        runner = asyncio.Runner()
    with runner:
        return runner.run(_serve(paths, redactor))


async def _serve(paths: Paths, redactor: Redactor) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            # At once means at once: what was acknowledged is on disk, the rest is told as interrupted next time.
            os._exit(0)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)

    def on_ready(daemon: Daemon) -> None:
        loop.add_signal_handler(signal.SIGHUP, daemon.hang_up)
        _tune_interpreter()
        sys.stdout.write(f"{describe_addresses(daemon)}\n")
        sys.stdout.flush()

    await serve_until(stop, paths, redactor, on_ready)
    return 0


async def serve_until(
    stop: asyncio.Event, paths: Paths, redactor: Redactor, on_ready: Callable[[Daemon], None]
) -> None:
    """Serve until the event is set, then let the runs in flight finish for a while."""
    async with running(paths, redactor) as daemon:
        on_ready(daemon)
        await stop.wait()
        daemon.asks.suspend()
        daemon.team.teammates.close()
        await daemon.runs.stop(grace=DRAIN_SECONDS)


def _tune_interpreter() -> None:
    # Let the writer's thread have its turn soon: with the usual five milliseconds it waits for a whole model call.
    sys.setswitchinterval(_SWITCH_SECONDS)
    # What is here now stays; looking through it again and again for garbage would cost a tenth of every turn.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def describe_addresses(daemon: Daemon) -> str:
    """The line that says that the daemon is ready, and where it listens."""
    doors = (f"unix:{daemon.paths.socket}", daemon.facts.tcp and f"tcp:{daemon.facts.tcp}", daemon.facts.http)
    where = " ".join(door for door in doors if door)
    return f"moot is ready: {where} (pid {os.getpid()})"
