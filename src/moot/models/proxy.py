"""Finds the proxy for a request to a model server, from `[network] proxy` or the environment. Used by `http_client`."""

import base64
import ipaddress
from collections.abc import Iterator, Mapping
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from moot.domain.errors import ConfigError
from moot.models.http_url import Url
from moot.models.keys import KeySource, reveal

_DEFAULT_PORT = 3128
PROXY_OFF = "off"


class Proxy(Struct, frozen=True):
    """An HTTP proxy. `authorization` is the value of its header, or "" for none."""

    host: str
    port: int
    authorization: str = ""

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ProxyFinder:
    """Chooses a proxy per request. `configured` is `[network] proxy`: an address, a reference to one, "off" or ""."""

    def __init__(self, configured: str, environ: Mapping[str, str], keys: KeySource = KeySource()) -> None:  # noqa: B008
        self._configured = configured
        self._environ = environ
        self._keys = keys

    async def find(self, url: Url) -> Proxy | None:
        if self._configured == PROXY_OFF or is_loopback_host(url.host) or self._is_excepted(url):
            return None
        if self._configured:
            place = "`proxy` in [network]"
            text = self._configured
            if not text.startswith("http://"):
                text = await reveal(text, place=place, read_secret=self._keys.read_secret)
            return self._parse(text, place=place)
        for name, value in list_environment(self._environ, url.scheme):
            return self._parse(value, place=name)
        return None

    def _parse(self, text: str, *, place: str) -> Proxy:
        """Parse the address. One with a login is made known, because a proxy may repeat the login in its answer."""
        proxy = parse_proxy(text, place=place)
        if proxy.authorization and self._keys.on_lookup is not None:
            self._keys.on_lookup("proxy", text)
        return proxy

    def _is_excepted(self, url: Url) -> bool:
        listed = self._environ.get("no_proxy") or self._environ.get("NO_PROXY") or ""
        return any(_matches(entry.strip(), url) for entry in listed.split(",") if entry.strip())


def list_environment(environ: Mapping[str, str], *schemes: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of the variables that are set for these schemes, the first that counts first."""
    for scheme in (*schemes, "all"):
        for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper()):
            if value := environ.get(name, "").strip():
                yield name, value


def parse_proxy(text: str, *, place: str) -> Proxy:
    """Parse an address such as `http://user:password@host:3128`. Raises ConfigError, which never repeats the text."""
    problem = ""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError:
        problem = "is not an address"
    else:
        if parts.scheme != "http":
            problem = f"has the scheme {parts.scheme}, and only http proxies are supported"
        elif not parts.hostname:
            problem = "is not an address"
    if problem:
        raise ConfigError(f"The proxy in {place} {problem}.", fix='Use an address such as "http://host:3128".')
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    encoded = f"Basic {base64.b64encode(login.encode()).decode()}" if parts.username else ""
    return Proxy(parts.hostname or "", port or _DEFAULT_PORT, encoded)


@lru_cache(maxsize=256)
def is_loopback_host(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _matches(entry: str, url: Url) -> bool:
    """Whether an entry of NO_PROXY covers the host: `*`, a name and its subdomains, an address or a network."""
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return ipaddress.ip_address(url.host) in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, _, port = entry.partition(":") if entry.count(":") == 1 else (entry, "", "")
    if port and port != str(url.port):
        return False
    name, host = name.strip("[]").lstrip(".").lower(), url.host.lower()
    return host == name or host.endswith(f".{name}")
