"""HTTP transport to a model server: one request, a streamed answer, limits, timeouts, typed errors."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Protocol

import aiohttp
from aiohttp import payload
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from moot import __version__
from moot.domain.config import ModelConfig
from moot.domain.errors import ConfigError, ModelError
from moot.domain.ports.model import ModelEvent
from moot.models.keys import Key
from moot.models.prices import preload
from moot.models.refusals import error_from_status, parse_retry_after, read_refusal
from moot.models.scrub import one_line
from moot.models.secrecy import hide_key
from moot.models.sse import SseDecoder

Http = Callable[[], aiohttp.ClientSession]

CONNECT_SECONDS = 10.0
MAX_ANSWER = 64 * 1024 * 1024
_MAX_REFUSAL = 64 * 1024
_LARGE_BODY = 64 * 1024
# How long the end of a finished answer may take before its connection is given up.
_LINGER_SECONDS = 0.1


def open_http() -> aiohttp.ClientSession:
    """The connections all models of one event loop share. Proxies of the environment are not used."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0, ttl_dns_cache=60)
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": f"moot/{__version__}", "Accept-Encoding": "identity"},
        trust_env=False,
    )


class _Body(payload.Payload):
    """A request body of any size in one write; aiohttp's own warns about large ones."""

    _value: bytes
    _autoclose = True

    def __init__(self, value: bytes) -> None:
        super().__init__(value, content_type="application/json")
        self._size = len(value)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._value.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        if self._size is not None and self._size > _LARGE_BODY:
            # Sent together with the headers, a large body would be copied once more.
            writer.send_headers()
        await writer.write(self._value)


class AnswerDecoder(Protocol):
    """One streamed answer in a provider's own language, put together event by event."""

    done: bool

    def take(self, data: bytes) -> None: ...

    def take_last(self, data: bytes) -> None: ...

    def drain(self) -> list[ModelEvent]: ...

    def finish(self) -> list[ModelEvent]: ...


class Endpoint:
    """Where one configured model is reached, and what every request to it carries."""

    def __init__(
        self, config: ModelConfig, path: str, *, http: Http, key: Key, now: Callable[[], float] = time.time
    ) -> None:
        self.name = config.name
        self._config = config
        self.url = _request_url(config, path)
        self.key = key
        self._http = http
        self._now = now
        self._timeout = aiohttp.ClientTimeout(
            total=None, connect=CONNECT_SECONDS, sock_connect=CONNECT_SECONDS, sock_read=config.idle_seconds
        )
        self._idle = config.idle_seconds

    async def post(self, body: bytes, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Send the body and yield the answer as it comes. Every failure is a ModelError."""
        try:
            async with self._http().post(
                self.url, data=_Body(body), headers=headers, timeout=self._timeout, allow_redirects=False
            ) as response:
                if response.status != 200:
                    raise await self._read_refusal(response)
                self._check_kind(response)
                received = 0
                while chunk := await response.content.readany():
                    received += len(chunk)
                    if received > MAX_ANSWER:
                        raise ModelError(f"Model '{self.name}' sent an answer of more than {MAX_ANSWER} bytes.")
                    yield chunk
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._network_error(error) from error

    async def answer(
        self, body: bytes, answer: "AnswerDecoder", sign: Callable[[str], Mapping[str, str]]
    ) -> AsyncGenerator[ModelEvent, None]:
        """Send the body, and tell what the answer says as it comes. `sign` gives the headers for a key."""
        preload(self._config)
        headers = {"Accept": "text/event-stream", **sign(await self.secret())}
        events = SseDecoder()
        async with aclosing(self.post(body, headers)) as chunks:
            async for chunk in chunks:
                for data in events.feed(chunk):
                    answer.take(data)
                for event in answer.drain():
                    yield event
                if answer.done:
                    await drain_connection(chunks)
                    break
            else:
                for data in events.close():
                    (answer.take if events.is_document else answer.take_last)(data)
        for event in answer.finish():
            yield event

    async def guard(self, events: AsyncGenerator[ModelEvent, None]) -> AsyncGenerator[ModelEvent, None]:
        """An adapter's events, or its error, as they may leave it: servers repeat what they were sent."""
        async with aclosing(events):
            secret = await self.secret()
            async with aclosing(hide_key(secret, events) if secret else events) as hidden:
                async for event in hidden:
                    yield event

    async def secret(self) -> str:
        try:
            return await self.key.get()
        except ConfigError as error:
            raise ModelError(error.message, fix=error.fix) from error

    def _check_kind(self, response: aiohttp.ClientResponse) -> None:
        if response.content_type == "text/html":
            raise ModelError(
                f"Model '{self.name}' answered with a web page instead of a completion.",
                fix=f"Check `base_url` in [models.{self.name}]; it should be the address of the API.",
            )

    async def _read_refusal(self, response: aiohttp.ClientResponse) -> ModelError:
        body = b""
        async with asyncio.timeout(self._idle):
            while len(body) < _MAX_REFUSAL and (chunk := await response.content.readany()):
                body += chunk
        refusal = read_refusal(body[:_MAX_REFUSAL])
        if response.status == 401:
            self.key.forget()
        after = parse_retry_after(response.headers, now=self._now())
        return error_from_status(response.status, refusal, model=self.name, place=self.key.place, after=after)

    def _network_error(self, error: Exception) -> ModelError:
        """What a failure of the network means; all but a wrong address or certificate may pass."""
        where = f"{self.url.scheme}://{self.url.authority}"
        check = f"Check `base_url` in [models.{self.name}] and that its server is running."
        if isinstance(error, aiohttp.ClientSSLError | aiohttp.InvalidURL):
            return ModelError(f"Model '{self.name}' cannot be reached at {where}: {_describe_error(error)}", fix=check)
        if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            return ModelError(
                f"Model '{self.name}' cannot be reached at {where}: {_describe_error(error)}", fix=check, retryable=True
            )
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


async def drain_connection(chunks: AsyncGenerator[bytes, None]) -> None:
    """Read the end of an answer that is already whole, so that its connection can be used again."""
    try:
        async with asyncio.timeout(_LINGER_SECONDS):
            async for _ in chunks:
                pass
    except (ModelError, TimeoutError):
        return


def _describe_error(error: Exception) -> str:
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"no connection within {CONNECT_SECONDS:g} seconds"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "its answer broke off"
    return one_line(str(error)) or type(error).__name__


def _request_url(config: ModelConfig, path: str) -> URL:
    fix = f"Set `base_url` in [models.{config.name}] to an address such as https://host/v1."
    try:
        url = URL(config.base_url.rstrip("/") + path)
    except ValueError as error:
        raise ConfigError(f"base_url of model '{config.name}' is not an address.", fix=fix) from error
    if url.scheme not in {"http", "https"} or not url.host:
        raise ConfigError(f"base_url of model '{config.name}' must begin with http:// or https://.", fix=fix)
    if url.user or url.password:
        raise ConfigError(f"base_url of model '{config.name}' must not carry a user or password.", fix=fix)
    return url
