"""The `set_title` tool."""

from typing import Any

from moot.domain.errors import BadRequest
from moot.domain.ports.store import Store
from moot.domain.ports.tool import RunContext
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.title import TITLE_LENGTH


class SetTitle:
    spec = ToolSpec(
        name="set_title",
        safety=Safety.SAFE,
        group="conversation",
        description="Give this conversation a short title that a person will recognise in a list.",
        parameters={
            "type": "object",
            "properties": {"title": {"type": "string", "description": f"At most {TITLE_LENGTH} characters."}},
            "required": ["title"],
        },
    )

    def __init__(self, store: Store) -> None:
        self._store = store

    def line(self, arguments: dict[str, Any]) -> str:
        return f"title the conversation {arguments.get('title', '')}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        title = " ".join(str(arguments["title"]).split())
        if not title:
            raise BadRequest("the title is empty")
        if len(title) > TITLE_LENGTH:
            raise BadRequest(f"the title has {len(title)} characters; at most {TITLE_LENGTH} are shown")
        await self._store.set_title(context.key, title)
        return f"The title is now: {title}"
