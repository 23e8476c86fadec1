"""HTTP client for URLs chosen by a model: permitted addresses only, bounded responses. Uses `addresses` and `inflate`.

The address is checked when the socket is created, so a second DNS lookup cannot substitute another one.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec.structs import replace
from yarl import URL

from moot import __version__
from moot.domain.config import WebConfig
from moot.domain.errors import BadRequest, Forbidden, MootError, TooLarge, Unavailable
from moot.domain.ports.clock import Clock
from moot.tools.web.addresses import AddressRules, Anywhere, PublicOnly, parse_address, reads_as_number
from moot.tools.web.inflate import Inflater
from moot.tools.web.origin import find_origin
from moot.tools.web.request import HttpAnswer, Request

MAX_REDIRECTS = 5
MAX_URL = 4096
_CHUNK = 64 * 1024
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_FORBIDDEN_IN_URL = frozenset('\\<>"^`{|}')

Resolver = Callable[[], AbstractResolver]


class SafeHttp:
    """Uses new connections for each fetch, without cookies, credentials or a proxy."""

    def __init__(
        self,
        *,
        clock: Clock,
        rules: AddressRules,
        max_bytes: int,
        seconds: float,
        redirects: int = MAX_REDIRECTS,
        resolver: Resolver = aiohttp.ThreadedResolver,
    ) -> None:
        self.clock = clock
        self._rules = rules
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._redirects = redirects
        self._resolver = resolver

    @classmethod
    def for_public(
        cls, config: WebConfig, *, clock: Clock, resolver: Resolver = aiohttp.ThreadedResolver
    ) -> "SafeHttp":
        """A client for URLs chosen by a model."""
        rules = PublicOnly(ports=config.ports, allow_private=config.allow_private)
        return cls(clock=clock, rules=rules, max_bytes=config.max_bytes, seconds=config.seconds, resolver=resolver)

    @classmethod
    def for_configured(cls, config: WebConfig, *, clock: Clock) -> "SafeHttp":
        """A client for one URL from the configuration: any address, no redirects to other hosts."""
        return cls(clock=clock, rules=Anywhere(), max_bytes=config.max_bytes, seconds=config.seconds, redirects=0)

    async def fetch(self, request: Request, *, only: str = "") -> HttpAnswer:
        """Fetch a URL; if `only` is given, from that origin alone.

        Once any server has responded, an error no longer counts as trusted text (`is_untainted`).
        """
        answered = asyncio.Event()
        try:
            return await self._fetch(request, answered, only)
        except MootError as error:
            error.is_untainted = error.is_untainted and not answered.is_set()
            raise

    async def _fetch(self, request: Request, answered: asyncio.Event, only: str) -> HttpAnswer:
        url = parse_web_address(request.url)
        try:
            async with self.clock.timeout(self._seconds), self._connections() as http:
                return await self._follow(http, url, request, answered, only)
        except TimeoutError as error:
            raise Unavailable(f"{_render_url(url)} did not answer in full within {self._seconds:g} seconds") from error
        except aiohttp.ClientError as error:
            raise _explain_error(error, url) from error
        except ValueError as error:
            # Malformed headers raise many different errors.
            raise Unavailable(f"{_render_url(url)} sent an invalid response") from error

    async def _follow(
        self, http: aiohttp.ClientSession, url: URL, request: Request, answered: asyncio.Event, only: str
    ) -> HttpAnswer:
        for _ in range(self._redirects + 1):
            if only and find_origin(str(url)) != only:
                raise Forbidden(
                    f"it redirects to {_render_url(url)}; only pages of {only} are allowed",
                    fix="Fetch that address itself; the person is asked about it.",
                )
            self._check_host(url)
            async with http.request(
                request.method, url, headers=request.headers, data=request.body, allow_redirects=False
            ) as response:
                answered.set()
                if response.status not in _REDIRECTS or "Location" not in response.headers:
                    return await self._answer(response, url)
                url = _redirect_target(url, response.headers["Location"])
            # Headers meant for the first server, such as API keys, are not sent to another.
            request = replace(request, method="GET", headers={}, body=None)
        raise BadRequest(f"there were more than {self._redirects} redirects, the last one to {_render_url(url)}")

    async def _answer(self, response: aiohttp.ClientResponse, url: URL) -> HttpAnswer:
        body = bytearray()
        inflater = Inflater(response.headers.get("Content-Encoding", ""))
        cut = False
        while not cut and (chunk := await response.content.read(_CHUNK)):
            # Read one byte more than is kept to detect a longer body.
            body += inflater.feed(chunk, self._max_bytes + 1 - len(body))
            cut = len(body) > self._max_bytes
        return HttpAnswer(
            url=str(url),
            status=response.status,
            media_type=response.content_type if "Content-Type" in response.headers else "",
            charset=response.charset or "",
            body=bytes(body[: self._max_bytes]),
            cut=cut,
        )

    def _check_host(self, url: URL) -> None:
        """Refuse what needs no DNS lookup. The socket's address is checked again in any case."""
        host, port = url.raw_host or "", url.port or 0
        if "%" in host or (parse_address(host) is None and reads_as_number(host)):
            raise refused_error(url)
        if parse_address(host) is not None and not self._rules.allows(host, port):
            raise refused_error(url)

    def _connections(self) -> aiohttp.ClientSession:
        def make_socket(info: tuple[Any, ...]) -> socket.socket:
            family, kind, protocol, _, address = info
            if family not in (socket.AF_INET, socket.AF_INET6) or not self._rules.allows(address[0], address[1]):
                raise refused_error(None)
            return socket.socket(family, kind, protocol)

        connector = aiohttp.TCPConnector(
            resolver=_FilteringResolver(self._resolver(), self._rules),
            use_dns_cache=False,
            force_close=True,
            socket_factory=make_socket,
            # Try one address at a time, so that a refusal is raised unchanged.
            happy_eyeballs_delay=None,
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(self._seconds, 10.0)),
            auto_decompress=False,
            trust_env=False,
            headers={"User-Agent": f"moot/{__version__}", "Accept-Encoding": "gzip, deflate"},
        )


class _FilteringResolver(AbstractResolver):
    """Resolves host names and drops addresses that are not permitted, with an error that says so."""

    def __init__(self, inner: AbstractResolver, rules: AddressRules) -> None:
        self._inner = inner
        self._rules = rules

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        allowed = [one for one in found if self._rules.allows(one["host"], port)]
        if not allowed:
            raise refused_error(URL.build(scheme="http", host=host, port=port))
        return allowed

    async def close(self) -> None:
        await self._inner.close()


def parse_web_address(text: str) -> URL:
    """Parse a URL from a model or a redirect; raises if it cannot be fetched."""
    if len(text) > MAX_URL:
        raise TooLarge(f"the URL is longer than {MAX_URL} characters").mark_untainted()
    if any(character in _FORBIDDEN_IN_URL or not character.isprintable() or character.isspace() for character in text):
        raise BadRequest("the URL has invalid characters", fix="Percent-encode them.").mark_untainted()
    try:
        url = URL(text)
        port = url.port
    except ValueError as error:
        raise BadRequest("this is not a URL", fix="Write it like https://example.org/page.").mark_untainted() from error
    message = ""
    if url.scheme not in ("http", "https") or not url.raw_host or not port:
        message, fix = "only http and https URLs with a host can be fetched", "Write it like https://host/page."
    elif url.raw_user is not None or url.raw_password is not None or "@" in (url.raw_authority or ""):
        message, fix = "a URL must not contain a user name or password", "Remove the part before the @."
    if message:
        raise BadRequest(message, fix=fix).mark_untainted()
    return url.with_fragment(None)


def _redirect_target(url: URL, location: str) -> URL:
    try:
        target = parse_web_address(str(url.join(URL(location))))
    except ValueError as error:
        raise BadRequest(f"{_render_url(url)} redirects to something that is not a URL") from error
    if url.scheme == "https" and target.scheme == "http":
        raise Forbidden(f"{_render_url(url)} redirects from https to http, which is not followed")
    return target


def refused_error(url: URL | None) -> Forbidden:
    where = "this address" if url is None else _render_url(url)
    return Forbidden(
        f"{where} is not on the public internet, or not on a port that is open to the web tools",
        fix="The owner can allow it in config.toml: [web] allow_private or ports.",
    ).mark_untainted()


def _explain_error(error: aiohttp.ClientError, url: URL) -> MootError:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return Unavailable(f"there is no host {url.raw_host}", fix="Check the spelling of the URL.").mark_untainted()
    if isinstance(error, aiohttp.ClientSSLError | aiohttp.ClientConnectorCertificateError):
        return Unavailable(f"{_render_url(url)} has no trusted certificate")
    if isinstance(error, aiohttp.ClientConnectorError):
        return Unavailable(
            f"{_render_url(url)} cannot be reached: {error.strerror or 'no connection'}"
        ).mark_untainted()
    if isinstance(error, aiohttp.InvalidURL):
        return refused_error(url)
    return Unavailable(f"the connection to {_render_url(url)} failed: {type(error).__name__}")


def _render_url(url: URL) -> str:
    return f"{url.raw_host}:{url.port}"
