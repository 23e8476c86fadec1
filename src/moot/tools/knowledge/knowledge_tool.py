"""Shared by the tools on knowledge and learnings: the owner, specs, arguments and JSON."""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from moot.domain.knowledge import KnowledgeReader
from moot.domain.ports.knowledge import KnowledgeStore, Learnings
from moot.domain.text import clean
from moot.tools.store_tool import Arguments, StoreCall, ToolPlan, make_store_spec

FOUND = 10


class KnowledgeCall(StoreCall, frozen=True, kw_only=True):
    knowledge: KnowledgeStore
    learnings: Learnings

    @property
    def reader(self) -> KnowledgeReader:
        return KnowledgeReader(self.owner, self.context.speaker)


KnowledgePlan = ToolPlan[KnowledgeCall]
make_spec = partial(make_store_spec, group="knowledge")


def one_of(names: Iterable[str], description: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(names), "description": description}


def get_text(arguments: Arguments, name: str) -> str:
    return clean(str(arguments.get(name) or "")).strip()


def get_tags(arguments: Arguments) -> tuple[str, ...]:
    tags = (" ".join(clean(str(tag)).split()) for tag in arguments.get("tags") or ())
    return tuple(dict.fromkeys(tag for tag in tags if tag))


def format_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
