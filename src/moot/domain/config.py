"""What a person can configure, as values. Reading the file is the daemon's job."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from moot.domain.agent_config import AgentConfig, AgentMemoryConfig, RunLedgerConfig, TraceConfig
from moot.domain.hands_config import HandsConfig
from moot.domain.run import Limits

PROVIDERS = ("openai", "anthropic", "local", "scripted")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """One [models.NAME] table. `api_key` is only ever a reference: `env:VAR` or `keyring:NAME`."""

    name: str
    provider: str
    model: str = ""
    base_url: str = ""
    api_key: str = ""
    window: int = 0
    max_output_tokens: int = 0
    tools: str = ""
    idle_seconds: float = 120.0
    retries: int = 3
    thinking_tokens: int = 0
    price_prompt: float = 0.0
    price_completion: float = 0.0
    script: str = ""
    threads: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionConfig:
    """When a history is compacted by itself: at `threshold` of the model's window."""

    auto: bool = True
    threshold: float = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenConfig:
    """host:port of the doors besides the Unix socket; "" is the default port or a free one, "off" is none."""

    http: str = ""
    tcp: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    default_model: str
    models: Mapping[str, ModelConfig]
    # What one run may spend, and what a turn may with all it sets off.
    limits: Limits = field(default_factory=lambda: Limits(steps=50, seconds=1800.0))
    budget: Limits = field(default_factory=lambda: Limits(steps=1000))
    compaction: CompactionConfig = field(default_factory=CompactionConfig)
    listen: ListenConfig = field(default_factory=ListenConfig)
    ask_seconds: float = 3600.0
    tool_seconds: float = 600.0
    max_content_bytes: int = 1_048_576
    queue_bound: int = 32
    hands: HandsConfig = field(default_factory=HandsConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    run_ledger: RunLedgerConfig = field(default_factory=RunLedgerConfig)
    agent_memory: AgentMemoryConfig = field(default_factory=AgentMemoryConfig)
    traces: TraceConfig = field(default_factory=TraceConfig)


def default_config() -> Config:
    """What holds where no file says otherwise: the small embedded model, and the scripted one."""
    models = {
        "smollm2": ModelConfig(name="smollm2", provider="local", model="smollm2"),
        "qwen": ModelConfig(name="qwen", provider="local", model="qwen"),
        "scripted": ModelConfig(name="scripted", provider="scripted"),
    }
    return Config(default_model="smollm2", models=MappingProxyType(models))
