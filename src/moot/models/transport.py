"""HTTP transport to a model server: one request, a streamed answer, limits, timeouts, typed errors."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Protocol

from moot.domain.config import ModelConfig
from moot.domain.errors import ConfigError, ModelError
from moot.domain.ports.model import ModelEvent
from moot.models.http_client import HttpClient
from moot.models.http_errors import ConnectError, HttpError, ProxyError, TlsError
from moot.models.http_response import Response
from moot.models.http_url import Url, parse_url
from moot.models.key_removal import hide_in_error, hide_key
from moot.models.keys import Key
from moot.models.prices import preload
from moot.models.refusals import describe_connect_error, error_from_status, parse_retry_after, read_refusal
from moot.models.scrub import one_line
from moot.models.sse import SseDecoder

Http = Callable[[], HttpClient]

MAX_ANSWER = 64 * 1024 * 1024
_MAX_REFUSAL = 64 * 1024
# How long to wait for the end of a finished answer before its connection is closed.
_LINGER_SECONDS = 0.1


class AnswerDecoder(Protocol):
    """Assembles one streamed answer in a provider's format."""

    done: bool

    def take(self, events: Sequence[bytes]) -> None: ...

    def take_last(self, data: bytes) -> None: ...

    def drain(self) -> list[ModelEvent]: ...

    def finish(self) -> list[ModelEvent]: ...


class Endpoint:
    """The address of one configured model, and what every request to it has in common."""

    def __init__(self, config: ModelConfig, path: str, *, http: Http, key: Key) -> None:
        self.name = config.name
        self._config = config
        self.url = _request_url(config, path)
        self.key = key
        self._http = http
        self._idle = config.idle_seconds

    async def answer(
        self, body: bytes, answer: "AnswerDecoder", sign: Callable[[str], Mapping[str, str]]
    ) -> AsyncGenerator[ModelEvent, None]:
        """Send the body and yield the events of the answer. `sign` returns the headers for a key.

        Every failure is a ModelError.
        """
        preload(self._config)
        headers = {"Accept": "text/event-stream", "Content-Type": "application/json", **sign(await self.secret())}
        events = SseDecoder()
        response = await self._post(body, headers)
        # A request with many tools is large, and the answer may take long.
        del body
        try:
            while chunk := await self._read(response):
                answer.take(events.feed(chunk))
                for event in answer.drain():
                    yield event
                if answer.done:
                    if not response.is_complete:
                        await response.drain(_LINGER_SECONDS)
                    break
            else:
                for data in events.close():
                    if events.is_document:
                        answer.take((data,))
                    else:
                        answer.take_last(data)
        finally:
            response.close()
        for event in answer.finish():
            yield event

    async def fetch(self, body: bytes, sign: Callable[[str], Mapping[str, str]]) -> bytes:
        """Send the body and return the whole answer, which is not streamed. Every failure is a ModelError."""
        preload(self._config)
        secret = await self.secret()
        headers = {"Accept": "application/json", "Content-Type": "application/json", **sign(secret)}
        try:
            response = await self._post(body, headers)
            chunks: list[bytes] = []
            try:
                while chunk := await self._read(response):
                    chunks.append(chunk)
            finally:
                response.close()
        except ModelError as error:
            hide_in_error(error, secret)
            raise
        return b"".join(chunks)

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> Response:
        """Send the body and return the response if it may be a completion."""
        try:
            response = await self._http().send("POST", self.url, headers=headers, body=body, idle_seconds=self._idle)
        except (HttpError, OSError) as error:
            raise self._network_error(error) from error
        try:
            if response.status != 200:
                raise await self._read_refusal(response)
            self._check_kind(response)
        except BaseException:
            response.close()
            raise
        return response

    async def _read(self, response: Response) -> bytes:
        try:
            chunk = await response.read()
        except (HttpError, OSError) as error:
            raise self._network_error(error) from error
        if response.received > MAX_ANSWER:
            raise ModelError(f"Model '{self.name}' sent an answer of more than {MAX_ANSWER} bytes.")
        return chunk

    def guard(self, events: AsyncGenerator[ModelEvent, None]) -> AsyncGenerator[ModelEvent, None]:
        """Return an adapter's events, or its error, with the key removed: servers repeat what they were sent."""
        return hide_key(self.secret, events) if self.key.is_set else events

    async def secret(self) -> str:
        try:
            return await self.key.get()
        except ConfigError as error:
            raise ModelError(error.message, fix=error.fix) from error

    def _check_kind(self, response: Response) -> None:
        if response.content_type == "text/html":
            raise ModelError(
                f"Model '{self.name}' answered with a web page instead of a completion.",
                fix=f"Check `base_url` in [models.{self.name}]; it should be the address of the API.",
            )

    async def _read_refusal(self, response: Response) -> ModelError:
        body = b""
        while len(body) < _MAX_REFUSAL and (chunk := await self._read(response)):
            body += chunk
        refusal = read_refusal(body[:_MAX_REFUSAL])
        if response.status == 401:
            self.key.forget()
        after = parse_retry_after(response.headers, now=self._http().clock.now())
        return error_from_status(response.status, refusal, model=self.name, place=self.key.place, after=after)

    def _network_error(self, error: Exception) -> ModelError:
        """Return the error for a network failure; all except a wrong address or certificate are retryable."""
        if isinstance(error, ConnectError | ProxyError | TlsError):
            return describe_connect_error(error, model=self.name, url=self.url)
        if isinstance(error, TimeoutError):
            return ModelError(
                f"Model '{self.name}' sent nothing for {self._idle:g} seconds.",
                fix=f"Try again, or raise `idle_seconds` in [models.{self.name}].",
                retryable=True,
            )
        return ModelError(
            f"The connection to model '{self.name}' was lost: {_describe_error(error)}",
            fix="Try again.",
            retryable=True,
        )


def _describe_error(error: Exception) -> str:
    return one_line(str(error)) or type(error).__name__


def _request_url(config: ModelConfig, path: str) -> Url:
    fix = f"Set `base_url` in [models.{config.name}] to an address such as https://host/v1."
    try:
        return parse_url(config.base_url.rstrip("/") + path)
    except ValueError as error:
        raise ConfigError(f"base_url of model '{config.name}' is not usable: {error}.", fix=fix) from error
