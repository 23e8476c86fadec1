"""Agent files written for other programs: Markdown with front matter, one file an agent, tools by other names."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from moot.agents.agent_md import check_name, normal_name, required_description
from moot.agents.file_text import read_text
from moot.domain.agent import Agent, AgentStatus, scope_of
from moot.domain.front_matter import Broken, Fields, leaves, split

SUFFIX = ".md"

_FILES = {
    "read": ("fs_read", "fs_stat"),
    "write": ("fs_write", "fs_mkdir"),
    "edit": ("fs_edit",),
    "ls": ("fs_list",),
    "grep": ("fs_read", "fs_list"),
}
# What the tools of those programs are called here. A task list needs no entry: whoever has tools has one.
_TOOLS = {
    **_FILES,
    "multiedit": _FILES["edit"],
    "patch": _FILES["edit"],
    "glob": _FILES["ls"],
    "list": _FILES["ls"],
    "bash": ("exec", "exec_*"),
    "bashoutput": ("exec_status",),
    "killshell": ("exec_stop",),
    "webfetch": ("web_fetch",),
    "websearch": ("web_search",),
    "skill": ("list_skills", "view_skill", "skill_*"),
}
_LONGEST_LINE = 8192
_TASK_LIST = ("todowrite", "todoread", "task")


@dataclass(frozen=True, slots=True)
class Adopted:
    """An agent made of such a file, and what of the file has no counterpart here."""

    agent: Agent
    left_out: tuple[str, ...] = ()


def read_foreign(path: Path, *, within: Path, models: Collection[str] = ()) -> Adopted:
    """Read one file, which must really lie inside `within`. Raises Broken."""
    return parse_foreign(read_text(path, within), path=str(path), models=models)


def parse_foreign(text: str, *, path: str, models: Collection[str] = ()) -> Adopted:
    front = split(text)
    fields = front.fields
    # Some name the agent inside, some by the file alone.
    name = normal_name(fields.text("name") or Path(path).stem)
    if reason := check_name(name):
        raise Broken(fields.line("name"), reason)
    if not front.body:
        raise Broken(front.end, "there is no instruction below the second ---")
    model = fields.text("model")
    prefixes, left_out = _prefixes(fields)
    if model and model not in models:
        # A model of theirs by a name that says nothing here; the default one answers.
        left_out.append(f"model {model}")
        model = ""
    agent = Agent(
        name=name,
        description=" ".join(required_description(fields).split()),
        instruction=front.body,
        model=model,
        status=AgentStatus.DISABLED if fields.flag("disable", default=False) else AgentStatus.ACTIVE,
        prefixes=prefixes,
        scope=scope_of(prefixes),
        path=path,
    )
    return Adopted(agent, tuple(left_out))


def _prefixes(fields: Fields) -> tuple[tuple[str, ...] | None, list[str]]:
    """Patterns of our tools, never more than the file allows; None where it allows everything."""
    denied = {_plain(name) for name in _denied(fields)}
    wanted = _wanted(fields)
    if wanted is None and not denied:
        return None, []
    left_out: list[str] = []
    found: list[str] = []
    for name in _TOOLS if wanted is None else wanted:
        if _plain(name) in denied or _plain(name) in _TASK_LIST:
            continue
        patterns = _patterns(name)
        found.extend(patterns)
        left_out += [] if patterns else [f"tool {name}"]
    return tuple(dict.fromkeys(found)), left_out


def _patterns(name: str) -> tuple[str, ...]:
    if name.startswith("mcp__"):
        return (name,) if name.count("__") > 1 else (f"{name}__*",)
    # `Bash(git diff:*)` allows a part of a tool. There is no such part here, and the whole would be more.
    return _TOOLS.get(_plain(name), ())


def _wanted(fields: Fields) -> list[str] | None:
    """The tools a file asks for; None where it asks for none in particular."""
    table = fields.pairs("tools")
    if table is not None:
        return [name for name, value in table if set(leaves(value)) & {"true", "yes", "on"}] or None
    asked = _listed(fields, "tools")
    return None if asked is None or "*" in asked else asked


def _denied(fields: Fields) -> Iterable[str]:
    for name, value in fields.pairs("tools") or ():
        if set(leaves(value)) & {"false", "no", "off"}:
            yield name
    for name, value in fields.pairs("permission") or ():
        # Where a part of a tool is denied the whole is: less is safe, more is not.
        if "deny" in leaves(value):
            yield name
    yield from _listed(fields, "disallowedTools") or ()


def _listed(fields: Fields, key: str) -> list[str] | None:
    """Names in a list or in one line of text with commas."""
    items = fields.items(key, longest=_LONGEST_LINE)
    return None if items is None else [name for text, _ in items for name in _names(text)]


def _names(text: str) -> list[str]:
    """The names in `Read, Bash(git:*, ls:*), Edit`; a comma inside parentheses separates nothing."""
    names, depth, current = [], 0, ""
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth <= 0:
            names.append(current.strip())
            current = ""
        else:
            current += character
    return [name for name in (*names, current.strip()) if name]


def _plain(name: str) -> str:
    return name.casefold().replace("_", "") if not name.startswith("mcp__") else name
