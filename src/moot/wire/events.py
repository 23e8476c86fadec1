"""Domain events as protocol messages, each encoded once per format however many read it. No I/O."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar, assert_never

from moot.domain.ask import AskState
from moot.domain.errors import MootError
from moot.domain.events import (
    AskClosed,
    AskOpened,
    BridgeRefused,
    CommandEnded,
    CommandStarted,
    Compacted,
    CompactionStarted,
    ConfigReloaded,
    Event,
    EventBody,
    EventSource,
    Gap,
    MailDelivered,
    MailDropped,
    MailEvicted,
    MailRead,
    MailSent,
    MessageSteered,
    ModeChanged,
    ModelPreparing,
    ModelRetrying,
    PrivateText,
    RunBlocked,
    RunEnded,
    RunQueued,
    RunSpawned,
    RunStarted,
    RunUnblocked,
    RunWithdrawn,
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
    UserMessageSent,
)
from moot.domain.message import ToolCall
from moot.domain.run import RunEnd
from moot.domain.text import clean
from moot.wire import json_form
from moot.wire import moot_pb2 as pb
from moot.wire.asks import approval_event, question_event
from moot.wire.mail import first_line, mail_info
from moot.wire.text_segments import encode_segment
from moot.wire.usage import token_usage
from moot.wire.user_messages import user_message_info

_T = TypeVar("_T", bytes, str)


def stream_bytes(event: Event) -> bytes:
    body = event.body
    if type(body) is TextStarted or type(body) is TextEnded:
        return encode_segment(type(body), body.agent)
    encodings = event.encodings
    if encodings is None:
        encodings = event.encodings = {}
    found: bytes | None = encodings.get(stream_bytes)
    if found is None:
        message = pb.ServerMessage()
        fill_stream(message.stream, body, event.source)
        found = encodings[stream_bytes] = message.SerializeToString()
    return found


def stream_json(event: Event) -> str:
    return _encode_cached(event, _stream_json)


def notice_bytes(item: Event | Gap) -> bytes:
    """A ServerMessage{agent_event}: what SubscribeEvents is sent, with the envelope."""
    return _gap(item).SerializeToString() if isinstance(item, Gap) else _encode_cached(item, _notice_bytes)


def notice_json(item: Event | Gap) -> str:
    return json_form.encode(_gap(item)) if isinstance(item, Gap) else _encode_cached(item, _notice_json)


def _encode_cached(event: Event, encode: Callable[[Event], _T]) -> _T:
    encodings = event.encodings
    if encodings is None:
        encodings = event.encodings = {}
    found: _T | None = encodings.get(encode)
    if found is None:
        found = encodings[encode] = encode(event)
    return found


def _stream_json(event: Event) -> str:
    message = pb.ServerMessage()
    fill_stream(message.stream, event.body, event.source)
    return json_form.encode(message)


def _notice_bytes(event: Event) -> bytes:
    return pb.ServerMessage(agent_event=agent_event(event)).SerializeToString()


def _notice_json(event: Event) -> str:
    return json_form.encode(pb.ServerMessage(agent_event=agent_event(event)))


def _gap(gap: Gap) -> pb.ServerMessage:
    message = pb.ServerMessage()
    out = message.agent_event
    out.kind, out.seq = pb.GAP, gap.last
    out.gap.first_seq, out.gap.last_seq = gap.first, gap.last
    return message


def fill_stream(  # noqa: C901  (one flat case per event)
    out: pb.StreamEvent, body: EventBody, source: EventSource
) -> None:
    """Write the event into `out`: filling in place costs a third of building from the leaves."""
    match body:
        case TextChunk(content):
            out.chunk.content = clean(content)
        case RunEnded(agent, end):
            _fill_end(out.end, agent, end)
        case RunStarted(agent, user_seq):
            start = out.start
            start.agent, start.user_seq, start.run_id = agent, user_seq, source.run_id
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
            _fill_rare(out, body, source)


_Rare = (
    RunSpawned | RunQueued | RunWithdrawn | MessageSteered | ToolsStarted | ToolFinished | ToolExecuted | ToolsCompleted
    | AskOpened | AskClosed | RunBlocked | RunUnblocked | CommandStarted | CommandEnded | ModelRetrying
    | ModelPreparing | TextDiscarded | CompactionStarted | Compacted | ModeChanged | ConfigReloaded
    | MailSent | MailDelivered | MailRead | MailEvicted | MailDropped | BridgeRefused | UserMessageSent | PrivateText
)  # fmt: skip


def _fill_rare(  # noqa: C901, PLR0912, PLR0915  (one flat case per event)
    out: pb.StreamEvent, body: _Rare, source: EventSource
) -> None:
    match body:
        case ToolsStarted():
            out.tool_start.CopyFrom(pb.ToolStartEvent(calls=[tool_call(*call) for call in body.calls_with_lines()]))
        case ToolFinished():
            out.tool_result.CopyFrom(_tool_result(body))
        case ToolExecuted(call_id, name, ok, seconds):
            tool_executed = pb.ToolExecutedEvent(call_id=clean(call_id), name=clean(name), ok=ok, seconds=seconds)
            out.tool_executed.CopyFrom(tool_executed)
        case ToolsCompleted():
            out.tools_complete.SetInParent()
        case RunSpawned(agent, task, reason, call_id):
            spawned = pb.SpawnedEvent(agent=agent, task=clean(task), reason=clean(reason), call_id=clean(call_id))
            out.spawned.CopyFrom(spawned)
        case RunQueued(position, ask_id, ask_kind):
            queued = pb.QueuedEvent(position=position, ask_id=ask_id, ask_kind=ask_kind, run_id=source.run_id)
            out.queued.CopyFrom(queued)
        case MessageSteered(content, user_seq, run_id, into):
            steered = pb.SteeredEvent(content=clean(content), user_seq=user_seq, run_id=run_id, into=into)
            out.steered.CopyFrom(steered)
        case RunWithdrawn(content):
            out.withdrawn.content = clean(content)
        case AskOpened(ask) if ask.is_question:
            out.ask_user.CopyFrom(question_event(ask, source.asker))
        case AskOpened(ask):
            out.approval_opened.CopyFrom(approval_event(ask, source.asker))
        case AskClosed(ask) if ask.is_question:
            answered = ask.state is AskState.ANSWERED
            out.ask_closed.CopyFrom(pb.AskClosedEvent(ask_id=ask.id, answered=answered, attempt=ask.attempt))
        case AskClosed(ask):
            closed = pb.ApprovalClosedEvent(ask_id=ask.id, state=ask.state, kind=ask.kind, attempt=ask.attempt)
            out.approval_closed.CopyFrom(closed)
        case RunBlocked(condition, reason, ask_id, waiting_on):
            blocked = pb.BlockedEvent(condition=condition, reason=clean(reason), ask_id=ask_id, waiting_on=waiting_on)
            out.blocked.CopyFrom(blocked)
        case RunUnblocked(condition, ask_id):
            out.unblocked.CopyFrom(pb.UnblockedEvent(condition=condition, ask_id=ask_id))
        case CommandStarted(job_id, command):
            out.command_started.CopyFrom(pb.CommandStartedEvent(job_id=job_id, command=clean(command)))
        case CommandEnded(job_id, exit_code, reason):
            out.command_ended.CopyFrom(pb.CommandEndedEvent(job_id=job_id, exit_code=exit_code, reason=reason))
        case ModelRetrying(attempt, delay_seconds, reason):
            again = pb.RetryingEvent(attempt=attempt, delay_ms=round(delay_seconds * 1000), reason=clean(reason))
            out.retrying.CopyFrom(again)
        case ModelPreparing(stage, percent, previous):
            ready = pb.PreparingEvent(stage=stage, percent=percent, previous_ms=round(previous * 1000))
            out.preparing.CopyFrom(ready)
        case TextDiscarded():
            out.discarded.SetInParent()
        case CompactionStarted():
            out.compacting.SetInParent()
        case Compacted(number, title):
            out.compacted.CopyFrom(pb.CompactedEvent(number=number, title=clean(title)))
        case ModeChanged(mode, by, level):
            out.mode_changed.mode, out.mode_changed.by = mode, clean(by)
            out.mode_changed.auto_approve = level
        case ConfigReloaded():
            out.reloaded.SetInParent()
        case MailSent(mail):
            out.mail_sent.CopyFrom(mail_info(mail))
        case MailDelivered(mail):
            out.mail_delivered.CopyFrom(mail_info(mail))
        case MailRead(mail):
            out.mail_read.CopyFrom(mail_info(mail))
        case MailEvicted(mail):
            out.mail_evicted.CopyFrom(mail_info(mail))
        case MailDropped(mail, reason):
            out.mail_dropped.CopyFrom(mail_info(mail, reason))
        case BridgeRefused(mail, reason):
            out.bridge_refused.CopyFrom(mail_info(mail, reason))
        case UserMessageSent(sent):
            out.user_message.CopyFrom(user_message_info(sent))
        case PrivateText(content):
            out.private_text.content = clean(content)
        case _:
            assert_never(body)


def _tool_result(event: ToolFinished) -> pb.ToolResultEvent:
    return pb.ToolResultEvent(
        call_id=clean(event.call_id),
        name=clean(event.name),
        output=clean(event.output),
        duration_ms=max(0, event.duration_ms),
        is_error=event.is_error,
    )


def _fill_end(out: pb.StreamEnd, agent: str, end: RunEnd) -> None:
    out.agent, out.outcome, out.steps, out.cost = agent, end.outcome, end.steps, end.cost
    out.provider, out.model = end.provider, end.model
    if end.error or end.limit:
        out.error, out.limit = clean(end.error), end.limit
    usage = token_usage(end.usage)
    if usage is not None:
        out.usage.CopyFrom(usage)


def send_response(agent: str, end: RunEnd) -> pb.SendResponse:
    """The answer to SendMsg: a run's end with everything it said."""
    return pb.SendResponse(
        agent=agent,
        content=clean(end.answer),
        provider=end.provider,
        model=end.model,
        usage=token_usage(end.usage),
        outcome=end.outcome,
        error=clean(end.error),
        cost=end.cost,
        limit=end.limit,
        messages=map(user_message_info, end.messages),
    )


def tool_call(call: ToolCall, line: str = "") -> pb.ToolCallInfo:
    name, arguments = clean(call.name), clean(call.arguments)
    return pb.ToolCallInfo(name=name, arguments=arguments, call_id=clean(call.id), line=clean(line))


def error_message(error: MootError) -> pb.ErrorMsg:
    return pb.ErrorMsg(code=error.code, message=clean(error.message), type=error.type, fix=clean(error.fix))


# What the flat fields of AgentEventMsg say whole; every other event is sent with its body beside them.
_FLAT = (
    TextChunk, ThinkingChunk, TextStarted, TextEnded, ThinkingStarted, ThinkingEnded, ToolsStarted, ToolFinished,
    ToolsCompleted, TextDiscarded, PrivateText,
)  # fmt: skip


def agent_event(event: Event) -> pb.AgentEventMsg:
    """What SubscribeEvents is sent of an event: the envelope, and the facts of the body."""
    source, body = event.source, event.body
    message = pb.AgentEventMsg(
        agent=source.key.agent,
        sender=source.key.sender,
        speaker=source.speaker,
        seq=event.seq,
        run_id=source.run_id,
        parent_id=source.parent_id,
        root_id=source.root_id,
        root_agent=source.root.agent,
        root_sender=source.root.sender,
    )
    message.timestamp = datetime.fromtimestamp(event.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    _fill_notice(message, body)
    if not isinstance(body, _FLAT):
        fill_stream(message.body, body, source)
    return message


_MAIL_KINDS: dict[type[EventBody], "pb.AgentEventKind"] = {
    MailSent: pb.MAIL_SENT, MailDelivered: pb.MAIL_DELIVERED, MailRead: pb.MAIL_READ, MailEvicted: pb.MAIL_EVICTED,
}  # fmt: skip


def _fill_notice(  # noqa: C901, PLR0912, PLR0915  (one flat case per event)
    out: pb.AgentEventMsg, body: EventBody
) -> None:
    match body:
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
            out.tool_calls.extend(tool_call(*call) for call in body.calls_with_lines())
        case ToolFinished(call_id, name, output):
            out.kind, out.tool_output, out.tool_is_error = pb.TOOL_RESULT, clean(output), body.is_error
            out.duration_ms = max(0, body.duration_ms)
            out.tool_calls.add(name=clean(name), call_id=clean(call_id))
        case ToolExecuted(call_id, name):
            out.kind, out.content = pb.TOOL_EXECUTED, "ok" if body.ok else "failed"
            out.tool_calls.add(name=clean(name), call_id=clean(call_id))
        case ToolsCompleted():
            out.kind = pb.TOOLS_COMPLETE
        case RunSpawned(_, task):
            out.kind, out.content = pb.SPAWNED, clean(task)
        case RunStarted(_, user_seq):
            out.kind, out.user_seq = pb.STARTED, user_seq
        case RunWithdrawn(content):
            out.kind, out.content = pb.WITHDRAWN, clean(content)
        case MessageSteered(content, user_seq):
            out.kind, out.content, out.user_seq = pb.STEERED, clean(content), user_seq
        case RunQueued(position):
            out.kind, out.content = pb.QUEUED, str(position)
        case AskOpened(ask):
            out.kind = pb.ASK if ask.is_question else pb.APPROVAL
            out.content = clean("\n".join(one.question for one in ask.questions) if ask.is_question else ask.line)
        case AskClosed(ask) if ask.is_question:
            out.kind = pb.ASK_CLOSED
            out.content = "answered" if ask.state is AskState.ANSWERED else "unanswered"
        case AskClosed(ask):
            out.kind, out.content = pb.APPROVAL_CLOSED, ask.state
        case RunBlocked(reason=reason):
            out.kind, out.content = pb.BLOCKED, clean(reason)
        case RunUnblocked(condition):
            out.kind, out.content = pb.UNBLOCKED, condition
        case CommandStarted(_, command):
            out.kind, out.content = pb.COMMAND_STARTED, clean(command)
        case CommandEnded(job_id):
            out.kind, out.content = pb.COMMAND_ENDED, job_id
        case ModelRetrying(reason=reason):
            out.kind, out.content = pb.RETRYING, clean(reason)
        case ModelPreparing(stage, percent):
            out.kind, out.content = pb.PREPARING, f"{stage} {percent}"
        case TextDiscarded():
            out.kind = pb.DISCARDED
        case CompactionStarted():
            out.kind = pb.COMPACTING
        case Compacted(_, title):
            out.kind, out.content = pb.COMPACTED, clean(title)
        case ModeChanged(mode):
            out.kind, out.content = pb.MODE_CHANGED, mode
        case ConfigReloaded():
            out.kind = pb.RELOADED
        case MailSent(mail) | MailDelivered(mail) | MailRead(mail) | MailEvicted(mail):
            out.kind, out.content = _MAIL_KINDS[type(body)], first_line(mail)
        case MailDropped(mail, reason):
            out.kind, out.content = pb.MAIL_DROPPED, first_line(mail) or clean(reason)
        case BridgeRefused(_, reason):
            out.kind, out.content = pb.BRIDGE_REFUSED, clean(reason)
        case UserMessageSent(sent):
            out.kind, out.content = pb.USER_MESSAGE, clean(sent.content)
        case PrivateText(content):
            out.kind, out.content = pb.PRIVATE_TEXT, clean(content)
        case RunEnded(_, end):
            out.kind, out.content = pb.DONE, end.outcome
        case _:
            assert_never(body)
