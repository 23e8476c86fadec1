"""LiveModels: the models of the current configuration, and earlier ones that runs may still use."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from msgspec.structs import replace

from moot.daemon.config.config_file import ConfigFile
from moot.daemon.vault.placeholder_key import load_placeholder_key
from moot.domain.config import ModelConfig
from moot.domain.errors import MootError
from moot.domain.ports.clock import Clock
from moot.domain.ports.embedding import EmbeddingModel
from moot.domain.ports.model import Model
from moot.models.catalog import Catalog
from moot.models.http_client import HttpClient
from moot.models.keys import KeySource, ReadSecret, reveal
from moot.models.masking import PromptMasker
from moot.models.proxy import ProxyFinder
from moot.models.server_models import ModelServer, NoAnswer, list_models
from moot.redaction.masks import ModelMasks
from moot.redaction.redactor import Redactor


class LiveModels:
    """Provides models whose requests are masked: no secrets, and no personal data if so configured."""

    def __init__(
        self, *, config: ConfigFile, data: Path, redactor: Redactor, clock: Clock, rng: Random, read_secret: ReadSecret
    ) -> None:
        self._config = config
        self._data = data
        self._redactor = redactor
        self._clock = clock
        self._rng = rng
        self._read_secret = read_secret
        self._masker = PromptMasker(
            ModelMasks(
                redactor,
                wanted=lambda: config.current.tools.interceptor.redact_personal,
                key=lambda: load_placeholder_key(data / "placeholders.key"),
            )
        )
        self.catalog = self._new_catalog()
        # The models that were used since the configuration was read.
        self._models: dict[str, Model] = {}
        # Catalogs of earlier configurations.
        self._outgoing: list[Catalog] = []

    def get(self, name: str) -> Model:
        model = self._models.get(name)
        if model is None:
            model = self._models[name] = self._masker.over(self.catalog.get(name))
        return model

    def get_embeddings(self, name: str, model: str) -> EmbeddingModel:
        """Return a model that makes vectors, at the address of the model `name`."""
        from moot.models.embeddings import MaskedEmbeddings  # noqa: PLC0415 - used by few

        return MaskedEmbeddings(self.catalog.get_embeddings(name, model), self._masker.masks)

    def find_window(self, name: str) -> int:
        """Return the context window of a model; 0 if it cannot be used or the window is only assumed."""
        try:
            found = self.catalog.get(name)
        except MootError:
            return 0
        return 0 if found.window_is_assumed else found.window

    @asynccontextmanager
    async def open_candidate(self, model: ModelConfig, *, key: str) -> AsyncIterator[Model]:
        """Provide a model that is not configured, to test it with a key that is not stored."""
        if key:
            self._redactor.register_key(model.name, key)
        config = replace(self._config.current, models={model.name: model}, default_model=model.name)
        catalog = Catalog(config, clock=self._clock, data_dir=self._data, rng=self._rng, keys=self._keys(key))
        try:
            yield catalog.get()
        finally:
            await catalog.close()

    async def list_server_models(self, server: ModelServer, *, stored: str = "") -> list[str]:
        """Return the models that a server lists, which is not configured; empty if it does not answer.

        `stored` is where its key is, if that is not given.
        """
        if stored:
            key = await reveal(stored, place=f"Model '{server.name}'", read_secret=self._read_secret)
            server = replace(server, key=key)
        if server.key:
            self._redactor.register_key(server.name, server.key)
        http = HttpClient(self._clock, ProxyFinder(self._config.current.network.proxy, os.environ, self._keys()).find)
        try:
            return await list_models(http, server)
        except NoAnswer:
            return []
        finally:
            await http.close()

    def reload(self) -> None:
        """Use the models of the current configuration; active runs keep theirs."""
        self._outgoing.append(self.catalog)
        self.catalog, self._models = self._new_catalog(), {}

    async def close_outgoing(self) -> None:
        """Close the models of earlier configurations. Must be called while no run is active."""
        outgoing, self._outgoing = self._outgoing, []
        for catalog in outgoing:
            await catalog.close()

    async def close(self) -> None:
        await self.close_outgoing()
        await self.catalog.close()

    def _new_catalog(self) -> Catalog:
        config = self._config.current
        return Catalog(config, clock=self._clock, data_dir=self._data, rng=self._rng, keys=self._keys())

    def _keys(self, value: str = "") -> KeySource:
        return KeySource(on_lookup=self._redactor.register_key, read_secret=self._read_secret, value=value)
