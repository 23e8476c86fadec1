"""Request and response types of `safe_http`. Separate, because the HTTP library is slow to import."""

from collections.abc import Mapping

from msgspec import Struct, field


class Request(Struct, frozen=True, kw_only=True):
    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


class HttpAnswer(Struct, frozen=True, kw_only=True):
    """The final response after redirects; `cut` if the body was longer than the limit."""

    url: str
    status: int
    media_type: str
    charset: str
    body: bytes
    cut: bool
