"""What each built-in role can do with which tools, so that its description names only what it can do. Pure."""

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.agent import Agent, AgentRole, AgentSource
from moot.domain.auto_approve import AutoApproveLevel, find_tool_level
from moot.domain.ports.tool import Reaches, Tool
from moot.domain.scope import ALONE, ASSISTING, ASSISTING_ALONE, NOT_COORDINATING, NOT_SPAWNED, WORKING, Scope


class Ability(Struct, frozen=True):
    """What a role does with tools of these patterns, the capabilities that are this, and what it has to be given."""

    patterns: tuple[str, ...]
    what: str
    capabilities: tuple[str, ...]
    accepts: str


# Roles with one kind of tools are not listed.
_ABILITIES: dict[str, tuple[Ability, ...]] = {
    "operator": (
        Ability(("exec", "exec_*"), "runs shell commands", ("shell-commands", "builds-and-tests"), "a command to run"),
        Ability(
            ("fs_*",),
            "reads and changes files",
            ("file-reading", "file-editing", "folder-listing"),
            "a task on files, with their paths",
        ),
        Ability(("skill_*",), "uses skills that are scripts", ("skill-execution",), "the name of a skill to run"),
    ),
    "librarian": (
        Ability(("search_*", "rag_*"), "searches knowledge", ("knowledge-search",), "a question or a topic"),
        Ability(("web_*",), "fetches pages", ("web-search", "page-retrieval"), "the address of a page"),
        Ability(("graph_*",), "searches the graph", ("graph-traversal",), "a node of the graph"),
        Ability(("save_*", "learning_*"), "stores knowledge", ("knowledge-saving",), "something worth keeping"),
        Ability(("*_skill", "list_skills"), "manages skills", ("skill-management",), "a skill to find or make"),
    ),
    "vault": (
        Ability(
            ("secrets_*",), "stores and uses secrets", ("secret-storage",), "the name of a secret, never its value"
        ),
        Ability(
            ("crypto_*",),
            "encrypts, signs and hashes",
            ("encryption", "decryption", "signing", "hashing"),
            "what to encrypt, sign or hash",
        ),
        Ability(("payment_*",), "makes payments", ("payments",), "an amount and a recipient"),
    ),
    "chronicler": (
        Ability(
            ("memory_*",),
            "notes what matters and finds it again",
            ("memory-saving", "memory-recall", "conversation-history"),
            "something to remember or forget, or a question about what was said before",
        ),
        Ability(("observe_*", "reflect_*"), "summarises it", ("observations", "reflections"), "an observation to note"),
    ),
    "automator": (
        Ability(
            ("cron_*",), "manages schedules", ("scheduling", "recurring-jobs", "reminders"), "what to do, and when"
        ),
        Ability(("bg_*",), "runs background tasks", ("background-tasks",), "a task for the background"),
        Ability(("workflow_*",), "runs workflows of several steps", ("workflows",), "steps and their order"),
    ),
}


def adapt_agent(agent: Agent, tools: Collection[str], inactive: str = "") -> Agent:
    """Return the agent as it is described to others: of a role that lacks some of its tools, only what it can do.

    `inactive` is why it lacks all of them.
    """
    if inactive and agent.source is AgentSource.BUILT_IN:
        return replace(agent, description=f"Can only chat: {inactive}.")
    missing = _list_missing(agent, tools)
    able = [ability for ability in _ABILITIES.get(agent.name, ()) if ability not in missing]
    if not missing or not able:
        return agent
    first, _, _ = agent.description.partition(". ")
    lost = {capability for ability in missing for capability in ability.capabilities}
    return replace(
        agent,
        description=f"{first}. {_sentence((ability.what for ability in able), ', ')}",
        capabilities=tuple(each for each in agent.capabilities if each not in lost),
        accepts=_sentence((ability.accepts for ability in able), "; "),
    )


def list_missing_abilities(agent: Agent, tools: Collection[str]) -> tuple[str, ...]:
    """Return what a role cannot do for lack of tools, in the words of its description."""
    return tuple(ability.what for ability in _list_missing(agent, tools))


def _list_missing(agent: Agent, tools: Collection[str]) -> list[Ability]:
    """What a role cannot do; nothing if it has no tools at all, because it is then inactive."""
    abilities = _ABILITIES.get(agent.name, ()) if tools else ()
    return [ability for ability in abilities if not _has_any(tools, ability.patterns)]


def _sentence(parts: Iterable[str], separator: str) -> str:
    return f"{separator.join(parts).capitalize()}."


def _has_any(tools: Collection[str], patterns: Collection[str]) -> bool:
    return any(fnmatchcase(tool, pattern) for tool in tools for pattern in patterns)


def list_approved_tools(tools: Iterable[Tool]) -> dict[AutoApproveLevel, list[str]]:
    """Return, for each auto-approve level, the tools whose calls it can approve beyond the levels before it."""
    found: dict[AutoApproveLevel, list[str]] = {level: [] for level in AutoApproveLevel}
    for tool in tools:
        level = find_tool_level(tool.spec, reaches=isinstance(tool, Reaches))
        if level is not None:
            found[level].append(tool.spec.name)
    return {level: sorted(names) for level, names in found.items()}


def find_role_scope(role: AgentRole | None, *, has_teammates: bool) -> Scope:
    """Return the tools that the role leaves an agent in its own conversations."""
    match role:
        case AgentRole.COORDINATOR:
            return NOT_SPAWNED
        case AgentRole.WORKER:
            return NOT_SPAWNED & WORKING
        case AgentRole.ASSISTANT:
            return (ASSISTING if has_teammates else ASSISTING_ALONE) & NOT_COORDINATING
        case None:
            return (NOT_SPAWNED if has_teammates else ALONE) & NOT_COORDINATING
