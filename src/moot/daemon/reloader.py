"""Reloader: reads configuration, agents, tools and skills again, for `moot reload` and SIGHUP."""

import asyncio
import logging
import os

from moot.agents.registry import Registry
from moot.daemon.config.config_file import ConfigFile
from moot.daemon.configured_broker import ConfiguredBroker
from moot.daemon.live_models import LiveModels
from moot.daemon.toolset import Toolset
from moot.domain.agent import FileProblem
from moot.models.proxy import list_environment
from moot.redaction.redactor import Redactor

logger = logging.getLogger(__name__)


class Reloader:
    def __init__(
        self,
        *,
        config: ConfigFile,
        registry: Registry,
        models: LiveModels,
        toolset: Toolset,
        redactor: Redactor,
        broker: ConfiguredBroker,
    ) -> None:
        self._config = config
        self._registry = registry
        self._models = models
        self._toolset = toolset
        self._redactor = redactor
        self._broker = broker
        self._lock = asyncio.Lock()
        self.register_keys()

    @property
    def flaws(self) -> tuple[FileProblem, ...]:
        return (*self._config.flaws, *self._registry.flaws, *self._toolset.flaws)

    async def reload(self) -> list[str]:
        """Read everything again and return the errors. An invalid file keeps its last valid version in use."""
        async with self._lock:
            if self._config.reload():
                self._models.reload()
                await self._broker.reload(self._config.current.broker)
            self._registry.reload()
            await self._toolset.reload()
            self.register_keys()
        logger.info("reloaded the configuration, agents, tools and skills")
        for flaw in self.flaws:
            logger.warning("%s", flaw)
        return [str(flaw) for flaw in self.flaws]

    async def reload_quietly(self) -> None:
        """Reload on a signal. Errors are reported by `moot doctor` and `moot status`."""
        await self.reload()

    def register_keys(self) -> None:
        """Register the keys and logins of configuration and environment, so that no log or result shows them."""
        config = self._config.current
        references = [model.api_key for model in config.models.values()]
        references += (config.tools.web.api_key, config.network.proxy)
        for reference in references:
            variable = reference.removeprefix("env:")
            value = os.environ.get(variable, "") if reference.startswith("env:") else ""
            self._redactor.register_key(variable, value)
        for name, value in list_environment(os.environ, "http", "https"):
            # An address without a login is no secret.
            if "@" in value:
                self._redactor.register_key(name, value)
