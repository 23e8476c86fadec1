"""The composition root: every part is chosen and joined here, started in order and stopped in reverse."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from random import Random, SystemRandom

from moot.automation.automation import Automation
from moot.daemon.address import PortTaken
from moot.daemon.agent_registry import build_registry
from moot.daemon.clock import SystemClock
from moot.daemon.config.config_file import ConfigFile
from moot.daemon.configured_broker import ConfiguredBroker
from moot.daemon.daemon_link import build_link
from moot.daemon.descriptors import get_descriptor_limit
from moot.daemon.listen import tcp, unix
from moot.daemon.live_models import LiveModels
from moot.daemon.local_zone import find_local_zone
from moot.daemon.lock import hold_home
from moot.daemon.log import rotate_console
from moot.daemon.open_storage import open_storage
from moot.daemon.path_mask import PathMask
from moot.daemon.paths import Paths
from moot.daemon.principal import Principals
from moot.daemon.reloader import Reloader, ReloaderDependencies
from moot.daemon.requests.admission import Admission, ConnectionLimits
from moot.daemon.requests.build_handlers import HandlerDependencies, build_handlers
from moot.daemon.requests.daemon_info import DRAIN_SECONDS, DaemonFacts
from moot.daemon.requests.exchange import Listener, Serving
from moot.daemon.telemetry.telemetry import Telemetry, TelemetryDependencies
from moot.daemon.toolset import Toolset, ToolsetDependencies
from moot.daemon.vault.master_key import MasterKey
from moot.daemon.vault.vault import Vault
from moot.daemon.workspaces import Workspaces
from moot.domain.errors import StoreError
from moot.domain.ports.clock import Clock
from moot.domain.ports.storage import Storage
from moot.engine.budget import Budgets
from moot.engine.bus import Bus
from moot.engine.completion import CountedCompletion
from moot.engine.notes import NoteTaker, Reflections
from moot.engine.supervisor import Supervisor
from moot.failpoint import reach
from moot.multiagent.runtime import Runtime, RuntimeDependencies
from moot.redaction.redactor import Redactor
from moot.retrieval.retrieval import Retrieval

logger = logging.getLogger(__name__)

_SYSTEM_CLOCK = SystemClock()
_TIDY_SECONDS = 5.0
_EXPIRE_SECONDS = 1.0


class Daemon:
    """The components of a running daemon, in the order they are built."""

    def __init__(
        self, paths: Paths, config: ConfigFile, storage: Storage, redactor: Redactor, clock: Clock = _SYSTEM_CLOCK
    ) -> None:
        self.paths = paths
        self.storage = storage
        self.redactor = redactor
        self.clock = clock
        self.rng: Random = SystemRandom()
        self.supervisor = Supervisor(self.clock)
        self.bus = Bus(clock=self.clock, reserve=storage.reserve_event_numbers)
        self.config = config
        self.registry = build_registry(self.config, paths)
        settings = config.current.tools
        self.master_key = MasterKey(paths.data / "vault.key", place=settings.vault.key, clock=self.clock)
        self.vault = Vault(
            secrets=storage.secrets,
            master=self.master_key,
            known=redactor,
            clock=self.clock,
            decrypted_seconds=settings.vault.decrypted_seconds,
        )
        self.models = LiveModels(
            config=self.config,
            data=paths.data,
            redactor=redactor,
            clock=self.clock,
            rng=self.rng,
            read_secret=self.vault.read_for_configuration,
        )
        self.workspaces = Workspaces(paths.workspaces)
        self.budgets = self._build_budgets()
        self.notes = self._build_notes()
        self.toolset = self._build_toolset()
        self.telemetry = Telemetry(
            TelemetryDependencies(
                config=config.first,
                clock=self.clock,
                bus=self.bus,
                known_tools=self.toolset.registry.tools,
                redact=redactor.for_log,
                register_key=redactor.register_key,
                read_secret=self.vault.read_for_configuration,
            )
        )
        self.broker = ConfiguredBroker(
            config.current.broker,
            clock=self.clock,
            supervisor=self.supervisor,
            read_secret=self.vault.read_for_configuration,
            register_key=redactor.register_key,
        )
        self.runtime = self._build_runtime()
        self.automation = Automation(
            self.runtime,
            find_local_zone=find_local_zone,
            workflows=paths.workflows,
            off_limits=self.toolset.off_limits,
        )
        self.retrieval = Retrieval(
            self.runtime, off_limits=self.toolset.off_limits, embeddings=self.models.get_embeddings
        )
        self.reloader = Reloader(
            ReloaderDependencies(
                config=self.config,
                registry=self.registry,
                models=self.models,
                toolset=self.toolset,
                redactor=redactor,
                broker=self.broker,
                supervisor=self.supervisor,
                scheduler=self.automation.scheduler,
                warm_up=self.runtime.warm_up,
                bus=self.bus,
            )
        )
        saved = self.automation.library.saved
        self.principals = Principals(storage.store, self.clock, has_files=lambda sender: bool(saved.list_names(sender)))
        self.facts = DaemonFacts(started=self.clock.monotonic())
        limits = ConnectionLimits.from_descriptors(get_descriptor_limit())
        self.admission = Admission(self.clock, limits)
        self.serving = self._build_serving()

    async def recover(self) -> None:
        """Take up what an earlier daemon left, then start what is due."""
        await self.runtime.recover()
        await self.automation.start()
        self.retrieval.start()

    async def tidy(self) -> None:
        """Write ends that the disk refused before, notice answers of others, and close models no longer in use."""
        runs = self.runtime.runs
        with suppress(StoreError):
            # The disk still refuses; the senders have been informed.
            await runs.settle_owed()
        if not runs.local_lanes():
            await self.models.close_outgoing()
        await asyncio.to_thread(rotate_console, self.paths)
        with suppress(StoreError):
            await self.runtime.asks.refresh_all()
            await self.toolset.tidy()
            await self.runtime.expire_traces()
            await self.bus.reserve_numbers()

    def _build_budgets(self) -> Budgets:
        config = self.config
        return Budgets(store=self.storage.store, config=lambda: config.current)

    def _build_notes(self) -> NoteTaker:
        config = self.config
        reflections = Reflections(
            notes=self.storage.notes,
            store=self.storage.store,
            clock=self.clock,
            config=lambda: config.current.tools.memory,
            redact=self.redactor,
        )
        return NoteTaker(
            reflections=reflections,
            agents=self.registry.get,
            models=self.models.get,
            complete=CountedCompletion(self.storage.store),
            charge=self.budgets.charge,
            supervisor=self.supervisor,
        )

    def _build_toolset(self) -> Toolset:
        registry = self.registry
        return Toolset(
            ToolsetDependencies(
                paths=self.paths,
                storage=self.storage,
                config=self.config,
                redactor=self.redactor,
                vault=self.vault,
                notes=self.notes,
                supervisor=self.supervisor,
                clock=self.clock,
                rng=self.rng,
                bus=self.bus,
                has_coordinator=lambda: registry.has_coordinator,
            )
        )

    def _build_runtime(self) -> Runtime:
        return Runtime(
            RuntimeDependencies(
                storage=self.storage,
                clock=self.clock,
                rng=self.rng,
                config=self.config,
                registry=self.registry,
                models=self.models.get,
                redactor=self.redactor,
                seals=self.vault,
                secrets=self.vault,
                workspace=self.workspaces,
                tools=self.toolset.registry,
                notes=self.notes,
                budgets=self.budgets,
                supervisor=self.supervisor,
                bus=self.bus,
                has_sandbox=self.toolset.has_sandbox,
                stop_jobs=self.toolset.stop,
                read_project=self.toolset.read_project,
                observe_model=self.telemetry.make_model_observer(),
                link=build_link(self.broker, self.config, self.paths.data),
            )
        )

    def _build_serving(self) -> Serving:
        handlers = build_handlers(
            HandlerDependencies(
                storage=self.storage,
                clock=self.clock,
                rng=self.rng,
                config=self.config,
                registry=self.registry,
                models=self.models,
                redactor=self.redactor,
                vault=self.vault,
                master_key=self.master_key,
                workspaces=self.workspaces,
                supervisor=self.supervisor,
                bus=self.bus,
                toolset=self.toolset,
                runtime=self.runtime,
                automation=self.automation,
                retrieval=self.retrieval,
                reloader=self.reloader,
                principals=self.principals,
                facts=self.facts,
                admission=self.admission,
                broker=self.broker,
            )
        )
        return Serving(
            handlers=handlers,
            tasks=self.supervisor,
            principals=self.principals,
            find_config_problem=self.config.find_problem,
            admission=self.admission,
            connections=self.facts.connections,
            mask=PathMask(self.paths.own),
            metrics=self.telemetry.build_metrics_page(
                storage=self.storage,
                asks=self.runtime.asks,
                admission=self.admission,
                dropped_mail=self.runtime.peers.dropped_mail,
                token_file=self.paths.metrics_token,
            ),
        )


@asynccontextmanager
async def running(paths: Paths, redactor: Redactor, clock: Clock = _SYSTEM_CLOCK) -> AsyncIterator[Daemon]:
    """Run a complete daemon that accepts connections; drain it on exit."""
    async with AsyncExitStack() as stack:
        hold_home(paths, stack)
        await _finish_restore(paths)
        config = ConfigFile(paths.config, last_good=paths.data / "config.last-good.toml")
        storage = await open_storage(config, paths, clock)
        stack.push_async_callback(storage.store.close)
        daemon = Daemon(paths, config, storage, redactor, clock)
        for flaw in daemon.reloader.flaws:
            logger.warning("%s", flaw)
        stack.push_async_callback(daemon.models.close)
        # Stopped before the models are closed, because tasks such as notes may still use them.
        stack.push_async_callback(daemon.supervisor.stop)
        stack.push_async_callback(daemon.toolset.close)
        await daemon.toolset.start()
        stack.push_async_callback(daemon.broker.close)
        await daemon.broker.start()
        await daemon.bus.reserve_numbers()
        # Before any run goes on, because a daemon that cannot have its socket and ports ends, and would interrupt it.
        owner_socket = stack.enter_context(unix.open_socket(paths.socket))
        ports = _open_ports(daemon, stack)
        await daemon.recover()
        stack.push_async_callback(daemon.runtime.peers.stop)
        listeners: list[Listener] = [await unix.listen(owner_socket, daemon.serving)]
        stack.push_async_callback(_close_listeners, daemon, listeners)
        reach("daemon.listening")
        listeners.extend(await _listen_on_network(daemon, ports))
        expire = daemon.supervisor.repeat(_EXPIRE_SECONDS, daemon.admission.expire)
        daemon.supervisor.start("expire connections", expire)
        daemon.telemetry.start(daemon.supervisor)
        # In the background, because a keyring may ask for a password first.
        daemon.supervisor.start("read the keyring", daemon.reloader.register_keyring())
        daemon.supervisor.start("tidy", daemon.supervisor.repeat(_TIDY_SECONDS, daemon.tidy))
        yield daemon


async def _finish_restore(paths: Paths) -> None:
    """Complete a restore that was interrupted after it was decided."""
    if paths.restore_plan.exists():
        from moot.daemon.backup.restore import finish_restore  # noqa: PLC0415 - hardly ever needed

        await asyncio.to_thread(finish_restore, paths)


async def _close_listeners(daemon: Daemon, listeners: list[Listener]) -> None:
    for listener in listeners:
        listener.stop_accepting()
    await daemon.runtime.runs.stop(grace=0.0)
    await daemon.serving.close()
    for listener in reversed(listeners):
        await listener.close()


def _open_ports(daemon: Daemon, stack: AsyncExitStack) -> dict[str, socket.socket]:
    """Open the configured ports. A default port that is taken is reported, and the daemon starts without it."""
    ports: dict[str, socket.socket] = {}
    listen = daemon.config.current.listen
    if listen.tcp != "off":
        with _reporting_taken_port(daemon.facts):
            ports["tcp"] = stack.enter_context(tcp.open_port(listen.tcp))
    if listen.http != "off":
        from moot.daemon.listen import http  # noqa: PLC0415 — a web server is not loaded where none is configured

        with _reporting_taken_port(daemon.facts):
            ports["http"] = stack.enter_context(http.open_port(listen.http))
    return ports


async def _listen_on_network(daemon: Daemon, ports: Mapping[str, socket.socket]) -> list[Listener]:
    """Accept connections at the open ports."""
    opened: list[Listener] = []
    if "tcp" in ports:
        listener = await tcp.listen(ports["tcp"], daemon.serving)
        daemon.facts.tcp = listener.address
        opened.append(listener)
    if "http" in ports:
        from moot.daemon.listen import http  # noqa: PLC0415 — loaded already

        page = await http.listen(ports["http"], daemon.serving)
        daemon.facts.http = f"http://{page.address}"
        opened.append(page)
    return opened


@contextmanager
def _reporting_taken_port(facts: DaemonFacts) -> Iterator[None]:
    try:
        yield
    except PortTaken as error:
        logger.error("%s. The daemon runs without it. %s", error.message, error.fix)
        facts.problems.append(error)


async def serve_until(
    stop: asyncio.Event,
    paths: Paths,
    redactor: Redactor,
    on_ready: Callable[[Daemon], None],
    clock: Clock = _SYSTEM_CLOCK,
) -> None:
    """Serve until the event is set, then give active runs some time to finish."""
    async with running(paths, redactor, clock) as daemon:
        on_ready(daemon)
        daemon.runtime.warm_up.start()
        await stop.wait()
        daemon.automation.close()
        daemon.runtime.close()
        await daemon.runtime.runs.stop(grace=DRAIN_SECONDS)


def describe_addresses(daemon: Daemon) -> str:
    """Return the line that reports that the daemon is ready and where it listens."""
    addresses = (f"unix:{daemon.paths.socket}", daemon.facts.tcp and f"tcp:{daemon.facts.tcp}", daemon.facts.http)
    where = " ".join(address for address in addresses if address)
    return f"moot is ready: {where} (pid {os.getpid()})"
