"""Agent: an immutable definition with a name. It has no runtime state."""

from enum import StrEnum

from msgspec import Struct

from moot.domain.auto_approve import AutoApproveLevel
from moot.domain.scope import ALL_TOOLS, ASSISTANT, CONTROL, NO_TOOLS, SHARED, TEAMMATE, Scope, only

# The agent that always exists; it orchestrates where there are several.
ROOT = "moot"
# The built-in specialist that starts work later or repeatedly.
AUTOMATOR = "automator"
# The built-in specialists, in display order.
ROLES = ("operator", "navigator", "vault", "librarian", AUTOMATOR, "planner", "chronicler", "ontologist")


class AgentSource(StrEnum):
    """Where a definition comes from. For equal names the higher priority wins; built-in names cannot be overridden."""

    BUILT_IN = "built-in"
    EMBEDDED = "embedded"
    USER = "user"
    REMOTE = "remote"

    @property
    def priority(self) -> int:
        return list(AgentSource).index(self)


class AgentStatus(StrEnum):
    """Only an active agent can be talked to or spawned."""

    ACTIVE = "active"
    DISABLED = "disabled"
    DRAFT = "draft"


class AgentRole(StrEnum):
    """What an agent is in work that several do. An agent without one talks and works as usual."""

    # Gives work to workers and puts their results together.
    COORDINATOR = "coordinator"
    # Does one task and reports; it starts nobody.
    WORKER = "worker"
    # Only what it sends deliberately reaches the person.
    ASSISTANT = "assistant"


class FileProblem(Struct, frozen=True, kw_only=True):
    """A problem in a user's file, described so that they can fix it."""

    path: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}"


class Agent(Struct, frozen=True, kw_only=True):
    name: str
    description: str
    instruction: str
    # A short instruction that is used with small models; empty uses the other one.
    brief: str = ""
    model: str = ""
    status: AgentStatus = AgentStatus.ACTIVE
    role: AgentRole | None = None
    # Patterns of the tools it may use. None states no preference, an empty list means no tools.
    prefixes: tuple[str, ...] | None = None
    # Patterns of tools it may not use, even if its prefixes match them.
    denied: tuple[str, ...] = ()
    # Keywords by which a request for it is recognised.
    keywords: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    accepts: str = ""
    returns: str = ""
    cannot_do: tuple[str, ...] = ()
    # Whether it is a teammate even if no tool matches its prefixes.
    always_include: bool = False
    # Whether it works without the conversation it was spawned in; otherwise it is shown that conversation.
    session_isolation: bool = True
    # Whether it is told the instruction files of the project it works in.
    project_instructions: bool = True
    # Patterns of the agents it may write to, and of those it accepts messages from. None is all, an empty list none.
    allowed_delegates: tuple[str, ...] | None = None
    accept_delegates_from: tuple[str, ...] | None = None
    # Whether a message from another agent starts a run of an idle conversation.
    wake: bool = False
    # Which of its calls are approved without asking (domain/auto_approve.py). None states no preference.
    auto_approve: AutoApproveLevel | None = None
    scope: Scope = ALL_TOOLS
    source: AgentSource = AgentSource.USER
    path: str = ""
    # The program that created the file, if any.
    made_by: str = ""
    # Problems in its file that do not prevent its use.
    warnings: tuple[FileProblem, ...] = ()


def scope_of(prefixes: tuple[str, ...] | None, denied: tuple[str, ...] = ()) -> Scope:
    """Return the scope of an agent with these prefixes: the tools it may use at most."""
    refused = Scope(denied=denied)
    if prefixes is None:
        return refused
    return only(*prefixes, *SHARED, *CONTROL, *TEAMMATE, *ASSISTANT) & refused if prefixes else NO_TOOLS
