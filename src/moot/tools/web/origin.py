"""The origin of a web address: scheme, host and port. Used by rules about the pages of a host. Pure."""

from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


def find_origin(address: str) -> str:
    """Return `https://host`, with a port that is not the usual one; empty for what is not a plain web address."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return ""
    host = parts.hostname or ""
    if parts.scheme not in _PORTS or not host or not host.isascii() or "@" in parts.netloc or "\\" in address:
        return ""
    return f"{parts.scheme}://{host}" + ("" if port in (None, _PORTS[parts.scheme]) else f":{port}")
