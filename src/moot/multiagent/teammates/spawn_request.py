"""SpawnRequest: what an `agent_spawn` call, or a person who starts a background run, asks for. Pure."""

from msgspec import Struct

from moot.domain.run import Limits

# How long a teammate may work, and a wait for it lasts, unless said.
DEFAULT_SECONDS = 300


class SpawnRequest(Struct, frozen=True, kw_only=True):
    agent: str
    instruction: str
    reason: str = ""
    # None is the whole role, an empty list is no tools.
    allowed_tools: tuple[str, ...] | None = None
    limits: Limits = Limits()
