"""Extracts the results from a search engine's result page. Used by `page_reader` for `search`."""

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

_MOST = 50


def extract_results(tree: Any) -> str:
    """A JSON list of {title, url, snippet} in page order, without advertisements."""
    found: list[dict[str, str]] = []
    for result in tree.css(".result")[:_MOST]:
        link = result.css_first("a.result__a")
        url = _result_address(link.attributes.get("href") or "") if link is not None else ""
        if url:
            snippet = result.css_first(".result__snippet")
            found.append({"title": link.text(), "url": url, "snippet": snippet.text() if snippet is not None else ""})
    return json.dumps(found)


def _result_address(href: str) -> str:
    """The target URL behind the engine's redirect link. Empty for an advertisement."""
    try:
        parts = urlsplit(f"https:{href}" if href.startswith("//") else href)
        target = parse_qs(parts.query).get("uddg", [""])[0] or parts.geturl()
        known = urlsplit(target)
        host = known.hostname or ""
    except ValueError:
        return ""
    is_theirs = host == "duckduckgo.com" or host.endswith(".duckduckgo.com")
    return target if known.scheme in ("http", "https") and host and not is_theirs else ""
