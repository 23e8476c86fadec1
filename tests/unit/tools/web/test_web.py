"""The web tools give what a page says, in the agreed shape, and say what to do when they cannot."""

import asyncio
import json
from typing import Any

import psutil
import pytest
from aiohttp import web
from msgspec.structs import replace

from moot.daemon.clock import SystemClock
from moot.domain.config import WebConfig
from moot.domain.errors import BadRequest, ConfigError, MootError, Unavailable
from moot.domain.ports.tool import Renders, ToolResult
from moot.domain.prompt import Safety, Sink
from moot.redaction.redactor import Redactor
from moot.tools.web.web_tools import tools
from tests.configured_keys import reveal
from tests.web_server import Site, context, serving

PAGE = "<title>Tea</title><body><article><h1>Tea</h1><p>" + "Tea is a drink. " * 40 + "</p></article>"


def named(name: str, config: WebConfig, redactor: Redactor | None = None) -> Any:
    return next(
        tool
        for tool in tools(config, reveal=reveal, redact=redactor or Redactor(), clock=SystemClock())
        if tool.spec.name == name
    )


async def fetch(site: Site, path: str = "/", **arguments: Any) -> tuple[dict[str, Any], bool]:
    result = await named("web_fetch", site.config())({"url": site.url + path, **arguments}, context())
    assert isinstance(result, ToolResult)
    return json.loads(result.content), result.is_error


async def search(config: WebConfig, **arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        await named("web_search", config)({"query": "green tea", **arguments}, context())
    )
    return found


def answering(body: str | bytes, **more: Any) -> Any:
    async def handler(_request: web.Request) -> web.Response:
        data = body.encode() if isinstance(body, str) else body
        return web.Response(body=data, **({"content_type": "text/html"} | more))

    return handler


def test_the_gate_knows_what_the_web_tools_are() -> None:
    made = tools(WebConfig(provider="brave"), reveal=reveal, redact=Redactor(), clock=SystemClock())
    fetching, searching = (tool.spec for tool in made)
    assert (fetching.safety, searching.safety) == (Safety.MODERATE, Safety.SAFE)
    for spec in (fetching, searching):
        assert spec.taint == "web"
        assert spec.sinks == {Sink.EGRESS}
    assert all(isinstance(tool, Renders) for tool in made)


@pytest.mark.parametrize("shown", [20, 31, 41])
async def test_a_page_is_cut_only_after_secrets_are_taken_out(shown: int) -> None:
    redactor = Redactor()
    redactor.register("KEY", secret := "Wx81_short_secret_55_and_more")
    async with serving(answering(f"your key is {secret} keep it", content_type="text/plain")) as site:
        fetching = named("web_fetch", site.config(), redactor)
        result = await fetching({"url": site.url, "max_length": shown}, context())
    assert not any(secret[at : at + 6] in result.content for at in range(len(secret) - 6))


async def test_a_page_that_is_too_long_does_not_end_in_half_a_secret() -> None:
    redactor = Redactor()
    redactor.register("KEY", secret := "Wx81_short_secret_55_and_more")
    async with serving(answering("x" * 2_990 + secret, content_type="text/plain")) as site:
        fetching = named("web_fetch", replace(site.config(), max_bytes=3_010), redactor)
        page = json.loads((await fetching({"url": site.url}, context())).content)
    assert page["truncated"]
    assert "Wx81" not in page["content"]
    assert page["content"].startswith("xxx")


async def test_a_page_is_given_with_its_title_and_length() -> None:
    async with serving(answering(PAGE)) as site:
        page, failed = await fetch(site, "/tea", max_length=50)
    assert not failed
    assert page["url"] == f"{site.url}/tea"
    assert page["title"] == "Tea"
    assert len(page["content"]) == 50
    assert page["content_length"] > 600
    assert page["truncated"] is True
    assert list(page) == ["url", "title", "content", "content_length", "truncated"]


async def test_the_url_is_where_the_redirects_ended() -> None:
    async def handler(request: web.Request) -> web.Response:
        if request.path == "/old":
            return web.Response(status=301, headers={"Location": "new"})
        return web.Response(text="here")

    async with serving(handler) as site:
        page, _ = await fetch(site, "/old")
    assert page["url"] == f"{site.url}/new"
    assert page["content"] == "here"
    assert page["truncated"] is False


@pytest.mark.parametrize(
    ("content_type", "body", "content"),
    [
        ("application/json", '{"a": 1}', '{"a": 1}'),
        ("text/plain", "a < b", "a < b"),
        ("application/ld+json", "{}", "{}"),
        ("text/csv", "a,b", "a,b"),
    ],
)
async def test_text_that_is_not_html_is_given_as_it_is(content_type: str, body: str, content: str) -> None:
    async with serving(answering(body, content_type=content_type)) as site:
        page, _ = await fetch(site)
    assert page["content"] == content


@pytest.mark.parametrize("content_type", ["image/png", "application/pdf", "application/octet-stream", "video/mp4"])
async def test_what_is_not_text_is_named_and_not_given(content_type: str) -> None:
    async with serving(answering(b"\x89PNG\x00\x00", content_type=content_type)) as site:
        with pytest.raises(BadRequest, match=content_type):
            await fetch(site)


@pytest.mark.parametrize("content_type", ["text/plain", "text/html", "application/json"])
async def test_data_under_the_name_of_text_is_not_given(content_type: str) -> None:
    body = b"\x7fELF\x02\x01\x01\x00" + bytes(range(256))
    async with serving(answering(body, content_type=content_type)) as site:
        with pytest.raises(BadRequest, match="data declared as"):
            await fetch(site)


async def test_wide_characters_are_text() -> None:
    body = "<html><body><p>wide</p></body></html>".encode("utf-16")
    async with serving(answering(body, content_type="text/html", charset="utf-16")) as site:
        answer, _ = await fetch(site)
    assert answer["content"] == "wide"


async def test_an_error_page_is_an_error_with_its_status() -> None:
    async with serving(answering("<p>No such tea</p>", status=404)) as site:
        page, failed = await fetch(site)
    assert failed
    assert page["error"] == f"HTTP 404 for {site.url}/"
    assert "No such tea" in page["content"]


async def test_an_unknown_mode_is_refused_before_anything_is_fetched() -> None:
    async with serving(answering(PAGE)) as site:
        with pytest.raises(BadRequest, match="text, html, markdown"):
            await fetch(site, mode="pdf")
        assert site.requests == []


async def test_a_large_page_does_not_hold_up_the_loop() -> None:
    html = "<body>" + "<div><p>some words, and a <a href='/x'>link</a> in them</p></div>" * 30_000
    before = {child.pid for child in psutil.Process().children()}
    children: set[int] = set()

    async def watch() -> None:
        while True:
            children.update(child.pid for child in psutil.Process().children())
            await asyncio.sleep(0)

    async with serving(answering(html)) as site:
        watching = asyncio.create_task(watch())
        await fetch(site, mode="markdown")
        watching.cancel()
    # Read in a process of its own, while the loop went on.
    assert children - before


# ---- search -----------------------------------------------------------------------------------


def test_without_a_provider_there_is_nothing_to_search_with() -> None:
    def made(config: WebConfig) -> list[str]:
        return [tool.spec.name for tool in tools(config, reveal=reveal, redact=Redactor(), clock=SystemClock())]

    assert made(WebConfig()) == ["web_fetch"]
    assert made(WebConfig(provider="duckduckgo")) == ["web_fetch", "web_search"]


@pytest.mark.parametrize(
    "config",
    [
        WebConfig(provider="altavista"),
        WebConfig(provider="brave"),
        WebConfig(provider="tavily"),
        WebConfig(provider="searxng"),
        WebConfig(provider="brave", api_key="sk-in-clear"),
        WebConfig(provider="brave", api_key="env:NO_SUCH_VARIABLE_HERE"),
    ],
)
async def test_a_provider_that_lacks_something_says_what(config: WebConfig) -> None:
    with pytest.raises(ConfigError) as error:
        await search(config)
    assert "sk-in-clear" not in error.value.message + error.value.fix


RESULTS = [{"title": "One", "url": "http://one.example/", "content": " a \n b ", "description": "a b"}, {"url": 5}, 7,
           {"title": "Two", "url": "javascript:x", "content": ""}, {"url": "https://two.example/"}]  # fmt: skip


async def test_searxng_is_asked_for_json() -> None:
    async with serving(answering(json.dumps({"results": RESULTS}))) as site:
        found = await search(WebConfig(provider="searxng", base_url=site.url + "/"))
        assert site.requests[0].path_qs == "/search?q=green+tea&format=json"
    assert found == {
        "query": "green tea",
        "results": [
            {"title": "One", "url": "http://one.example/", "snippet": "a b"},
            {"title": "", "url": "https://two.example/", "snippet": ""},
        ],
        "count": 2,
    }


async def test_brave_is_given_the_key_in_its_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAVE_TEST_KEY", "k-1")
    async with serving(answering(json.dumps({"web": {"results": RESULTS}}))) as site:
        config = WebConfig(provider="brave", base_url=site.url, api_key="env:BRAVE_TEST_KEY")
        found = await search(config, limit=1)
        request = site.requests[0]
        assert request.path_qs == "/res/v1/web/search?q=green+tea&count=1"
        assert request.headers["X-Subscription-Token"] == "k-1"
    assert found["count"] == 1


async def test_tavily_is_given_the_query_in_a_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_TEST_KEY", "k-2")
    async with serving(answering(json.dumps({"results": RESULTS}))) as site:
        config = WebConfig(provider="tavily", base_url=site.url, api_key="env:TAVILY_TEST_KEY")
        found = await search(config, limit=99)
        request = site.requests[0]
        assert request.headers["Authorization"] == "Bearer k-2"
        assert json.loads(await request.read()) == {"query": "green tea", "max_results": 20}
    assert found["count"] == 2


DUCK = """<div class="result"><h2>
<a class="result__a" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fone.example%2Fa&amp;rut=1">One <b>tea</b></a></h2>
<a class="result__snippet">All about <b>tea</b></a></div>
<div class="result result--ad"><a class="result__a" href="https://duckduckgo.com/y.js?ad=1">Ad</a></div>
<div class="result"><a class="result__a" href="https://two.example/">Two</a></div><div class="result"></div>"""


async def test_duckduckgo_is_read_from_its_page() -> None:
    async with serving(answering(DUCK)) as site:
        found = await search(WebConfig(provider="duckduckgo", base_url=site.url))
    assert found["results"] == [
        {"title": "One tea", "url": "https://one.example/a", "snippet": "All about tea"},
        {"title": "Two", "url": "https://two.example/", "snippet": ""},
    ]


@pytest.mark.parametrize("status", [401, 429, 500, 202])
async def test_a_provider_that_does_not_answer_well_is_an_error(status: int) -> None:
    async with serving(answering("{}", status=status)) as site:
        with pytest.raises(Unavailable):
            await search(WebConfig(provider="searxng", base_url=site.url))


@pytest.mark.parametrize("body", ["[]", "null", '{"results": 5}', '{"results": [[]]}'])
async def test_an_answer_of_another_shape_is_no_hits(body: str) -> None:
    async with serving(answering(body)) as site:
        assert (await search(WebConfig(provider="searxng", base_url=site.url)))["count"] == 0


@pytest.mark.parametrize("body", ["", "<html>"])
async def test_an_answer_that_is_not_json_is_an_error(body: str) -> None:
    async with serving(answering(body)) as site:
        with pytest.raises(MootError, match="JSON"):
            await search(WebConfig(provider="searxng", base_url=site.url))


# ---- whose words an error is ----


async def failure(name: str, config: WebConfig, **arguments: Any) -> MootError:
    with pytest.raises(MootError) as failed:
        await named(name, config)(arguments, context())
    return failed.value


@pytest.mark.parametrize(
    ("name", "config", "arguments"),
    [
        ("web_search", WebConfig(provider="brave"), {"query": "tea"}),
        ("web_search", WebConfig(provider="brave", api_key="env:NOT_SET_ANYWHERE"), {"query": "tea"}),
        ("web_search", WebConfig(provider="duckduckgo"), {"query": " "}),
        ("web_fetch", WebConfig(), {"url": "http://127.0.0.1:18923/"}),
        ("web_fetch", WebConfig(), {"url": "http://0x7f.1/"}),
        ("web_fetch", WebConfig(), {"url": "ftp://example.org/"}),
        ("web_fetch", WebConfig(), {"url": "http://me@example.org/"}),
        ("web_fetch", WebConfig(), {"url": "http://example.org/", "mode": "sung"}),
        # Nothing listens there.
        ("web_fetch", WebConfig(allow_private=("127.0.0.1:9",)), {"url": "http://127.0.0.1:9/"}),
    ],
)
async def test_an_error_from_before_anyone_answered_is_our_own(
    name: str, config: WebConfig, arguments: dict[str, Any]
) -> None:
    assert (await failure(name, config, **arguments)).is_untainted


@pytest.mark.parametrize("location", ["http://127.0.0.1:9/", "ftp://Do.as.I.say/", "http://me@127.0.0.1/", "loop"])
async def test_where_an_answer_sends_us_is_a_strangers(location: str) -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": location})

    async with serving(handler) as site:
        failed = await failure("web_fetch", site.config(), url=site.url)
    assert not failed.is_untainted


async def test_what_a_server_answers_badly_is_a_strangers() -> None:
    async def garbled(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 Do as I say\r\n\r\n")
        writer.close()

    async with serving(answering(b"\x89PNG", content_type="image/png")) as site:
        assert not (await failure("web_fetch", site.config(), url=site.url)).is_untainted
    server = await asyncio.start_server(garbled, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        config = WebConfig(allow_private=(f"127.0.0.1:{port}",))
        assert not (await failure("web_fetch", config, url=f"http://127.0.0.1:{port}/")).is_untainted


async def test_a_provider_that_answers_badly_is_a_stranger() -> None:
    async with serving(answering("no", status=500)) as site:
        config = WebConfig(provider="searxng", base_url=site.url)
        assert not (await failure("web_search", config, query="tea")).is_untainted
