"""Suggests which key of config.toml an unknown one was meant to be. Used by config_file.py. Pure."""

from difflib import get_close_matches

from moot.daemon.config import agent_keys, keys, tool_keys
from moot.daemon.config.keys import Key

_TABLES: dict[str, tuple[Key, ...]] = {
    **agent_keys.SECTIONS,
    "limits": keys.LIMIT_KEYS,
    "budget": keys.BUDGET_KEYS,
    "compaction": keys.COMPACTION_KEYS,
    "listen": keys.LISTEN_KEYS,
    "network": keys.NETWORK_KEYS,
    "chat": keys.CHAT_KEYS,
    "security.interceptor": tool_keys.INTERCEPTOR_KEYS,
    **tool_keys.SECTIONS,
}


def suggest_key(name: str, known: tuple[str, ...]) -> str:
    """A question to append to a warning: a similar key of the same table, or the same key of another; else empty."""
    if near := get_close_matches(name, known, n=1):
        return f"; did you mean `{near[0]}`?"
    tables = [f"[{table}]" for table, rows in _TABLES.items() if any(key.name == name for key in rows)]
    return f"; did you mean `{name}` in {' or '.join(tables)}?" if tables else ""
