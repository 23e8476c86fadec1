"""Traces through a running daemon: every turn can be told afterwards, also after kill -9, and the doctor reads them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from moot.domain.errors import Conflict, MootError
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import DaemonProcess, Home, LiveDaemon, call_cli, eventually, running
from tests.daemon_thread import daemon_thread
from tests.scripting import call, lead, made, mate, say, script, spawn, wait
from tests.talking import Speech, Talking
from tests.terminal import terminal

TEAM = """
[agent]
multiAgent = true
"""
LEDGER = """
[runLedger]
enabled = true
writeThrough = true
"""
CONFIG = PLAIN + TEAM

SCRIPT = script(
    lead("^do (?P<what>.*)", spawn("carry out {what}", spawn_reason="a test"), wait(), say("It came back.")),
    lead("^narrow", spawn("titled", allowed_tools=["fs_read"]), wait(), say("It came back.")),
    lead("^somebody", call("agent_spawn", instruction="list the files of this folder"), wait(), say("It came back.")),
    lead(
        "^both",
        {"calls": [made("agent_spawn", agent="operator", instruction=f"carry out {each}") for each in ("one", "two")]},
        wait("{agent_ids}"),
        say("Both came back."),
    ),
    lead("^leave (?P<what>.*)", spawn("carry out {what}"), say("It goes on without me.")),
    lead("^keep (?P<what>.*)", spawn("remember {what}", agent="chronicler"), wait(), say("Kept.")),
    lead("^ask (?P<what>.*)", spawn("recall {what}", agent="chronicler"), wait(), say("{result}")),
    mate("titled", call("fs_list", path="."), say("Listed.")),
    mate("^carry out nothing", empty=True),
    mate("^carry out circles", {"calls": [{"name": "fs_list", "arguments": {"path": "."}}]}),
    mate("^carry out (?P<what>.*)", call("exec", command="echo {what}"), say("I ran it for ada@example.org.")),
    mate(
        "^remember (?P<what>.*)",
        call("memory_agent_save", key="thing", content="{what}"),
        say("Saved."),
    ),
    mate("^recall (?P<what>.*)", call("memory_agent_recall", query="{what}"), say("Found: {result}")),
    {"reply": "You said: {user}"},
)


def data(done: Any) -> Any:
    document = json.loads(done.stdout)
    assert document["ok"], document
    return document["data"]


def kinds(trace: dict[str, Any]) -> list[str]:
    return [event["kind"] for event in trace["events"]]


def of_kind(trace: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [event["payload"] for event in trace["events"] if event["kind"] == kind]


def newest(daemon: LiveDaemon) -> dict[str, Any]:
    """The trace of the newest turn, whole."""
    listed = data(daemon.cli("trace", "list", "--json"))
    found = data(daemon.cli("trace", listed[0]["run_id"], "--json"))
    assert isinstance(found, dict)
    return found


async def allow(talk: Talking, speech: Speech, decision: str = "once") -> None:
    asked = await speech.until("approval_opened")
    await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=asked.ask_id, attempt=asked.attempt, decision=decision))


@pytest.fixture
def team(home: Home) -> Iterator[LiveDaemon]:
    with daemon_thread(home) as daemon:
        yield daemon


async def test_a_turn_and_its_teammate_are_told_in_order(team: LiveDaemon) -> None:
    async with team.client() as talk:
        speech = talk.start("moot", "do hello")
        await allow(talk, speech)
        await speech.end()

    trace = newest(team)
    assert kinds(trace) == [
        "routing",
        "tool_call",
        "delegation",
        "tool_result",
        "tool_call",
        "delegation_return",
        "tool_result",
        "text",
        "outcome",
    ]
    assert [event["seq"] for event in trace["events"]] == list(range(1, 10))
    assert {"agent", "summary"} <= of_kind(trace, "routing")[0].keys()
    (delegation,), (returned,) = of_kind(trace, "delegation"), of_kind(trace, "delegation_return")
    assert (delegation["to"], delegation["reason"]) == ("operator", "a test")
    assert (returned["run_id"], returned["outcome"]) == (delegation["run_id"], "completed")
    (child,) = trace["children"]
    assert (child["run_id"], child["parent"], child["agent"]) == (delegation["run_id"], trace["run_id"], "operator")
    assert kinds(child) == [
        "tool_call",
        "policy_decision",
        "policy_decision",
        "tool_result",
        "text",
        "outcome",
    ]
    assert [each["state"] for each in of_kind(child, "policy_decision")] == ["pending", "granted"]
    assert trace["tree_tokens"] == trace["tokens"] + child["tokens"] > trace["tokens"]
    # The owner of a name is nobody a trace needs to know.
    assert "example.org" not in json.dumps(trace)

    text = team.cli("trace", trace["run_id"][:-2]).stdout
    lines = text.splitlines()
    assert lines[0].startswith(trace["run_id"])
    assert next(line for line in lines if "delegation " in line).startswith("  ")
    assert next(line for line in lines if line.strip().startswith(f"{child['run_id']} operator")).startswith("    ")
    tree = team.cli("trace", "--tree").stdout
    assert f"└─ {child['run_id']}" in tree
    assert child["run_id"] not in team.cli("trace").stdout


async def test_the_order_of_a_trace_does_not_depend_on_the_clock(home: Home) -> None:
    home.write_config(CONFIG + '[security.interceptor]\npolicy = "none"\n')
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "both")
            waited = newest(daemon)["run_id"]
            await talk.say("moot", "leave this to it")
            left = newest(daemon)["run_id"]

            def is_delivered() -> bool:
                returned = of_kind(data(daemon.cli("trace", left, "--json")), "delegation_return")
                return bool(returned) and returned[0]["delivery"] == "sent"

            await eventually(is_delivered)
    # As if the clock had been set back before every end of a teammate, the further the later it began.
    home.change("UPDATE runs SET ended_at = 1e6 - number WHERE kind = 'teammate'")
    with daemon_thread(home) as daemon:
        both, alone = (data(daemon.cli("trace", run_id, "--json")) for run_id in (waited, left))
    spawned = [each["run_id"] for each in of_kind(both, "delegation")]
    assert [each["run_id"] for each in of_kind(both, "delegation_return")] == spawned
    assert kinds(both)[-5:] == ["delegation_return", "delegation_return", "tool_result", "text", "outcome"]
    assert kinds(alone)[-3:] == ["text", "outcome", "delegation_return"]


async def test_a_trace_outlives_kill_9_and_goes_on_where_it_was(home: Home) -> None:
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "leave this to it")
            (asked,) = await eventually(talk.asks)
            before = newest(daemon)
            daemon.kill_9()
    with daemon_thread(home) as again:
        after = data(again.cli("trace", before["run_id"], "--json"))
        assert after["events"] == before["events"]
        assert kinds(after)[:3] == ["routing", "tool_call", "delegation"]
        (child,) = after["children"]
        assert kinds(child)[:2] == ["tool_call", "policy_decision"]
        assert child["outcome"] is None
        async with again.client() as talk:
            await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=asked.ask_id, attempt=asked.attempt, decision="once"))

            def ended() -> Any:
                found = data(again.cli("trace", child["run_id"], "--json"))
                return found if found["outcome"] else None

            done = await eventually(ended)
        assert done["outcome"] == "completed"
        assert [each["state"] for each in of_kind(done, "policy_decision")][-1] == "granted"
        assert kinds(done)[-2:] == ["text", "outcome"]


async def test_what_a_turn_noted_is_on_disk_before_its_end_is(home: Home) -> None:
    daemon = DaemonProcess.start(home, MOOT_FAIL_AT="committed.end")
    async with daemon.client() as talk:
        with pytest.raises(MootError):
            await talk.say("moot", "good morning")
    daemon.reap()
    with daemon_thread(home) as again:
        trace = newest(again)
    assert (trace["outcome"], kinds(trace)) == ("completed", ["routing", "text", "outcome"])


async def test_why_a_teammate_was_chosen_is_told_where_its_author_named_none(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "somebody")
        trace = newest(daemon)
    asked, chosen = of_kind(trace, "routing")
    assert "call" not in asked
    assert kinds(trace)[:4] == ["routing", "tool_call", "delegation", "routing"]
    assert of_kind(trace, "delegation")[0]["to"] == chosen["agent"]


async def test_what_failed_is_listed_and_the_doctor_says_what_to_do(home: Home) -> None:
    home.write_config(CONFIG + '[security.interceptor]\npolicy = "none"\n')
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "do circles")
            await talk.say("moot", "do nothing")
        failed = data(daemon.cli("trace", "--failed", "--json"))
        doctor = json.loads(daemon.cli("doctor", "--json").stdout)["data"]

        assert [each["outcome"] for each in failed] == ["empty", "loop_detected"]
        looped = data(daemon.cli("trace", failed[1]["run_id"], "--json"))
        seen = kinds(looped)
        assert seen.index("tool_call") < seen.index("tool_result") < seen.index("recovery_attempt") < len(seen) - 1
        assert seen[-1] == "terminal_error"
        assert of_kind(looped, "terminal_error")[0]["outcome"] == "loop_detected"
        found = [each for each in doctor["findings"] if each["check"] == "traces"]
        assert all(each["level"] == "warning" for each in found)
        assert any(f"moot trace {failed[1]['run_id']}" in each["fix"] for each in found)
        assert any("repeated the same call" in each["message"] for each in found)
        assert (doctor["traces"]["loops"], doctor["traces"]["leaks"]) == (1, [])
        assert [each["run_id"] for each in doctor["traces"]["failed"]] == [each["run_id"] for each in failed]
    # The same without a daemon, read from the store.
    without = json.loads(call_cli(home, "doctor", "--json").stdout)["data"]
    assert without["traces"]["loops"] == 1
    assert [each["run_id"] for each in without["traces"]["failed"]] == [each["run_id"] for each in failed]


async def test_a_message_where_it_does_not_belong_is_found_by_the_doctor(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "hello")
            await talk.say("ada", "what do you say?", guest="bob")
        assert json.loads(daemon.cli("doctor", "--json").stdout)["data"]["traces"]["leaks"] == []
    home.change("UPDATE messages SET agent = 'operator' WHERE role = 'assistant' AND agent = ''")
    done = call_cli(home, "doctor", "--json")
    document = json.loads(done.stdout)
    (leak,) = document["data"]["traces"]["leaks"]
    assert "operator" in leak
    assert done.returncode == 1
    assert any(each["check"] == "isolation" and each["fix"] for each in document["data"]["findings"])


async def test_a_turn_of_one_agent_alone_writes_no_note_and_can_be_told_all_the_same(home: Home) -> None:
    home.write_config(PLAIN)
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "hello")
        trace = newest(daemon)
        assert kinds(trace) == ["text", "outcome"]
        missing = daemon.cli("trace", "run-none", "--json")
        assert (missing.returncode, json.loads(missing.stdout)["error"]["type"]) == (6, "not_found")
    assert home.query("SELECT count(*) FROM trace_notes") == [(0,)]


@pytest.mark.parametrize("ledger", [LEDGER, LEDGER.replace("writeThrough = true", "writeThrough = false"), ""])
async def test_the_ledger_tells_what_blocked_a_teammate_where_it_is_wanted(home: Home, ledger: str) -> None:
    home.write_config(CONFIG + ledger)
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "narrow")
            asked = await speech.until("approval_opened")
            await allow(talk, speech)
            await speech.end()
        status = data(daemon.cli("agent", "status", "--json"))
        (child,) = newest(daemon)["children"]

    assert status["run_ledger"] == (ledger == LEDGER)
    if ledger != LEDGER:
        assert "ledger" not in child
        return
    blocked, unblocked = child["ledger"]
    assert asked.ask_id == f"grant-{child['run_id']}-fs_list"
    assert blocked["type"] == "teammate_approval_blocked"
    assert blocked["payload"] == {
        "runtime_condition": "blocked_waiting_approval",
        "blocked_reason": blocked["payload"]["blocked_reason"],
        "grant_request_id": asked.ask_id,
        "grant_attempt": 1,
        "grant_state": "pending",
    }
    assert unblocked["type"] == "teammate_approval_unblocked"
    assert unblocked["payload"] == {"previous_grant_request_id": asked.ask_id}
    assert set(child["ledger_snapshot"].values()) == {"", 0}
    assert [(each["about"], each["state"]) for each in of_kind(child, "policy_decision")] == [
        ("grant", "pending"),
        ("grant", "granted"),
    ]


async def test_what_a_teammate_did_is_let_go_of_after_its_time(home: Home) -> None:
    config = CONFIG + '[security.interceptor]\npolicy = "none"\n'
    home.write_config(config)
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "do hello")
        (child,) = newest(daemon)["children"]
    home.write_config(config + "[traces]\nkeep_days = 0.000001\n")
    with daemon_thread(home) as daemon:

        def is_gone() -> bool:
            return daemon.cli("trace", child["run_id"]).returncode == 6

        await eventually(is_gone)
        trace = newest(daemon)
        assert trace["children"] == []
        assert of_kind(trace, "delegation")[0]["run_id"] == child["run_id"]
        assert of_kind(trace, "delegation_return")[0]["outcome"] == "completed"
        assert kinds(trace)[-4:] == ["delegation_return", "tool_result", "text", "outcome"]
        async with daemon.client() as talk:
            assert [role for role, _, _ in await talk.told("moot")][0] == "user"
    assert home.query("SELECT count(*) FROM conversations WHERE sender LIKE 'run:%'") == [(0,)]


async def test_a_conversation_goes_with_all_its_teammates_did_once_they_are_done(team: LiveDaemon) -> None:
    async with team.client() as talk:
        await talk.say("moot", "leave this to it")
        await eventually(talk.asks)
        (child,) = newest(team)["children"]
        with pytest.raises(Conflict) as caught:
            await talk.ask(delete=pb.DeleteMsg(agent="moot", confirm=True))
        assert child["run_id"] in caught.value.fix
        await talk.ask(stop_run=pb.StopRunMsg(run_id=child["run_id"]))

        async def is_deleted() -> bool:
            try:
                return (await talk.ask(delete=pb.DeleteMsg(agent="moot", confirm=True))).deleted.deleted
            except Conflict:
                # It is being told how its teammate ended.
                return False

        await eventually(is_deleted)
    assert team.cli("trace", child["run_id"]).returncode == 6
    assert team.home.query("SELECT count(*) FROM runs") == [(0,)]


@pytest.mark.parametrize("enabled", [True, False])
async def test_teammates_remember_from_one_run_to_the_next_where_that_is_wanted(home: Home, enabled: bool) -> None:
    home.write_config(
        CONFIG + f'[security.interceptor]\npolicy = "none"\n[agentMemory]\nenabled = {str(enabled).lower()}\n'
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "keep the blue boat")
            stranger = await talk.say("moot", "ask boat", "eve")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            mine = await talk.say("moot", "ask boat")
    assert ("the blue boat" in mine.text) is enabled
    assert "the blue boat" not in stranger.text


@pytest.mark.parametrize("team", [TEAM, ""])
async def test_a_call_refused_because_nobody_is_there_is_a_decision_in_the_trace(home: Home, team: str) -> None:
    home.write_config(PLAIN + team + "[security.interceptor]\nunattended = true\n")
    home.write_script(
        script(
            lead("^do", spawn("carry out this"), wait(), say("It came back.")),
            {"match": "", "steps": [call("exec", command="echo this"), say("Refused.")]},
        )
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot" if team else "ada", "do it")
        trace = newest(daemon)
    refused = trace["children"][0] if team else trace
    (decided,) = of_kind(refused, "policy_decision")
    assert (decided["about"], decided["tool"], decided["state"]) == ("approval", "exec", "refused")
    assert "nobody to ask" in decided["reason"]
    assert kinds(refused)[:3] == ["tool_call", "policy_decision", "tool_result"]


@pytest.mark.parametrize("columns", [80, 120])
async def test_traces_fit_the_terminal(home: Home, columns: int) -> None:
    home.write_config(CONFIG + '[security.interceptor]\npolicy = "none"\n')
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "do circles, with a rather long description of what is to be done and why it is")
        run_id = newest(daemon)["run_id"]
        for command in (["trace"], ["trace", "--tree"], ["trace", "--failed"], ["trace", run_id]):
            with terminal(home, *command, columns=columns) as person:
                assert person.wait_for_exit() == 0
            shown = person.seen.rstrip("\n").split("\n")
            assert max(map(len, shown)) <= columns, shown
            assert "circles" in person.seen
        tree = daemon.cli("trace", "--tree").stdout
    assert "WHO" in person.seen or run_id in person.seen
    # What was asked and what went wrong each have a place of their own.
    (failed,) = [line for line in tree.splitlines() if "loop_detected" in line]
    assert "carry out circles" in failed
    assert "5 times in a row" in failed
