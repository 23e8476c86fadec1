"""Fetches web pages to be indexed, with the limits and address rules of web_fetch."""

from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from moot.domain.config import WebConfig
from moot.domain.errors import BadRequest, MootError
from moot.domain.ports.clock import Clock
from moot.tools.web.request import HttpAnswer, Request

_KINDS = {"text/html": "html", "application/xhtml+xml": "html", "application/pdf": "pdf", "text/markdown": "markdown"}
_TEXT = ("application/json", "application/xml", "application/yaml")
_ACCEPT = "text/html,application/xhtml+xml,application/pdf;q=0.9,text/*;q=0.9,*/*;q=0.1"
WEB = frozenset({"web"})


class Page(Struct, frozen=True, kw_only=True):
    address: str
    body: bytes
    format: str
    taint: frozenset[str] = WEB


def is_address(place: str) -> bool:
    return place.lower().startswith(("http://", "https://"))


def normalize_address(address: str) -> str:
    """Return an address as it is stored: spellings of one page are one, and a fragment is not sent to a server."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return address
    return urlunsplit((parts.scheme, parts.netloc.lower(), parts.path or "/", parts.query, ""))


class PageFetcher:
    def __init__(self, config: Callable[[], WebConfig], clock: Clock) -> None:
        self._clock = clock
        self._config = config

    async def fetch(self, address: str) -> Page:
        """Fetch a page that is text, HTML or PDF; raises otherwise."""
        from moot.tools.web.safe_http import SafeHttp  # noqa: PLC0415 - slow to import, and only used here

        request = Request(url=address, headers={"Accept": _ACCEPT})
        try:
            answer = await SafeHttp.for_public(self._config(), clock=self._clock).fetch(request)
            # The address that was asked for names it, so that it can be indexed again.
            return Page(address=address, body=answer.body, format=_check_answer(answer))
        except MootError as error:
            # It may repeat what a server has said, such as where it redirects to.
            raise error if error.is_untainted else error.with_taint(WEB) from None


def _check_answer(answer: HttpAnswer) -> str:
    """Return the format of a page; raises if it cannot be indexed."""
    if answer.status >= 400:
        raise BadRequest(f"HTTP {answer.status} for {answer.url}", fix="Check the address.")
    if answer.cut:
        raise BadRequest(f"{answer.url} is larger than max_bytes in [web]", fix="Index a smaller page.")
    return _find_format(answer)


def _find_format(answer: HttpAnswer) -> str:
    kind = _KINDS.get(answer.media_type, "")
    if not kind and (answer.media_type.startswith("text/") or answer.media_type in _TEXT):
        kind = "text"
    if answer.body.startswith(b"%PDF-"):
        return "pdf"
    if not kind or (kind != "pdf" and b"\0" in answer.body[:8_192]):
        raise BadRequest(f"{answer.url} is {answer.media_type or 'of an unknown kind'}, not text", fix="Index text.")
    return kind
