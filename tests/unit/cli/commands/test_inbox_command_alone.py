"""moot inbox, rules and agent hooks against a server that answers as each test tells it to."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from moot.cli.follow import ask_numbers
from moot.cli.main import run
from moot.domain.ids import shorten_ask_id
from moot.wire import moot_pb2 as pb
from tests.frame_server import Caller, FrameServer, frame_server

Serving = Callable[..., Any]

APPROVAL = pb.AskInfo(
    kind="approval",
    agent="ada",
    sender="user",
    ask_id="ask-r1-c1",
    attempt=2,
    tool="fs_write",
    line="write notes.txt (12 bytes)",
    preview="--- a\n+++ b\n-old\n+new\x1b[2J",
    reason="it is dangerous",
    rule="allow fs_write: exactly these for ada as user",
    whole_rule="allow any fs_write for ada as user",
    arguments='{"content":"new\\nlines\\u200b\\n","path":"notes.txt"}',
    speaker="ada",
    run_id="run-1",
    opened_at=2.0,
    expires_at=1e9,
)
QUESTION = pb.AskInfo(
    kind="question",
    agent="bob",
    sender="user",
    ask_id="q7",
    attempt=1,
    questions=[pb.AskQuestion(question="Which?", options=[pb.AskOption(label="Red"), pb.AskOption(label="Blue")])],
    opened_at=1.0,
    expires_at=1e9,
)


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Serving:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))

    @contextmanager
    def serve(*asks: pb.AskInfo, error: pb.ErrorMsg | None = None, **answers: Any) -> Iterator[FrameServer]:
        async def answer(message: pb.ClientMessage, caller: Caller) -> None:
            kind = message.WhichOneof("message")
            if kind == "list_asks":
                caller.send(message.request_id, ask_list=pb.AskList(asks=asks))
            elif error is not None:
                caller.send(message.request_id, error=error)
            else:
                caller.send(message.request_id, **(answers or {"pong": pb.Pong()}))

        with frame_server(tmp_path / "run" / "moot.sock", answer) as server:
            yield server

    return serve


def decided(state: str = "granted", rule: str = "") -> pb.AskDecided:
    return pb.AskDecided(ask_id="ask-r1-c1", state=state, rule=rule)


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    return json.loads(out)


def test_the_inbox_lists_questions_and_approvals_oldest_first(
    serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(APPROVAL, QUESTION):
        assert run(["inbox"]) == 0

    _, first, second, why = capsys.readouterr().out.splitlines()
    assert first.split()[:5] == [shorten_ask_id("q7"), "question", "bob", "bob", "user"]
    assert first.endswith("Which?")
    assert second.split()[:5] == [shorten_ask_id("ask-r1-c1"), "approval", "ada", "ada", "user"]
    assert second.endswith("write notes.txt (12 bytes)")
    assert why == f"{shorten_ask_id('ask-r1-c1')}: it is dangerous"


def spawned(info: pb.AskInfo, **more: str) -> pb.AskInfo:
    """The same, asked by a teammate of a run in the background."""
    copy = pb.AskInfo()
    copy.CopyFrom(info)
    copy.agent, copy.sender, copy.speaker = "moot", "bg:arun-00aa11bb22cc33dd:user", "operator"
    copy.by.CopyFrom(pb.Asker(agent="operator", run_id="arun-deedda0912345678", task="write the notes", **more))
    return copy


@pytest.mark.parametrize("asked", [APPROVAL, QUESTION])
def test_what_a_teammate_asks_says_who_asks_and_what_for(
    serving: Serving, capsys: pytest.CaptureFixture[str], asked: pb.AskInfo
) -> None:
    with serving(spawned(asked, spawn_reason="it has\nhands\x1b[2J")):
        run(["inbox"])
        listed = capsys.readouterr().out
        run(["inbox", "show", asked.ask_id])
        shown = capsys.readouterr().out
        run(["inbox", "--json"])
        (told,) = document(capsys)["data"]

    who = "asked by operator (arun-deedda09): it has ⏎ hands⟨U+001B⟩[2J"
    assert f"{shorten_ask_id(asked.ask_id)}: {who}" in listed
    assert "operator (arun-deedda09)  moot" in listed
    assert who in shown
    assert "moot as user in the background, until" in shown
    assert told["by"] == {
        "agent": "operator",
        "run_id": "arun-deedda0912345678",
        "spawn_reason": "it has\nhands\x1b[2J",
        "task": "write the notes",
    }


def test_where_nobody_said_why_a_teammate_works_its_task_says_what_for(
    serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(spawned(APPROVAL)):
        run(["inbox", "show", "ask-r1"])

    assert "asked by operator (arun-deedda09): “write the notes”" in capsys.readouterr().out


@pytest.mark.parametrize(("kind", "said"), [("approval", "Allowed once;"), ("grant", "Allowed in this run;")])
def test_a_grant_is_not_called_once_since_it_holds_for_the_run(
    serving: Serving, capsys: pytest.CaptureFixture[str], kind: str, said: str
) -> None:
    grant = pb.AskInfo()
    grant.CopyFrom(APPROVAL)
    grant.kind = kind
    with serving(grant, ask_decided=decided()):
        run(["inbox", "approve", grant.ask_id, "--attempt", "2"])

    assert capsys.readouterr().out.startswith(said)


def test_an_empty_inbox_says_so(serving: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    with serving():
        run(["inbox", "list"])

    assert capsys.readouterr().out == "Nothing is waiting for you.\n"


def test_json_has_everything_that_is_asked(serving: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(APPROVAL, QUESTION):
        run(["inbox", "--json"])

    question, approval = document(capsys)["data"]
    assert question["questions"][0]["options"][1] == {"label": "Blue", "description": ""}
    assert approval == {
        "kind": "approval",
        "agent": "ada",
        "sender": "user",
        "speaker": "ada",
        "run_id": "run-1",
        "opened_at": 2.0,
        "ask_id": "ask-r1-c1",
        "short_id": shorten_ask_id("ask-r1-c1"),
        "attempt": 2,
        "tool": "fs_write",
        "line": "write notes.txt (12 bytes)",
        "preview": "--- a\n+++ b\n-old\n+new\x1b[2J",
        "reason": "it is dangerous",
        "rule": "allow fs_write: exactly these for ada as user",
        "whole_rule": "allow any fs_write for ada as user",
        "patterns": [],
        "arguments": {"content": "new\nlines\u200b\n", "path": "notes.txt"},
        "expires_at": 1e9,
    }


def test_show_prints_the_whole_preview_and_the_rule_and_nothing_raw(
    serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    long = pb.AskInfo()
    long.CopyFrom(APPROVAL)
    long.preview += "\n" + "\n".join(f"+line {number}" for number in range(500))
    with serving(long):
        run(["inbox", "show", "ask-r1"])

    out = capsys.readouterr().out
    assert "+new⟨U+001B⟩[2J" in out
    assert "+line 499" in out
    assert "    content:\n      │ new\n      │ lines⟨U+200B⟩\n" in out
    assert '    path: "notes.txt"\n' in out
    assert "--always would write: allow fs_write: exactly these for ada as user" in out
    assert "--always --any would write: allow any fs_write for ada as user" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(("flags", "decision"), [([], "once"), (["--once"], "once"), (["--run"], "run")])
def test_approving_names_the_id_and_the_attempt_that_was_shown(
    serving: Serving, capsys: pytest.CaptureFixture[str], flags: list[str], decision: str
) -> None:
    with serving(APPROVAL, ask_decided=decided()) as server:
        code = run(["inbox", "approve", "ask-r1-c1", "--attempt", "2", *flags])

    sent = server.wait_for("decide_ask").decide_ask
    assert code == 0
    assert (sent.ask_id, sent.attempt, sent.decision) == ("ask-r1-c1", 2, decision)
    seen = capsys.readouterr()
    assert "Allowed" in seen.out
    assert "+new⟨U+001B⟩[2J" in seen.err


def test_always_without_a_terminal_shows_the_rule_and_decides_nothing(
    serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(APPROVAL, ask_decided=decided()) as server:
        code = run(["inbox", "approve", "ask-r1-c1", "--attempt", "2", "--always"])

    assert code == 2
    assert "allow fs_write: exactly these for ada as user" in capsys.readouterr().err
    assert server.of("decide_ask") == []


def test_always_with_yes_shows_the_rule_that_was_written(serving: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    rule = "allow any fs_write for ada as user"
    with serving(APPROVAL, ask_decided=decided(rule=rule)) as server:
        code = run(["inbox", "approve", "ask-r1-c1", "--attempt", "2", "--always", "--yes", "--json"])

    assert code == 0
    assert document(capsys)["data"] == {
        "ask_id": "ask-r1-c1",
        "decision": "always",
        "state": "granted",
        "rule": rule,
    }
    assert server.wait_for("decide_ask").decide_ask.decision == "always"


def test_two_decisions_at_once_are_none(serving: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(APPROVAL, ask_decided=decided()) as server:
        code = run(["inbox", "approve", "ask-r1-c1", "--run", "--always", "--yes"])

    assert code == 2
    assert server.of("decide_ask") == []


def test_denying_is_a_decision_too(serving: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(APPROVAL, ask_decided=decided("denied")) as server:
        code = run(["inbox", "deny", "ask-r1-c1"])

    assert code == 0
    assert server.wait_for("decide_ask").decide_ask.decision == "deny"
    assert "Denied" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "kind", "code"), [(409, "conflict", 1), (403, "forbidden", 4), (404, "not_found", 6)]
)
def test_what_the_daemon_refuses_is_its_exit_code(
    serving: Serving, capsys: pytest.CaptureFixture[str], status: int, kind: str, code: int
) -> None:
    with serving(APPROVAL, error=pb.ErrorMsg(code=status, type=kind, message="no")):
        assert run(["inbox", "approve", "ask-r1-c1", "--attempt", "1", "--json"]) == code

    assert document(capsys)["error"]["type"] == kind


def test_a_stale_attempt_is_sent_as_it_was_given(serving: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(APPROVAL, ask_decided=decided()) as server:
        run(["inbox", "deny", "ask-r1-c1", "--attempt", "1"])

    assert server.wait_for("decide_ask").decide_ask.attempt == 1


def test_an_unknown_id_is_exit_6_and_an_unclear_one_is_refused(
    serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    other = pb.AskInfo()
    other.CopyFrom(APPROVAL)
    other.ask_id = "ask-r1-c2"
    with serving(APPROVAL, other, ask_decided=decided()) as server:
        assert run(["inbox", "approve", "nothing"]) == 6
        assert run(["inbox", "approve", ""]) == 6
        assert run(["inbox", "approve", "ask-r1"]) == 2
        assert server.of("decide_ask") == []
        assert run(["inbox", "approve", "ask-r1-c2", "--attempt", "2"]) == 0

    assert f"{shorten_ask_id('ask-r1-c1')}, {shorten_ask_id('ask-r1-c2')}" in capsys.readouterr().err


def test_a_question_is_answered_by_its_id_and_options_by_their_number(
    serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(APPROVAL, QUESTION) as server:
        code = run(["inbox", "reply", "q7", "2"])

    sent = server.wait_for("reply_to_ask").reply_to_ask
    assert code == 0
    assert (sent.agent, sent.sender, sent.content) == ("bob", "user", "Blue")


def test_words_never_approve_and_a_decision_never_answers(serving: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(APPROVAL, QUESTION) as server:
        assert run(["inbox", "reply", "ask-r1-c1", "yes"]) == 2
        assert run(["inbox", "approve", "q7"]) == 2
        assert run(["inbox", "deny", "q7"]) == 2

    assert server.of("reply_to_ask") + server.of("decide_ask") == []


def test_only_the_oldest_question_of_a_conversation_can_be_answered(
    serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    later = pb.AskInfo()
    later.CopyFrom(QUESTION)
    later.ask_id, later.opened_at = "q8", 3.0
    with serving(QUESTION, later) as server:
        code = run(["inbox", "reply", "q8", "2"])

    assert code == 1
    assert shorten_ask_id("q7") in capsys.readouterr().err
    assert server.of("reply_to_ask") == []


def test_a_number_of_the_last_list_names_what_stood_there_and_nothing_else(
    serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    other = pb.AskInfo()
    other.CopyFrom(APPROVAL)
    other.ask_id = "2nd"
    changed = pb.AskInfo()
    changed.CopyFrom(APPROVAL)
    changed.attempt = 3
    ask_numbers.remember_list([QUESTION, APPROVAL])
    with serving(APPROVAL, QUESTION, ask_decided=decided()) as server:
        assert run(["inbox", "approve", "2"]) == 2
        assert server.of("decide_ask") == []
        assert run(["inbox", "approve", "2", "--attempt", "2"]) == 0
        assert server.wait_for("decide_ask").decide_ask.ask_id == "ask-r1-c1"
    with serving(changed, QUESTION, ask_decided=decided()) as server:
        assert run(["inbox", "approve", "2", "--attempt", "2"]) == 1
        assert server.of("decide_ask") == []
    assert "has changed" in capsys.readouterr().err
    with serving(APPROVAL, QUESTION, other, ask_decided=decided()) as server:
        assert run(["inbox", "approve", "2", "--attempt", "2"]) == 2
        assert server.of("decide_ask") == []
    assert f"is ambiguous: {shorten_ask_id('2nd')}, {shorten_ask_id('ask-r1-c1')}" in capsys.readouterr().err


def test_the_numbers_of_a_bounded_number_of_terminals_are_kept_and_none_for_a_new_one_with_an_old_number(
    serving: Serving, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ask_numbers.remember_list([QUESTION])
    own = list((tmp_path / "run/inbox").iterdir())
    for number in range(100):
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(ask_numbers, "_start_of", lambda _pid, number=number: f"started {number}")
            ask_numbers.remember_list([APPROVAL])
    kept = list((tmp_path / "run/inbox").iterdir())
    assert len(kept) == 32
    assert own[0] not in kept
    with serving(APPROVAL):
        assert run(["inbox", "show", "1"]) == 2
    assert "no list was shown in this terminal" in capsys.readouterr().err


def test_rules_are_listed_and_taken_back_by_number(serving: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    rule = pb.RuleInfo(number=3, text="allow any fs_write for ada as user", tool="fs_write", created_by="owner")
    with serving(rule_list=pb.RuleList(rules=[rule])):
        run(["rules"])
        listed = capsys.readouterr().out
        run(["rules", "list", "--json"])
    data = document(capsys)["data"]
    with serving() as server:
        code = run(["rules", "rm", "3"])

    assert "allow any fs_write for ada as user" in listed
    assert data[0]["number"] == 3
    assert code == 0
    assert server.wait_for("delete_rule").delete_rule.number == 3


def test_the_hook_chain_is_shown_in_its_order_with_what_each_did(
    serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    chain = [
        pb.HookInfo(name="SecurityFilter", phase="pre-execute", enabled=True, counts={"blocked": 2, "passed": 40}),
        pb.HookInfo(name="ApprovalGate", phase="pre-execute", enabled=False),
    ]
    with serving(hook_list=pb.HookList(hooks=chain)):
        run(["agent", "hooks"])
        _, first, second = capsys.readouterr().out.splitlines()
        run(["agent", "hooks", "--json"])

    assert first.split() == ["1", "SecurityFilter", "pre-execute", "on", "2", "blocked,", "40", "passed"]
    assert second.split() == ["2", "ApprovalGate", "pre-execute", "off", "nothing"]
    assert document(capsys)["data"][0]["counts"] == {"blocked": 2, "passed": 40}


def test_trust_names_the_conversation(serving: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(trusted=pb.Trusted(taint="mcp,web")) as server:
        code = run(["trust", "ada", "--as", "me", "--json"])

    sent = server.wait_for("trust").trust
    assert code == 0
    assert (sent.agent, sent.sender) == ("ada", "me")
    assert document(capsys)["data"] == {"agent": "ada", "trusted": True, "taint": "mcp,web"}


@pytest.mark.parametrize(
    ("taint", "said"), [("mcp,web", "untrusted text (mcp, web) included"), ("", "no untrusted text")]
)
def test_trust_says_whose_words_are_trusted(
    serving: Serving, capsys: pytest.CaptureFixture[str], taint: str, said: str
) -> None:
    with serving(trusted=pb.Trusted(taint=taint)):
        assert run(["trust", "ada"]) == 0
    assert said in capsys.readouterr().out
