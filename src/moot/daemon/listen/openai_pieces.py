"""The events of a run as pieces of one answer, up to its end or until it waits for a person. Used by the HTTP APIs."""

from collections.abc import AsyncGenerator, Awaitable, Callable

from msgspec import Struct

from moot.daemon.listen.openai_form import (
    AnswerState,
    DescribeReading,
    finish_reason,
    question_text,
    undone_state,
    waiting_for,
    waiting_in_queue,
    waiting_text,
)
from moot.daemon.listen.queued_reply import QueuedReply, to_error
from moot.domain.events import (
    AskOpened,
    Event,
    EventBody,
    RunEnded,
    RunQueued,
    RunStarted,
    TextChunk,
    TextDiscarded,
    TextStarted,
    ThinkingChunk,
    UserMessageSent,
)
from moot.domain.ports.clock import Clock
from moot.domain.run import Outcome
from moot.domain.usage import Usage
from moot.wire import moot_pb2 as pb

_QUIET_SECONDS = 15.0


class TextPiece(Struct, frozen=True):
    """A piece of the answer, or of the model's reasoning."""

    text: str = ""
    reasoning: str = ""


class SegmentStart(Struct, frozen=True):
    """The start of a further segment of text."""


class PieceDiscarded(Struct, frozen=True):
    """The last segment of text is discarded."""


class AnswerEnd(Struct, frozen=True):
    """The end of the answer, or of what there is until a person has answered or decided: then `state` says so."""

    finish: str
    usage: Usage
    state: AnswerState | None = None


class KeepAlive(Struct, frozen=True):
    """No text yet: the message is queued, or the agent works. `run_id` is set where the run is known."""

    run_id: str = ""


Piece = TextPiece | SegmentStart | PieceDiscarded | AnswerEnd | KeepAlive


async def read_pieces(
    gathered: QueuedReply, is_open: Callable[[str], Awaitable[bool]], clock: Clock, describe: DescribeReading
) -> AsyncGenerator[Piece, None]:
    spoke = False
    while True:
        try:
            async with clock.timeout(_QUIET_SECONDS):
                item = await gathered.take()
        except TimeoutError:
            yield KeepAlive()
            continue
        if isinstance(item, pb.ServerMessage):
            raise to_error(item.error)
        ask_id = _find_ask(item.body)
        if ask_id and not await is_open(ask_id):
            continue
        for piece in _event_pieces(item, describe, spoke=spoke):
            yield piece
            if isinstance(piece, AnswerEnd):
                return
        spoke = spoke or isinstance(item.body, TextChunk | UserMessageSent)


def _find_ask(body: EventBody) -> str:
    """The ask that the run, or the one ahead in the queue, waits for a person with."""
    match body:
        case AskOpened(ask):
            return ask.id
        case RunQueued(_, ask_id):
            return ask_id
        case _:
            return ""


def _event_pieces(  # noqa: C901  (one flat case per event)
    event: Event, describe: DescribeReading, *, spoke: bool
) -> tuple[Piece, ...]:
    match event.body:
        case TextChunk(content):
            return (TextPiece(text=content),)
        case ThinkingChunk(content):
            return (TextPiece(reasoning=content),)
        case UserMessageSent(sent):
            message = TextPiece(text=sent.content)
            return (SegmentStart(), message) if spoke else (message,)
        case TextStarted():
            return (SegmentStart(),) if spoke else ()
        case TextDiscarded():
            return (PieceDiscarded(),)
        case AskOpened() | RunQueued():
            return _waiting_pieces(event, describe, spoke=spoke)
        case RunEnded(_, end):
            over = AnswerEnd(finish_reason(end), end.usage, undone_state(end, event.source.run_id))
            # For a turn that had already ended, the answer is in its end. An assistant may end without a message.
            text = end.answer or (end.error if end.outcome is Outcome.COMPLETED else "")
            return (over,) if spoke or not text else (TextPiece(text=text), over)
        case RunStarted():
            return (KeepAlive(event.source.run_id),)
        case _:
            return ()


def _waiting_pieces(event: Event, describe: DescribeReading, *, spoke: bool) -> tuple[Piece, ...]:
    """The end of the answer if the run, or the one ahead in the queue, waits for a person."""
    match event.body:
        case AskOpened(ask):
            state = waiting_for(ask, event.source.root_id, describe)
            text = question_text(ask, event.source.asker) if ask.is_question else waiting_text(state)
        case RunQueued(_, ask_id, kind) if ask_id:
            state = waiting_in_queue(event.source.run_id, ask_id, kind, describe)
            text = waiting_text(state)
        case _:
            return (KeepAlive(event.source.run_id),)
    put = (TextPiece(text=text), AnswerEnd("stop", Usage(), state))
    return (SegmentStart(), *put) if spoke else (KeepAlive(state.run_id), *put)
