"""Reads and checks [mcp.NAME] tables."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from moot.daemon.config.keys import Key, check_above_zero, check_one_of
from moot.domain.mcp import SANDBOX_CHOICES, McpConfig
from moot.domain.prompt import Safety
from moot.tools.mcp.offers import SERVER_NAME, SERVER_NAME_LENGTH

_LOOPBACK = ("localhost", "127.0.0.1", "::1")

MCP_KEYS = (
    Key("command", str, "The program that is the server; it speaks MCP on its stdin and stdout.", ""),
    Key("args", tuple, "Its arguments.", "[]"),
    Key("cwd", str, "Its working directory, the only folder it can write to; empty gives it one of its own.", ""),
    Key("sandbox", str, "`off` runs the program without the sandbox.", "on", check_one_of(*SANDBOX_CHOICES)),
    Key("network", bool, "Allow the program network access from the sandbox.", "false"),
    Key("readable", tuple, "Additional folders the program may read.", "[]"),
    Key("url", str, "The server's address instead of a program: streamable HTTP.", ""),
    Key("enabled", bool, "Whether it is enabled.", "true"),
    Key(
        "safety",
        str,
        "Safety level of its tools: `safe`, `moderate` or `dangerous`.",
        "dangerous",
        check_one_of(*Safety),
    ),
    Key("egress", bool, "Whether data sent to it may leave this machine.", "true"),
    Key("connect_seconds", float, "How long it may take to start.", "30", check_above_zero),
    Key("call_seconds", float, "How long one call may take.", "60", check_above_zero),
)

# Tables of text inside the table: what they are for.
MCP_TABLES = {
    "env": 'Variables of the program; a value may be "secret:NAME", "env:VARIABLE" or "keyring:NAME".',
    "headers": 'Headers of every request; a value may be "secret:NAME", "env:VARIABLE" or "keyring:NAME".',
    "tools": "The safety of single tools, by the server's own names.",
}


def build_mcp_config(
    name: str, table: Mapping[str, Any], values: Mapping[str, Any]
) -> tuple[McpConfig, list[tuple[str, str]]]:
    """Return the server, and (key, reason) for each error. `values` are the valid keys of MCP_KEYS."""
    problems: list[tuple[str, str]] = []
    inner: dict[str, Mapping[str, str]] = {}
    for key in MCP_TABLES:
        found, reason = _read_texts(table.get(key, {}))
        inner[key] = MappingProxyType(found)
        if reason:
            problems.append((key, f"`{key}` {reason}"))
    tools = {tool: Safety(safety) for tool, safety in inner["tools"].items() if safety in tuple(Safety)}
    if len(tools) < len(inner["tools"]):
        problems.append(("tools", f"`tools` takes {', '.join(Safety)} for each tool"))
    plain = dict(values)
    plain["safety"] = Safety(plain.get("safety", Safety.DANGEROUS))
    config = McpConfig(name=name, env=inner["env"], headers=inner["headers"], tools=MappingProxyType(tools), **plain)
    problems += _find_problems(config)
    return config, problems


def _read_texts(table: object) -> tuple[dict[str, str], str]:
    if not isinstance(table, dict):
        return {}, "must be a table"
    texts = {key: value for key, value in table.items() if isinstance(value, str) and "\x00" not in value}
    return texts, "" if len(texts) == len(table) else "takes text in quotes only"


def _find_problems(config: McpConfig) -> Iterator[tuple[str, str]]:
    if not SERVER_NAME.fullmatch(config.name) or len(config.name) > SERVER_NAME_LENGTH:
        yield (
            "",
            f"the name {ascii(config.name)[:60]} is not allowed; use a-z, digits and single - or _,"
            f" at most {SERVER_NAME_LENGTH}",
        )
    if bool(config.command) == bool(config.url):
        yield "", f"[mcp.{config.name}] needs either `command` or `url`"
    if config.url and (reason := _find_url_problem(config)):
        yield "url", reason
    if config.url and (config.network or config.readable or config.sandbox != "on"):
        yield "url", "`sandbox`, `network` and `readable` are about a `command`, not about a `url`"
    for name, value in config.headers.items():
        if not name.isascii() or not value.isprintable() or any(mark in name for mark in " :\r\n"):
            yield "headers", f"`headers` has {ascii(name)[:60]}, which is not a header"


def _find_url_problem(config: McpConfig) -> str:
    try:
        parts = urlsplit(config.url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return '`url` is not an address; write it like "https://host/mcp"'
    if not good:
        return '`url` must begin with http:// or https:// and a host, like "https://host/mcp"'
    if parts.username is not None or parts.password is not None:
        return '`url` must not contain a user or password; use headers = { Authorization = "env:VARIABLE" }'
    if config.headers and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        return "`url` must be https:// where `headers` are sent to another machine"
    return ""
