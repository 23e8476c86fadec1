"""Parses and checks the URLs of model servers for `http_client`. Pure."""

from urllib.parse import quote, urlsplit

from msgspec import Struct

_PORTS = {"http": 80, "https": 443}


class Url(Struct, frozen=True):
    """Where a request goes."""

    scheme: str
    host: str
    port: int
    # Host and port as written, and the path with its query.
    authority: str
    target: str


def parse_url(text: str) -> Url:
    """Parse a URL. Raises ValueError if it is invalid, or contains a user or a password."""
    parts = urlsplit(text)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("it must begin with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it must not carry a user or password")
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    port = parts.port
    name = f"[{host}]" if ":" in host else host
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    if parts.query:
        target += "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~?")
    return Url(
        scheme=parts.scheme,
        host=host,
        port=port or _PORTS[parts.scheme],
        authority=name if port is None else f"{name}:{port}",
        target=target,
    )
