"""Compares two configurations: what a reload changed, and what needs a restart. Pure."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from moot.domain.agent import Agent
from moot.domain.config import Config

# Keys of the file, and where their values are.
_AT_START = {
    "listen.http": "listen.http",
    "listen.tcp": "listen.tcp",
    "store.kind": "store.kind",
    "metrics.enabled": "metrics.enabled",
    "metrics.access": "metrics.access",
    "telemetry.enabled": "telemetry.enabled",
    "telemetry.endpoint": "telemetry.endpoint",
    "telemetry.authorization": "telemetry.authorization",
    "telemetry.content": "telemetry.content",
    "vault.key": "tools.vault.key",
    "vault.decrypted_seconds": "tools.vault.decrypted_seconds",
    "agent.agentsDir": "agent.agents_dir",
    "agent.foreignDirs": "agent.foreign_dirs",
}


def list_needing_restart(started: Config, now: Config) -> list[str]:
    """Return the keys that have changed since the daemon started and are only read at a start."""
    return [key for key, place in _AT_START.items() if attrgetter(place)(started) != attrgetter(place)(now)]


def list_changed_keys(before: Mapping[str, Any], after: Mapping[str, Any], under: str = "") -> list[str]:
    """Return the keys whose values differ, as named in the file."""
    found: list[str] = []
    for name in sorted({*before, *after}):
        was, now = before.get(name), after.get(name)
        if isinstance(was, Mapping) and isinstance(now, Mapping):
            found += list_changed_keys(was, now, f"{under}{name}.")
        elif was != now:
            found.append(f"{under}{name}")
    return found


def list_changed_agents(before: Mapping[str, Agent], after: Mapping[str, Agent]) -> list[str]:
    """Return the agents that were added, removed or changed, each with what happened."""
    changes = {name: "new" for name in after if name not in before}
    changes |= {name: "gone" for name in before if name not in after}
    changes |= {name: "changed" for name in after if name in before and before[name] != after[name]}
    return [f"{name} ({what})" for name, what in sorted(changes.items())]
