"""Queries the context window of a model from its server: Ollama, LM Studio, vLLM, llama.cpp."""

from collections.abc import Mapping
from functools import partial

from moot.cli.setup.providers import BY_KEY, Candidate, query_server
from moot.domain.config import ModelConfig

# It has just answered, so it is there; one that is slow to say this is not waited for.
_SECONDS = 5.0


def is_queried(model: ModelConfig) -> bool:
    """Whether its server is somebody's own: of the known providers it is known well enough."""
    known = {each.base_url for each in BY_KEY}
    return model.provider == "openai" and model.base_url not in known


async def query_window(candidate: Candidate, environ: Mapping[str, str]) -> int:
    """The tokens its model can read as it runs now; 0 where its server does not say."""
    from moot.models import server_window  # noqa: PLC0415 - slow to import, and only used here
    from moot.models.prices import is_own_address  # noqa: PLC0415

    ask = partial(query_server, candidate, environ, seconds=_SECONDS)
    return await server_window.query_window(ask, candidate.model, own=is_own_address(candidate.base_url))
