"""Traces and the ledger show what became of every approval and grant, derived from the asks: also after crashes."""

import asyncio
from typing import Any

import pytest

from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, LiveDaemon, eventually, running
from tests.daemon_thread import daemon_thread
from tests.journeys.test_traces import data, kinds, newest, of_kind
from tests.scripting import call, lead, made, mate, say, script, spawn, wait
from tests.talking import Talking

CONFIG = (
    PLAIN
    + """
[agent]
multiAgent = true
[runLedger]
enabled = true
writeThrough = true
[security.interceptor]
policy = "none"
sensitive_tools = ["set_title"]
"""
)
TITLE = call("set_title", title="Boats")
TWICE = {"calls": [made("set_title", title="Boats"), made("set_title", title="Ships")]}
SCRIPT = script(
    {"match": "^both", "steps": [TWICE, say("Done.")]},
    {"match": "^title", "steps": [TITLE, say("Done.")]},
    lead("^narrow", spawn("look", allowed_tools=["fs_read"]), wait(), say("It came back.")),
    lead("^leave", spawn("look", allowed_tools=["fs_read"]), say("It goes on.")),
    mate("^look", call("fs_list", path="."), call("fs_list", path="src"), say("Looked.")),
    {"reply": "You said: {user}"},
)
BLOCKED, UNBLOCKED = "teammate_approval_blocked", "teammate_approval_unblocked"


def list_changes(trace: dict[str, Any], *, by: bool = False) -> list[Any]:
    """Every change of an ask in a trace: its attempt and its state, and who made it."""
    found = of_kind(trace, "policy_decision")
    return [(each["attempt"], each["state"], *([each.get("by", "")] if by else [])) for each in found]


def list_ledger(trace: dict[str, Any]) -> list[tuple[str, int]]:
    return [(entry["type"], entry["payload"].get("grant_attempt", 0)) for entry in trace["ledger"]]


async def decide(talk: Talking, ask: Any, decision: str) -> None:
    await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision=decision))


def find(daemon: LiveDaemon, run_id: str) -> Any:
    return data(daemon.cli("trace", run_id, "--json"))


async def find_ended(daemon: LiveDaemon, run_id: str) -> Any:
    def ended() -> Any:
        found = find(daemon, run_id)
        return found if found["outcome"] else None

    return await eventually(ended)


async def test_what_becomes_of_an_approval_is_in_the_trace_of_its_turn(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            # A run that changed nothing because it was denied ends as denied.
            for decision, state, end in (("once", "granted", "outcome"), ("deny", "denied", "terminal_error")):
                speech = talk.start("ada", "title it")
                # A guest that is asked meanwhile waits, has no tools, and asks nothing.
                ask = await speech.until("approval_opened")
                behind = talk.start("ada", "and you?", guest="bob")
                await behind.until("queued")
                assert list_changes(newest(daemon)) == [(1, "pending")]
                await decide(talk, ask, decision)
                await speech.end()
                await behind.end()
                guest, turn = (find(daemon, each["run_id"]) for each in data(daemon.cli("trace", "--json"))[:2])
                assert kinds(guest) == ["text", "outcome"]
                assert kinds(turn) == ["tool_call", *["policy_decision"] * 2, "tool_result", "text", end]
                assert list_changes(turn, by=True) == [(1, "pending", ""), (1, state, "owner")]
                assert "ledger" not in turn
            speech = talk.start("ada", "title it")
            await speech.until("approval_opened")
            await talk.kill("ada")
            await speech.end()
            assert list_changes(newest(daemon)) == [(1, "pending"), (1, "cancelled")]
            # Two at once, decided in the other order: each is between its call and its result.
            speech = talk.start("ada", "both of it")
            first, second = [await speech.until("approval_opened", count=count) for count in (1, 2)]
            await decide(talk, second, "once")
            await speech.until("tool_result")
            await decide(talk, first, "deny")
            await speech.end()
            both = newest(daemon)
            assert sorted(kinds(both)[2:6]) == ["policy_decision"] * 4
            states = [(each["ask"], each["state"]) for each in of_kind(both, "policy_decision")]
            assert states == [
                (first.ask_id, "pending"),
                (second.ask_id, "pending"),
                (second.ask_id, "granted"),
                (first.ask_id, "denied"),
            ]
        text = daemon.cli("trace", both["run_id"]).stdout
        assert "approval of set_title: denied" in text
    # Nothing but the asks says so.
    assert home.query("SELECT count(*) FROM trace_notes WHERE kind = 'policy_decision'") == [(0,)]
    assert home.query("SELECT name FROM sqlite_schema WHERE name = 'ledger'") == []
    # The order does not come from the clock: as if it had been set back after every opening.
    home.change("UPDATE asks SET decided_at = 1.0 WHERE decided_at > 0")
    with daemon_thread(home) as daemon:
        assert [state for _, state in list_changes(find(daemon, both["run_id"]))].index("pending") == 0
        assert list_changes(find(daemon, turn["run_id"])) == [(1, "pending"), (1, "denied")]
        assert kinds(find(daemon, turn["run_id"])) == kinds(turn)


async def test_an_approval_that_expires_is_shown_with_every_attempt(home: Home) -> None:
    home.write_config(CONFIG + "approval_seconds = 0.05\n")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "title it")
            assert list_changes(newest(daemon)) == [(1, "pending"), (1, "expired")]
            await talk.say("moot", "narrow it")
            (child,) = newest(daemon)["children"]
    twice = [(1, "pending"), (1, "expired"), (2, "pending"), (2, "expired")]
    asked = ["tool_call", "policy_decision", "policy_decision", "tool_result"]
    assert list_changes(child) == twice
    # Each attempt is where it was asked for.
    assert kinds(child) == [*asked, *asked, "text", "terminal_error"]
    assert list_ledger(child) == [(BLOCKED, 1), (UNBLOCKED, 0), (BLOCKED, 2), (UNBLOCKED, 0)]
    followed = [entry["after_event"] for entry in child["ledger"]]
    assert followed == [event["seq"] for event in child["events"] if event["kind"] == "policy_decision"]
    assert set(child["ledger_snapshot"].values()) == {"", 0}


async def test_a_teammate_that_waits_is_blocked_in_the_ledger_until_it_is_stopped(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "narrow it")
            ask = await speech.until("approval_opened")
            (child,) = newest(daemon)["children"]
            assert list_ledger(child) == [(BLOCKED, 1)]
            assert child["ledger_snapshot"]["grant_request_id"] == ask.ask_id
            text = daemon.cli("trace", child["run_id"]).stdout
            assert text.index("policy_decision") < text.index(BLOCKED)
            await talk.kill("moot")
            await speech.end()
            stopped = await find_ended(daemon, child["run_id"])
    assert list_changes(stopped) == [(1, "pending"), (1, "cancelled")]
    assert list_ledger(stopped) == [(BLOCKED, 1), (UNBLOCKED, 0)]
    assert kinds(stopped)[-1] == "outcome"


# Killed while it waits, or between the decision and the run that would have heard it.
@pytest.mark.parametrize("point", ["ask.opened", "committed.decide"])
async def test_an_approval_is_shown_once_when_a_crash_comes_between_it_and_its_answer(home: Home, point: str) -> None:
    with running(home, MOOT_FAIL_AT=point) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "leave it")
            if point == "committed.decide":
                await speech.end()
                (ask,) = await eventually(talk.asks)
                with pytest.raises(MootError):
                    await decide(talk, ask, "once")
            await asyncio.to_thread(daemon.reap)
    with running(home) as daemon:
        async with daemon.client() as talk:

            def list_children() -> Any:
                listed = data(daemon.cli("trace", "--json"))
                return [child for each in listed for child in find(daemon, each["run_id"])["children"]]

            (child,) = await eventually(list_children)
            if point == "ask.opened":
                (ask,) = await eventually(talk.asks)
                waiting = find(daemon, child["run_id"])
                assert list_changes(waiting) == [(1, "pending")]
                assert list_ledger(waiting) == [(BLOCKED, 1)]
                await decide(talk, ask, "once")
            done = await find_ended(daemon, child["run_id"])
    assert list_changes(done, by=True) == [(1, "pending", ""), (1, "granted", "owner")]
    assert list_ledger(done) == [(BLOCKED, 1), (UNBLOCKED, 0)]
    assert done["outcome"] == "completed"
    assert home.query("SELECT state FROM asks") == [("used",)]
