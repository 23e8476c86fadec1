"""Maps the tool permissions of a foreign agent file to Moot's tools; never grants more than the file."""

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

import yaml
from msgspec import Struct

from moot.domain.front_matter import Fields, leaves

_WRITE, _EDIT, _LIST = ("fs_write", "fs_mkdir"), ("fs_edit", "fs_patch"), ("fs_list",)
# Moot's tools for those of other programs. Each is listed by its own name, so that any can be removed again.
_GIVES = {
    "read": ("fs_read", "fs_stat"),
    "write": _WRITE,
    "edit": _EDIT,
    "multiedit": _EDIT,
    "patch": _EDIT,
    "applypatch": _EDIT,
    "ls": _LIST,
    "list": _LIST,
    "glob": ("fs_glob", *_LIST),
    "grep": ("fs_search",),
    "bash": ("exec", "exec_bg", "exec_status", "exec_stop"),
    "bashoutput": ("exec_status",),
    "killshell": ("exec_stop",),
    "killbash": ("exec_stop",),
    "webfetch": ("web_fetch",),
    "websearch": ("web_search",),
    "skill": ("list_skills", "view_skill"),
}
_GIVES["shell"] = _GIVES["bash"]
# Every agent with tools has these, and no prefix assigns them, so they can only be removed.
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
# Names that are known to have no counterpart, so refusing them removes nothing.
_NOWHERE = {"notebookedit", "notebookread", "exitplanmode", "enterplanmode", "codesearch", "lsp", "externaldirectory"}
# Who may not read a file may not search in it either.
_TAKES = {**_GIVES, **_EVERYBODYS, "read": (*_GIVES["read"], "fs_search")} | dict.fromkeys(_NOWHERE, ())
# Those programs have one permission for all changes of files; refusing a part refuses all.
_CHANGING = ("edit", "write", "multiedit", "patch", "applypatch")
_MCP = "mcp__"
_EVERY_MCP = f"{_MCP}*"
_YES = frozenset({"true", "yes", "on", "allow", "ask"})
_LONGEST_LINE = 8192
_WILDCARD = re.compile(r"[*?\[]")


class ToolAllowance(Struct, frozen=True):
    """The patterns of granted tools, the shared tools that are denied, the mapping of names, and unmapped names."""

    prefixes: tuple[str, ...]
    denied: tuple[str, ...]
    became: tuple[tuple[str, tuple[str, ...]], ...]
    left_out: tuple[str, ...]


class _Rule(Struct, frozen=True):
    """One line of a table: a name or a pattern of names, and whether it is allowed completely."""

    name: str
    allowed: bool
    asks: bool = False


def parse_allowance(fields: Fields) -> ToolAllowance:
    """Return the tools of a file. If it names none, these are all with a counterpart, except those it refuses."""
    tools = _parse_rules(fields, "tools") if fields.pairs("tools") is not None else []
    permissions = [*_parse_rules(fields, "permission"), *_parse_rules(fields, "permissions")]
    disallowed = [
        _tool_of(name) for key in fields.names() if lists_refused(key) for name in _parse_list(fields, key) or ()
    ]
    requested, granted = _list_requested(fields, tools), _list_granted(permissions)
    lists = [names for names in (requested, _expand_edit(granted)) if names is not None]
    lists += [[]] if any(map(_is_wide, disallowed)) else []
    refused = [*_list_refused((*tools, *permissions)), *disallowed, *_mode_refusals(fields)]
    taken = [tool for name in refused for tool in _find_refused_patterns(name)]
    found = [(name, _keep_tools(name, lists[1:], taken)) for name in (lists[0] if lists else _all_tools(refused))]
    prefixes = tuple(dict.fromkeys(tool for _, kept in found for tool in kept))
    return ToolAllowance(
        prefixes=prefixes,
        denied=_list_denied(taken, lists) if prefixes else (),
        became=tuple((name, kept) for name, kept in found if kept) if requested is not None else (),
        left_out=(
            *(
                f"tool {name}"
                for name in requested or ()
                if not _map_tools(name) and _normalize_tool(name) not in _EVERYBODYS
            ),
            *(f"permission {rule.name}: ask" for rule in permissions if rule.asks),
        ),
    )


def lists_refused(key: str) -> bool:
    """Return whether a key lists refused tools, regardless of upper and lower case."""
    return _normalize_tool(key) == "disallowedtools"


# ---- what the file says ---------------------------------------------------------------------------


def _parse_rules(fields: Fields, key: str) -> list[_Rule]:
    """Return the rules of a table, or of a list of `action` and `effect`; a single word is one rule."""
    table, rows = fields.pairs(key), fields.rows(key)
    if table is not None:
        return [_parse_rule(name, value) for name, value in table]
    if rows is not None:
        return [
            _parse_rule(" ".join(leaves(row["action"])) if "action" in row else "*", row.get("effect")) for row in rows
        ]
    return [_Rule("*", word.casefold() in _YES) for word in _parse_list(fields, key) or ()]


def _parse_rule(name: str, value: yaml.Node | None) -> _Rule:
    # A partly refused or unknown value counts as refused, because granting less is safe.
    words = {word.casefold() for word in leaves(value)} if value is not None else set()
    return _Rule(name, bool(words) and words <= _YES, asks="ask" in words)


def _list_requested(fields: Fields, rules: Sequence[_Rule]) -> list[str] | None:
    """Return the tools a file requests; None if it names none."""
    if not rules:
        listed = _parse_list(fields, "tools") if fields.pairs("tools") is None else None
        return None if listed is None or any(map(_is_wide, listed)) else listed
    if (granted := _list_granted(rules)) is not None:
        return granted
    names = [rule.name for rule in rules if rule.allowed]
    return None if any(map(_is_wide, names)) else names or None


def _list_granted(rules: Sequence[_Rule]) -> list[str] | None:
    """Return the exceptions to a rule that refuses everything; None if there is no such rule."""
    closing = [place for place, rule in enumerate(rules) if _is_wide(rule.name) and not rule.allowed]
    if not closing:
        return None
    return [rule.name for rule in rules[closing[-1] + 1 :] if rule.allowed and not _is_wide(rule.name)]


def _list_refused(rules: Iterable[_Rule]) -> Iterator[str]:
    for rule in rules:
        if rule.allowed or _is_wide(rule.name):
            continue
        yield _tool_of(rule.name)
        if any(fnmatchcase(name, _normalize_tool(_tool_of(rule.name))) for name in _CHANGING):
            yield from _CHANGING


def _expand_edit(names: list[str] | None) -> list[str] | None:
    """Replace the permission to edit by those for all ways to change files."""
    if names is None or "edit" not in map(_normalize_tool, names):
        return names
    return [*names, *_CHANGING]


def _mode_refusals(fields: Fields) -> Sequence[str]:
    """Return the tools that the plan mode refuses: those that change files, and bash."""
    return (*_CHANGING, "bash") if fields.text("permissionMode").casefold() == "plan" else ()


# ---- what that is here ----------------------------------------------------------------------------


def _all_tools(refused: Iterable[str]) -> list[str]:
    # Some name the tools of servers in their own way. A name nobody knows here may mean one of those, and so may a
    # pattern.
    return [*_GIVES, *([_EVERY_MCP] if all(_normalize_tool(name) in _TAKES for name in refused) else [])]


def _keep_tools(name: str, lists: Sequence[Sequence[str]], taken: Sequence[str]) -> tuple[str, ...]:
    """Return the tools of a name that are in every further list, without those in `taken`."""
    return tuple(
        tool
        for tool in _map_tools(name)
        if all(any(tool in _map_tools(other) for other in names) for names in lists)
        and not any(_may_overlap(tool, each) for each in taken)
    )


def _list_denied(taken: Iterable[str], lists: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the tools that every agent with tools has, but that this file does not grant."""
    everybodys = {tool for tools in _EVERYBODYS.values() for tool in tools}
    denied = everybodys.intersection(taken)
    if any(_SPAWNS not in [_EVERYBODYS.get(_normalize_tool(name)) for name in names] for names in lists):
        denied.update(_SPAWNS)
    return tuple(sorted(denied))


def _map_tools(name: str) -> tuple[str, ...]:
    if name.startswith(_MCP):
        return (name,) if name.count("__") > 1 or name == _EVERY_MCP else (f"{name}__*",)
    # `Bash(git diff:*)` allows a part of a tool. Moot cannot express that, and the whole tool would be more.
    return _GIVES.get(_normalize_tool(name), ())


def _find_refused_patterns(name: str) -> Iterator[str]:
    if name.casefold().startswith(_MCP):
        yield f"{name}*"
    for known, tools in _TAKES.items():
        if fnmatchcase(known, _normalize_tool(name)):
            yield from tools


def _may_overlap(one: str, other: str) -> bool:
    """Return whether a tool may match both patterns, judged by their prefixes."""
    first, second = _literal_prefix(one), _literal_prefix(other)
    if first == one.casefold():
        return fnmatchcase(first, other.casefold())
    return first.startswith(second) or second.startswith(first)


def _literal_prefix(pattern: str) -> str:
    return _WILDCARD.split(pattern.casefold(), maxsplit=1)[0]


# ---- names ----------------------------------------------------------------------------------------


def _parse_list(fields: Fields, key: str) -> list[str] | None:
    """Return the names of a list, or of a text with commas."""
    items = fields.items(key, longest=_LONGEST_LINE)
    return None if items is None else [name for text, _ in items for name in _split_names(text)]


def _split_names(text: str) -> list[str]:
    """Return the names in `Read, Bash(git:*, ls:*), Edit`; commas inside parentheses do not separate."""
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
    """Return the tool of a name with restrictions, such as `Bash(rm:*)`."""
    return name.partition("(")[0].strip()


def _normalize_tool(name: str) -> str:
    return name if name.startswith(_MCP) else name.casefold().replace("_", "").replace("-", "")
