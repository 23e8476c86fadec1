"""Adapter for OpenAI-compatible chat/completions endpoints. Always streams; encodes with `openai_wire`."""

import json
from collections.abc import AsyncGenerator, Sequence
from random import Random
from typing import Any

import msgspec

from moot.domain.config import ModelConfig
from moot.domain.errors import ModelError
from moot.domain.events import Stage
from moot.domain.ports.model import Finished, ModelEvent, Preparing, ToolSupport
from moot.domain.prompt import Prompt
from moot.domain.usage import Usage
from moot.models.calls import CallAssembler
from moot.models.keys import Key
from moot.models.openai_wire import (
    CallPart,
    Chunk,
    Delta,
    ToolEncoder,
    decode_chunk,
    encode_request,
    encode_text,
    parse_usage,
    repair_chunk,
    share_of,
    take_texts,
)
from moot.models.prices import is_known, price
from moot.models.refusals import error_from_stream
from moot.models.scrub import one_line
from moot.models.streamed_text import StreamedText
from moot.models.toolchoice import Read
from moot.models.transport import Endpoint, Http

# OpenAI's newer models refuse the old name of the limit; other servers know only the old one.
_NEW_LIMIT_HOSTS = ("api.openai.com", ".openai.azure.com")


class OpenAIModel:
    """One configured model. Tools are offered in the provider's format; without tools, calls are rendered as text."""

    def __init__(self, config: ModelConfig, *, http: Http, key: Key | None = None, rng: Random | None = None) -> None:
        self.config = config
        self.name = config.name
        self.provider = config.provider
        self.model = config.model
        self.window = config.window
        self.window_is_assumed = False
        self.tools = ToolSupport(config.tools or ToolSupport.NATIVE)
        self._endpoint = Endpoint(config, "/chat/completions", http=http, key=key or Key(model=config.name))
        self._rng = rng or Random()
        self._encode_tools = ToolEncoder()
        new_limit = (self._endpoint.url.host or "").endswith(_NEW_LIMIT_HOSTS)
        self._limit = b'"max_completion_tokens":' if new_limit else b'"max_tokens":'
        self._head = b'{"model":' + encode_text(config.model) + b',"stream":true,'
        self._head += b'"stream_options":{"include_usage":true},'
        if config.provider == "local":
            self._head += b'"return_progress":true,'

    def stream(self, prompt: Prompt) -> AsyncGenerator[ModelEvent, None]:
        return self._endpoint.guard(self._answer(self.encode(prompt)))

    def encode(self, prompt: Prompt) -> bytes:
        """Return the body of the request."""
        # Some providers refuse tool calls in a history if the request has no tools.
        native = bool(prompt.tools) and self.tools is ToolSupport.NATIVE
        rest = b',"tools":' + self._encode_tools(prompt.tools) if native else b""
        form = "openai" if native else "openai-text"
        return encode_request(self._begin(prompt), prompt, form=form, rest=rest)

    def stream_constrained(
        self, prompt: Prompt, schema: dict[str, Any], read: Read
    ) -> AsyncGenerator[ModelEvent, None]:
        """Like `stream`, but the answer is JSON that follows this schema, decoded by `read`."""
        return self._endpoint.guard(read(self._answer(self.encode_constrained(prompt, schema))))

    def encode_constrained(self, prompt: Prompt, schema: dict[str, Any]) -> bytes:
        wanted = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}
        rest = b',"response_format":' + msgspec.json.encode(wanted)
        return encode_request(self._begin(prompt), prompt, form="openai-choices", rest=rest)

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

    def _begin(self, prompt: Prompt) -> bytes:
        limit = prompt.max_tokens or self.config.max_output_tokens
        return self._head + self._limit + b"%d," % limit if limit else self._head

    def _answer(self, body: bytes) -> AsyncGenerator[ModelEvent, None]:
        return self._endpoint.answer(body, OpenAIAnswer(self.name, self._rng), build_auth_headers)


def build_auth_headers(secret: str) -> dict[str, str]:
    """Return the headers for a key; none if there is no key."""
    return {"Authorization": f"Bearer {secret}"} if secret else {}


class OpenAIAnswer:
    """Assembles one streamed answer. Each network read yields at most one event of each kind."""

    __slots__ = ("_calls", "_finish", "_model", "_seen", "_streamed", "_usage", "done")

    def __init__(self, model: str, rng: Random) -> None:
        self._model = model
        self._calls = CallAssembler(rng)
        self._streamed = StreamedText()
        self._usage: Usage | None = None
        self._finish = ""
        self._seen = False
        self.done = False

    def take(self, events: Sequence[bytes]) -> None:
        """Process the data of events. Raises ModelError if the server reports an error, or the format is unknown.

        A long answer has thousands of events with a piece of text each; these are joined without a call for each.
        """
        text, others = take_texts(events)
        self._seen = self._seen or others is not events
        self._take_each(others, [text] if text else [])

    def _take_each(  # noqa: C901  (one pass: this is what a token costs if it comes alone)
        self, events: Sequence[bytes], pieces: list[str]
    ) -> None:
        """Process events of any kind, after the text in `pieces`."""
        for data in events:
            if not data or data == b"[DONE]":
                self.done = self.done or bool(data)
                continue
            try:
                chunk = decode_chunk(data)
            except (ValueError, RecursionError):
                chunk = self._repair(data)
            if chunk.error is not None:
                raise error_from_stream(chunk.error, model=self._model)
            if chunk.prompt_progress is not None:
                self._streamed.add(Preparing(Stage.READING, share_of(chunk.prompt_progress)))
            if chunk.usage is not None:
                self._usage = parse_usage(chunk.usage)
            # Of several choices, the first.
            for choice in chunk.choices or ():
                self._seen = True
                if choice.index:
                    continue
                if choice.finish_reason:
                    self._finish = choice.finish_reason
                delta = choice.delta or choice.message
                if delta is None:
                    continue
                if type(delta.content) is str and not (
                    delta.reasoning_content or delta.reasoning or delta.refusal or delta.tool_calls
                ):
                    pieces.append(delta.content)
                    continue
                self._say(pieces)
                self._add(delta)
        self._say(pieces)

    def _repair(self, data: bytes) -> Chunk:
        try:
            return repair_chunk(data)
        except (ValueError, RecursionError) as error:
            raise self._invalid_stream_error(data) from error

    def _say(self, pieces: list[str]) -> None:
        if text := "".join(pieces):
            self._streamed.add_text(text)
        pieces.clear()

    def _add(self, delta: Delta) -> None:
        thought = delta.reasoning_content or delta.reasoning
        if thought and isinstance(thought, str):
            self._streamed.add_thinking(thought)
        if delta.content:
            if isinstance(delta.content, str):
                self._streamed.add_text(delta.content)
            else:
                self._add_parts(delta.content)
        if delta.refusal:
            self._streamed.add_text(delta.refusal)
        for call in delta.tool_calls or ():
            self._add_call(call)

    def take_last(self, data: bytes) -> None:
        """Process an unterminated last event: used if complete, ignored if it was cut."""
        try:
            repair_chunk(data)
        except (ValueError, RecursionError):
            if data != b"[DONE]":
                return
        self.take((data,))

    def drain(self) -> list[ModelEvent]:
        return self._streamed.drain()

    def finish(self) -> list[ModelEvent]:
        """Return the end of a complete answer. Raises ModelError if the answer was incomplete."""
        if not self._finish and not (self.done and self._seen):
            raise self._truncated_error()
        if self._finish == "content_filter":
            raise ModelError(
                f"The content filter of model '{self._model}' stopped the answer.",
                fix="Put it differently, or use another model.",
            )
        self._streamed.end()
        truncated = self._finish == "length"
        for call in self._calls.ready(truncated=truncated):
            self._streamed.add(call)
        self._streamed.add(Finished(self._usage, truncated))
        return self._streamed.drain()

    def _add_parts(self, parts: list[Any]) -> None:
        """Add content in typed parts, as some reasoning models stream it."""
        for part in parts:
            kind = part.get("type") if isinstance(part, dict) else None
            if kind == "text":
                self._streamed.add_text(str(part.get("text") or ""))
            elif kind == "thinking":
                thought = part.get("thinking")
                pieces = thought if isinstance(thought, list) else [{"text": thought}]
                text = "".join(str(piece.get("text") or "") for piece in pieces if isinstance(piece, dict))
                self._streamed.add_thinking(text)

    def _add_call(self, call: CallPart) -> None:
        self._streamed.end_thought()
        name, arguments = "", ""
        if call.function is not None:
            name = call.function.name or ""
            given = call.function.arguments
            if given is not None:
                arguments = given if isinstance(given, str) else json.dumps(given)
        self._calls.add(call.index, call.id or "", name, arguments)

    def _truncated_error(self) -> ModelError:
        if not self._seen:
            return ModelError(
                f"Model '{self._model}' answered nothing at all.",
                fix=f"Check `base_url` in [models.{self._model}].",
                retryable=True,
            )
        return ModelError(
            f"The answer of model '{self._model}' was cut off before its end.", fix="Try again.", retryable=True
        )

    def _invalid_stream_error(self, data: bytes) -> ModelError:
        began = one_line(data[:200].decode("utf-8", "replace"), 80)
        return ModelError(
            f"Model '{self._model}' sent something that is not a chat completion: {began!r}",
            fix=f"Check `base_url` in [models.{self._model}]; it should be an OpenAI-compatible address.",
            retryable=self._seen,
        )
