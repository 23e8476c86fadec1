"""MCP servers: their configuration, the tools they offer, and which of those were accepted."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field, json

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
    """Whether a tool can be used: it is approved, it waits for approval, it was denied, or it is unfit."""

    READY = "ready"
    # No text of this tool was approved yet.
    NEW = "new"
    # Another text of this tool was approved.
    CHANGED = "changed"
    DENIED = "denied"
    REFUSED = "refused"


# The states of tools that the owner has not decided about.
WAITING = (OfferState.NEW, OfferState.CHANGED)


class ToolText(Struct, frozen=True, kw_only=True):
    """Everything that models are told about a tool of a server. `tool` is its name at the server, `name` for models."""

    tool: str
    name: str
    description: str
    parameters: dict[str, Any]


class TextDecision(Struct, frozen=True, kw_only=True):
    """The owner's decision about one exact text. `text` is an encoded ToolText."""

    tool: str
    digest: str
    text: str
    is_approved: bool
    decided_at: float


class Offer(Struct, frozen=True, kw_only=True):
    """One tool of a server, as listed for people.

    `text` is the encoded ToolText; `approved_text` the one that was approved last, if it is a different one.
    """

    server: str
    tool: str
    name: str
    description: str
    digest: str
    state: OfferState
    reason: str = ""
    text: str = ""
    approved_text: str = ""


def encode_text(text: ToolText) -> str:
    return json.encode(text).decode()


def decode_text(encoded: str) -> ToolText:
    return json.decode(encoded, type=ToolText)


def text_digest(encoded: str) -> str:
    """Return the digest of an encoded ToolText. The order of keys does not count."""
    return sha256(json.encode(json.decode(encoded), order="sorted")).hexdigest()


def join_digests(digests: Iterable[str]) -> str:
    """Return one short digest for several texts, to approve them together."""
    return sha256("\n".join(sorted(digests)).encode()).hexdigest()[:32]
