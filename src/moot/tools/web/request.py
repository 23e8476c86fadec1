"""What web tools ask `safe_http` for and what it answers. Separate, because the HTTP library is slow to import."""

from collections.abc import Mapping

from msgspec import Struct, field


class Request(Struct, frozen=True, kw_only=True):
    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


class HttpAnswer(Struct, frozen=True, kw_only=True):
    """What came back from the last address; `cut` when there was more than is read."""

    url: str
    status: int
    media_type: str
    charset: str
    body: bytes
    cut: bool
