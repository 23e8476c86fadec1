"""Domain events as protocol messages, each encoded once however many read it. No I/O."""

from datetime import UTC, datetime
from typing import assert_never

from moot.domain.ask import AskState
from moot.domain.conversation import ConversationKey
from moot.domain.errors import MootError
from moot.domain.events import (
    AskClosed,
    AskOpened,
    Compacted,
    EventBody,
    ModelRetrying,
    RunEnded,
    RunQueued,
    RunStarted,
    TextChunk,
    TextDiscarded,
    TextEnded,
    TextStarted,
    ThinkingChunk,
    ThinkingEnded,
    ThinkingStarted,
    ToolExecuted,
    ToolFinished,
    ToolsCompleted,
    ToolsStarted,
)
from moot.domain.message import ToolCall
from moot.domain.run import RunEnd
from moot.domain.text import clean
from moot.domain.usage import Usage
from moot.wire import json_form
from moot.wire import moot_pb2 as pb
from moot.wire.asks import approval_event, question_event

_UINT32_MAX = 0xFFFF_FFFF


class CachedEvent:
    """An event of one run with its encodings, each made at the first reader that needs it.

    `payload` and `json` are a ServerMessage{stream}; `feed_payload` and `feed_json` a ServerMessage{agent_event},
    which is what SubscribeEvents is told and which says whose conversation it was.
    """

    __slots__ = ("_feed_json", "_feed_payload", "_json", "_payload", "at", "event", "key", "speaker")

    def __init__(
        self, event: EventBody, *, key: ConversationKey | None = None, speaker: str = "", at: float = 0.0
    ) -> None:
        self.event = event
        self.key = key
        self.speaker = speaker
        self.at = at
        self._payload: bytes | None = None
        self._json: str | None = None
        self._feed_payload: bytes | None = None
        self._feed_json: str | None = None

    @property
    def payload(self) -> bytes:
        if self._payload is None:
            self._payload = self._stream().SerializeToString()
        return self._payload

    @property
    def json(self) -> str:
        if self._json is None:
            self._json = json_form.encode(self._stream())
        return self._json

    @property
    def feed_payload(self) -> bytes:
        if self._feed_payload is None:
            self._feed_payload = self._feed().SerializeToString()
        return self._feed_payload

    @property
    def feed_json(self) -> str:
        if self._feed_json is None:
            self._feed_json = json_form.encode(self._feed())
        return self._feed_json

    def _stream(self) -> pb.ServerMessage:
        message = pb.ServerMessage()
        fill_stream(message.stream, self.event)
        return message

    def _feed(self) -> pb.ServerMessage:
        key = self.key or ConversationKey("", "")
        return pb.ServerMessage(agent_event=agent_event(self.event, key=key, speaker=self.speaker, at=self.at))


class EncodeOnce:
    """Gives every follower of a feed the same CachedEvent of an event that is handed to them one after another."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: CachedEvent | None = None

    def __call__(
        self, event: EventBody, *, key: ConversationKey | None = None, speaker: str = "", at: float = 0.0
    ) -> CachedEvent:
        """Readers of a stream need no key; whoever is told of many conversations does."""
        last = self._last
        if last is None or last.event is not event:
            last = self._last = CachedEvent(event)
        if key is not None and last.key is None:
            last.key, last.speaker, last.at = key, speaker, at
        return last


def stream_event(event: EventBody) -> pb.StreamEvent:
    message = pb.StreamEvent()
    fill_stream(message, event)
    return message


def fill_stream(out: pb.StreamEvent, event: EventBody) -> None:
    """Write the event into `out`: filling in place costs a third of building from the leaves."""
    match event:
        case TextChunk(content):
            out.chunk.content = clean(content)
        case ThinkingChunk(content):
            out.thinking.content = clean(content)
        case TextStarted(agent):
            out.text_start.agent = agent
        case TextEnded(agent):
            out.text_end.agent = agent
        case ThinkingStarted(agent):
            out.thinking_start.agent = agent
        case ThinkingEnded(agent):
            out.thinking_end.agent = agent
        case _:
            _fill_rare(out, event)


_Rare = (
    RunQueued
    | RunStarted
    | ToolsStarted
    | ToolFinished
    | ToolExecuted
    | ToolsCompleted
    | AskOpened
    | AskClosed
    | ModelRetrying
    | TextDiscarded
    | Compacted
    | RunEnded
)


def _fill_rare(out: pb.StreamEvent, event: _Rare) -> None:  # noqa: C901, PLR0912, PLR0915  (one flat case per event)
    match event:
        case RunStarted(agent, user_seq):
            out.start.CopyFrom(pb.StreamStart(agent=agent, user_seq=user_seq))
        case RunQueued(position, ask_id, ask_kind):
            out.queued.CopyFrom(pb.QueuedEvent(position=position, ask_id=ask_id, ask_kind=ask_kind))
        case ToolsStarted():
            out.tool_start.CopyFrom(pb.ToolStartEvent(calls=[tool_call(*told) for told in event.told()]))
        case ToolFinished():
            out.tool_result.CopyFrom(_tool_result(event))
        case ToolExecuted(call_id, name, ok, seconds):
            out.tool_executed.CopyFrom(
                pb.ToolExecutedEvent(call_id=clean(call_id), name=clean(name), ok=ok, seconds=seconds)
            )
        case ToolsCompleted():
            out.tools_complete.SetInParent()
        case AskOpened(ask, by) if ask.is_question:
            out.ask_user.CopyFrom(question_event(ask, by))
        case AskOpened(ask, by):
            out.approval_opened.CopyFrom(approval_event(ask, by))
        case AskClosed(ask) if ask.is_question:
            out.ask_closed.CopyFrom(pb.AskClosedEvent(ask_id=ask.id, answered=ask.state is AskState.ANSWERED))
        case AskClosed(ask):
            out.approval_closed.CopyFrom(pb.ApprovalClosedEvent(ask_id=ask.id, state=ask.state, kind=ask.kind))
        case ModelRetrying(attempt, delay_seconds, reason):
            out.retrying.CopyFrom(
                pb.RetryingEvent(attempt=attempt, delay_ms=round(delay_seconds * 1000), reason=clean(reason))
            )
        case TextDiscarded():
            out.discarded.SetInParent()
        case Compacted(number, title):
            out.compacted.CopyFrom(pb.CompactedEvent(number=number, title=clean(title)))
        case RunEnded(agent, end):
            out.end.CopyFrom(_stream_end(agent, end))
        case _:
            assert_never(event)


def _tool_result(event: ToolFinished) -> pb.ToolResultEvent:
    return pb.ToolResultEvent(
        call_id=clean(event.call_id),
        name=clean(event.name),
        output=clean(event.output),
        duration_ms=max(0, event.duration_ms),
        is_error=event.is_error,
    )


def _stream_end(agent: str, end: RunEnd) -> pb.StreamEnd:
    return pb.StreamEnd(
        agent=agent,
        error=clean(end.error),
        provider=end.provider,
        model=end.model,
        usage=token_usage(end.usage),
        outcome=end.outcome,
        limit=end.limit,
        cost=end.cost,
        steps=end.steps,
    )


def send_response(agent: str, end: RunEnd) -> pb.SendResponse:
    """The answer to SendMsg: a run's end with everything it said."""
    return pb.SendResponse(
        agent=agent,
        content=clean(end.content),
        provider=end.provider,
        model=end.model,
        usage=token_usage(end.usage),
        outcome=end.outcome,
        error=clean(end.error),
        cost=end.cost,
        limit=end.limit,
    )


def token_usage(usage: Usage) -> pb.TokenUsage | None:
    """None where no model reported any."""
    if usage == Usage():
        return None
    return pb.TokenUsage(
        prompt=_uint32(usage.prompt),
        completion=_uint32(usage.completion),
        total=_uint32(usage.total),
        cache_hit=_uint32(usage.cache_hit) if usage.cache_hit else None,
        cache_miss=_uint32(usage.cache_miss) if usage.cache_miss else None,
        reasoning=_uint32(usage.reasoning) if usage.reasoning else None,
    )


def _uint32(value: int) -> int:
    return min(max(0, value), _UINT32_MAX)


def tool_call(call: ToolCall, line: str = "") -> pb.ToolCallInfo:
    name, arguments = clean(call.name), clean(call.arguments)
    return pb.ToolCallInfo(name=name, arguments=arguments, call_id=clean(call.id), line=clean(line))


def error_message(error: MootError) -> pb.ErrorMsg:
    return pb.ErrorMsg(code=error.code, message=clean(error.message), type=error.type, fix=clean(error.fix))


def agent_event(event: EventBody, *, key: ConversationKey, speaker: str, at: float) -> pb.AgentEventMsg:
    """What SubscribeEvents is told of an event: the same facts, flat, with whose conversation it was."""
    message = pb.AgentEventMsg(agent=key.agent, sender=key.sender, speaker=speaker)
    message.timestamp = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    _fill_feed(message, event)
    return message


def _fill_feed(out: pb.AgentEventMsg, event: EventBody) -> None:  # noqa: C901, PLR0912, PLR0915  (one flat case per event)
    match event:
        case TextChunk(content):
            out.kind, out.content = pb.TEXT_DELTA, clean(content)
        case ThinkingChunk(content):
            out.kind, out.content = pb.THINKING_DELTA, clean(content)
        case TextStarted():
            out.kind = pb.TEXT_START
        case TextEnded():
            out.kind = pb.TEXT_END
        case ThinkingStarted():
            out.kind = pb.THINKING_START
        case ThinkingEnded():
            out.kind = pb.THINKING_END
        case ToolsStarted():
            out.kind = pb.TOOL_START
            out.tool_calls.extend(tool_call(*told) for told in event.told())
        case ToolFinished(call_id, name, output):
            out.kind, out.tool_output, out.tool_is_error = pb.TOOL_RESULT, clean(output), event.is_error
            out.tool_calls.add(name=clean(name), call_id=clean(call_id))
        case ToolExecuted(call_id, name):
            out.kind, out.content = pb.TOOL_EXECUTED, "ok" if event.ok else "failed"
            out.tool_calls.add(name=clean(name), call_id=clean(call_id))
        case ToolsCompleted():
            out.kind = pb.TOOLS_COMPLETE
        case RunStarted(_, user_seq):
            out.kind, out.user_seq = pb.STARTED, user_seq
        case RunQueued(position):
            out.kind, out.content = pb.QUEUED, str(position)
        case AskOpened(ask, by):
            out.speaker = by.agent if by is not None else out.speaker
            out.kind = pb.ASK if ask.is_question else pb.APPROVAL
            out.content = clean("\n".join(one.question for one in ask.questions) if ask.is_question else ask.line)
        case AskClosed(ask) if ask.is_question:
            out.kind = pb.ASK_CLOSED
            out.content = "answered" if ask.state is AskState.ANSWERED else "unanswered"
        case AskClosed(ask):
            out.kind, out.content = pb.APPROVAL_CLOSED, ask.state
        case ModelRetrying(reason=reason):
            out.kind, out.content = pb.RETRYING, clean(reason)
        case TextDiscarded():
            out.kind = pb.DISCARDED
        case Compacted(_, title):
            out.kind, out.content = pb.COMPACTED, clean(title)
        case RunEnded(_, end):
            out.kind, out.content = pb.DONE, end.outcome
        case _:
            assert_never(event)
