"""Events on the wire: every one has a form, and each form is made once."""

from typing import get_args

import pytest
from google.protobuf import json_format
from msgspec.structs import replace

from moot.domain.ask import Ask, Asker, AskKind, AskState, Binding, Option, Question
from moot.domain.conversation import ConversationKey
from moot.domain.events import (
    AskClosed,
    AskOpened,
    BridgeRefused,
    CommandEnded,
    CommandStarted,
    Compacted,
    CompactionStarted,
    ConfigReloaded,
    EventBody,
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
    Stage,
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
from moot.domain.mail import Mail
from moot.domain.message import ToolCall
from moot.domain.run import Outcome, RunEnd
from moot.domain.usage import Usage
from moot.domain.user_message import Attachment, UserMessage
from moot.wire import moot_pb2 as pb
from moot.wire.events import notice_bytes, notice_json, send_response, stream_bytes, stream_json
from moot.wire.usage import token_usage
from tests.unit.events import SOURCE, event

APPROVAL = Ask(
    id="ask-1",
    kind=AskKind.APPROVAL,
    key=ConversationKey("ada", "user"),
    run_id="r",
    call_id="c",
    speaker="ada",
    tool="exec",
    arguments='{"command":"ls"}',
    subject="ls",
    line="$ ls",
    preview="ls",
    reason="it is dangerous",
    exact="e",
    binding=Binding(what="without a sandbox"),
    expires_at=2.0,
)


KEY = ConversationKey("crab", "user")
STREAM_START = pb.StreamStart(agent="crab", user_seq=3, run_id="run-1")
ASK = Ask(
    id="ask-1",
    kind=AskKind.QUESTION,
    key=KEY,
    run_id="run-1",
    call_id="c",
    speaker="crab",
    tool="ask_user",
    questions=(Question(question="Which?", header="Pick", options=(Option(label="A", description="first"),)),),
    opened_at=1.0,
    expires_at=2.0,
)
END = RunEnd(
    outcome=Outcome.LIMIT, error="too many steps", limit="steps", content="hi", provider="p", model="m",
    usage=Usage(prompt=5, completion=3, cache_hit=2), cost=0.5, steps=4,
)  # fmt: skip

MAIL = Mail(
    id="m",
    goal_id="g",
    from_agent="bob",
    from_goal="f",
    to_agent="ada",
    body="one\ntwo",
    sent_at=1.5,
    correlation_id="c",
)
MAIL_INFO = pb.MailInfo(
    mail_id="m",
    goal_id="g",
    from_agent="bob",
    from_goal="f",
    to_agent="ada",
    body="one\ntwo",
    sent_at=1.5,
    correlation_id="c",
)
DROPPED_INFO = pb.MailInfo()
DROPPED_INFO.CopyFrom(MAIL_INFO)
DROPPED_INFO.reason = "why"
FORMS: list[tuple[EventBody, str, pb.StreamEvent, "pb.AgentEventKind"]] = [
    (
        RunSpawned("scout", "look", "it knows", "c1"),
        "spawned",
        pb.StreamEvent(spawned=pb.SpawnedEvent(agent="scout", task="look", reason="it knows", call_id="c1")),
        pb.SPAWNED,
    ),
    (
        MessageSteered("faster", 7, "run-2", "run-1"),
        "steered",
        pb.StreamEvent(steered=pb.SteeredEvent(content="faster", user_seq=7, run_id="run-2", into="run-1")),
        pb.STEERED,
    ),
    (
        CompactionStarted(),
        "compacting",
        pb.StreamEvent(compacting=pb.CompactingEvent()),
        pb.COMPACTING,
    ),
    (
        RunBlocked("waiting_on_teammate", "it waits", waiting_on=("arun-1",)),
        "blocked",
        pb.StreamEvent(
            blocked=pb.BlockedEvent(condition="waiting_on_teammate", reason="it waits", waiting_on=["arun-1"])
        ),
        pb.BLOCKED,
    ),
    (
        RunUnblocked("waiting_on_teammate"),
        "unblocked",
        pb.StreamEvent(unblocked=pb.UnblockedEvent(condition="waiting_on_teammate")),
        pb.UNBLOCKED,
    ),
    (
        CommandStarted("bg-1", "sleep 1"),
        "command_started",
        pb.StreamEvent(command_started=pb.CommandStartedEvent(job_id="bg-1", command="sleep 1")),
        pb.COMMAND_STARTED,
    ),
    (
        CommandEnded("bg-1", -9, "stopped"),
        "command_ended",
        pb.StreamEvent(command_ended=pb.CommandEndedEvent(job_id="bg-1", exit_code=-9, reason="stopped")),
        pb.COMMAND_ENDED,
    ),
    (RunQueued(2), "queued", pb.StreamEvent(queued=pb.QueuedEvent(position=2, run_id="run-1")), pb.QUEUED),
    (RunWithdrawn("no"), "withdrawn", pb.StreamEvent(withdrawn=pb.WithdrawnEvent(content="no")), pb.WITHDRAWN),
    (RunStarted("crab", 3), "start", pb.StreamEvent(start=STREAM_START), pb.STARTED),
    (TextStarted("a"), "text_start", pb.StreamEvent(text_start=pb.TextStartEvent(agent="a")), pb.TEXT_START),
    (TextChunk("hé"), "chunk", pb.StreamEvent(chunk=pb.StreamChunk(content="hé")), pb.TEXT_DELTA),
    (TextEnded("a"), "text_end", pb.StreamEvent(text_end=pb.TextEndEvent(agent="a")), pb.TEXT_END),
    (
        ThinkingStarted("a"),
        "thinking_start",
        pb.StreamEvent(thinking_start=pb.ThinkingStartEvent(agent="a")),
        pb.THINKING_START,
    ),
    (ThinkingChunk("t"), "thinking", pb.StreamEvent(thinking=pb.StreamThinking(content="t")), pb.THINKING_DELTA),
    (
        ThinkingEnded("a"),
        "thinking_end",
        pb.StreamEvent(thinking_end=pb.ThinkingEndEvent(agent="a")),
        pb.THINKING_END,
    ),
    (
        ToolsStarted((ToolCall(id="c1", name="read", arguments="{}"),)),
        "tool_start",
        pb.StreamEvent(
            tool_start=pb.ToolStartEvent(calls=[pb.ToolCallInfo(name="read", arguments="{}", call_id="c1")])
        ),
        pb.TOOL_START,
    ),
    (
        ToolFinished("c1", "read", "out", 12, is_error=True),
        "tool_result",
        pb.StreamEvent(
            tool_result=pb.ToolResultEvent(call_id="c1", name="read", output="out", duration_ms=12, is_error=True)
        ),
        pb.TOOL_RESULT,
    ),
    (
        ToolsCompleted(),
        "tools_complete",
        pb.StreamEvent(tools_complete=pb.ToolsCompleteEvent()),
        pb.TOOLS_COMPLETE,
    ),
    (
        AskOpened(ASK),
        "ask_user",
        pb.StreamEvent(
            ask_user=pb.AskUserEvent(
                ask_id="ask-1",
                attempt=1,
                expires_at=2.0,
                questions=[
                    pb.AskQuestion(
                        question="Which?", header="Pick", options=[pb.AskOption(label="A", description="first")]
                    )
                ],
            )
        ),
        pb.ASK,
    ),
    (
        AskClosed(replace(ASK, state=AskState.ANSWERED)),
        "ask_closed",
        pb.StreamEvent(ask_closed=pb.AskClosedEvent(ask_id="ask-1", answered=True, attempt=1)),
        pb.ASK_CLOSED,
    ),
    (
        AskClosed(replace(APPROVAL, state=AskState.DENIED)),
        "approval_closed",
        pb.StreamEvent(
            approval_closed=pb.ApprovalClosedEvent(ask_id="ask-1", state="denied", kind="approval", attempt=1)
        ),
        pb.APPROVAL_CLOSED,
    ),
    (
        AskOpened(APPROVAL),
        "approval_opened",
        pb.StreamEvent(
            approval_opened=pb.ApprovalEvent(
                ask_id="ask-1",
                kind="approval",
                attempt=1,
                tool="exec",
                line="$ ls",
                preview="ls",
                reason="it is dangerous",
                rule="allow exec: ls for ada as user",
                expires_at=2.0,
                whole_rule="allow any exec, without a sandbox for ada as user",
            )
        ),
        pb.APPROVAL,
    ),
    (
        ToolExecuted("call-1", "exec", ok=False, seconds=0.5),
        "tool_executed",
        pb.StreamEvent(tool_executed=pb.ToolExecutedEvent(call_id="call-1", name="exec", ok=False, seconds=0.5)),
        pb.TOOL_EXECUTED,
    ),
    (
        ModelRetrying(2, 1.5, "429"),
        "retrying",
        pb.StreamEvent(retrying=pb.RetryingEvent(attempt=2, delay_ms=1500, reason="429")),
        pb.RETRYING,
    ),
    (
        ModelPreparing(Stage.READING, 40, 1.5),
        "preparing",
        pb.StreamEvent(preparing=pb.PreparingEvent(stage="reading", percent=40, previous_ms=1500)),
        pb.PREPARING,
    ),
    (TextDiscarded(), "discarded", pb.StreamEvent(discarded=pb.DiscardedEvent()), pb.DISCARDED),
    (
        Compacted(1, "Pricing."),
        "compacted",
        pb.StreamEvent(compacted=pb.CompactedEvent(number=1, title="Pricing.")),
        pb.COMPACTED,
    ),
    (MailSent(MAIL), "mail_sent", pb.StreamEvent(mail_sent=MAIL_INFO), pb.MAIL_SENT),
    (MailDelivered(MAIL), "mail_delivered", pb.StreamEvent(mail_delivered=MAIL_INFO), pb.MAIL_DELIVERED),
    (MailRead(MAIL), "mail_read", pb.StreamEvent(mail_read=MAIL_INFO), pb.MAIL_READ),
    (
        UserMessageSent(UserMessage(content="Done.", attachments=(Attachment(path="a", size=2),), call_id="c")),
        "user_message",
        pb.StreamEvent(
            user_message=pb.UserMessageInfo(
                content="Done.", status="normal", attachments=[pb.AttachmentInfo(path="a", size=2)], call_id="c"
            )
        ),
        pb.USER_MESSAGE,
    ),
    (
        PrivateText("hm"),
        "private_text",
        pb.StreamEvent(private_text=pb.StreamChunk(content="hm")),
        pb.PRIVATE_TEXT,
    ),
    (MailEvicted(MAIL), "mail_evicted", pb.StreamEvent(mail_evicted=MAIL_INFO), pb.MAIL_EVICTED),
    (MailDropped(MAIL, "why"), "mail_dropped", pb.StreamEvent(mail_dropped=DROPPED_INFO), pb.MAIL_DROPPED),
    (BridgeRefused(MAIL, "why"), "bridge_refused", pb.StreamEvent(bridge_refused=DROPPED_INFO), pb.BRIDGE_REFUSED),
    (
        ModeChanged("plan", "owner"),
        "mode_changed",
        pb.StreamEvent(mode_changed=pb.ModeEvent(mode="plan", by="owner")),
        pb.MODE_CHANGED,
    ),
    (ConfigReloaded(), "reloaded", pb.StreamEvent(reloaded=pb.ReloadedEvent()), pb.RELOADED),
    (
        RunEnded("crab", END),
        "end",
        pb.StreamEvent(
            end=pb.StreamEnd(
                agent="crab", error="too many steps", provider="p", model="m", outcome="limit", limit="steps",
                usage=pb.TokenUsage(prompt=5, completion=3, total=8, cache_hit=2), cost=0.5, steps=4,
            )
        ),
        pb.DONE,
    ),
]  # fmt: skip


def test_every_event_is_in_the_table() -> None:
    assert {type(form[0]) for form in FORMS} == set(get_args(EventBody))


@pytest.mark.parametrize(("body", "name", "message", "kind"), FORMS)
def test_an_event_has_its_form_on_a_stream_and_for_subscribers(
    body: EventBody, name: str, message: pb.StreamEvent, kind: "pb.AgentEventKind"
) -> None:
    published = event(body, seq=7)
    streamed = pb.ServerMessage.FromString(stream_bytes(published)).stream
    assert streamed == message
    assert streamed.WhichOneof("event") == name
    assert json_format.Parse(stream_json(published), pb.ServerMessage()).stream == message

    notice = pb.ServerMessage.FromString(notice_bytes(published)).agent_event
    assert (notice.agent, notice.sender, notice.speaker, notice.kind) == ("crab", "user", "scout", kind)
    assert (notice.seq, notice.run_id, notice.root_id) == (7, "run-1", "run-1")
    assert notice.timestamp == "1970-01-01T00:00:00.250Z"
    if notice.HasField("body"):
        assert notice.body == message
    assert json_format.Parse(notice_json(published), pb.ServerMessage()).agent_event == notice


def test_an_event_is_encoded_once_per_format_for_all_readers() -> None:
    published = event(TextChunk("hello"))

    assert stream_bytes(published) is stream_bytes(published)
    assert stream_json(published) is stream_json(published)
    assert notice_bytes(published) is notice_bytes(published)
    assert notice_json(published) is notice_json(published)


def test_a_gap_names_the_first_and_the_last_event_that_is_missing() -> None:
    notice = pb.ServerMessage.FromString(notice_bytes(Gap(3, 8))).agent_event

    assert (notice.kind, notice.seq, notice.gap.first_seq, notice.gap.last_seq) == (pb.GAP, 8, 3, 8)
    assert json_format.Parse(notice_json(Gap(3, 8)), pb.ServerMessage()).agent_event == notice


def test_text_that_utf8_cannot_carry_is_replaced_and_never_stops_a_stream() -> None:
    published = event(TextChunk("a\ud800b"))

    assert pb.ServerMessage.FromString(stream_bytes(published)).stream.chunk.content == "a\ufffdb"


def test_a_count_beyond_the_field_is_the_fields_greatest() -> None:
    usage = token_usage(Usage(prompt=2**40, completion=1))

    assert usage is not None
    assert usage.prompt == 2**32 - 1


def test_no_reported_usage_is_no_usage() -> None:
    assert token_usage(Usage()) is None
    assert not send_response("crab", RunEnd(outcome=Outcome.EMPTY)).HasField("usage")


def test_a_whole_answer_says_who_spoke_and_how_it_ended() -> None:
    answer = send_response("crab", END)

    assert (answer.agent, answer.content, answer.outcome, answer.limit) == ("crab", "hi", "limit", "steps")
    assert answer.usage.total == 8


def test_what_a_teammate_asks_says_who_asks_in_the_stream_and_to_subscribers() -> None:
    by = Asker(agent="operator", run_id="arun-1", spawn_reason="it has\ud800 hands", task="work")
    said = pb.Asker(agent="operator", run_id="arun-1", spawn_reason="it has\ufffd hands", task="work")
    for body in (AskOpened(ASK), AskOpened(APPROVAL)):
        streamed = pb.ServerMessage.FromString(stream_bytes(event(body, source=replace(SOURCE, asker=by)))).stream
        shown = streamed.ask_user if streamed.HasField("ask_user") else streamed.approval_opened
        assert shown.by == said
