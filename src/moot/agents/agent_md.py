"""Parses and writes AGENT.md: front matter with purpose and tools, the body is the instruction."""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml

from moot.agents.file_text import read_text
from moot.domain.agent import ROLES, ROOT, Agent, AgentRole, AgentSource, AgentStatus, FileProblem, scope_of
from moot.domain.auto_approve import LEVEL_OF_TRUE, AutoApproveLevel
from moot.domain.front_matter import Broken, Fields, split
from moot.domain.peer_address import is_peer_pattern
from moot.domain.text import clean

FILE_NAME = "AGENT.md"
BUILT_IN_NAMES = (ROOT, *ROLES)
ALLOWED_NAME = "lower-case letters a-z, digits, - and _, at most 64, beginning with a letter or digit"

KEYS = (
    "name", "description", "brief", "model", "status", "prefixes", "denied", "keywords", "capabilities", "accepts",
    "returns", "cannot_do", "always_include", "session_isolation", "allowed_delegates", "accept_delegates_from", "wake",
    "project_instructions", "role", "auto_approve", "made_by",
)  # fmt: skip
# Keys of other programs with the same meaning.
_MEANT_AS_PREFIXES = ("tools", "allowed_tools", "allowed-tools", "allowedtools")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_PREFIX = re.compile(r"[A-Za-z0-9_*?-]{1,128}")
# Characters that look like another one, for the letters of the built-in names.
_DRAWN_ALIKE = {
    "a": "аα@4", "b": "в", "c": "сϲ", "e": "еε3", "g": "ɡ9", "h": "һ", "k": "κк", "l": "1iі|ι", "m": "мᴍμ",
    "n": "пη", "o": "0оοօᴏ", "p": "рρ", "r": "гᴦ", "s": "5ѕ", "t": "7тτᴛ", "u": "υս", "v": "νѵ", "y": "уγ",
}  # fmt: skip
_LOOK_ALIKES = str.maketrans({other: letter for letter, others in _DRAWN_ALIKE.items() for other in others})


def normalize_name(name: str) -> str:
    return unicodedata.normalize("NFKC", name)


def find_imitated(name: str) -> str:
    """Return the built-in agent that this name could be mistaken for; empty if there is none."""
    return _map_built_in_forms().get(_confusable_form(name), "")


@cache
def _map_built_in_forms() -> dict[str, str]:
    return {_confusable_form(name): name for name in BUILT_IN_NAMES}


def _confusable_form(name: str) -> str:
    folded = normalize_name(name).casefold().translate(_LOOK_ALIKES).replace("rn", "m").replace("vv", "w")
    # Drop combining marks and invisible characters.
    return "".join(
        each for each in unicodedata.normalize("NFKD", folded) if unicodedata.category(each) not in ("Mn", "Cf")
    )


def check_name(name: str) -> str:
    """Return why this is not a valid agent name; empty if it is."""
    shown = ascii(name)
    if built_in := find_imitated(name):
        return f"the name {shown} belongs to the built-in agent {built_in!r}, or looks like it; choose another"
    if not _NAME.fullmatch(normalize_name(name)):
        return f"the name {shown} is not allowed; use {ALLOWED_NAME}"
    return ""


def read_agent(path: Path, *, within: Path, source: AgentSource = AgentSource.USER) -> Agent:
    """Read one file, which must really lie inside `within`. Raises Broken."""
    text = read_text(path, within)
    agent = parse_agent(text, path=str(path), source=source)
    folder = normalize_name(path.parent.name)
    if agent.name != folder:
        line = split(text).fields.line("name")
        raise Broken(line, f"the name {agent.name!r} must equal its folder's, {folder!r}")
    return agent


def parse_agent(text: str, *, path: str = "", source: AgentSource = AgentSource.USER) -> Agent:
    front = split(text)
    fields = front.fields
    name = fields.text("name")
    if not name:
        hint = ascii(Path(path).parent.name)[1:-1]
        raise Broken(fields.line("name"), f"the front matter has no `name`; add `name: {hint}`")
    if source is not AgentSource.BUILT_IN and (reason := check_name(name)):
        raise Broken(fields.line("name"), reason)
    description = require_description(fields)
    if not front.body:
        raise Broken(front.end, "there is no instruction; write it below the second ---")
    prefixes, denied = _parse_patterns(fields, "prefixes"), _parse_patterns(fields, "denied") or ()
    return Agent(
        name=normalize_name(name),
        description=description,
        instruction=front.body,
        brief=fields.text("brief"),
        model=fields.text("model"),
        status=fields.word("status", AgentStatus.ACTIVE),
        role=_parse_role(fields),
        prefixes=prefixes,
        denied=denied,
        keywords=fields.words("keywords"),
        capabilities=fields.words("capabilities"),
        accepts=fields.text("accepts"),
        returns=fields.text("returns"),
        cannot_do=fields.words("cannot_do"),
        always_include=fields.flag("always_include", default=False),
        session_isolation=fields.flag("session_isolation", default=True),
        project_instructions=fields.flag("project_instructions", default=True),
        allowed_delegates=_parse_agents(fields, "allowed_delegates"),
        accept_delegates_from=_parse_agents(fields, "accept_delegates_from"),
        wake=fields.flag("wake", default=False),
        auto_approve=_parse_auto_approve(fields),
        scope=scope_of(prefixes, denied),
        source=source,
        path=path,
        made_by=fields.text("made_by"),
        warnings=tuple(_find_unknown_keys(fields, path)),
    )


def _find_unknown_keys(fields: Fields, path: str) -> Iterator[FileProblem]:
    """Yield a problem for each unknown key, which may be a misspelt one."""
    for name in fields.names():
        if name not in KEYS:
            reason = f"unknown key `{name}`, ignored{_nearest_key(name)}"
            yield FileProblem(path=path, line=fields.line(name), reason=clean(reason))


def _nearest_key(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  only for a file with a mistake in it

    meant = "prefixes" if name.casefold() in _MEANT_AS_PREFIXES else ""
    matches = [meant] if meant else get_close_matches(name.casefold().replace("-", "_"), KEYS, n=1)
    return f"; did you mean `{matches[0]}`?" if matches else ""


def require_description(fields: Fields) -> str:
    description = fields.text("description")
    if not description:
        line = fields.line("description")
        raise Broken(line, "the front matter has no `description`; say in one line what the agent is for")
    return description


def _parse_patterns(fields: Fields, key: str) -> tuple[str, ...] | None:
    items = fields.items(key)
    if items is None:
        return None
    for item, line in items:
        if not _PREFIX.fullmatch(item):
            raise Broken(
                line, f"{ascii(item)} in `{key}` is neither the name of a tool nor a pattern such as `review_*`"
            )
    # A prefix that ends with an underscore stands for every tool with that prefix.
    return tuple(f"{item}*" if item.endswith("_") else item for item, _ in items)


def _parse_role(fields: Fields) -> AgentRole | None:
    written = fields.text("role").casefold()
    if written and written not in list(AgentRole):
        reason = f"`role` must be one of {', '.join(AgentRole)}, not {ascii(fields.text('role'))}"
        raise Broken(fields.line("role"), reason)
    return AgentRole(written) if written else None


def _parse_auto_approve(fields: Fields) -> AutoApproveLevel | None:
    """Return the level of the dial: a name, or true or false."""
    written = fields.scalar("auto_approve")
    if written is None or written == "":
        return None
    if isinstance(written, bool):
        return LEVEL_OF_TRUE if written else AutoApproveLevel.NONE
    if written not in list(AutoApproveLevel):
        reason = f"`auto_approve` must be one of {', '.join(AutoApproveLevel)}, true or false, not {ascii(written)}"
        raise Broken(fields.line("auto_approve"), reason)
    return AutoApproveLevel(written)


def _parse_agents(fields: Fields, key: str) -> tuple[str, ...] | None:
    """Return names of agents, or beginnings of names that end with `*`; None if the key is missing."""
    items = fields.texts(key)
    for item, line in items or ():
        if not is_peer_pattern(item):
            raise Broken(
                line, f"{ascii(item)} in `{key}` is neither the name of an agent nor a pattern such as `review-*`"
            )
    return None if items is None else tuple(item for item, _ in items)


def render_agent(agent: Agent) -> str:
    """Return the text of an AGENT.md for this agent; reading it gives the same agent."""
    values = {
        "name": agent.name,
        "description": agent.description,
        "brief": agent.brief or None,
        "status": agent.status.value if agent.status is not AgentStatus.ACTIVE else None,
        "model": agent.model or None,
        "role": agent.role.value if agent.role else None,
        "prefixes": None if agent.prefixes is None else list(agent.prefixes),
        "denied": list(agent.denied) or None,
        "keywords": list(agent.keywords) or None,
        "capabilities": list(agent.capabilities) or None,
        "accepts": agent.accepts or None,
        "returns": agent.returns or None,
        "cannot_do": list(agent.cannot_do) or None,
        "always_include": agent.always_include or None,
        "session_isolation": None if agent.session_isolation else False,
        "project_instructions": None if agent.project_instructions else False,
        "allowed_delegates": None if agent.allowed_delegates is None else list(agent.allowed_delegates),
        "accept_delegates_from": None if agent.accept_delegates_from is None else list(agent.accept_delegates_from),
        "wake": agent.wake or None,
        "auto_approve": agent.auto_approve.value if agent.auto_approve is not None else None,
        "made_by": agent.made_by or None,
    }
    stated = {key: value for key, value in values.items() if value is not None}
    written = yaml.safe_dump(stated, sort_keys=False, allow_unicode=True, width=100)
    return f"---\n{written}---\n{agent.instruction}\n"
