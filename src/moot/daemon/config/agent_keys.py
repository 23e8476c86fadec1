"""Reads the [agent] tables of config.toml."""

import re
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from moot.daemon.config.keys import Key, check_above_zero, check_between, check_one_of
from moot.daemon.paths import Paths
from moot.domain.config import AgentConfig, Config


def _check_folders(value: str | list[str]) -> str:
    written = [value] if isinstance(value, str) else value
    return "must be a path, without a NUL character" if any("\0" in each for each in written) else ""


AGENT_KEYS = (
    Key("multiAgent", bool, "Let the agent `moot` orchestrate teammates instead of doing everything itself.", "false"),
    Key("maxDelegationRounds", int, "Maximum delegations in one user turn.", "10", check_between(1, 1000)),
    Key("maxDepth", int, "Maximum depth of teammates spawned by teammates.", "3", check_between(1, 10)),
    Key("maxRunning", int, "Maximum number of teammates at work; others are queued.", "16", check_between(1, 10_000)),
    Key(
        "agentsDir",
        str,
        "Folder of your agents; empty is `agents` beside this file. Needs a restart.",
        "",
        _check_folders,
    ),
    Key(
        "foreignDirs",
        tuple,
        'Folders with agent files of other programs, such as `"~/.claude/agents"`. Needs a restart.',
        "[]",
        _check_folders,
    ),
    Key(
        "vocabulary",
        bool,
        "With `multiAgent`, let the default model write once for each of your agents what people say when they need it,"
        " by which requests are routed. Embedded and small models do not. Costs model calls.",
        "true",
    ),
)

RUN_LEDGER_KEYS = (
    Key("enabled", bool, "Show in traces, as a ledger, what blocked a teammate.", "false"),
    Key("writeThrough", bool, "Must be on as well.", "false"),
)

AGENT_MEMORY_KEYS = (
    Key("enabled", bool, "Let every agent keep memories of its own, teammates from one run to the next.", "false"),
    Key("inject", int, "The most memories an agent is shown with a message; 0 for none.", "8", check_between(0, 50)),
)

LIBRARIAN_KEYS = (
    Key(
        "enabled", bool, "Find knowledge in conversations, and ask about what is not known. Costs model calls.", "false"
    ),
    Key(
        "observationThreshold",
        int,
        "Messages of yours after which a conversation is analysed.",
        "2",
        check_between(1, 1000),
    ),
    Key("inquiryCooldownTurns", int, "Messages of yours between two inquiries.", "3", check_between(1, 1000)),
    Key("maxPendingInquiries", int, "Pending inquiries of a conversation.", "2", check_between(1, 100)),
    Key(
        "autoSaveConfidence",
        str,
        "What is found with at least this confidence is saved.",
        "high",
        check_one_of("high", "medium", "low"),
    ),
    Key("model", str, "The model of the analysis; empty for that of the agent.", ""),
)

TRACE_KEYS = (
    Key("keep_days", float, "How long the record of an ended teammate is kept.", "30", check_above_zero),
    Key("keep_failed_days", float, "The same for one that failed.", "60", check_above_zero),
    Key(
        "most",
        int,
        "Maximum number of ended teammates kept; the oldest are removed first.",
        "10000",
        check_between(1, 10_000_000),
    ),
)

BACKGROUND_KEYS = (
    Key(
        "enabled",
        bool,
        "Let agents start background tasks, and teammates if `multiAgent` is on. `false` turns both off.",
        "",
    ),
)

CRON_KEYS = (Key("enabled", bool, "Let scheduled jobs fire, and agents schedule them.", "true"),)

WORKFLOW_KEYS = (
    Key("enabled", bool, "Let agents and people run workflows. `false` removes the tools `workflow_*`.", "true"),
    Key("max_parallel", int, "Maximum number of steps of all workflows at work.", "8", check_between(1, 1_000)),
)

SECTIONS = {
    "agent": AGENT_KEYS,
    "background": BACKGROUND_KEYS,
    "cron": CRON_KEYS,
    "workflow": WORKFLOW_KEYS,
    "runLedger": RUN_LEDGER_KEYS,
    "agentMemory": AGENT_MEMORY_KEYS,
    "librarian": LIBRARIAN_KEYS,
    "traces": TRACE_KEYS,
}


def to_snake_case(name: str) -> str:
    """Return the name of a key in snake case, as in the code."""
    return re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", name)


def rename_fields(values: dict[str, Any]) -> dict[str, Any]:
    return {to_snake_case(name): value for name, value in values.items()}


def read_agent_config(values: dict[str, Any], *, folder: Path) -> AgentConfig:
    """Return [agent] with absolute folders: `~` is the home folder, others are relative to that of the file."""
    config = AgentConfig(**rename_fields(values))
    return replace(
        config,
        agents_dir=make_absolute(config.agents_dir, folder) if config.agents_dir else "",
        foreign_dirs=tuple(make_absolute(each, folder) for each in config.foreign_dirs if each),
    )


def find_agents_folder(config: Config, paths: Paths) -> Path:
    """Return the folder of the user's agents."""
    return Path(config.agent.agents_dir) if config.agent.agents_dir else paths.agents


def find_foreign_folders(config: Config) -> list[Path]:
    return [Path(each) for each in config.agent.foreign_dirs]


def make_absolute(written: str, folder: Path) -> str:
    """Return a path of the file as an absolute one: `~` is the home folder, others are relative to the folder."""
    try:
        path = Path(written).expanduser()
    except RuntimeError:
        # `~name` of an unknown user: taken as a folder that does not exist, which is no error.
        path = Path(written)
    return str(folder.absolute() / path)
