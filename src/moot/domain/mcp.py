"""MCP servers: their configuration, the tools they offer, and which of those were accepted."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct, field

from moot.domain.prompt import Safety


class McpConfig(Struct, frozen=True, kw_only=True):
    """One [mcp.NAME] table: either a `command` to start, or a `url` to connect to.

    Values of `env` and `headers` may be references, `env:VAR` or `keyring:NAME`. `tools` overrides the safety of single
    tools. `egress` false states that, as far as the owner knows, the server reaches no network. A command runs in the
    sandbox unless `sandbox` is off: it may write only in its `cwd`, read `readable` in addition, and has network access
    only if `network` says so.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    cwd: str = ""
    sandbox: str = "on"
    network: bool = False
    readable: tuple[str, ...] = ()
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    enabled: bool = True
    safety: Safety = Safety.DANGEROUS
    tools: Mapping[str, Safety] = field(default_factory=lambda: MappingProxyType({}))
    egress: bool = True
    connect_seconds: float = 30.0
    call_seconds: float = 60.0


SANDBOX_CHOICES = ("on", "off")


class OfferState(StrEnum):
    """Whether a tool can be used: yes, only after a person has reviewed its changes, or not at all."""

    READY = "ready"
    CHANGED = "changed"
    REFUSED = "refused"


class Offer(Struct, frozen=True, kw_only=True):
    """One tool of a server, as listed for people. `name` is what models call it, `tool` its name at the server."""

    server: str
    tool: str
    name: str
    description: str
    digest: str
    state: OfferState
    reason: str = ""
