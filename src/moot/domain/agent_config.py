"""What a person can configure of agents that work together, as values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """[agent]: whether the root agent orchestrates teammates, and where agents are defined."""

    multi_agent: bool = False
    # Delegations of one user turn.
    max_delegation_rounds: int = 10
    # How deep teammates may spawn teammates, and how many work at once; the rest stand in line.
    max_depth: int = 3
    max_running: int = 16
    # Empty is the folder beside the configuration.
    agents_dir: str = ""
    # Folders with agent files written for other programs.
    foreign_dirs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLedgerConfig:
    """[runLedger]: whether what blocks a teammate is also written to a journal. Both must be on."""

    enabled: bool = False
    write_through: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceConfig:
    """[traces]: how long what teammates did is kept, and notes of turns: by days, and never more than so many."""

    keep_days: float = 30.0
    keep_failed_days: float = 60.0
    most: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMemoryConfig:
    """[agentMemory]: whether every teammate remembers from one run to the next."""

    enabled: bool = False
