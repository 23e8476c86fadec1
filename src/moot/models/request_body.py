"""Encodes a prompt as the body of a request, without a connection: for a record that is made into its request again."""

from typing import NoReturn

from moot.domain.config import ModelConfig
from moot.domain.ports.model import ToolSupport
from moot.domain.prompt import Prompt
from moot.models.anthropic import AnthropicModel
from moot.models.openai import OpenAIModel
from moot.models.toolchoice import ToolChoice


def encode_body(config: ModelConfig, prompt: Prompt) -> bytes:
    """What a model of this configuration is sent. One that is no server is shown in the OpenAI format."""
    if config.provider == "anthropic":
        return AnthropicModel(config, http=_no_connection).encode(prompt)
    model = OpenAIModel(config, http=_no_connection)
    return ToolChoice(model).encode(prompt) if config.tools == ToolSupport.SCHEMA else model.encode(prompt)


def _no_connection() -> NoReturn:
    raise AssertionError("a body is encoded, and not sent")
