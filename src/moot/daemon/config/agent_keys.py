"""The keys of config.toml about agents that work together. Their names are fixed from outside and translated here."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from moot.daemon.config.keys import Key, above_zero, between
from moot.daemon.paths import Paths
from moot.domain.config import AgentConfig, Config


def _folders(value: str | list[str]) -> str:
    written = [value] if isinstance(value, str) else value
    return "must be a path, without a NUL character" if any("\0" in each for each in written) else ""


AGENT_KEYS = (
    Key("multiAgent", bool, "Let the agent `moot` orchestrate teammates instead of doing everything itself.", "false"),
    Key("maxDelegationRounds", int, "How often it may delegate in one turn of yours.", "10", between(1, 1000)),
    Key("maxDepth", int, "How deep teammates may spawn teammates.", "3", between(1, 10)),
    Key("maxRunning", int, "How many teammates work at once; the others stand in line.", "16", between(1, 10_000)),
    Key(
        "agentsDir",
        str,
        "The folder of your agents; empty is `agents` beside this file. From the next start on.",
        "",
        _folders,
    ),
    Key(
        "foreignDirs",
        tuple,
        'Folders with agent files of other programs, such as `"~/.claude/agents"`. From the next start on.',
        "[]",
        _folders,
    ),
)

RUN_LEDGER_KEYS = (
    Key("enabled", bool, "Keep a journal of what blocked a teammate.", "false"),
    Key("writeThrough", bool, "Write to it at once, whenever that changes. Both must be on.", "false"),
)

AGENT_MEMORY_KEYS = (Key("enabled", bool, "Let teammates remember from one run to the next.", "false"),)

TRACE_KEYS = (
    Key("keep_days", float, "How long what a teammate did is kept once it has ended.", "30", above_zero),
    Key("keep_failed_days", float, "The same where it failed.", "60", above_zero),
    Key("most", int, "How many ended teammates are kept; the oldest go first.", "10000", between(1, 10_000_000)),
)

BACKGROUND_KEYS = (
    Key("enabled", bool, "Let agents spawn teammates; unset follows `multiAgent`. `false` turns the runtime off.", ""),
)

SECTIONS = {
    "agent": AGENT_KEYS,
    "background": BACKGROUND_KEYS,
    "runLedger": RUN_LEDGER_KEYS,
    "agentMemory": AGENT_MEMORY_KEYS,
    "traces": TRACE_KEYS,
}


def snake(name: str) -> str:
    """A key's name as the code has it."""
    return re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", name)


def by_field(values: dict[str, Any]) -> dict[str, Any]:
    return {snake(name): value for name, value in values.items()}


def agent_config(values: dict[str, Any], *, folder: Path) -> AgentConfig:
    """[agent] with its folders made absolute: `~` is the home folder, the rest is relative to the file's own."""
    config = AgentConfig(**by_field(values))
    return replace(
        config,
        agents_dir=_absolute(config.agents_dir, folder) if config.agents_dir else "",
        foreign_dirs=tuple(_absolute(each, folder) for each in config.foreign_dirs if each),
    )


def agents_folder(config: Config, paths: Paths) -> Path:
    """Where a person's own agents are."""
    return Path(config.agent.agents_dir) if config.agent.agents_dir else paths.agents


def foreign_folders(config: Config) -> list[Path]:
    return [Path(each) for each in config.agent.foreign_dirs]


def _absolute(written: str, folder: Path) -> str:
    try:
        path = Path(written).expanduser()
    except RuntimeError:
        # `~somebody` who is not known here: a folder that does not exist, which is no error.
        path = Path(written)
    return str(folder.absolute() / path)
