"""Records what each model request was built from, and rebuilds the prompt from a record.

The loop describes a request before it is sent and gives the record to the store with the answer. Parts that many
requests share (tools, instructions, framing) are identified by digest and stored once; the history is stored anyway.
"""

from typing import Any
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct

from moot.domain.config import ModelConfig
from moot.domain.message import Message
from moot.domain.ports.traces import StepStore
from moot.domain.prompt import Prompt, ToolSpec, Transcript
from moot.domain.step_record import Part, StepRecord, StoredStep, make_part
from moot.engine.history import History
from moot.engine.turn import Turn

# How many of the most recently described parts are cached.
_MOST_KEPT = 256

_encode = msgspec.json.Encoder().encode


class _Head(msgspec.Struct, frozen=True):
    """The model's parameters and the instructions."""

    name: str
    provider: str
    model: str
    base_url: str
    window: int
    max_output_tokens: int
    tools: str
    thinking_tokens: int
    with_tools: bool
    system: tuple[str, ...]


class _Extra(msgspec.Struct, frozen=True):
    """The messages that were added for this request only."""

    context: tuple[Message, ...]
    tail: tuple[Message, ...]


class _Changes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Messages that were sent differently from how they are stored, by index; or all messages that were sent."""

    changed: dict[int, Message] = {}
    whole: tuple[Message, ...] | None = None
    # With `whole`: the number of messages up to the newest user message; the context was placed after it.
    newest_message: int = 0


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_tools = msgspec.json.Decoder(tuple[ToolSpec, ...]).decode
_decode_messages = msgspec.json.Decoder(tuple[Message, ...]).decode
_decode_extra = msgspec.json.Decoder(_Extra).decode
_decode_changes = msgspec.json.Decoder(_Changes).decode


class _Masked(Struct):
    """How many messages of a masked transcript were compared with the original, and the resulting part."""

    count: int
    part: Part | None = None


class StepRecords:
    """Describes requests. Caches the most recent parts, so that a step costs only what is new in it."""

    def __init__(self, store: StepStore) -> None:
        self._store = store
        # The tools are kept beside their part, so that their id() cannot be reused by other objects.
        self._tools: dict[int, tuple[tuple[ToolSpec, ...], Part]] = {}
        self._heads: dict[tuple[ModelConfig, tuple[str, ...], int], Part] = {}
        self._extras: dict[tuple[tuple[Message, ...], ...], Part] = {}
        self._masked: WeakKeyDictionary[Transcript, _Masked] = WeakKeyDictionary()

    def add(self, record: StepRecord) -> None:
        self._store.add(record)

    def describe(self, turn: Turn, step: int, prompt: Prompt) -> StepRecord:
        """Return the record of a request that is about to be sent."""
        history, masked_prompt = turn.history, turn.model.mask_prompt(prompt)
        opening = masked_prompt.transcript.messages[: history.opening_count]
        is_whole = history.is_shown_by(prompt.transcript)
        return StepRecord(
            run_id=turn.request.id,
            step=step,
            last_seq=history.last_seq,
            archive=history.archive_count,
            head=self._make_head(turn.model.config, masked_prompt),
            extra=self._make_extra(tuple(opening) if is_whole else (), masked_prompt),
            changes=self._make_changes(prompt.transcript, masked_prompt.transcript, len(opening))
            if is_whole
            else _make_whole(masked_prompt),
            max_tokens=masked_prompt.max_tokens,
        )

    def _make_head(self, config: ModelConfig, masked_prompt: Prompt) -> Part:
        tools = self._make_tools_part(masked_prompt.tools)
        key = (config, masked_prompt.system, id(masked_prompt.tools))
        part = self._heads.get(key)
        if part is None or part.parent is not tools:
            _make_room(self._heads)
            part = self._heads[key] = make_part(_encode(_describe_head(config, masked_prompt)), tools)
        return part

    def _make_tools_part(self, tools: tuple[ToolSpec, ...]) -> Part:
        found = self._tools.get(id(tools))
        if found is None:
            _make_room(self._tools)
            found = self._tools[id(tools)] = (tools, make_part(_encode(tools)))
        return found[1]

    def _make_extra(self, opening: tuple[Message, ...], masked_prompt: Prompt) -> Part | None:
        key = (opening, masked_prompt.context, masked_prompt.tail)
        if not any(key):
            return None
        part = self._extras.get(key)
        if part is None:
            _make_room(self._extras)
            before = make_part(_encode(opening)) if opening else None
            part = self._extras[key] = make_part(_encode(_Extra(masked_prompt.context, masked_prompt.tail)), before)
        return part

    def _make_changes(self, stored: Transcript, sent: Transcript, opening: int) -> Part | None:
        """Return the part with the masked messages. Each is stored once: a part has those added since its parent."""
        if sent is stored:
            return None
        masked = self._masked.get(sent)
        if masked is None:
            masked = self._masked[sent] = _Masked(opening)
        changed = {
            place: sent.messages[place]
            for place in range(masked.count, len(sent.messages))
            if sent.messages[place] is not stored.messages[place]
        }
        masked.count = len(sent.messages)
        if changed:
            masked.part = make_part(_encode(_Changes(changed)), masked.part)
        return masked.part


def _describe_head(config: ModelConfig, masked_prompt: Prompt) -> _Head:
    return _Head(
        name=config.name,
        provider=config.provider,
        model=config.model,
        base_url=_remove_credentials(config.base_url),
        window=config.window,
        max_output_tokens=config.max_output_tokens,
        tools=config.tools,
        thinking_tokens=config.thinking_tokens,
        with_tools=bool(masked_prompt.tools),
        system=masked_prompt.system,
    )


def _remove_credentials(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")) if url else ""


def _make_whole(masked_prompt: Prompt) -> Part:
    transcript = masked_prompt.transcript
    return make_part(_encode(_Changes(whole=tuple(transcript.messages), newest_message=transcript.newest_message)))


def _make_room(kept: dict[Any, Any]) -> None:
    if len(kept) >= _MOST_KEPT:
        kept.clear()


# ---- making a request again -----------------------------------------------------------------------


def rebuild(stored: StoredStep) -> tuple[ModelConfig, Prompt]:
    """Return the model's parameters and the prompt of a step, as it was sent to the model."""
    tools, head = _decode_tools(stored.head[0]), _decode_head(stored.head[1])
    *before, last = stored.extra or (b'{"context":[],"tail":[]}',)
    opening, extra = (_decode_messages(before[0]) if before else ()), _decode_extra(last)
    config = ModelConfig(
        name=head.name,
        provider=head.provider,
        model=head.model,
        base_url=head.base_url,
        window=head.window,
        max_output_tokens=head.max_output_tokens,
        tools=head.tools,
        thinking_tokens=head.thinking_tokens,
    )
    prompt = Prompt(
        system=head.system,
        transcript=_rebuild_transcript(stored, opening, with_tools=head.with_tools),
        context=extra.context,
        tail=extra.tail,
        tools=tools,
        max_tokens=stored.max_tokens,
    )
    return config, prompt


def _rebuild_transcript(stored: StoredStep, opening: tuple[Message, ...], *, with_tools: bool) -> Transcript:
    changes = [_decode_changes(each) for each in stored.changes]
    if changes and changes[0].whole is not None:
        view = Transcript(changes[0].whole)
        view.newest_message = changes[0].newest_message
        return view
    history = History(stored.loaded)
    history.open_with(opening)
    shown = history.transcript(with_tools=with_tools)
    if not changes:
        return shown
    messages = list(shown.messages)
    for each in changes:
        for place, message in each.changed.items():
            messages[place] = message
    transcript = Transcript(messages)
    transcript.newest_message = shown.newest_message
    return transcript
