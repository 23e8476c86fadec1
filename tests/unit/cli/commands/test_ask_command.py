"""moot ask against a server that answers as each test tells it to."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from moot.cli.follow.answer import RunResult
from moot.cli.follow.follow_run import RunFollower
from moot.cli.main import run
from moot.domain.ids import shorten_ask_id
from moot.wire import moot_pb2 as pb
from tests.frame_server import Caller, FrameServer, event, frame_server, said

Serving = Callable[..., Any]


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Serving:
    """A daemon of frames at the home's socket that answers every stream with the given events."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))

    @contextmanager
    def serve(*events: pb.StreamEvent, error: pb.ErrorMsg | None = None, then: bool = True) -> Iterator[FrameServer]:
        # The turn as the daemon tells it: it asks, and waits for nothing but a person.
        stuck = pb.RunInfo(run_id="run-1", kind="turn", ask_id="ask-1", needs_person=True)

        async def answer(message: pb.ClientMessage, caller: Caller) -> None:
            if message.HasField("stream"):
                stuck.root_agent, stuck.root_sender = message.stream.agent, message.stream.sender or "user"
                caller.events(message.request_id, *events)
                if error is not None:
                    caller.send(message.request_id, error=error)
                if not then:
                    caller.hang_up()
            elif message.HasField("hello"):
                caller.send(message.request_id, welcome=pb.Welcome(default_sender="user"))
            elif message.HasField("list_runs") or message.HasField("wait_runs"):
                caller.send(message.request_id, run_list=pb.RunList(runs=[stuck]))
            else:
                caller.send(message.request_id, pong=pb.Pong())

        with frame_server(tmp_path / "run" / "moot.sock", answer) as server:
            yield server

    return serve


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    return json.loads(out)


def test_the_answer_goes_to_stdout_whole_and_nothing_else_does(
    serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(*said("Hello\nthere")):
        code = run(["ask", "ada", "hi"])

    assert code == 0
    assert capsys.readouterr().out == "Hello\nthere\n"


def test_json_gives_agent_content_outcome_usage_cost_and_model(
    serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = pb.TokenUsage(prompt=3, completion=2, total=5, cache_hit=1)
    with serving(*said("Hi", agent="bob", usage=usage, cost=0.25)):
        code = run(["ask", "ada", "hi", "--guest", "bob", "--json"])

    assert code == 0
    assert document(capsys) == {
        "ok": True,
        "data": {
            "agent": "bob",
            "content": "Hi",
            "outcome": "completed",
            "usage": {"prompt": 3, "completion": 2, "total": 5, "cache_hit": 1},
            "cost": 0.25,
            "model": "m",
            "provider": "p",
        },
    }


def test_the_reply_is_the_last_steps_text_without_what_was_taken_back(
    serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [
        event(start=pb.StreamStart(agent="ada")),
        event(chunk=pb.StreamChunk(content="Let me look.")),
        event(tool_start=pb.ToolStartEvent(calls=[pb.ToolCallInfo(name="look", arguments="{}", call_id="1")])),
        event(tool_result=pb.ToolResultEvent(call_id="1", output="it", name="look")),
        event(tools_complete=pb.ToolsCompleteEvent()),
        event(chunk=pb.StreamChunk(content="half a")),
        event(discarded=pb.DiscardedEvent()),
        event(chunk=pb.StreamChunk(content="Found it.")),
        event(end=pb.StreamEnd(agent="ada", outcome="completed")),
    ]
    with serving(*events):
        run(["ask", "ada", "find it"])

    seen = capsys.readouterr()
    assert seen.out == "Found it.\n"
    assert "look" in seen.err


@pytest.mark.parametrize(
    ("outcome", "limit", "code"),
    [
        ("limit", "steps", 5),
        ("denied", "", 4),
        ("model_error", "", 1),
        ("cancelled", "", 1),
        ("timeout", "", 1),
        ("timeout", "seconds", 5),
    ],
)
def test_a_run_that_ended_badly_says_how_and_exits_by_it(
    serving: Serving, capsys: pytest.CaptureFixture[str], outcome: str, limit: str, code: int
) -> None:
    with serving(*said("part", outcome=outcome, limit=limit, error="why")):
        got = run(["ask", "ada", "hi", "--json"])

    answer = document(capsys)
    assert got == code
    assert answer["ok"] is False
    assert answer["error"]["type"] == outcome
    assert answer["data"]["outcome"] == outcome
    assert answer["data"]["error"] == "why"
    assert answer["data"].get("limit", "") == limit


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [(404, "not_found", 6), (429, "busy", 75), (403, "forbidden", 4), (400, "bad_request", 2)],
)
def test_an_error_of_the_daemon_is_one_document_and_its_exit_code(
    serving: Serving, capsys: pytest.CaptureFixture[str], status: int, kind: str, code: int
) -> None:
    with serving(error=pb.ErrorMsg(code=status, type=kind, message="no", fix="do this")):
        got = run(["ask", "ada", "hi", "--json"])

    assert got == code
    assert document(capsys) == {"ok": False, "error": {"type": kind, "message": "no", "fix": "do this"}}


def test_a_daemon_that_goes_away_in_the_middle_is_exit_69(serving: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(said("x")[0], then=False):
        code = run(["ask", "ada", "hi", "--json"])

    assert code == 69
    assert document(capsys)["error"]["type"] == "unreachable"


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once a Ctrl-C has been handled."""
    handled, handle = threading.Event(), RunFollower._interrupt

    def handle_and_tell(*arguments: Any) -> None:
        handle(*arguments)
        handled.set()

    monkeypatch.setattr(RunFollower, "_interrupt", handle_and_tell)
    return handled


@pytest.mark.parametrize("is_queued", [False, True], ids=["it started", "it is queued"])
def test_ctrl_c_before_the_first_event_stops_the_run_but_never_the_one_ahead(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    interrupted: threading.Event,
    is_queued: bool,
) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    started, *_, ended = said("x", outcome="cancelled")
    stream = 0

    async def answer(message: pb.ClientMessage, caller: Caller) -> None:
        nonlocal stream
        if message.HasField("stream"):
            stream = message.request_id
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.to_thread(interrupted.wait, 30)
            caller.events(stream, event(queued=pb.QueuedEvent(position=1)) if is_queued else started)
        elif message.HasField("hello"):
            caller.send(message.request_id, welcome=pb.Welcome(default_sender="user"))
        else:
            caller.send(message.request_id, pong=pb.Pong())
            if message.HasField("kill"):
                caller.events(stream, ended)

    with frame_server(tmp_path / "run" / "moot.sock", answer) as server:
        code = run(["ask", "ada", "hi", "--json"])

    assert code == 130
    assert len(server.of("kill")) == (0 if is_queued else 1)
    assert document(capsys).get("data", {}).get("outcome") == (None if is_queued else "cancelled")


def test_a_question_without_a_terminal_leaves_the_run_waiting_and_exits_3(
    serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = pb.AskUserEvent(
        questions=[pb.AskQuestion(question="Which?", options=[pb.AskOption(label="A")])], ask_id="ask-1"
    )
    with serving(said("x")[0], event(ask_user=asked)) as server:
        code = run(["ask", "ada", "hi", "--as", "me", "--json"])

    answer = document(capsys)
    assert code == 3
    assert answer["error"]["type"] == "waiting"
    assert "moot reply ada --as me" in answer["error"]["fix"]
    assert answer["data"]["questions"][0]["question"] == "Which?"
    assert server.of("kill") == []


def test_everything_that_was_asked_for_is_sent(
    serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    options = "--as me --guest bob --message-id m1 --max-steps 3 --max-seconds 2.5 --max-tokens 100 --max-spend 0.5"
    with serving(*said("x")) as server:
        run(["ask", "ada", "hi", *options.split()])

    sent = server.wait_for("stream").stream
    assert (sent.agent, sent.content, sent.sender, sent.guest, sent.client_message_id) == (
        "ada",
        "hi",
        "me",
        "bob",
        "m1",
    )
    assert sent.cwd == str(tmp_path)
    limits = sent.limits
    assert (limits.steps, limits.seconds, limits.tokens, limits.spend) == (3, 2.5, 100, 0.5)


def test_a_given_folder_is_sent_absolute_and_one_that_is_none_is_refused(
    serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path)
    with serving(*said("x")) as server:
        run(["ask", "ada", "hi", "--cwd", "work"])
        refused = run(["ask", "ada", "hi", "--cwd", "absent"])

    assert server.of("stream")[0].stream.cwd == str(tmp_path / "work")
    assert len(server.of("stream")) == 1
    assert refused == 2


def test_text_that_is_not_utf_8_is_refused_before_anything_is_sent(
    serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(*said("x")) as server:
        code = run(["ask", "ada", "caf\udce9", "--json"])

    assert code == 2
    assert document(capsys)["error"]["type"] == "bad_request"
    assert server.of("stream") == []


def test_nothing_in_a_json_document_can_reach_a_terminal_raw(
    serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    nasty = "\x1b[2J\x9b\u202e\x07é"
    with serving(*said(nasty)):
        run(["ask", "ada", "hi", "--json"])

    out = capsys.readouterr().out
    assert not set(out) & set("\x1b\x9b\u202e\x07")
    assert json.loads(out)["data"]["content"] == nasty


def test_an_approval_without_a_terminal_leaves_the_run_waiting_and_exits_3(
    serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    waits = pb.ApprovalEvent(
        ask_id="ask-1", attempt=1, tool="exec", line="exec ls", preview="ls", reason="it is dangerous", rule="allow"
    )
    with serving(said("x")[0], event(approval_opened=waits)) as server:
        code = run(["ask", "ada", "hi", "--json"])
        answer = document(capsys)
        plain = run(["ask", "ada", "hi"])

    assert (code, plain) == (3, 3)
    assert answer["error"]["type"] == "waiting"
    assert f"moot inbox approve {shorten_ask_id('ask-1')}" in answer["error"]["fix"]
    assert answer["data"]["outcome"] == "waiting"
    assert answer["data"]["approvals"][0]["line"] == "exec ls"
    assert "exec waits for your approval: it is dangerous" in capsys.readouterr().err
    assert server.of("kill") + server.of("decide_ask") == []


def test_the_fix_for_a_withdrawn_message_does_not_say_that_it_is_kept() -> None:
    result = RunResult()
    result.take(pb.StreamEvent(withdrawn=pb.WithdrawnEvent(content="third")))
    result.take(pb.StreamEvent(end=pb.StreamEnd(outcome="cancelled")))
    assert "not in the history" in result.suggest_fix()
