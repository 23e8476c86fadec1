"""An agent is an immutable definition with a name; nothing about it is live."""

from dataclasses import dataclass
from enum import StrEnum

from moot.domain.scope import ALL_TOOLS, Scope


class AgentSource(StrEnum):
    BUILT_IN = "built-in"
    USER = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    name: str
    description: str
    instruction: str
    model: str = ""
    scope: Scope = ALL_TOOLS
    source: AgentSource = AgentSource.USER
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """Something wrong in a file a person wrote, said so that they can mend it."""

    path: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}"
