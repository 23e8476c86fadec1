"""The values of config.toml, one frozen class for each table. `daemon/config` reads the file into them."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field

from moot.domain.automation_config import BackgroundConfig, CronConfig, WorkflowConfig
from moot.domain.knowledge_config import GraphConfig, KnowledgeConfig, LibrarianConfig
from moot.domain.mcp import McpConfig
from moot.domain.rag_config import RagConfig
from moot.domain.run import Limits
from moot.domain.scope import Scope
from moot.domain.telemetry_config import MetricsConfig, TelemetryConfig

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
    # Whether it is told less: short instructions, and few tools with a short description.
    small: bool = False
    # Whether an embedded model is loaded, and reads the instructions of the root agent, when the daemon starts.
    warm: bool = True
    idle_seconds: float = 120.0
    retries: int = 3
    thinking_tokens: int = 0
    price_prompt: float = 0.0
    price_completion: float = 0.0
    script: str = ""
    threads: int = 0


class CompactionConfig(Struct, frozen=True, kw_only=True):
    """Automatic compaction of a history at `threshold` of the model's window."""

    auto: bool = True
    threshold: float = 0.8


class ListenConfig(Struct, frozen=True, kw_only=True):
    """host:port of the listeners besides the Unix socket; "" is the default port, "off" disables it."""

    http: str = ""
    tcp: str = ""


# Where data is stored: in a SQLite file, or in memory until the daemon ends.
STORE_KINDS = ("sqlite", "memory")


class NetworkConfig(Struct, frozen=True, kw_only=True):
    """`proxy` for requests to models: an address, a reference to one, "off", or "" for that of the environment."""

    proxy: str = ""


class PeersConfig(Struct, frozen=True, kw_only=True):
    """Mail between agents: which goals are live, and how many runs mail may start."""

    # Whether agents can find and write to each other.
    directory: bool = True
    # Conversations count as live for this long after their last message.
    active_seconds: float = 86_400.0
    # How many goals a message to all agents may reach.
    max_broadcast: int = 32
    # How many mails in a row, each sent by an agent that the previous one woke, may wake an agent; and how many runs
    # mail may start because of one message of a person.
    max_hops: int = 8
    max_wakes: int = 20
    # How long mail that nobody read is kept, so that it can be sent again.
    keep_dead_days: float = 30.0


# The broker of a daemon that is on its own.
MEMORY_BROKER = "memory:"


class BrokerConfig(Struct, frozen=True, kw_only=True):
    """[broker]: what carries mail to other daemons. `credentials` is only ever a reference: `file:` or `secret:`."""

    url: str = MEMORY_BROKER
    # The name of this daemon on the broker; empty is the name of the machine.
    name: str = ""
    credentials: str = ""
    ca_file: str = ""
    # Whether messages that no known daemon has signed are delivered, marked as unverified.
    accept_unsigned: bool = False
    max_outbox: int = 10_000
    # After so many days, mail that no other daemon has received is given back.
    outbox_days: float = 30.0
    # The size of the broker's stream, if this daemon creates it.
    max_stream_bytes: int = 1_073_741_824


class StoreConfig(Struct, frozen=True, kw_only=True):
    kind: str = "sqlite"


class ChatConfig(Struct, frozen=True, kw_only=True):
    """[chat]: what `moot chat` opens if its command line does not say. Read by the command, not by the daemon."""

    agent: str = "moot"
    here: bool = False
    # Whether Markdown is rendered.
    markdown: bool = True
    # What becomes of a message that is sent while a run is active: queue or steer.
    busy: str = "queue"
    # How a person is called: all, bell or off.
    notify: str = "all"
    # After how long an absence they are shown what happened meanwhile; 0 is never.
    away_seconds: float = 14_400.0


class AgentConfig(Struct, frozen=True, kw_only=True):
    """[agent]: whether the root agent orchestrates teammates, and where agents are defined."""

    multi_agent: bool = False
    # The maximum number of delegations per user turn.
    max_delegation_rounds: int = 10
    # The maximum depth of spawned teammates, and how many run at once; the rest are queued.
    max_depth: int = 3
    max_running: int = 16
    # Empty means the folder beside the configuration.
    agents_dir: str = ""
    # Folders with agent files written for other programs.
    foreign_dirs: tuple[str, ...] = ()
    # Whether a model writes what people say when they need an agent (domain/vocabulary.py), and requests are compared.
    vocabulary: bool = True


class RunLedgerConfig(Struct, frozen=True, kw_only=True):
    """[runLedger]: whether traces show what blocked a teammate as a ledger. Both keys must be on."""

    enabled: bool = False
    write_through: bool = False

    @property
    def is_shown(self) -> bool:
        return self.enabled and self.write_through


class TraceConfig(Struct, frozen=True, kw_only=True):
    """[traces]: how long the records of teammates and notes of turns are kept, in days and in number."""

    keep_days: float = 30.0
    keep_failed_days: float = 60.0
    most: int = 10_000


class AgentMemoryConfig(Struct, frozen=True, kw_only=True):
    """[agentMemory]: whether every agent keeps memories of its own, and how many it is shown with a message."""

    enabled: bool = False
    inject: int = 8


class FilesConfig(Struct, frozen=True, kw_only=True):
    """`read_bytes` limits a whole file; a range of lines may be read from a file of up to `window_bytes`."""

    read_bytes: int = 10_485_760
    window_bytes: int = 67_108_864
    write_bytes: int = 10_485_760
    entries: int = 2_000
    # What is kept of earlier contents, so that changes can be undone; 0 keeps nothing.
    undo_bytes: int = 268_435_456
    undo_seconds: float = 2_592_000.0


class ToolSearchConfig(Struct, frozen=True, kw_only=True):
    """[tool_search]: the most tools that a model is offered at once; it finds the others. 0 is no limit."""

    max_offered: int = 100


class ProjectConfig(Struct, frozen=True, kw_only=True):
    """[project]: whether runs are told the instruction files of the project they work in, and how much of them."""

    instructions: bool = True
    max_bytes: int = 32_768


POLICIES = ("dangerous", "all", "configured", "none")


class InterceptorConfig(Struct, frozen=True, kw_only=True):
    """When a call needs approval. `sensitive_tools` always do, `exempt_tools` never do by policy."""

    enabled: bool = True
    policy: str = "dangerous"
    # The mode of conversations without their own (domain/mode.py); empty for the default.
    mode: str = ""
    exempt_tools: tuple[str, ...] = ()
    blocked_tools: tuple[str, ...] = ()
    sensitive_tools: tuple[str, ...] = ()
    approval_seconds: float = 86_400.0
    # Nobody can be asked: calls that need approval are denied at once.
    unattended: bool = False
    # Models are sent placeholders instead of personal data.
    redact_personal: bool = False


class MemoryConfig(Struct, frozen=True, kw_only=True):
    """[memory]: how many memories an agent keeps per sender, and how often notes of a conversation are made."""

    # Beyond this many memories of one agent with one sender, the least useful are deleted.
    max_entries: int = 1_000
    # An observation is made after this many new messages, a reflection after this many observations. Each takes a model
    # call that the user did not request, so both are off by default.
    observe_every: int = 0
    reflect_every: int = 5


class OutputConfig(Struct, frozen=True, kw_only=True):
    """[outputs]: a result over `budget_characters` is stored for `keep_seconds`; only its two ends are shown."""

    budget_characters: int = 16_000
    keep_seconds: float = 86_400.0
    # Per conversation; beyond it the oldest are deleted first.
    max_kept: int = 200
    max_characters: int = 16_000_000


MODES = ("auto", "none")


class SandboxConfig(Struct, frozen=True, kw_only=True):
    """The [sandbox] table. With `mode` none, commands run with all permissions of the daemon."""

    mode: str = "auto"
    network: bool = False
    # Folders that commands may read besides the system's and the working directory, such as a toolchain in the home.
    readable: tuple[str, ...] = ()
    # Whether commands use the programs on the PATH of the client; and more folders with programs, for every run.
    toolchain: bool = True
    search_path: tuple[str, ...] = ()
    timeout_seconds: float = 30.0
    longest_seconds: float = 600.0
    background_seconds: float = 3600.0
    background_jobs: int = 8
    # The maximum stored output of a command, and the amount of output at which it is killed.
    output_bytes: int = 1_048_576
    flood_bytes: int = 67_108_864
    # The limits of a command with everything it started; its /tmp, /var/tmp and /dev/shm count as memory.
    processes: int = 256
    memory_bytes: int = 4_294_967_296
    temporary_bytes: int = 536_870_912
    file_bytes: int = 4_294_967_296


class SkillConfig(Struct, frozen=True, kw_only=True):
    """`ratio` limits the unpacked size of an archive, as a multiple of its own size beyond the first mebibyte."""

    allow_import: bool = True
    archive_bytes: int = 16_777_216
    unpacked_bytes: int = 33_554_432
    files: int = 1_000
    ratio: int = 100


# auto: the system's keyring if there is a working one, else a file that only the owner can read.
KEY_PLACES = ("auto", "keyring", "file")


class VaultConfig(Struct, frozen=True, kw_only=True):
    """Where the master key is stored when it is created, and how long a decrypted value can be referred to."""

    key: str = "auto"
    decrypted_seconds: float = 300.0


SEARCH_PROVIDERS = ("searxng", "brave", "tavily", "duckduckgo")
WEB_PORTS = (80, 443, 8080, 8443)


class WebConfig(Struct, frozen=True, kw_only=True):
    """The [web] table.

    `provider` answers web_search; there is none by default. `base_url` overrides the provider's address; `api_key` is
    only ever a reference: `env:VAR` or `keyring:NAME`. `allow_private` lists addresses outside the public internet that
    may be reached, each with its port: "127.0.0.1:8080", "10.0.0.0/8:443".
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
    project: ProjectConfig = ProjectConfig()
    skills: SkillConfig = SkillConfig()
    web: WebConfig = WebConfig()
    vault: VaultConfig = VaultConfig()
    memory: MemoryConfig = MemoryConfig()
    outputs: OutputConfig = OutputConfig()
    knowledge: KnowledgeConfig = KnowledgeConfig()
    graph: GraphConfig = GraphConfig()
    rag: RagConfig = RagConfig()
    tool_search: ToolSearchConfig = ToolSearchConfig()
    mcp: Mapping[str, McpConfig] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def not_blocked(self) -> Scope:
        return Scope(denied=self.interceptor.blocked_tools)


class Config(Struct, frozen=True, kw_only=True):
    default_model: str
    models: Mapping[str, ModelConfig]
    # The limits of one run, and of a turn with all runs it spawns.
    limits: Limits = field(default_factory=lambda: Limits(steps=50, seconds=1800.0))
    budget: Limits = field(default_factory=lambda: Limits(steps=1000))
    compaction: CompactionConfig = CompactionConfig()
    listen: ListenConfig = ListenConfig()
    network: NetworkConfig = NetworkConfig()
    store: StoreConfig = StoreConfig()
    peers: PeersConfig = PeersConfig()
    broker: BrokerConfig = BrokerConfig()
    chat: ChatConfig = ChatConfig()
    ask_seconds: float = 3600.0
    tool_seconds: float = 600.0
    max_content_bytes: int = 1_048_576
    queue_bound: int = 32
    tools: ToolsConfig = ToolsConfig()
    agent: AgentConfig = AgentConfig()
    background: BackgroundConfig = BackgroundConfig()
    cron: CronConfig = CronConfig()
    workflow: WorkflowConfig = WorkflowConfig()
    run_ledger: RunLedgerConfig = RunLedgerConfig()
    agent_memory: AgentMemoryConfig = AgentMemoryConfig()
    librarian: LibrarianConfig = LibrarianConfig()
    traces: TraceConfig = TraceConfig()
    metrics: MetricsConfig = MetricsConfig()
    telemetry: TelemetryConfig = TelemetryConfig()

    @property
    def has_teammates(self) -> bool:
        """Whether the root agent leads teammates."""
        return self.agent.multi_agent and self.background.enabled is not False

    @property
    def disabled_groups(self) -> frozenset[str]:
        """The groups of tools that are turned off."""
        has_tasks = self.background.enabled is not False
        groups = {"schedules": self.cron.enabled, "background tasks": has_tasks, "workflows": self.workflow.enabled}
        groups["documents"] = self.tools.rag.enabled
        return frozenset(group for group, is_enabled in groups.items() if not is_enabled)


def default_config() -> Config:
    """Return the configuration without a file: the small embedded model, and the scripted one."""
    models = {
        "smollm2": ModelConfig(name="smollm2", provider="local", model="smollm2"),
        "qwen": ModelConfig(name="qwen", provider="local", model="qwen"),
        "scripted": ModelConfig(name="scripted", provider="scripted"),
    }
    return Config(default_model="smollm2", models=MappingProxyType(models))
