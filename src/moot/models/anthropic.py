"""Adapter for Anthropic's Messages API. Always streams; encodes with `anthropic_wire`."""

import json
from collections.abc import AsyncGenerator, Sequence
from random import Random

from moot.domain.config import ModelConfig
from moot.domain.errors import ModelError
from moot.domain.message import Thinking
from moot.domain.ports.model import Finished, ModelEvent, ThinkingDone, ToolSupport
from moot.domain.prompt import Prompt
from moot.domain.usage import Usage
from moot.models.anthropic_wire import (
    REDACTED,
    AnthropicToolEncoder,
    Block,
    Delta,
    StreamedEvent,
    Tokens,
    can_think,
    decode_event,
    encode_request,
    parse_usage,
)
from moot.models.calls import CallAssembler
from moot.models.keys import Key
from moot.models.openai_wire import encode_text
from moot.models.prices import is_known, price
from moot.models.refusals import error_from_stream
from moot.models.scrub import one_line
from moot.models.streamed_text import StreamedText
from moot.models.transport import Endpoint, Http

VERSION = "2023-06-01"
MAX_TOKENS = 8192
_LEAST_THINKING = 1024


class AnthropicModel:
    """One configured model, with prompt caching of everything that stays the same."""

    def __init__(self, config: ModelConfig, *, http: Http, key: Key | None = None, rng: Random | None = None) -> None:
        self.config = config
        self.name = config.name
        self.provider = config.provider
        self.model = config.model
        self.window = config.window
        self.window_is_assumed = False
        self.tools = ToolSupport(config.tools or ToolSupport.NATIVE)
        path = "/messages" if config.base_url.rstrip("/").endswith("/v1") else "/v1/messages"
        self._endpoint = Endpoint(config, path, http=http, key=key or Key(model=config.name))
        self._rng = rng or Random()
        self._encode_tools = AnthropicToolEncoder()
        self._head = b'{"model":' + encode_text(config.model) + b',"stream":true,'

    def stream(self, prompt: Prompt) -> AsyncGenerator[ModelEvent, None]:
        answer = AnthropicAnswer(self.name, self._rng)
        return self._endpoint.guard(self._endpoint.answer(self.encode(prompt), answer, _auth_headers))

    def mask_prompt(self, prompt: Prompt) -> Prompt:
        return prompt

    def cost(self, usage: Usage) -> float:
        return price(self.config, usage).dollars

    async def find_window(self) -> None:
        """Do nothing: the window is configured or known."""

    async def has_price(self) -> bool:
        return await is_known(self.config)

    async def close(self) -> None:
        """Do nothing: the connections are shared."""

    def encode(self, prompt: Prompt) -> bytes:
        """Return the body of the request."""
        # The API refuses a history with tool calls if the request has no tools.
        native = bool(prompt.tools) and self.tools is not ToolSupport.NONE
        form, tools = "anthropic-text", b""
        if native:
            form = "anthropic-thinking" if self.config.thinking_tokens else "anthropic"
            tools = b'"tools":' + self._encode_tools(prompt.tools) + b","
        limit = prompt.max_tokens or self.config.max_output_tokens or MAX_TOKENS
        head = self._head
        if self.config.thinking_tokens and can_think(prompt.transcript.messages):
            budget = max(_LEAST_THINKING, self.config.thinking_tokens)
            # Thinking counts against the limit, which must leave room for the answer.
            limit += budget
            head += b'"thinking":{"type":"enabled","budget_tokens":%d},' % budget
        return encode_request(head + b'"max_tokens":%d,' % limit, prompt, form=form, tools=tools)


def _auth_headers(secret: str) -> dict[str, str]:
    return {"anthropic-version": VERSION} | ({"x-api-key": secret} if secret else {})


class AnthropicAnswer:
    """Assembles one streamed answer. Each network read yields at most one event of each kind."""

    __slots__ = ("_calls", "_model", "_seen", "_signature", "_stop", "_streamed", "_tokens", "_usage_seen", "done")

    def __init__(self, model: str, rng: Random) -> None:
        self._model = model
        self._calls = CallAssembler(rng)
        self._streamed = StreamedText()
        self._tokens = Tokens()
        self._usage_seen = False
        self._signature = ""
        self._stop = ""
        self._seen = False
        self.done = False

    def take(self, events: Sequence[bytes]) -> None:
        """Process the data of events. Raises ModelError if the server reports an error, or the format is unknown."""
        for data in events:
            if not data:
                continue
            try:
                event = decode_event(data)
            except (ValueError, RecursionError) as error:
                raise self._invalid_stream_error(data) from error
            if event.type == "content_block_delta" and event.delta is not None:
                self._add(event.index, event.delta)
            elif event.type == "content_block_start" and event.content_block is not None:
                self._start(event.index, event.content_block)
            elif event.type == "error":
                raise error_from_stream(event.error, model=self._model)
            else:
                self._note(event)

    def take_last(self, data: bytes) -> None:
        """Process an unterminated last event: used if complete, ignored if it was cut."""
        try:
            decode_event(data)
        except (ValueError, RecursionError):
            return
        self.take((data,))

    def drain(self) -> list[ModelEvent]:
        return self._streamed.drain()

    def finish(self) -> list[ModelEvent]:
        """Return the end of a complete answer. Raises ModelError if the answer was incomplete."""
        if not self._stop:
            raise ModelError(
                f"The answer of model '{self._model}' was cut off before its end."
                if self._seen
                else f"Model '{self._model}' answered nothing at all.",
                fix="Try again." if self._seen else f"Check `base_url` in [models.{self._model}].",
                retryable=True,
            )
        if self._stop == "refusal":
            raise ModelError(
                f"Model '{self._model}' stopped the answer for safety reasons.",
                fix="Put it differently, or use another model.",
            )
        self._streamed.end()
        truncated = self._stop in {"max_tokens", "model_context_window_exceeded"}
        for call in self._calls.ready(truncated=truncated):
            self._streamed.add(call)
        self._streamed.add(Finished(parse_usage(self._tokens) if self._usage_seen else None, truncated))
        return self._streamed.drain()

    def _note(self, event: StreamedEvent) -> None:
        """Process the ends of blocks and the frame around them. Unknown kinds are ignored, since new ones are added."""
        if event.type == "content_block_stop":
            self._streamed.end_thought(self._signature)
            self._signature = ""
        elif event.type == "message_start":
            self._seen = True
            self._count(event.message.usage if event.message is not None else None)
        elif event.type == "message_delta":
            self._count(event.usage)
            if event.delta is not None and event.delta.stop_reason:
                self._stop = event.delta.stop_reason
        elif event.type == "message_stop":
            self.done = True

    def _count(self, tokens: Tokens | None) -> None:
        """Update the usage. Counts are running totals: a later one replaces an earlier one."""
        if tokens is None:
            return
        self._usage_seen = True
        for name in tokens.__struct_fields__:
            value = getattr(tokens, name)
            if value is not None:
                setattr(self._tokens, name, value)

    def _start(self, index: int, block: Block) -> None:
        match block.type:
            case "tool_use":
                arguments = json.dumps(block.input) if block.input else ""
                self._calls.add(index, block.id, block.name, arguments)
            case "redacted_thinking":
                self._streamed.add(ThinkingDone(Thinking(text="", signature=REDACTED + block.data)))
            case "thinking":
                self._streamed.add_thinking(block.thinking)
                self._signature = block.signature
            case "text":
                self._streamed.add_text(block.text)

    def _add(self, index: int, delta: Delta) -> None:
        match delta.type:
            case "text_delta":
                self._streamed.add_text(delta.text)
            case "thinking_delta":
                self._streamed.add_thinking(delta.thinking)
            case "input_json_delta":
                self._calls.add(index, "", "", delta.partial_json)
            case "signature_delta":
                self._signature += delta.signature

    def _invalid_stream_error(self, data: bytes) -> ModelError:
        began = one_line(data[:200].decode("utf-8", "replace"), 80)
        return ModelError(
            f"Model '{self._model}' sent something that is not a message stream: {began!r}",
            fix=f"Check `base_url` in [models.{self._model}]; it should be Anthropic's API or one like it.",
            retryable=self._seen,
        )
