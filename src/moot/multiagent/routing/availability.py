"""Capabilities that need tools: which are missing, and what would enable them. Used by `router` and `briefing`.

Decides from the current tools. Pure.
"""

from collections.abc import Collection
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct

from moot.multiagent.routing.classifier import PAYMENT, UNSUPPORTED


class Capability(Struct, frozen=True, kw_only=True):
    """A kind of request that needs tools."""

    # The label of the classifier.
    label: str
    # The role that handles it if the tools are available; "" for none.
    role: str
    needs: str
    # Any one of these tools is enough.
    tools: tuple[str, ...]
    # The setting that turns built-in tools on; "" if there are none, or they are always on.
    setting: str = ""

    @property
    def enable(self) -> str:
        if self.setting:
            return f"{self.setting} in config.toml, which makes {self.role} a teammate that can do it"
        own = f"a tool of one's own named {' or '.join(self.tools)}" if self.tools else "a tool of one's own"
        gains = f", which makes {self.role} a teammate that can do it" if self.role else ""
        return (
            f"{own} in the folder tools/{gains}; or an MCP server that does it ([mcp.NAME] in config.toml, "
            "`moot mcp add NAME -- COMMAND`, extra moot[mcp])"
        )


CAPABILITIES = (
    Capability(label="operator", role="operator", needs="commands and files", tools=("exec", "fs_*")),
    Capability(label="navigator", role="navigator", needs="a browser that operates web pages", tools=("browser_*",)),
    Capability(label="vault", role="vault", needs="stored secrets and keys", tools=("secrets_*", "crypto_*")),
    Capability(label=PAYMENT, role="vault", needs="payments", tools=("payment_*",)),
    Capability(
        label="librarian", role="librarian", needs="search in the web or in stored knowledge",
        tools=("web_*", "search_*", "rag_*", "graph_*"),
    ),
    Capability(
        label="automator", role="automator", needs="schedules, reminders, background tasks or workflows",
        tools=("cron_*", "bg_*", "workflow_*"), setting="`enabled = true` in [cron] or [workflow]",
    ),
    Capability(
        label="chronicler", role="chronicler", needs="memory of conversations",
        tools=("memory_*", "observe_*", "reflect_*"),
    ),
    Capability(
        label="ontologist", role="ontologist", needs="a store of types, entities and facts", tools=("ontology_*",),
        setting="`enabled = true` in [graph]",
    ),
    Capability(
        label=UNSUPPORTED, role="", tools=(),
        needs="mail, messages, a telephone, a calendar, a device or pictures",
    ),
)  # fmt: skip

WEB_SEARCH_OFF = (
    "web_search is not set up (`provider` in [web] of config.toml), so librarian reads given addresses and "
    "stored knowledge only."
)
SCHEDULES_OFF = (
    "Schedules are off (`enabled` in [cron] of config.toml), so automator can start work now, but not at a later time."
)


@lru_cache(maxsize=16)
def find_missing(roles: frozenset[str], tools: tuple[str, ...]) -> dict[str, Capability]:
    """Return the missing capabilities by label. `roles` are the built-in roles that can be spawned."""
    return {
        capability.label: capability
        for capability in CAPABILITIES
        if capability.role not in roles or not has_tool(capability.tools, tools)
    }


def has_tool(patterns: Collection[str], tools: Collection[str]) -> bool:
    return any(fnmatchcase(tool, pattern) for tool in tools for pattern in patterns)
