"""Queries the context window of a model from its server: Ollama, LM Studio, vLLM, llama.cpp."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from moot.cli.setup.providers import BY_KEY, Candidate, query_server
from moot.domain.config import ModelConfig

# What is said beyond these is no window.
_LEAST, _MOST = 256, 100_000_000
# It has just answered, so it is there; one that is slow to say this is not waited for.
_SECONDS = 5.0


def is_queried(model: ModelConfig) -> bool:
    """Whether its server is somebody's own: of the known providers it is known well enough."""
    known = {each.base_url for each in BY_KEY}
    return model.provider == "openai" and model.base_url not in known


async def query_window(candidate: Candidate, environ: Mapping[str, str]) -> int:
    """The tokens its model can see as it runs now; 0 where its server does not say.

    What a model was trained for is not asked: servers are set to less, and cut off what is beyond without a word.
    """
    ask = partial(query_server, candidate, environ, seconds=_SECONDS)
    row = _find_model_row(await ask("models"), "data", candidate.model)
    told = _parse_window(row.get("max_model_len"))
    if told:
        return told
    if row.get("owned_by") == "llamacpp":
        settings = (await ask("/props")).get("default_generation_settings")
        return _parse_window(settings.get("n_ctx")) if isinstance(settings, dict) else 0
    running = await ask("/api/ps")
    if isinstance(running.get("models"), list):
        return _parse_window(_find_model_row(running, "models", candidate.model).get("context_length"))
    loaded = _find_model_row(await ask("/api/v0/models"), "data", candidate.model)
    return _parse_window(loaded.get("loaded_context_length"))


def _find_model_row(answer: Mapping[str, Any], key: str, model: str) -> Mapping[str, Any]:
    """What a list of models says of this one; where it has only one, of that."""
    listed = answer.get(key)
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    names = (model, f"{model}:latest")
    named = [row for row in rows if row.get("id") in names or row.get("name") in names]
    return next(iter(named or (rows if len(rows) == 1 else [])), {})


def _parse_window(said: object) -> int:
    return said if isinstance(said, int) and not isinstance(said, bool) and _LEAST <= said <= _MOST else 0
