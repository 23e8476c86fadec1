"""The note tools of a conversation: observe, reflect, list. They use the notes port."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, Conflict
from moot.domain.note import NOTE_LENGTH, Note, NoteKind, span
from moot.domain.ports.agent_data import Notes
from moot.domain.ports.clock import Clock
from moot.domain.ports.tool import RunContext, Tool, ToolResult
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.text import clean
from moot.domain.usage import Charge

_LISTED = 20
_MOST_LISTED = 100
_LINE = 120

# Asks the engine to summarise observations without a reflection; None if there are none.
Reflect = Callable[[ConversationKey, Charge], Awaitable[Note | None]]


def tools(*, notes: Notes, reflect: Reflect, clock: Clock) -> list[Tool]:
    list_observations = ListNotes(
        notes,
        NoteKind.OBSERVATION,
        name="observe_list",
        what="observations",
        description="Read the newest observations made in this conversation, oldest of them first.",
    )
    list_reflections = ListNotes(
        notes,
        NoteKind.REFLECTION,
        name="reflect_list",
        what="reflections",
        description="Read the newest reflections on this conversation, oldest of them first.",
    )
    return [ObserveAdd(notes, clock), list_observations, ReflectNow(notes, reflect, clock), list_reflections]


class ObserveAdd:
    spec = ToolSpec(
        name="observe_add",
        safety=Safety.SAFE,
        group="memory",
        description="Note something about this conversation as it stands: what it is about, what was decided, "
        "what is still open.",
        parameters={
            "type": "object",
            "properties": {"content": {"type": "string", "description": "Two to five sentences."}},
            "required": ["content"],
        },
    )

    def __init__(self, notes: Notes, clock: Clock) -> None:
        self._notes = notes
        self._clock = clock

    def line(self, arguments: dict[str, Any]) -> str:
        return f"note: {str(arguments.get('content', ''))[:_LINE]}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        note = Note(
            kind=NoteKind.OBSERVATION,
            content=_parse_content(arguments["content"]),
            first_seq=0,
            last_seq=0,
            taint=context.taint,
        )
        return _to_json(status="noted", **_note_data(await self._notes.add(context.key, note, now=self._clock.now())))


class ListNotes:
    """Lists the notes of one kind; `what` says which in the plural."""

    def __init__(self, notes: Notes, kind: NoteKind, *, name: str, what: str, description: str) -> None:
        self._notes = notes
        self._kind = kind
        self._what = what
        limit = {"type": "integer", "description": f"How many at most; {_LISTED} if not given."}
        self.spec = ToolSpec(
            name=name,
            safety=Safety.SAFE,
            group="memory",
            description=description,
            parameters={"type": "object", "properties": {"limit": limit}},
        )

    def line(self, _arguments: dict[str, Any]) -> str:
        return f"read the {self._what}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        found = await self._notes.list_all(context.key, self._kind, limit=_parse_limit(arguments))
        return _list_result(self._what, found)


class ReflectNow:
    spec = ToolSpec(
        name="reflect_now",
        safety=Safety.SAFE,
        group="memory",
        description="Condense the observations made since the last reflection into one. "
        "Give the reflection yourself, or leave it out and it is written for you.",
        parameters={
            "type": "object",
            "properties": {"content": {"type": "string", "description": "The text of the reflection."}},
        },
    )

    def __init__(self, notes: Notes, reflect: Reflect, clock: Clock) -> None:
        self._notes = notes
        self._reflect = reflect
        self._clock = clock

    def line(self, _arguments: dict[str, Any]) -> str:
        return "reflect on what was observed"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        content = str(arguments.get("content") or "")
        note = await (self._add_given(content, context) if content else self._reflect(context.key, context.charge))
        if note is None:
            raise Conflict(
                "nothing was observed since the last reflection", fix="Note something with observe_add first."
            )
        return ToolResult(content=_to_json(status="reflected", **_note_data(note)), taint=note.taint)

    async def _add_given(self, content: str, context: RunContext) -> Note | None:
        observations = (await self._notes.state(context.key)).open
        if not observations:
            return None
        first, last = span(observations)
        note = Note(
            kind=NoteKind.REFLECTION,
            content=_parse_content(content),
            first_seq=first,
            last_seq=last,
            taint=context.taint.union(*(each.taint for each in observations)),
        )
        return await self._notes.add(context.key, note, now=self._clock.now())


def _parse_content(value: Any) -> str:
    content = clean(str(value)).strip()
    if not content:
        raise BadRequest("the note is empty", fix="Pass the text of the note.")
    if len(content) > NOTE_LENGTH:
        raise BadRequest(f"the note has {len(content)} characters", fix=f"Use at most {NOTE_LENGTH}.")
    return content


def _parse_limit(arguments: dict[str, Any]) -> int:
    return max(1, min(_MOST_LISTED, int(arguments.get("limit") or _LISTED)))


def _list_result(name: str, notes: list[Note]) -> ToolResult:
    content = _to_json(**{name: [_note_data(note) for note in notes], "count": len(notes)})
    return ToolResult(content=content, taint=frozenset().union(*(note.taint for note in notes)))


def _note_data(note: Note) -> dict[str, Any]:
    return {
        "number": note.number,
        "content": note.content,
        "first_seq": note.first_seq,
        "last_seq": note.last_seq,
        "created_at": datetime.fromtimestamp(note.created_at, UTC).isoformat(timespec="seconds"),
    }


def _to_json(**fields: Any) -> str:
    return msgspec.json.encode(fields).decode()
