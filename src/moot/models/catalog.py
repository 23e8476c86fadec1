"""The configured models by name, built on first use."""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

from msgspec.structs import replace

from moot.domain.config import Config, ModelConfig
from moot.domain.errors import ConfigError, MootError, NotFound
from moot.domain.ports.clock import Clock
from moot.domain.ports.embedding import EmbeddingModel
from moot.domain.ports.model import Model, ToolSupport
from moot.models.http_client import HttpClient
from moot.models.keys import Key, KeySource
from moot.models.prices import is_own_address
from moot.models.proxy import ProxyFinder
from moot.models.retry import RetryingModel, RetryPolicy
from moot.models.scripted import ScriptedModel

BASE_URLS = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}

# The assumed window if neither the configuration nor the server states one. For own servers it is a guess, large enough
# for all tools: a request that is too long is refused and then shortened, but a missing tool is a loss.
OWN_WINDOW = 32_768
WINDOWS = {"openai": 128_000, "anthropic": 200_000}


def default_window(provider: str, base_url: str) -> int:
    """Return the assumed window of a model."""
    return OWN_WINDOW if is_own_address(base_url) else WINDOWS.get(provider, 0)


class Catalog:
    """The models of one configuration.

    A changed configuration is a new catalog; close the old one when its runs end.
    """

    def __init__(
        self,
        config: Config,
        *,
        clock: Clock,
        data_dir: Path | str,
        rng: Random | None = None,
        http: Callable[[], HttpClient] | None = None,
        keys: KeySource = KeySource(),  # noqa: B008 - immutable
    ) -> None:
        self.config = config
        self._clock = clock
        self._data_dir = Path(data_dir)
        self._rng = rng or Random()
        proxies = ProxyFinder(config.network.proxy, os.environ, keys)
        self._make_http = http or (lambda: HttpClient(clock, proxies.find))
        self._keys = keys
        self._http: HttpClient | None = None
        self._models: dict[str, Model] = {}
        self._embeddings: dict[tuple[str, str], EmbeddingModel] = {}

    @property
    def names(self) -> list[str]:
        return sorted(self.config.models)

    def get(self, name: str = "") -> Model:
        """Return the model with that name; the default one for "". Raises NotFound or ConfigError."""
        name = name or self.config.default_model
        model = self._models.get(name)
        if model is None:
            model = self._models[name] = self._build(self._find(name))
        return model

    def get_embeddings(self, name: str, model: str) -> EmbeddingModel:
        """Return the embedding model `model` at the address of the model `name`. Raises NotFound or ConfigError."""
        found = self._embeddings.get((name, model))
        if found is None:
            found = self._embeddings[name, model] = self._build_embeddings(self._find(name), model)
        return found

    def _build_embeddings(self, config: ModelConfig, model: str) -> EmbeddingModel:
        from moot.models.embeddings import OpenAIEmbeddings  # noqa: PLC0415

        if config.provider != "openai":
            raise ConfigError(
                f"Model '{config.name}' has the provider '{config.provider}', which makes no vectors.",
                fix='Name a model with provider = "openai" in `embeddings` of [rag].',
            )
        retry_policy = self._build_retry_policy(config)
        return OpenAIEmbeddings(config, model, http=self._shared_http, key=self._key(config), retry_policy=retry_policy)

    def _build_retry_policy(self, config: ModelConfig) -> RetryPolicy:
        return RetryPolicy(retries=max(0, config.retries), rng=self._rng, clock=self._clock)

    async def find_problem(self, name: str) -> str:
        """Return why this model cannot be used now, or "". Makes no connection; may ask the keyring."""
        try:
            config = self._find(name)
            await self._key(config).get()
            self.get(name)
            if config.provider == "local":
                return _find_local_problem(config, self._data_dir)
        except MootError as error:
            return error.sentence
        return ""

    async def close(self) -> None:
        """Close every model and the connections they share."""
        models, self._models = list(self._models.values()), {}
        for model in models:
            await model.close()
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    def _find(self, name: str) -> ModelConfig:
        config = self.config.models.get(name)
        if config is None:
            known = ", ".join(self.names) or "none"
            raise NotFound(f"there is no model {name!r}", fix=f"Add [models.{name}], or use one of: {known}.")
        base_url = config.base_url or BASE_URLS.get(config.provider, "")
        window = config.window or default_window(config.provider, base_url)
        return replace(config, base_url=base_url, window=window)

    def _shared_http(self) -> HttpClient:
        if self._http is None or self._http.closed:
            self._http = self._make_http()
        return self._http

    def _build(self, config: ModelConfig) -> Model:
        _check_tools(config)
        model = self._adapter(config)
        return RetryingModel(model, self._build_retry_policy(config))

    def _adapter(self, config: ModelConfig) -> Model:
        # Each adapter is imported when the first model needs it.
        match config.provider:
            case "scripted":
                return ScriptedModel(config, clock=self._clock)
            case "openai":
                return self._openai(_fill_model_name(config), self._key(config))
            case "anthropic":
                from moot.models.anthropic import AnthropicModel  # noqa: PLC0415

                key = self._key(config)
                return AnthropicModel(_fill_model_name(config), http=self._shared_http, key=key, rng=self._rng)
            case "local":
                from moot.models.local import LocalModel  # noqa: PLC0415

                http, data_dir = self._shared_http, self._data_dir
                return LocalModel(config, http=http, clock=self._clock, data_dir=data_dir, rng=self._rng)
            case other:
                raise ConfigError(
                    f"Model '{config.name}' has the unknown provider '{other}'.",
                    fix="Use one of: openai, anthropic, local, scripted.",
                )

    def _key(self, config: ModelConfig) -> Key:
        return self._keys.build_key(config.api_key, model=config.name)

    def _openai(self, config: ModelConfig, key: Key) -> Model:
        from moot.models.openai import OpenAIModel  # noqa: PLC0415
        from moot.models.server_window import with_queried_window  # noqa: PLC0415
        from moot.models.toolchoice import ToolChoice  # noqa: PLC0415

        adapter = OpenAIModel(config, http=self._shared_http, key=key, rng=self._rng)
        model = ToolChoice(adapter, rng=self._rng) if config.tools == ToolSupport.SCHEMA else adapter
        if self.config.models[config.name].window or config.base_url == BASE_URLS["openai"]:
            return model
        return with_queried_window(model, config, http=self._shared_http, key=key)


def _fill_model_name(config: ModelConfig) -> ModelConfig:
    if not config.model:
        raise ConfigError(
            f"Model '{config.name}' does not say which model its provider should run.",
            fix=f"Set `model` in [models.{config.name}].",
        )
    return config


def _check_tools(config: ModelConfig) -> None:
    allowed = [*ToolSupport]
    if config.tools and config.tools not in allowed:
        raise ConfigError(
            f"`tools` of model '{config.name}' is '{config.tools}'.", fix=f"Use one of: {', '.join(allowed)}."
        )
    if config.tools == ToolSupport.SCHEMA and config.provider == "anthropic":
        raise ConfigError(
            f"Model '{config.name}' calls tools by itself; `tools = \"schema\"` is for models that cannot.",
            fix=f"Remove `tools` from [models.{config.name}].",
        )


def _find_local_problem(config: ModelConfig, data_dir: Path) -> str:
    from moot.models.local import find_problem  # noqa: PLC0415

    return find_problem(config, data_dir)
