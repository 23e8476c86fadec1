"""Parses agent files written for other programs. Uses `foreign_tools`."""

from collections.abc import Collection
from pathlib import Path

from msgspec import Struct

from moot.agents.agent_md import check_name, normalize_name, require_description
from moot.agents.file_text import read_text
from moot.agents.foreign_tools import lists_refused, parse_allowance
from moot.domain.agent import Agent, AgentStatus, scope_of
from moot.domain.front_matter import Broken, Fields, split

SUFFIX = ".md"
_READ = ("name", "description", "model", "disable", "tools", "permission", "permissions")


class ForeignAgent(Struct, frozen=True):
    """An agent read from a foreign file, the mapping of its tools to Moot's, and what has no counterpart."""

    agent: Agent
    became: tuple[tuple[str, tuple[str, ...]], ...] = ()
    left_out: tuple[str, ...] = ()


def read_foreign(path: Path, *, within: Path, models: Collection[str] = ()) -> ForeignAgent:
    """Read one file, which must really lie inside `within`. Raises Broken."""
    return parse_foreign(read_text(path, within), path=str(path), models=models)


def parse_foreign(text: str, *, path: str, models: Collection[str] = ()) -> ForeignAgent:
    front = split(text)
    fields = front.fields
    # Some formats have the name in the file, some only in the file name.
    name = normalize_name(fields.text("name") or Path(path).stem)
    if reason := check_name(name):
        raise Broken(fields.line("name"), reason)
    if not front.body:
        raise Broken(front.end, "there is no instruction below the second ---")
    # An unknown model name is ignored; the default model is used.
    model = fields.text("model")
    known = model in models
    allowed = parse_allowance(fields)
    agent = Agent(
        name=name,
        description=" ".join(require_description(fields).split()),
        instruction=front.body,
        model=model if known else "",
        status=AgentStatus.DISABLED if fields.flag("disable", default=False) else AgentStatus.ACTIVE,
        prefixes=allowed.prefixes,
        denied=allowed.denied,
        scope=scope_of(allowed.prefixes, allowed.denied),
        path=path,
    )
    models_left = [f"model {model}"] if model and not known else []
    return ForeignAgent(agent, allowed.became, (*allowed.left_out, *models_left, *_list_ignored_keys(fields)))


def _list_ignored_keys(fields: Fields) -> list[str]:
    """Return the keys without a meaning for Moot, as written."""
    read = (*_READ, "permissionMode") if fields.text("permissionMode").casefold() == "plan" else _READ
    return [key for key in fields.names() if key not in read and not lists_refused(key)]
