"""Maps the tool permissions of a foreign agent file to Moot's tools; never grants more than the file."""

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

import yaml
from msgspec import Struct

from moot.domain.front_matter import Fields, leaves

_WRITE, _EDIT, _LIST = ("fs_write", "fs_mkdir"), ("fs_edit",), ("fs_list",)
# What the tools of those programs are called here. Each tool by its own name, so that any can be taken away again.
_GIVES = {
    "read": ("fs_read", "fs_stat"),
    "write": _WRITE,
    "edit": _EDIT,
    "multiedit": _EDIT,
    "patch": _EDIT,
    "applypatch": _EDIT,
    "ls": _LIST,
    "list": _LIST,
    "glob": _LIST,
    "grep": ("fs_read", "fs_list"),
    "bash": ("exec", "exec_bg", "exec_status", "exec_stop"),
    "bashoutput": ("exec_status",),
    "killshell": ("exec_stop",),
    "killbash": ("exec_stop",),
    "webfetch": ("web_fetch",),
    "websearch": ("web_search",),
    "skill": ("list_skills", "view_skill"),
}
_GIVES["shell"] = _GIVES["bash"]
# Of whoever has any tools here, and of nobody by a prefix: these can only be taken away.
_SPAWNS = ("agent_spawn", "agent_stop", "agent_wait")
_TASKS, _ASKS = ("task_*",), ("ask_user",)
_EVERYBODYS = {
    "agent": _SPAWNS,
    "task": _SPAWNS,
    "subagent": _SPAWNS,
    "todowrite": _TASKS,
    "todoread": _TASKS,
    "taskcreate": _TASKS,
    "taskget": _TASKS,
    "tasklist": _TASKS,
    "taskupdate": _TASKS,
    "askuserquestion": _ASKS,
    "question": _ASKS,
}
# Names that are known to have no counterpart, and so to take none away.
_NOWHERE = {"notebookedit", "notebookread", "exitplanmode", "enterplanmode", "codesearch", "lsp", "externaldirectory"}
# Looking for words is no tool here: who may not do it may still read.
_TAKES = {**_GIVES, **_EVERYBODYS, "grep": ()} | dict.fromkeys(_NOWHERE, ())
# Those programs have one permission for all that changes files; who is refused a part of it is refused it all.
_CHANGING = ("edit", "write", "multiedit", "patch", "applypatch")
_MCP = "mcp__"
_EVERY_MCP = f"{_MCP}*"
_YES = frozenset({"true", "yes", "on", "allow", "ask"})
_LONGEST_LINE = 8192
_WILDCARD = re.compile(r"[*?\[]")


class ToolAllowance(Struct, frozen=True):
    """Patterns of our tools; those of everybody's it has not; which name became which; and what became nothing."""

    prefixes: tuple[str, ...]
    denied: tuple[str, ...]
    became: tuple[tuple[str, tuple[str, ...]], ...]
    left_out: tuple[str, ...]


class _Rule(Struct, frozen=True):
    """One line of a table: a name or a pattern of names, and whether that is allowed as a whole."""

    name: str
    allowed: bool
    asks: bool = False


def parse_allowance(fields: Fields) -> ToolAllowance:
    """A file that names no tools has all that have a counterpart here, but for those it refuses."""
    tools = _parse_rules(fields, "tools") if fields.pairs("tools") is not None else []
    permissions = [*_parse_rules(fields, "permission"), *_parse_rules(fields, "permissions")]
    disallowed = [
        _tool_of(name) for key in fields.names() if lists_refused(key) for name in _parse_list(fields, key) or ()
    ]
    asked, granted = _requested_tools(fields, tools), _granted_tools(permissions)
    lists = [names for names in (asked, _expand_edit(granted)) if names is not None]
    lists += [[]] if any(map(_is_wide, disallowed)) else []
    refused = [*_refused_tools((*tools, *permissions)), *disallowed, *_mode_refusals(fields)]
    taken = [tool for name in refused for tool in _refused_patterns(name)]
    found = [(name, _keep_tools(name, lists[1:], taken)) for name in (lists[0] if lists else _all_tools(refused))]
    prefixes = tuple(dict.fromkeys(tool for _, kept in found for tool in kept))
    return ToolAllowance(
        prefixes=prefixes,
        denied=_denied_tools(taken, lists) if prefixes else (),
        became=tuple((name, kept) for name, kept in found if kept) if asked is not None else (),
        left_out=(
            *(
                f"tool {name}"
                for name in asked or ()
                if not _mapped_tools(name) and _normalize_tool(name) not in _EVERYBODYS
            ),
            *(f"permission {rule.name}: ask" for rule in permissions if rule.asks),
        ),
    )


def lists_refused(key: str) -> bool:
    """Whether a key lists tools that are refused; it must not fail to for want of a capital."""
    return _normalize_tool(key) == "disallowedtools"


# ---- what the file says ---------------------------------------------------------------------------


def _parse_rules(fields: Fields, key: str) -> list[_Rule]:
    """The lines of a table, or of a list of `action` and `effect`; one word for everything is one line."""
    table, rows = fields.pairs(key), fields.rows(key)
    if table is not None:
        return [_parse_rule(name, value) for name, value in table]
    if rows is not None:
        return [
            _parse_rule(" ".join(leaves(row["action"])) if "action" in row else "*", row.get("effect")) for row in rows
        ]
    return [_Rule("*", word.casefold() in _YES) for word in _parse_list(fields, key) or ()]


def _parse_rule(name: str, value: yaml.Node | None) -> _Rule:
    # Where a part of a tool is refused the whole is, and what is not understood is: less is safe, more is not.
    words = {word.casefold() for word in leaves(value)} if value is not None else set()
    return _Rule(name, bool(words) and words <= _YES, asks="ask" in words)


def _requested_tools(fields: Fields, rules: Sequence[_Rule]) -> list[str] | None:
    """The tools a file asks for; None where it asks for none in particular."""
    if not rules:
        listed = _parse_list(fields, "tools") if fields.pairs("tools") is None else None
        return None if listed is None or any(map(_is_wide, listed)) else listed
    if (granted := _granted_tools(rules)) is not None:
        return granted
    names = [rule.name for rule in rules if rule.allowed]
    return None if any(map(_is_wide, names)) else names or None


def _granted_tools(rules: Sequence[_Rule]) -> list[str] | None:
    """What is allowed in spite of everything being refused; None where not everything is."""
    closing = [place for place, rule in enumerate(rules) if _is_wide(rule.name) and not rule.allowed]
    if not closing:
        return None
    return [rule.name for rule in rules[closing[-1] + 1 :] if rule.allowed and not _is_wide(rule.name)]


def _refused_tools(rules: Iterable[_Rule]) -> Iterator[str]:
    for rule in rules:
        if rule.allowed or _is_wide(rule.name):
            continue
        yield _tool_of(rule.name)
        if any(fnmatchcase(name, _normalize_tool(_tool_of(rule.name))) for name in _CHANGING):
            yield from _CHANGING


def _expand_edit(names: list[str] | None) -> list[str] | None:
    """The permission to edit is that to change files in any way."""
    if names is None or "edit" not in map(_normalize_tool, names):
        return names
    return [*names, *_CHANGING]


def _mode_refusals(fields: Fields) -> Sequence[str]:
    """One that only plans changes nothing."""
    return (*_CHANGING, "bash") if fields.text("permissionMode").casefold() == "plan" else ()


# ---- what that is here ----------------------------------------------------------------------------


def _all_tools(refused: Iterable[str]) -> list[str]:
    # Some name the tools of servers in their own way. A name nobody knows here may mean one of those, and so may a
    # pattern.
    return [*_GIVES, *([_EVERY_MCP] if all(_normalize_tool(name) in _TAKES for name in refused) else [])]


def _keep_tools(name: str, lists: Sequence[Sequence[str]], taken: Sequence[str]) -> tuple[str, ...]:
    """The tools a name stands for that every further list has too, without those that are taken."""
    return tuple(
        tool
        for tool in _mapped_tools(name)
        if all(any(tool in _mapped_tools(other) for other in names) for names in lists)
        and not any(_may_overlap(tool, each) for each in taken)
    )


def _denied_tools(taken: Iterable[str], lists: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Tools that come along with any others, and that this file has not got."""
    everybodys = {tool for tools in _EVERYBODYS.values() for tool in tools}
    denied = everybodys.intersection(taken)
    if any(_SPAWNS not in [_EVERYBODYS.get(_normalize_tool(name)) for name in names] for names in lists):
        denied.update(_SPAWNS)
    return tuple(sorted(denied))


def _mapped_tools(name: str) -> tuple[str, ...]:
    if name.startswith(_MCP):
        return (name,) if name.count("__") > 1 or name == _EVERY_MCP else (f"{name}__*",)
    # `Bash(git diff:*)` allows a part of a tool. There is no such part here, and the whole would be more.
    return _GIVES.get(_normalize_tool(name), ())


def _refused_patterns(name: str) -> Iterator[str]:
    if name.casefold().startswith(_MCP):
        yield f"{name}*"
    for known, tools in _TAKES.items():
        if fnmatchcase(known, _normalize_tool(name)):
            yield from tools


def _may_overlap(one: str, other: str) -> bool:
    """Whether a tool can be meant by both patterns, as far as can be told from how they begin."""
    first, second = _literal_prefix(one), _literal_prefix(other)
    if first == one.casefold():
        return fnmatchcase(first, other.casefold())
    return first.startswith(second) or second.startswith(first)


def _literal_prefix(pattern: str) -> str:
    return _WILDCARD.split(pattern.casefold(), maxsplit=1)[0]


# ---- names ----------------------------------------------------------------------------------------


def _parse_list(fields: Fields, key: str) -> list[str] | None:
    """Names in a list or in one line of text with commas."""
    items = fields.items(key, longest=_LONGEST_LINE)
    return None if items is None else [name for text, _ in items for name in _split_names(text)]


def _split_names(text: str) -> list[str]:
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


def _is_wide(name: str) -> bool:
    return not name.strip("*")


def _tool_of(name: str) -> str:
    """The tool of which `Bash(rm:*)` is a part."""
    return name.partition("(")[0].strip()


def _normalize_tool(name: str) -> str:
    return name if name.startswith(_MCP) else name.casefold().replace("_", "").replace("-", "")
