"""The values of config.toml, one frozen class for each table. `daemon/config` reads the file into them."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field

from moot.domain.mcp import McpConfig
from moot.domain.run import Limits

PROVIDERS = ("openai", "anthropic", "local", "scripted")


class ModelConfig(Struct, frozen=True, kw_only=True):
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


class CompactionConfig(Struct, frozen=True, kw_only=True):
    """When a history is compacted by itself: at `threshold` of the model's window."""

    auto: bool = True
    threshold: float = 0.8


class ListenConfig(Struct, frozen=True, kw_only=True):
    """host:port of the doors besides the Unix socket; "" is the default port or a free one, "off" is none."""

    http: str = ""
    tcp: str = ""


# Where everything is kept: in a SQLite file, or in memory until the daemon ends.
STORE_KINDS = ("sqlite", "memory")


class StoreConfig(Struct, frozen=True, kw_only=True):
    kind: str = "sqlite"


class AgentConfig(Struct, frozen=True, kw_only=True):
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


class BackgroundConfig(Struct, frozen=True, kw_only=True):
    """[background]: whether teammates may be spawned. None follows `multiAgent`."""

    enabled: bool | None = None


class RunLedgerConfig(Struct, frozen=True, kw_only=True):
    """[runLedger]: whether what blocks a teammate is also written to a journal. Both must be on."""

    enabled: bool = False
    write_through: bool = False


class TraceConfig(Struct, frozen=True, kw_only=True):
    """[traces]: how long what teammates did is kept, and notes of turns: by days, and never more than so many."""

    keep_days: float = 30.0
    keep_failed_days: float = 60.0
    most: int = 10_000


class AgentMemoryConfig(Struct, frozen=True, kw_only=True):
    """[agentMemory]: whether every teammate remembers from one run to the next."""

    enabled: bool = False


class FilesConfig(Struct, frozen=True, kw_only=True):
    """`read_bytes` holds for a whole file; a window of lines may be cut from a file of `window_bytes`."""

    read_bytes: int = 10_485_760
    window_bytes: int = 67_108_864
    write_bytes: int = 10_485_760
    entries: int = 2_000


POLICIES = ("dangerous", "all", "configured", "none")


class InterceptorConfig(Struct, frozen=True, kw_only=True):
    """When a call is put before its owner. `sensitive_tools` always are, `exempt_tools` never by policy."""

    enabled: bool = True
    policy: str = "dangerous"
    exempt_tools: tuple[str, ...] = ()
    blocked_tools: tuple[str, ...] = ()
    sensitive_tools: tuple[str, ...] = ()
    approval_seconds: float = 86_400.0
    # Nobody is there to ask: what would be asked is refused at once.
    unattended: bool = False
    # Models are told placeholders instead of personal data.
    redact_personal: bool = False


# Tools that read or look something up. What comes from secrets, from memory itself or from a shelf is never among them.
READING = (
    "fs_read", "fs_list", "fs_stat", "web_fetch", "web_search", "browser_extract", "browser_observe", "graph_*",
    "search_*", "list_skills", "view_skill", "ontology_get_*", "ontology_query_*", "ontology_facts_at",
    "mcp__*__get_*", "mcp__*__list_*", "mcp__*__read_*", "mcp__*__search_*", "mcp__*__query_*", "mcp__*__fetch_*",
)  # fmt: skip


class KnowledgeConfig(Struct, frozen=True, kw_only=True):
    """[knowledge]: whether tool calls teach anything, and what is kept of their results."""

    enabled: bool = False
    reading_tools: tuple[str, ...] = READING
    max_characters: int = 4_096
    # Of one tool's results; older ones are let go.
    versions: int = 20


class MemoryConfig(Struct, frozen=True, kw_only=True):
    """[memory]: how much an agent keeps of one sender, and how often a conversation notes what it was about."""

    # Beyond this many memories of one agent with one sender, the least useful are let go.
    max_entries: int = 1_000
    # An observation is made after this many new messages, a reflection over this many observations. It takes a model
    # call that nobody asked for, so it is off until somebody does.
    observe_every: int = 0
    reflect_every: int = 5


class OutputConfig(Struct, frozen=True, kw_only=True):
    """[outputs]: a result over `budget_characters` is kept for `keep_seconds` and shown by its beginning and end."""

    budget_characters: int = 16_000
    keep_seconds: float = 86_400.0
    # Of one conversation; beyond it the oldest go first.
    max_kept: int = 200
    max_characters: int = 16_000_000


MODES = ("auto", "none")


class SandboxConfig(Struct, frozen=True, kw_only=True):
    """The [sandbox] table. `mode` none runs commands as the daemon itself does, with nothing between."""

    mode: str = "auto"
    network: bool = False
    # Folders commands may read besides the system's and the working directory, such as a toolchain in the home.
    readable: tuple[str, ...] = ()
    timeout_seconds: float = 30.0
    longest_seconds: float = 600.0
    background_seconds: float = 3600.0
    background_jobs: int = 8
    # What is kept of a command's output, and how much of it ends a command that will not stop.
    output_bytes: int = 1_048_576
    flood_bytes: int = 67_108_864
    processes: int = 256
    memory_bytes: int = 4_294_967_296
    temporary_bytes: int = 536_870_912


class SkillConfig(Struct, frozen=True, kw_only=True):
    """`ratio` bounds what an archive may unpack to, as a multiple of its own size beyond the first mebibyte."""

    allow_import: bool = True
    archive_bytes: int = 16_777_216
    unpacked_bytes: int = 33_554_432
    files: int = 1_000
    ratio: int = 100


# auto: the keyring of the system where there is one that works, else a file only the owner can read.
KEY_PLACES = ("auto", "keyring", "file")


class VaultConfig(Struct, frozen=True, kw_only=True):
    """Where the master key is kept when it is first made, and how long a decrypted value can be referred to."""

    key: str = "auto"
    decrypted_seconds: float = 300.0


SEARCH_PROVIDERS = ("searxng", "brave", "tavily", "duckduckgo")
WEB_PORTS = (80, 443, 8080, 8443)


class WebConfig(Struct, frozen=True, kw_only=True):
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


class ToolsConfig(Struct, frozen=True, kw_only=True):
    interceptor: InterceptorConfig = InterceptorConfig()
    sandbox: SandboxConfig = SandboxConfig()
    files: FilesConfig = FilesConfig()
    skills: SkillConfig = SkillConfig()
    web: WebConfig = WebConfig()
    vault: VaultConfig = VaultConfig()
    memory: MemoryConfig = MemoryConfig()
    outputs: OutputConfig = OutputConfig()
    knowledge: KnowledgeConfig = KnowledgeConfig()
    mcp: Mapping[str, McpConfig] = field(default_factory=lambda: MappingProxyType({}))


class Config(Struct, frozen=True, kw_only=True):
    default_model: str
    models: Mapping[str, ModelConfig]
    # What one run may spend, and what a turn may with all it sets off.
    limits: Limits = field(default_factory=lambda: Limits(steps=50, seconds=1800.0))
    budget: Limits = field(default_factory=lambda: Limits(steps=1000))
    compaction: CompactionConfig = CompactionConfig()
    listen: ListenConfig = ListenConfig()
    store: StoreConfig = StoreConfig()
    ask_seconds: float = 3600.0
    tool_seconds: float = 600.0
    max_content_bytes: int = 1_048_576
    queue_bound: int = 32
    hands: ToolsConfig = ToolsConfig()
    agent: AgentConfig = AgentConfig()
    background: BackgroundConfig = BackgroundConfig()
    run_ledger: RunLedgerConfig = RunLedgerConfig()
    agent_memory: AgentMemoryConfig = AgentMemoryConfig()
    traces: TraceConfig = TraceConfig()

    @property
    def has_teammates(self) -> bool:
        """Whether the root agent leads teammates."""
        return self.agent.multi_agent and self.background.enabled is not False


def default_config() -> Config:
    """What holds where no file says otherwise: the small embedded model, and the scripted one."""
    models = {
        "smollm2": ModelConfig(name="smollm2", provider="local", model="smollm2"),
        "qwen": ModelConfig(name="qwen", provider="local", model="qwen"),
        "scripted": ModelConfig(name="scripted", provider="scripted"),
    }
    return Config(default_model="smollm2", models=MappingProxyType(models))
