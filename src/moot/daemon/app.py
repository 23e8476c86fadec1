"""The composition root: every part is chosen and joined here, started in order and stopped in reverse."""

import asyncio
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random, SystemRandom

from moot.agents.registry import Registry
from moot.daemon import tcp, unix
from moot.daemon.config import ConfigFile
from moot.daemon.connection import Listener, Serving
from moot.daemon.handlers import Handlers
from moot.daemon.hands import Hands, Parts
from moot.daemon.house import Facts, House
from moot.daemon.inbox import Inbox
from moot.daemon.lock import held
from moot.daemon.log import start_logging
from moot.daemon.mcp import McpRequests
from moot.daemon.paths import Paths, make_folder
from moot.daemon.placeholder_key import placeholder_key
from moot.daemon.principal import Principals
from moot.daemon.records import Beside, Records
from moot.daemon.secrets import SecretRequests
from moot.daemon.talk import Talk
from moot.daemon.workspaces import Workspaces
from moot.domain.agent import Agent
from moot.domain.conversation import ConversationKey
from moot.domain.errors import StoreError
from moot.domain.message import user
from moot.domain.note import Note
from moot.domain.ports import Model
from moot.domain.prompt import Prompt, Transcript
from moot.engine.approvals import Approvals
from moot.engine.asks import Asks
from moot.engine.compaction import Compaction
from moot.engine.completion import complete
from moot.engine.doors import Doors
from moot.engine.loop import Loop
from moot.engine.notes import Complete, Reflections
from moot.engine.runs import Runs
from moot.engine.supervisor import Supervisor, every
from moot.engine.turns import Wiring
from moot.failpoint import reach
from moot.hooks.masks import ModelMasks
from moot.hooks.redaction import LogRedaction, Redactor
from moot.models.catalog import Catalog
from moot.models.discretion import Discretion
from moot.store.approvals import StoredApprovals
from moot.store.notes import SqliteNotes
from moot.store.sqlite import SqliteStore, open_store

logger = logging.getLogger(__name__)

DRAIN_SECONDS = 10.0
_LOOK_AGAIN_SECONDS = 0.05
_TIDY_SECONDS = 5.0


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class Daemon:
    """Everything that lives while the daemon runs."""

    def __init__(self, paths: Paths, store: SqliteStore, redactor: Redactor) -> None:
        self.paths = paths
        self.store = store
        self.clock = SystemClock()
        self.rng: Random = SystemRandom()
        self.supervisor = Supervisor()
        self.config = ConfigFile(paths.config, last_good=paths.data / "config.last-good.toml")
        self.registry = Registry(paths.agents)
        self.redactor = redactor
        self.discretion = self._new_discretion()
        self.catalog = self._new_catalog()
        # Catalogs of earlier configurations, which runs in flight may still be using.
        self._outgoing: list[Catalog] = []
        self._looked_at = 0.0
        self.workspaces = Workspaces(paths.workspaces)
        self.facts = Facts(started=self.clock.monotonic())
        self.asks = Asks(clock=self.clock, rng=self.rng)
        self.approvals = Approvals(store=StoredApprovals(store), clock=self.clock, redact=redactor.secrets)
        self.reflections = Reflections(
            notes=SqliteNotes(store),
            store=store,
            clock=self.clock,
            config=lambda: self.config.current.hands.memory,
            redact=redactor,
        )
        self.hands = Hands(
            Parts(
                paths=paths,
                store=store,
                approvals=self.approvals,
                config=self.config,
                redactor=redactor,
                reflect=self.reflect,
                later=self.supervisor.start,
                clock=self.clock,
                rng=self.rng,
            )
        )
        self.runs = self._engine()
        self.principals = Principals(store, self.clock)
        self.serving = self._serving()

    def agent(self, name: str) -> Agent | None:
        """The agent as its file is now: a change counts from the next message on."""
        now = self.clock.monotonic()
        if name and (now - self._looked_at > _LOOK_AGAIN_SECONDS or self.registry.get(name) is None):
            self._looked_at = now
            self.registry.refresh_if_changed()
        return self.registry.get(name)

    async def reflect(self, key: ConversationKey) -> Note | None:
        return await self.reflections.reflect(key, self._completion(key))

    def grow(self, key: ConversationKey) -> None:
        """After a turn: note what the conversation has come to, where that is wanted."""
        if self.config.current.hands.memory.observe_every:
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
        return next((str(flaw) for flaw in self.registry.flaws if Path(flaw.path).parent.name == name), "")

    def reload(self) -> list[str]:
        """Read configuration and agents again; what is broken keeps its last good version and is told."""
        if self.config.reload():
            self._outgoing.append(self.catalog)
            self.catalog = self._new_catalog()
        self.registry.reload()
        self.hands.reload()
        self.know_keys()
        return [str(flaw) for flaw in (*self.config.flaws, *self.registry.flaws, *self.hands.flaws)]

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

    def _new_catalog(self) -> Catalog:
        known = self.redactor.register_key
        return Catalog(self.config.current, data_dir=self.paths.data, rng=self.rng, known=known)

    def _new_discretion(self) -> Discretion:
        return Discretion(
            ModelMasks(
                self.redactor,
                wanted=lambda: self.config.current.hands.interceptor.redact_personal,
                key=lambda: placeholder_key(self.paths.data / "placeholders.key"),
            )
        )

    def _engine(self) -> Runs:
        compaction = Compaction(store=self.store, clock=self.clock, redact=self.redactor)
        loop = Loop(
            gate=self.hands.gate,
            asks=self.asks,
            compaction=compaction,
            config=lambda: self.config.current,
            clock=self.clock,
            rng=self.rng,
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
                supervisor=self.supervisor,
                grow=self.grow,
            )
        )

    def _serving(self) -> Serving:
        doors = Doors(
            agents=self.agent,
            flaw=self.flaw,
            config=lambda: self.config.current,
            clock=self.clock,
            rng=self.rng,
            redact=self.redactor.secrets,
        )
        talk = Talk(doors=doors, runs=self.runs, asks=self.asks, clock=self.clock, stop=self.hands.stop)
        beside = Beside(
            jobs=self.hands.jobs,
            reload_rules=self.approvals.load,
            redact=self.redactor.secrets,
            workspaces=self.workspaces,
            line=self.hands.gate.line,
        )
        records = Records(store=self.store, runs=self.runs, doors=doors, clock=self.clock, beside=beside)
        house = House(
            store=self.store,
            registry=self.registry,
            config=self.config,
            catalog=lambda: self.catalog,
            reload=self.reload,
            principals=self.principals,
            runs=self.runs,
            asks=self.asks,
            clock=self.clock,
            facts=self.facts,
            sandbox=self.hands.describe_sandbox,
        )
        inbox = Inbox(asks=self.asks, approvals=self.approvals, gate=self.hands.gate)
        secrets = SecretRequests(vault=self.hands.vault, master=self.hands.master)
        mcp = McpRequests(self.hands.servers)
        handlers = Handlers(talk=talk, records=records, house=house, inbox=inbox, secrets=secrets, mcp=mcp)
        serving = Serving(handlers=handlers, tasks=self.supervisor, principals=self.principals)
        self.facts.connections = lambda: len(serving.connections)
        return serving

    async def recover(self) -> None:
        """Tell what the last daemon left unfinished as what it is, then take up what waited."""
        for run in await self.store.recover(now=self.clock.now()):
            logger.warning("run %s was interrupted: the daemon stopped while it went on", run.request.id)
        reach("daemon.recovered")
        await self.approvals.load()
        self.runs.take_up(await self.store.waiting_runs())
        self.runs.resume(await self.store.queued_runs())
        reach("daemon.resumed")


@asynccontextmanager
async def running(paths: Paths, redactor: Redactor) -> AsyncIterator[Daemon]:
    """A whole daemon with its doors open. Leaving drains it."""
    async with AsyncExitStack() as stack:
        _lock(paths, stack)
        store = await open_store(paths.store)
        stack.push_async_callback(store.close)
        daemon = Daemon(paths, store, redactor)
        daemon.know_keys()
        for flaw in (*daemon.config.flaws, *daemon.registry.flaws, *daemon.hands.flaws):
            logger.warning("%s", flaw)
        stack.push_async_callback(daemon.close_models)
        # Before the models: a note that is being written must not find its connection closed under it.
        stack.push_async_callback(daemon.supervisor.stop)
        stack.push_async_callback(daemon.hands.close)
        await daemon.hands.start()
        await daemon.recover()
        listeners: list[Listener] = [await unix.listen(paths.socket, daemon.serving)]
        stack.push_async_callback(_close_doors, daemon, listeners)
        reach("daemon.listening")
        listeners.extend(await _network_doors(daemon))
        daemon.supervisor.start("tidy", every(_TIDY_SECONDS, daemon.tidy))
        yield daemon


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
        from moot.daemon import http  # noqa: PLC0415 — a web server is not loaded where there is no web door

        page = await http.listen(listen.http, daemon.serving)
        daemon.facts.http = f"http://{page.address}"
        opened.append(page)
    return opened


def _lock(paths: Paths, stack: AsyncExitStack) -> None:
    """One daemon per home."""
    stack.enter_context(held(paths))
    make_folder(paths.run)
    paths.pid.write_text(f"{os.getpid()}\n", encoding="ascii")
    stack.callback(paths.pid.unlink, missing_ok=True)


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
    async with running(paths, redactor) as daemon:
        loop.add_signal_handler(signal.SIGHUP, daemon.reload)
        _settle_heap()
        _say_ready(daemon)
        await stop.wait()
        daemon.approvals.suspend()
        await daemon.runs.stop(grace=DRAIN_SECONDS)
    return 0


def _settle_heap() -> None:
    """What is here now stays; looking through it again and again for garbage would cost a tenth of every turn."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _say_ready(daemon: Daemon) -> None:
    doors = (f"unix:{daemon.paths.socket}", daemon.facts.tcp and f"tcp:{daemon.facts.tcp}", daemon.facts.http)
    where = " ".join(door for door in doors if door)
    sys.stdout.write(f"moot is ready: {where} (pid {os.getpid()})\n")
    sys.stdout.flush()
