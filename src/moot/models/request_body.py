"""Encodes a prompt as a request body without a connection, for recorded requests."""

from typing import NoReturn

from msgspec.structs import replace

from moot.domain.config import ModelConfig
from moot.domain.ports.model import ToolSupport
from moot.domain.prompt import Prompt
from moot.models.anthropic import AnthropicModel
from moot.models.openai import OpenAIModel
from moot.models.toolchoice import ToolChoice


def encode_body(config: ModelConfig, prompt: Prompt) -> bytes:
    """Return the body sent to a model of this configuration; in the OpenAI format if the model is not a server."""
    if not config.base_url:
        # A model without a server has no address, and a body does not depend on one.
        config = replace(config, base_url="http://127.0.0.1")
    if config.provider == "anthropic":
        return AnthropicModel(config, http=_no_connection).encode(prompt)
    model = OpenAIModel(config, http=_no_connection)
    return ToolChoice(model).encode(prompt) if config.tools == ToolSupport.SCHEMA else model.encode(prompt)


def _no_connection() -> NoReturn:
    raise AssertionError("a body is encoded, and not sent")
