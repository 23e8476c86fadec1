"""Queries the context window of a model from its server: Ollama, LM Studio, vLLM, llama.cpp."""

from collections.abc import Mapping
from functools import partial

from moot.cli.setup.providers import BY_KEY, Candidate, query_server
from moot.domain.config import ModelConfig

# Short, because the server has just answered a completion.
_SECONDS = 5.0


def is_queried(model: ModelConfig) -> bool:
    """Whether the window is queried: only for self-hosted servers; those of known providers are in the catalog."""
    known = {each.base_url for each in BY_KEY}
    return model.provider == "openai" and model.base_url not in known


async def query_window(candidate: Candidate, environ: Mapping[str, str], *, proxy: str = "") -> int:
    """The context window of the running model in tokens; 0 if the server does not report it."""
    from moot.models import server_window  # noqa: PLC0415 - slow to import, and only used here
    from moot.models.prices import is_own_address  # noqa: PLC0415

    ask = partial(query_server, candidate, environ, seconds=_SECONDS, proxy=proxy)
    return await server_window.query_window(ask, candidate.model, own=is_own_address(candidate.base_url))
