"""Web search: the provider interface and its four implementations, on `safe_http`."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote_plus

import msgspec
from msgspec import Struct

from moot.domain.config import SEARCH_PROVIDERS, WebConfig
from moot.domain.errors import ConfigError, Unavailable
from moot.tools.web.page_reader import read_page
from moot.tools.web.request import HttpAnswer, Request

if TYPE_CHECKING:
    from moot.tools.web.safe_http import SafeHttp

Reveal = Callable[[str], Awaitable[str]]

SNIPPET_LENGTH = 500


class Hit(Struct, frozen=True, kw_only=True):
    title: str
    url: str
    snippet: str


class SearchProvider(Protocol):
    async def search(self, query: str, limit: int) -> list[Hit]: ...


def build_provider(config: WebConfig, *, http: "SafeHttp", reveal: Reveal) -> SearchProvider:
    """Build the configured provider. Raises ConfigError with a fix if something is missing."""
    if flaw := _find_flaw(config):
        raise flaw.mark_untainted()
    kinds: dict[str, Callable[[WebConfig, SafeHttp, Reveal], SearchProvider]] = {
        "searxng": Searxng, "brave": Brave, "tavily": Tavily, "duckduckgo": DuckDuckGo,
    }  # fmt: skip
    return kinds[config.provider](config, http, reveal)


def _find_flaw(config: WebConfig) -> ConfigError | None:
    """Describe why no provider can be used."""
    if config.provider not in SEARCH_PROVIDERS:
        return ConfigError(
            f"there is no search provider {ascii(config.provider)[:40]}", fix=f"Use {', '.join(SEARCH_PROVIDERS)}."
        )
    if config.provider in ("brave", "tavily") and not config.api_key:
        return ConfigError(
            f"the search provider {config.provider} needs a key", fix='Set [web] api_key = "env:VARIABLE".'
        )
    if config.provider == "searxng" and not config.base_url:
        return ConfigError(
            "the search provider searxng needs an address", fix='Set [web] base_url = "https://your.searxng".'
        )
    return None


class _Provider:
    """Base class: URL, API key and checks of the response."""

    name = ""
    home = ""

    def __init__(self, config: WebConfig, http: "SafeHttp", reveal: Reveal) -> None:
        self._home = (config.base_url or self.home).rstrip("/")
        self._key = config.api_key
        self._http = http
        self._reveal = reveal

    async def _ask(self, request: Request) -> HttpAnswer:
        answer = await self._http.fetch(request)
        if answer.status in (401, 403):
            raise Unavailable(f"{self.name} refused the search", fix="Check [web] api_key, or use another provider.")
        if answer.status == 429:
            raise Unavailable(f"{self.name} has reached its rate limit", fix="Try again later.")
        if answer.status != 200 or answer.cut:
            raise Unavailable(f"{self.name} responded with status {answer.status}", fix="Try again later.")
        return answer

    async def _json(self, request: Request) -> Any:
        answer = await self._ask(request)
        try:
            return msgspec.json.decode(answer.body)
        except msgspec.DecodeError as error:
            raise Unavailable(f"{self.name} did not respond with JSON", fix="Check [web] base_url.") from error


class Searxng(_Provider):
    name = "searxng"

    async def search(self, query: str, limit: int) -> list[Hit]:
        found = await self._json(Request(url=f"{self._home}/search?q={quote_plus(query)}&format=json"))
        return _parse_hits(_get_item(found, "results"), "content", limit)


class Brave(_Provider):
    name = "brave"
    home = "https://api.search.brave.com"

    async def search(self, query: str, limit: int) -> list[Hit]:
        request = Request(
            url=f"{self._home}/res/v1/web/search?q={quote_plus(query)}&count={limit}",
            headers={"X-Subscription-Token": await self._reveal(self._key), "Accept": "application/json"},
        )
        return _parse_hits(_get_item(_get_item(await self._json(request), "web"), "results"), "description", limit)


class Tavily(_Provider):
    name = "tavily"
    home = "https://api.tavily.com"

    async def search(self, query: str, limit: int) -> list[Hit]:
        request = Request(
            url=f"{self._home}/search",
            method="POST",
            headers={"Authorization": f"Bearer {await self._reveal(self._key)}", "Content-Type": "application/json"},
            body=msgspec.json.encode({"query": query, "max_results": limit}),
        )
        return _parse_hits(_get_item(await self._json(request), "results"), "content", limit)


class DuckDuckGo(_Provider):
    name = "duckduckgo"
    home = "https://html.duckduckgo.com"

    async def search(self, query: str, limit: int) -> list[Hit]:
        answer = await self._ask(Request(url=f"{self._home}/html/?q={quote_plus(query)}"))
        charset, clock = answer.charset, self._http.clock
        page = await read_page(answer.body, url=answer.url, charset=charset, mode="results", clock=clock)
        return _parse_hits(msgspec.json.decode(page.content), "snippet", limit)


def _get_item(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _parse_hits(results: Any, snippet: str, limit: int) -> list[Hit]:
    hits: list[Hit] = []
    for result in results if isinstance(results, list) else ():
        url = _get_item(result, "url")
        if isinstance(url, str) and url.startswith(("http://", "https://")) and len(url) <= 2048:
            hits.append(
                Hit(title=_one_line(_get_item(result, "title")), url=url, snippet=_one_line(_get_item(result, snippet)))
            )
    return hits[:limit]


def _one_line(text: Any) -> str:
    return " ".join(text.split())[:SNIPPET_LENGTH] if isinstance(text, str) else ""
