"""Reads and checks [models.NAME] tables."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import fields

from moot.domain.config import ModelConfig
from moot.models.pullable import MODELS

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Problems(Struct, frozen=True, kw_only=True):
    """(key, reason) pairs."""

    errors: tuple[tuple[str, str], ...]
    warnings: tuple[tuple[str, str], ...]


def build_model_config(name: str, values: dict[str, Any], default: ModelConfig | None, *, folder: Path) -> ModelConfig:
    """Return the table merged over the default of that name, unless it is for another provider."""
    if default is not None and values.get("provider", default.provider) == default.provider:
        known = {field.name: getattr(default, field.name) for field in fields(default)}
        values = known | values
    values = {"provider": ""} | values | {"name": name}
    if values["provider"] == "local" and not values.get("model"):
        values["model"] = name
    for key in ("script", "model"):
        text = values.get(key, "")
        is_file = bool(text) and (key == "script" or (values["provider"] == "local" and text.endswith(".gguf")))
        if is_file:
            values[key] = os.path.normpath(folder.absolute() / Path(text).expanduser())
    return ModelConfig(**values)


def check_model(model: ModelConfig, *, given: frozenset[str]) -> Problems:
    return Problems(errors=tuple(_find_errors(model, given)), warnings=tuple(_find_warnings(model)))


def _find_errors(model: ModelConfig, given: frozenset[str]) -> Iterator[tuple[str, str]]:
    if not model.provider:
        if "provider" not in given:
            yield "", f'[models.{model.name}] has no `provider`; add provider = "openai", for example'
        return
    if model.provider in ("openai", "anthropic") and not model.model and "model" not in given:
        yield "", f"[models.{model.name}] has no `model`; add the provider's name of the model"
    if model.provider == "local" and model.model not in MODELS and not model.model.endswith(".gguf"):
        names = ", ".join(MODELS)
        yield "model", f"there is no local model {ascii(model.model)}; there are {names}, or give a .gguf file"
    if model.base_url and (reason := find_url_problem(model.base_url)):
        yield "base_url", reason


def find_url_problem(url: str) -> str:
    """Return why an address cannot be the `base_url` of a model; "" if it can."""
    try:
        parts = urlsplit(url)
        port_is_good = parts.port is None or parts.port > 0
    except ValueError:
        return '`base_url` is not an address; write it like "http://127.0.0.1:11434/v1"'
    if parts.username or parts.password:
        return '`base_url` must not contain a user or password; use api_key = "env:VARIABLE"'
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_good:
        return '`base_url` must begin with http:// or https:// and a host, like "http://127.0.0.1:11434/v1"'
    if parts.query or parts.fragment or any(character.isspace() for character in url):
        return "`base_url` must end with the path; no spaces, ? or #"
    return ""


def _find_warnings(model: ModelConfig) -> Iterator[tuple[str, str]]:
    if model.provider == "scripted" and model.script and not os.path.isfile(model.script):
        yield "script", f"the script {model.script} does not exist"
    if model.provider == "local" and model.model.endswith(".gguf") and not os.path.isfile(model.model):
        yield "model", f"the file {model.model} does not exist"
    if model.base_url and model.provider not in ("openai", "anthropic"):
        yield "base_url", f"`base_url` is not used with the provider {model.provider}"
    if model.api_key and model.base_url and _is_unencrypted(model.base_url):
        yield "base_url", "the key is sent unencrypted over http://; use https://"


def _is_unencrypted(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "http" and parts.hostname not in _LOOPBACK
