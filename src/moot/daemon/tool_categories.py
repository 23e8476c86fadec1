"""Categories of tools, which of them can be used, and why others cannot; `requests/team_info.py` sends them. Pure."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from moot.domain.config import Config
from moot.domain.sandbox import SandboxReport


class ToolCategory(Struct, frozen=True, kw_only=True):
    """Tools for one purpose. `reason` says why it is disabled, or what of it cannot be used."""

    name: str
    description: str
    tools: tuple[str, ...]
    reason: str = ""
    is_enabled: bool = True


class ToolFacts(Struct, frozen=True, kw_only=True):
    """The facts that determine which tools can be used."""

    tools: Sequence[str]
    config: Config
    sandbox: SandboxReport
    # Why there are no teammates; empty if there are.
    no_teammates: str
    # All configured MCP servers, with their problems.
    servers: Mapping[str, str]


# Names or patterns of the tools of each category. Moot has no tools that operate web pages or make payments, but roles
# that use them if they are added.
_CATEGORIES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "conversation": (
        "ask you, write to you, set titles, recall earlier messages, find other tools",
        ("ask_user", "send_user_message", "set_title", "recall", "tool_search"),
    ),
    "exec": ("run commands", ("exec", "exec_*")),
    "files": ("read and write files", ("fs_*",)),
    "web": ("read web pages", ("web_fetch",)),
    "web_search": ("search the web", ("web_search",)),
    "memory": ("remember facts and notes", ("memory_*", "observe_*", "reflect_*")),
    "tasks": ("keep lists of tasks", ("task_*",)),
    "outputs": ("read the rest of long results", ("tool_output_*",)),
    "skills": ("use and write skills", ("list_skills", "view_skill", "create_skill", "import_skill", "skill_*")),
    "secrets": ("store and use secrets", ("secrets_*",)),
    "crypto": ("encrypt, sign and hash", ("crypto_*",)),
    "teammates": ("start and direct other agents", ("agent_*", "send_message_to_worker")),
    "peers": ("write to other agents", ("list_peers", "send_to_peer", "wait_for_peer")),
    "mcp": ("tools of MCP servers", ("mcp__*",)),
    "browser": ("operate web pages", ("browser_*",)),
    "knowledge": (
        "save and search knowledge and learnings",
        ("search_*", "save_knowledge", "get_knowledge_history", "save_learning", "learning_*"),
    ),
    "documents": ("index documents and find passages in them", ("rag_*",)),
    "librarian": ("questions about what is not known", ("librarian_*",)),
    "graph": ("read the knowledge graph", ("graph_*",)),
    "schedules": ("run work at set times", ("cron_*",)),
    "background": ("run tasks in the background", ("bg_*",)),
    "workflow": ("run steps of several agents in order", ("workflow_*",)),
    "ontology": ("types, entities, facts", ("ontology_*",)),
    "payments": ("payments", ("payment_*",)),
}
_OWN = ("own", "tools of your own")


def list_categories(facts: ToolFacts) -> list[ToolCategory]:
    found = [
        _judge(name, description, tuple(tool for tool in sorted(facts.tools) if _is_among(tool, patterns)), facts)
        for name, (description, patterns) in _CATEGORIES.items()
    ]
    known = {tool for category in found for tool in category.tools}
    others = tuple(sorted(set(facts.tools) - known))
    return [*found, _judge(*_OWN, others, facts)]


def _judge(name: str, description: str, tools: tuple[str, ...], facts: ToolFacts) -> ToolCategory:
    missing = _find_obstacle(name, tools, facts)
    blocked = [tool for tool in tools if _is_among(tool, facts.config.tools.interceptor.blocked_tools)]
    is_enabled = not missing and len(blocked) < len(tools)
    reason = missing or (f"{', '.join(blocked)}: blocked_tools in [security.interceptor]" if blocked else "")
    reason = reason or (_find_broken_servers(facts) if name == "mcp" else "")
    return ToolCategory(name=name, description=description, tools=tools, reason=reason, is_enabled=is_enabled)


def _find_obstacle(name: str, tools: tuple[str, ...], facts: ToolFacts) -> str:
    """Return why no tool of a category can be used; empty if some can."""
    if name == "exec" and not facts.sandbox.usable:
        return facts.sandbox.sentence()
    if tools:
        return ""
    match name:
        case "web_search":
            return "provider is not set in [web]"
        case "teammates":
            return facts.no_teammates
        case "mcp":
            return _find_broken_servers(facts) or "no server in [mcp.NAME]; see `moot mcp add`"
        case "own":
            return "no tool in the folder tools/"
        case _:
            patterns = " or ".join(_CATEGORIES[name][1])
            return _find_switch(name, facts) or f"no tool named {patterns}; add one in the folder tools/"


def _find_switch(name: str, facts: ToolFacts) -> str:
    """Return which table of the configuration turns a category off; empty if none does."""
    config = facts.config
    switches = {
        "documents": ("rag", config.tools.rag.enabled),
        "librarian": ("librarian", config.librarian.enabled),
        "graph": ("graph", config.tools.graph.enabled),
        "ontology": ("graph", config.tools.graph.enabled),
        "schedules": ("cron", config.cron.enabled),
        "background": ("background", config.background.enabled is not False),
        "workflow": ("workflow", config.workflow.enabled),
    }
    table, is_on = switches.get(name, ("", True))
    return "" if is_on else f"enabled is false in [{table}]"


def _find_broken_servers(facts: ToolFacts) -> str:
    return "; ".join(f"{server}: {problem}" for server, problem in facts.servers.items() if problem)


def _is_among(tool: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(tool, pattern) for pattern in patterns)
