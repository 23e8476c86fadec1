"""Adds and removes [mcp.NAME] tables in the text of config.toml. Everything else is kept."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moot.domain.errors import BadRequest, ConfigError, Conflict, NotFound, StoreError

_BY_HAND = "Correct it by hand; `moot doctor` says where."
_REFERENCES = ("secret:", "env:", "keyring:")
_SECRET_NAME = re.compile(r"key|token|secret|passw|credential|auth", re.IGNORECASE)


def read_config(path: Path) -> str:
    """The text of the configuration; empty if there is no file."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path} cannot be read: {error}", fix="Correct its permissions or its encoding.") from error


def find_server(text: str, name: str) -> dict[str, Any]:
    """The table of one server; empty if there is none."""
    servers = parse_config(text).get("mcp", {})
    found = servers.get(name, {}) if isinstance(servers, dict) else {}
    return found if isinstance(found, dict) else {}


def add_server(text: str, name: str, table: dict[str, Any]) -> str:
    import tomlkit  # noqa: PLC0415 - only for a file that is really changed

    before = parse_config(text)
    servers = before.get("mcp", {})
    if not isinstance(servers, dict):
        raise ConfigError("`mcp` in the configuration is not a table", fix=_BY_HAND)
    if name in servers:
        raise Conflict(f"there is an MCP server {name!r}", fix=f"Remove it first with `moot mcp rm {name}`.")
    document = tomlkit.parse(text)
    tables: Any = document.setdefault("mcp", tomlkit.table(is_super_table=True))
    tables[name] = table
    return _verify(tomlkit.dumps(document), {**before, "mcp": {**servers, name: table}})


def remove_server(text: str, name: str) -> str:
    import tomlkit  # noqa: PLC0415 - only for a file that is really changed

    before = parse_config(text)
    servers = before.get("mcp", {})
    if not isinstance(servers, dict) or name not in servers:
        raise NotFound(f"there is no MCP server {name!r} in the configuration", fix="`moot mcp list` shows them.")
    document = tomlkit.parse(text)
    tables: Any = document["mcp"]
    del tables[name]
    left = {other: table for other, table in servers.items() if other != name}
    if not left:
        del document["mcp"]
    meant = {key: value for key, value in before.items() if key != "mcp"} | ({"mcp": left} if left else {})
    return _verify(tomlkit.dumps(document), meant)


def parse_config(text: str) -> dict[str, Any]:
    """The tables of a configuration."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the configuration cannot be changed: {error}", fix=_BY_HAND) from error


def _verify(text: str, meant: dict[str, Any]) -> str:
    """Raise unless the text parses back to the intended values."""
    if parse_config(text) != meant:
        raise ConfigError("the configuration cannot be changed safely", fix="Change it by hand.")
    return text


def parse_pairs(texts: Sequence[str]) -> dict[str, str]:
    """Return the variables or headers given as NAME=VALUE; a secret must be kept elsewhere."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadRequest("variables and headers have the form NAME=VALUE", fix="For example: --env LEVEL=debug")
        if _SECRET_NAME.search(name) and not value.startswith(_REFERENCES):
            # The value is not repeated: it is likely the secret itself.
            raise ConfigError(
                f"{name} looks like a secret, which does not belong in the configuration",
                fix=f"Store it with `moot secrets set SECRET` and write {name}=secret:SECRET.",
            )
        found[name] = value
    return found
