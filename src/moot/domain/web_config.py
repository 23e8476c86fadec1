"""How the web may be used, as values: what can be reached, how much is read, and who searches."""

from dataclasses import dataclass

SEARCH_PROVIDERS = ("searxng", "brave", "tavily", "duckduckgo")
WEB_PORTS = (80, 443, 8080, 8443)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebConfig:
    """The [web] table.

    `provider` is who answers web_search; nobody does by default. `base_url` is the provider's address where it is not
    its own, `api_key` only ever a reference: `env:VAR` or `keyring:NAME`. `allow_private` lists addresses off the
    public internet that may be reached all the same, each with its port: "127.0.0.1:8080", "10.0.0.0/8:443".
    """

    provider: str = ""
    base_url: str = ""
    api_key: str = ""
    ports: tuple[int, ...] = WEB_PORTS
    allow_private: tuple[str, ...] = ()
    max_bytes: int = 5 * 1024 * 1024
    seconds: float = 30.0
