"""Reloader: reads configuration, agents, tools and skills again, for `moot reload` and SIGHUP."""

import asyncio
import logging
import os
from contextlib import suppress

from msgspec import Struct

from moot.agents.registry import Registry
from moot.automation.scheduler import Scheduler
from moot.daemon.config.config_file import ConfigFile
from moot.daemon.configured_broker import ConfiguredBroker
from moot.daemon.live_models import LiveModels
from moot.daemon.toolset import Toolset
from moot.domain.agent import FileProblem
from moot.domain.errors import ConfigError
from moot.domain.events import DAEMON_SOURCE, ConfigReloaded
from moot.engine.bus import Bus
from moot.engine.supervisor import Supervisor
from moot.engine.warm_up import WarmUp
from moot.models.keys import reveal
from moot.models.proxy import list_environment
from moot.redaction.redactor import Redactor

logger = logging.getLogger(__name__)


class ReloaderDependencies(Struct, frozen=True, kw_only=True):
    config: ConfigFile
    registry: Registry
    models: LiveModels
    toolset: Toolset
    redactor: Redactor
    broker: ConfiguredBroker
    supervisor: Supervisor
    scheduler: Scheduler
    warm_up: WarmUp
    bus: Bus


class Reloader:
    def __init__(self, dependencies: ReloaderDependencies) -> None:
        self._d = dependencies
        self._config = dependencies.config
        self._registry = dependencies.registry
        self._toolset = dependencies.toolset
        self._redactor = dependencies.redactor
        self._lock = asyncio.Lock()
        self.register_keys()

    @property
    def flaws(self) -> tuple[FileProblem, ...]:
        return (*self._config.flaws, *self._registry.flaws, *self._toolset.flaws)

    async def reload(self) -> list[str]:
        """Read everything again and return the errors. An invalid file keeps its last valid version in use."""
        async with self._lock:
            is_changed = self._config.reload()
            if is_changed:
                self._d.models.reload()
                await self._d.broker.reload(self._config.current.broker)
            self._registry.reload()
            await self._toolset.reload()
            self._d.scheduler.wake()
            self.register_keys()
            if is_changed:
                # A new embedded model, such as the first one that `moot init` has set up, knows no instructions yet.
                self._d.warm_up.start()
            # It may wait until somebody has unlocked the keyring.
            self._d.supervisor.start("read the keyring", self.register_keyring())
        self._d.bus.publish(DAEMON_SOURCE, ConfigReloaded())
        logger.info("reloaded the configuration, agents, tools and skills")
        for flaw in self.flaws:
            logger.warning("%s", flaw)
        return [str(flaw) for flaw in self.flaws]

    async def reload_quietly(self) -> None:
        """Reload on a signal. Errors are reported by `moot doctor` and `moot status`."""
        await self.reload()

    def register_keys(self) -> None:
        """Register the keys and logins of configuration and environment, so that no log or result shows them."""
        for reference in self._list_references():
            variable = reference.removeprefix("env:")
            value = os.environ.get(variable, "") if reference.startswith("env:") else ""
            self._redactor.register_key(variable, value)
        for name, value in list_environment(os.environ, "http", "https"):
            # An address without a login is no secret.
            if "@" in value:
                self._redactor.register_key(name, value)

    async def register_keyring(self) -> None:
        """Register what the configuration refers to in the keyring, before it is used for the first time."""
        for reference in self._list_references():
            if reference.startswith("keyring:"):
                # Whoever uses it reports what is wrong with it.
                with suppress(ConfigError):
                    self._redactor.register_key(
                        reference[len("keyring:") :], await reveal(reference, place="[keyring]")
                    )

    def _list_references(self) -> list[str]:
        config = self._config.current
        found = [model.api_key for model in config.models.values()]
        for server in config.tools.mcp.values():
            found += (*server.env.values(), *server.headers.values())
        return [*found, config.tools.web.api_key, config.network.proxy, config.telemetry.authorization]
