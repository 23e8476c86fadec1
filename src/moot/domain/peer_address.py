"""Addresses of agents and the patterns that allow them: `researcher` on this daemon, `researcher@laptop` on another.

Used by multiagent/peers/ and by agents/agent_md.py. Pure.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

# The name of a sender that is a person begins with this; no agent's name does.
PERSON = "@"

_DAEMON_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_PATTERN = re.compile(r"(?:[a-z0-9][a-z0-9_-]{0,63}\*?|\*)(?:@(?:[a-z0-9][a-z0-9-]{0,62}\*?|\*))?")


@lru_cache(maxsize=256)
def is_daemon_name(text: str) -> bool:
    return _DAEMON_NAME.fullmatch(text) is not None


def join_address(agent: str, daemon: str) -> str:
    """Return the address of an agent; without a daemon, its name."""
    return f"{agent}@{daemon}" if daemon else agent


@lru_cache(maxsize=1024)
def split_address(address: str) -> tuple[str, str]:
    """Return the name of the agent and of its daemon; the latter is empty for an agent of this daemon."""
    agent, at, daemon = address.rpartition("@")
    return (agent, daemon) if at and agent and is_daemon_name(daemon) else (address, "")


def is_peer_pattern(text: str) -> bool:
    """Whether the text can be in `allowed_delegates` or `accept_delegates_from`."""
    return _PATTERN.fullmatch(text) is not None


def is_allowed(patterns: Sequence[str] | None, address: str) -> bool:
    """Whether the patterns allow an agent. No list allows all agents of this daemon and no others; `[]` allows none.

    A pattern is compared with the name and with the whole address. A `*` at the end of either part stands for any
    ending.
    """
    if patterns is None and "@" not in address:
        return True
    agent, daemon = split_address(address)
    if patterns is None:
        return not daemon
    return any(_matches(each, agent, daemon) for each in patterns)


def _matches(pattern: str, agent: str, daemon: str) -> bool:
    name, at, where = pattern.partition("@")
    return _matches_part(name, agent) and (not at or (bool(daemon) and _matches_part(where, daemon)))


def _matches_part(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
