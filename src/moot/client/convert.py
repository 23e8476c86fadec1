"""Makes the values of the Python client from messages of the protocol. Pure. Used by `async_client`."""

from moot.client.values import (
    Agent,
    Approval,
    AskClosed,
    Compacted,
    Conversation,
    Discarded,
    Ended,
    EventInfo,
    Gap,
    Limits,
    Message,
    Option,
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

    def read(self, event: pb.StreamEvent) -> list[StreamItem]:
        kind = event.WhichOneof("event")
        if kind == "chunk":
            self._text.append(event.chunk.content)
            return [Text(event.chunk.content)]
        if kind in ("tool_start", "discarded", "steered"):
            # What was said before a call, or before a message that steers, is not the answer.
            self._text.clear()
        if kind == "steered" and event.steered.run_id == self.run_id:
            self._steered_into = event.steered.into
        if kind == "end":
            return [Ended(self._reply(event.end))]
        if kind in ("queued", "start"):
            return [self._note_run(event)]
        return stream_items(event, self._agent, self._sender, self.run_id)

    def restart(self) -> Discarded:
        """Forget the text, because the connection was lost and the run is followed from its beginning."""
        self._text.clear()
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
            text="".join(self._text),
            agent=end.agent,
            outcome=end.outcome,
            run_id=self.run_id,
            error=end.error,
            limit=end.limit,
            provider=end.provider,
            model=end.model,
            usage=usage(end.usage),
            cost=end.cost,
            steps=end.steps,
            steered_into=self._steered_into,
        )


def stream_items(event: pb.StreamEvent, agent: str, sender: str, run_id: str) -> list[StreamItem]:
    """The items of an event that is neither text nor the beginning or the end of a run."""
    match event.WhichOneof("event"):
        case "thinking":
            return [Thinking(event.thinking.content)]
        case "tool_start":
            return [tool_call(call) for call in event.tool_start.calls]
        case "tool_result":
            return [_tool_result(event.tool_result)]
        case "discarded":
            return [Discarded()]
        case "retrying":
            told = event.retrying
            return [Retrying(attempt=told.attempt, seconds=told.delay_ms / 1000, reason=told.reason)]
        case "preparing":
            ready = event.preparing
            return [Preparing(stage=ready.stage, percent=ready.percent, previous_seconds=ready.previous_ms / 1000)]
        case "compacted":
            return [Compacted(number=event.compacted.number, title=event.compacted.title)]
        case _:
            return _ask_items(event, agent, sender, run_id)


def _ask_items(event: pb.StreamEvent, agent: str, sender: str, run_id: str) -> list[StreamItem]:
    match event.WhichOneof("event"):
        case "ask_user":
            return [_question(event.ask_user, agent, sender, run_id)]
        case "approval_opened":
            return [_approval(event.approval_opened, agent, sender, run_id)]
        case "ask_closed":
            state = "answered" if event.ask_closed.answered else "unanswered"
            return [AskClosed(id=event.ask_closed.ask_id, state=state)]
        case "approval_closed":
            return [AskClosed(id=event.approval_closed.ask_id, state=event.approval_closed.state)]
        case _:
            return []


def _question(asked: pb.AskUserEvent, agent: str, sender: str, run_id: str) -> Question:
    return Question(
        id=asked.ask_id,
        attempt=asked.attempt,
        agent=agent,
        sender=sender,
        questions=tuple(map(_question_item, asked.questions)),
        run_id=asked.by.run_id or run_id,
        asked_by=asked.by.agent,
        expires_at=asked.expires_at,
    )


def _question_item(asked: pb.AskQuestion) -> QuestionItem:
    return QuestionItem(
        text=asked.question,
        header=asked.header,
        options=tuple(Option(label=each.label, description=each.description) for each in asked.options),
        multi_select=asked.multi_select,
    )


def _approval(asked: pb.ApprovalEvent, agent: str, sender: str, run_id: str) -> Approval:
    return Approval(
        id=asked.ask_id,
        attempt=asked.attempt,
        tool=asked.tool,
        line=asked.line,
        preview=asked.preview,
        reason=asked.reason,
        rule=asked.rule,
        kind=asked.kind or "approval",
        agent=agent,
        sender=sender,
        run_id=asked.by.run_id or run_id,
        asked_by=asked.by.agent,
        expires_at=asked.expires_at,
    )


def ask(info: pb.AskInfo) -> Question | Approval:
    if info.kind == "question":
        return Question(
            id=info.ask_id,
            attempt=info.attempt,
            agent=info.agent,
            sender=info.sender,
            questions=tuple(map(_question_item, info.questions)),
            run_id=info.run_id,
            asked_by=info.by.agent,
            expires_at=info.expires_at,
        )
    return Approval(
        id=info.ask_id,
        attempt=info.attempt,
        tool=info.tool,
        line=info.line,
        preview=info.preview,
        reason=info.reason,
        rule=info.rule,
        kind=info.kind,
        agent=info.agent,
        sender=info.sender,
        run_id=info.run_id,
        asked_by=info.by.agent,
        expires_at=info.expires_at,
    )


def tool_call(call: pb.ToolCallInfo) -> ToolCall:
    return ToolCall(id=call.call_id, name=call.name, arguments=call.arguments, line=call.line)


def _tool_result(result: pb.ToolResultEvent) -> ToolResult:
    return ToolResult(
        id=result.call_id,
        name=result.name,
        output=result.output,
        is_error=result.is_error,
        seconds=result.duration_ms / 1000,
    )


def usage(tokens: pb.TokenUsage) -> Usage:
    return Usage(
        prompt=tokens.prompt, completion=tokens.completion, cached=tokens.cache_hit, reasoning=tokens.reasoning
    )


def limits(given: Limits) -> pb.RunLimits:
    return pb.RunLimits(steps=given.steps, seconds=given.seconds, tokens=given.tokens, spend=given.spend)


def message(entry: pb.HistoryMessage) -> Message:
    return Message(
        seq=entry.seq,
        role=entry.role,
        text=entry.content,
        agent=entry.agent,
        thinking=entry.thinking,
        tool_calls=tuple(map(tool_call, entry.tool_calls)),
        tool_call_id=entry.tool_call_id,
        is_error=entry.is_error,
        outcome=entry.outcome,
        error=entry.error,
        archive=entry.archive,
        taint=entry.taint,
        created_at=entry.created_at,
    )


def conversation(info: pb.ConversationInfo) -> Conversation:
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
    )


def agent(info: pb.AgentInfo) -> Agent:
    return Agent(
        name=info.name,
        description=info.description,
        model=info.model,
        status=info.status,
        source=info.source,
        problem=info.flaw,
    )


def run(info: pb.RunInfo) -> RunInfo:
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
    )


def event(told: pb.AgentEventMsg) -> EventInfo | Gap:
    if told.kind == pb.GAP:
        return Gap(first=told.gap.first_seq, last=told.gap.last_seq)
    items = stream_items(told.body, told.root_agent, told.root_sender, told.run_id)
    return EventInfo(
        seq=told.seq,
        kind=pb.AgentEventKind.Name(told.kind).lower(),
        agent=told.agent,
        sender=told.sender,
        speaker=told.speaker,
        content=told.content,
        timestamp=told.timestamp,
        run_id=told.run_id,
        parent_id=told.parent_id,
        root_id=told.root_id,
        root_agent=told.root_agent,
        root_sender=told.root_sender,
        tool_calls=tuple(map(tool_call, told.tool_calls)),
        tool_output=told.tool_output,
        is_error=told.tool_is_error,
        item=items[0] if len(items) == 1 else None,
    )
