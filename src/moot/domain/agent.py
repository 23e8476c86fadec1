"""An agent is an immutable definition with a name; nothing about it is live."""

from enum import StrEnum

from msgspec import Struct

from moot.domain.scope import ALL_TOOLS, CONTROL, NO_TOOLS, SHARED, TEAMMATE, Scope, only

# The agent that is always there; it orchestrates where several work together.
ROOT = "moot"
# The specialists that are built in, in the order people are shown them.
ROLES = ("operator", "navigator", "vault", "librarian", "automator", "planner", "chronicler", "ontologist")


class AgentSource(StrEnum):
    """Where a definition comes from. Of two with one name the higher priority counts; built-in names are never free."""

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


class FileProblem(Struct, frozen=True, kw_only=True):
    """Something wrong in a file a person wrote, said so that they can mend it."""

    path: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}"


class Agent(Struct, frozen=True, kw_only=True):
    name: str
    description: str
    instruction: str
    model: str = ""
    status: AgentStatus = AgentStatus.ACTIVE
    # Patterns of the tools it may use. None given is no opinion, an empty list is no tools.
    prefixes: tuple[str, ...] | None = None
    # Patterns of tools it may not use, whatever its prefixes match and whoever else has them.
    denied: tuple[str, ...] = ()
    # What a request for it is recognised by.
    keywords: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    accepts: str = ""
    returns: str = ""
    cannot_do: tuple[str, ...] = ()
    # A teammate also where no tool matches its prefixes.
    always_include: bool = False
    # Works apart from the conversation it was spawned in; otherwise it is shown what was said there.
    session_isolation: bool = True
    scope: Scope = ALL_TOOLS
    source: AgentSource = AgentSource.USER
    path: str = ""
    # Who made the file, where that was a program.
    made_by: str = ""
    # What is doubtful in its file and does not keep it from being used.
    warnings: tuple[FileProblem, ...] = ()


def scope_of(prefixes: tuple[str, ...] | None, denied: tuple[str, ...] = ()) -> Scope:
    """What an agent with these prefixes may use at most, whatever it is asked for."""
    refused = Scope(denied=denied)
    if prefixes is None:
        return refused
    return only(*prefixes, *SHARED, *CONTROL, *TEAMMATE) & refused if prefixes else NO_TOOLS
