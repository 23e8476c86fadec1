"""Converts messages of the protocol to the values of the Python client. Pure.

Used by async_client.py, and by cli/render/plain_data.py for `--json`.
"""

from collections.abc import Iterable

from moot.client.event_values import EventInfo, Gap
from moot.client.user_messages import UserMessage, convert_user_message
from moot.client.values import (
    Agent,
    Approval,
    AskClosed,
    Asker,
    Compacted,
    Conversation,
    Discarded,
    Ended,
    Limits,
    Message,
    Option,
    Pattern,
    Preparing,
    Question,
    QuestionItem,
    Queued,
    Reply,
    Retrying,
    RunInfo,
    Started,
    StreamItem,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from moot.wire import moot_pb2 as pb


class StreamReader:
    """Turns the events of one run into items, and collects its reply: the text of the last step."""

    def __init__(self, agent: str = "", sender: str = "") -> None:
        # The conversation, which events of asks do not repeat.
        self._agent = agent
        self._sender = sender
        self.run_id = ""
        self.is_queued = False
        self._steered_into = ""
        self._text: list[str] = []
        self._messages: list[UserMessage] = []

    def read(self, event: pb.StreamEvent) -> list[StreamItem]:
        kind = event.WhichOneof("event")
        if kind == "chunk":
            self._text.append(event.chunk.content)
            return [Text(event.chunk.content)]
        if kind == "user_message":
            self._messages.append(convert_user_message(event.user_message))
            return [Text(("\n\n" if len(self._messages) > 1 else "") + event.user_message.content)]
        if kind in ("tool_start", "discarded", "steered"):
            # What was said before a call, or before a message that steers, is not the answer.
            self._text.clear()
        if kind == "steered" and event.steered.run_id == self.run_id:
            self._steered_into = event.steered.into
        if kind == "end":
            return [Ended(self._reply(event.end))]
        if kind in ("queued", "start"):
            return [self._note_run(event)]
        return list_items(event, self._agent, self._sender, self.run_id)

    def restart(self) -> Discarded:
        """Forget the text, because the connection was lost and the run is followed from its beginning."""
        self._text.clear()
        self._messages.clear()
        return Discarded()

    def _note_run(self, event: pb.StreamEvent) -> Queued | Started:
        self.is_queued = event.HasField("queued")
        if self.is_queued:
            queued = event.queued
            self.run_id = queued.run_id or self.run_id
            return Queued(position=queued.position, run_id=self.run_id, ask_id=queued.ask_id)
        self.run_id = event.start.run_id or self.run_id
        return Started(agent=event.start.agent, run_id=self.run_id)

    def _reply(self, end: pb.StreamEnd) -> Reply:
        return Reply(
            text="\n\n".join(filter(None, [*(message.text for message in self._messages), "".join(self._text)])),
            agent=end.agent,
            outcome=end.outcome,
            run_id=self.run_id,
            error=end.error,
            limit=end.limit,
            provider=end.provider,
            model=end.model,
            usage=convert_usage(end.usage),
            cost=end.cost,
            steps=end.steps,
            steered_into=self._steered_into,
            messages=tuple(self._messages),
        )


def list_items(event: pb.StreamEvent, agent: str, sender: str, run_id: str) -> list[StreamItem]:
    """The items of an event that is neither text nor the beginning or the end of a run."""
    match event.WhichOneof("event"):
        case "thinking":
            return [Thinking(event.thinking.content)]
        case "tool_start":
            return [convert_tool_call(call) for call in event.tool_start.calls]
        case "tool_result":
            return [_convert_tool_result(event.tool_result)]
        case "discarded":
            return [Discarded()]
        case "retrying":
            retrying = event.retrying
            return [Retrying(attempt=retrying.attempt, seconds=retrying.delay_ms / 1000, reason=retrying.reason)]
        case "preparing":
            ready = event.preparing
            return [Preparing(stage=ready.stage, percent=ready.percent, previous_seconds=ready.previous_ms / 1000)]
        case "compacted":
            return [Compacted(number=event.compacted.number, title=event.compacted.title)]
        case _:
            return _list_ask_items(event, agent, sender, run_id)


def _list_ask_items(event: pb.StreamEvent, agent: str, sender: str, run_id: str) -> list[StreamItem]:
    match event.WhichOneof("event"):
        case "ask_user":
            return [_convert_question(event.ask_user, agent, sender, run_id)]
        case "approval_opened":
            opened = event.approval_opened
            return [convert_approval(opened, agent, sender, opened.by.run_id or run_id)]
        case "ask_closed":
            state = "answered" if event.ask_closed.answered else "unanswered"
            return [AskClosed(id=event.ask_closed.ask_id, state=state)]
        case "approval_closed":
            return [AskClosed(id=event.approval_closed.ask_id, state=event.approval_closed.state)]
        case _:
            return []


def _convert_question(ask: pb.AskUserEvent, agent: str, sender: str, run_id: str) -> Question:
    return Question(
        id=ask.ask_id,
        attempt=ask.attempt,
        agent=agent,
        sender=sender,
        questions=tuple(map(convert_question_item, ask.questions)),
        run_id=ask.by.run_id or run_id,
        asker=convert_asker(ask),
        expires_at=ask.expires_at,
    )


def convert_question_item(question: pb.AskQuestion) -> QuestionItem:
    return QuestionItem(
        text=question.question,
        header=question.header,
        options=tuple(Option(label=each.label, description=each.description) for each in question.options),
        multi_select=question.multi_select,
    )


def convert_approval(ask: pb.ApprovalEvent | pb.AskInfo, agent: str, sender: str, run_id: str) -> Approval:
    """The approval or grant of an event or of a list. Of an event, the conversation and the run are added."""
    return Approval(
        id=ask.ask_id,
        attempt=ask.attempt,
        tool=ask.tool,
        line=ask.line,
        preview=ask.preview,
        reason=ask.reason,
        rule=ask.rule,
        whole_rule=ask.whole_rule,
        kind=ask.kind or "approval",
        agent=agent,
        sender=sender,
        run_id=run_id,
        asker=convert_asker(ask),
        expires_at=ask.expires_at,
        patterns=_patterns(ask.patterns),
    )


def _patterns(offered: Iterable[pb.PatternInfo]) -> tuple[Pattern, ...]:
    return tuple(Pattern(text=each.text, rule=each.rule) for each in offered)


def convert_asker(ask: pb.ApprovalEvent | pb.AskUserEvent | pb.AskInfo) -> Asker | None:
    if not ask.HasField("by"):
        return None
    by = ask.by
    return Asker(agent=by.agent, run_id=by.run_id, spawn_reason=by.spawn_reason, task=by.task)


def convert_ask(info: pb.AskInfo) -> Question | Approval:
    if info.kind == "question":
        return Question(
            id=info.ask_id,
            attempt=info.attempt,
            agent=info.agent,
            sender=info.sender,
            questions=tuple(map(convert_question_item, info.questions)),
            run_id=info.run_id,
            asker=convert_asker(info),
            expires_at=info.expires_at,
        )
    return convert_approval(info, info.agent, info.sender, info.run_id)


def convert_tool_call(call: pb.ToolCallInfo) -> ToolCall:
    return ToolCall(id=call.call_id, name=call.name, arguments=call.arguments, line=call.line)


def _convert_tool_result(result: pb.ToolResultEvent) -> ToolResult:
    return ToolResult(
        id=result.call_id,
        name=result.name,
        output=result.output,
        is_error=result.is_error,
        seconds=result.duration_ms / 1000,
    )


def convert_usage(tokens: pb.TokenUsage) -> Usage:
    return Usage(
        prompt=tokens.prompt, completion=tokens.completion, cached=tokens.cache_hit, reasoning=tokens.reasoning
    )


def build_limits(given: Limits) -> pb.RunLimits:
    return pb.RunLimits(steps=given.steps, seconds=given.seconds, tokens=given.tokens, spend=given.spend)


def convert_message(entry: pb.HistoryMessage) -> Message:
    return Message(
        seq=entry.seq,
        role=entry.role,
        text=entry.content,
        agent=entry.agent,
        thinking=entry.thinking,
        tool_calls=tuple(map(convert_tool_call, entry.tool_calls)),
        tool_call_id=entry.tool_call_id,
        is_error=entry.is_error,
        duration_ms=entry.duration_ms,
        outcome=entry.outcome,
        error=entry.error,
        archive=entry.archive,
        taint=entry.taint,
        created_at=entry.created_at,
        offset=entry.offset,
        length=entry.length,
        is_private=entry.private,
        sent=tuple(map(convert_user_message, entry.sent)),
    )


def convert_conversation(info: pb.ConversationInfo) -> Conversation:
    return Conversation(
        agent=info.agent,
        sender=info.sender,
        title=info.title,
        messages=info.message_count,
        archives=info.archives,
        is_running=info.running,
        cwd=info.cwd,
        created_at=info.created_at,
        updated_at=info.updated_at,
        taint=info.taint,
        mode=info.mode,
    )


def convert_agent(info: pb.AgentInfo) -> Agent:
    return Agent(
        name=info.name,
        description=info.description,
        model=info.model,
        status="inactive" if info.missing else info.status,
        source=info.source,
        problem=info.flaw,
        missing=info.missing,
        warnings=tuple(info.warnings),
        path=info.path,
        priority=info.priority,
        prefixes=None if info.all_tools else tuple(info.prefixes),
        denied=tuple(info.denied),
        keywords=tuple(info.keywords),
        capabilities=tuple(info.capabilities),
        cannot_do=tuple(info.cannot_do),
        cannot_yet=tuple(info.cannot_yet),
        accepts=info.accepts,
        returns=info.returns,
        instruction=info.instruction,
        role=info.role,
        always_include=info.always_include,
        session_isolation=info.session_isolation,
    )


def convert_run(info: pb.RunInfo) -> RunInfo:
    return RunInfo(
        id=info.run_id,
        kind=info.kind,
        agent=info.agent,
        sender=info.sender,
        status=info.status,
        condition=info.condition,
        instruction=info.instruction,
        outcome=info.outcome,
        error=info.error,
        result=info.result,
        parent_id=info.parent,
        root_agent=info.root_agent,
        root_sender=info.root_sender,
        ask_id=info.ask_id,
        needs_person=info.needs_person,
        steps=info.steps,
        tokens=info.tokens,
        cost=info.cost,
        seconds=info.seconds,
        created_at=info.created_at,
        ended_at=info.ended_at,
        started_at=info.started_at,
        reason=info.reason,
        attempt=info.attempt,
        grant_request_id=info.grant_request_id,
        grant_attempt=info.grant_attempt,
        grant_state=info.grant_state,
        waiting_on=tuple(info.waiting_on),
        position=info.position,
        last_action=info.last_action,
        idle_seconds=info.idle_seconds,
        spawn_reason=info.spawn_reason,
        chain=tuple(info.chain),
        allowed_tools=tuple(info.allowed_tools),
        granted_tools=tuple(info.granted_tools),
        delivery=info.delivery,
        limits=Limits(**{field.name: value for field, value in info.limits.ListFields()}),
        limit=info.limit,
        unread=info.unread,
        cwd=info.cwd,
        node=info.node,
    )


def convert_event(info: pb.AgentEventMsg) -> EventInfo | Gap:
    if info.kind == pb.GAP:
        return Gap(first=info.gap.first_seq, last=info.gap.last_seq)
    items = list_items(info.body, info.root_agent, info.root_sender, info.run_id)
    return EventInfo(
        seq=info.seq,
        kind=pb.AgentEventKind.Name(info.kind).lower(),
        agent=info.agent,
        sender=info.sender,
        speaker=info.speaker,
        content=info.content,
        timestamp=info.timestamp,
        run_id=info.run_id,
        parent_id=info.parent_id,
        root_id=info.root_id,
        root_agent=info.root_agent,
        root_sender=info.root_sender,
        tool_calls=tuple(map(convert_tool_call, info.tool_calls)),
        tool_output=info.tool_output,
        is_error=info.tool_is_error,
        duration_ms=info.duration_ms,
        user_seq=info.user_seq,
        item=items[0] if len(items) == 1 else None,
    )
