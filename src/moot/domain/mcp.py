"""Servers of tools that are not ours: how they are configured, what they offer, and what was agreed to of that."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct, field

from moot.domain.prompt import Safety


class McpConfig(Struct, frozen=True, kw_only=True):
    """One [mcp.NAME] table: either a `command` that is started, or a `url` that is spoken to.

    Values of `env` and `headers` may be references, `env:VAR` or `keyring:NAME`. `tools` gives single tools another
    safety than the server's. `egress` false says that the server reaches no network, for all the owner knows.
    A command runs in the sandbox unless `sandbox` is off: it writes in its `cwd` alone, reads `readable` besides, and
    has a network only where `network` says so.
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
    """Whether a tool can be used: yes, not before a person looks at what changed in it, or not at all."""

    READY = "ready"
    CHANGED = "changed"
    REFUSED = "refused"


class Offer(Struct, frozen=True, kw_only=True):
    """One tool of a server, as people are told of it. `name` is what models call it, `tool` what its server does."""

    server: str
    tool: str
    name: str
    description: str
    digest: str
    state: OfferState
    reason: str = ""
