"""What each built-in role can do with which tools, so that its description names only what it can do. Pure."""

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from moot.domain.agent import Agent
from moot.domain.auto_approve import AutoApproveLevel, find_tool_level
from moot.domain.ports.tool import Reaches, Tool

# For each role: patterns of tools, and what it does with them. Roles with one kind of tools are not listed.
_ABILITIES: dict[str, tuple[tuple[tuple[str, ...], str], ...]] = {
    "operator": (
        (("exec", "exec_*"), "runs shell commands"),
        (("fs_*",), "reads and changes files"),
        (("skill_*",), "uses skills that are scripts"),
    ),
    "librarian": (
        (("search_*", "rag_*"), "searches knowledge"),
        (("web_*",), "fetches pages"),
        (("graph_*",), "walks the graph"),
        (("save_*", "learning_*"), "keeps learnings"),
        (("*_skill", "list_skills"), "keeps skills"),
    ),
    "vault": (
        (("secrets_*",), "stores and uses secrets"),
        (("crypto_*",), "encrypts, signs and hashes"),
        (("payment_*",), "makes payments"),
    ),
    "chronicler": (
        (("memory_*",), "notes what matters and finds it again"),
        (("observe_*", "reflect_*"), "condenses it"),
    ),
    "automator": (
        (("cron_*",), "keeps schedules"),
        (("bg_*",), "runs background tasks"),
        (("workflow_*",), "runs workflows of several steps"),
    ),
}


def describe_agent(agent: Agent, tools: Collection[str]) -> str:
    """Return the description of an agent; of a role that lacks some of its tools, only what it can do without them."""
    abilities = _ABILITIES.get(agent.name)
    if abilities is None or not tools:
        return agent.description
    able = [what for patterns, what in abilities if _has_any(tools, patterns)]
    if not able or len(able) == len(abilities):
        return agent.description
    first, _, _ = agent.description.partition(". ")
    return f"{first}. {', '.join(able).capitalize()}."


def list_missing_abilities(agent: Agent, tools: Collection[str]) -> tuple[str, ...]:
    """Return what a role cannot do for lack of tools, in the words of its description."""
    abilities = _ABILITIES.get(agent.name, ()) if tools else ()
    return tuple(what for patterns, what in abilities if not _has_any(tools, patterns))


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
