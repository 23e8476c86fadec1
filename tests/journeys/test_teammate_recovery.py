"""How teammates end, decided in code; what their parent is told of a failure, and what is tried before it stands."""

import json
from typing import Any

import pytest

from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, eventually
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.scripting import call, lead, mate, say, script, spawn, wait
from tests.teaming import TEAM, results

CONFIG = PLAIN + TEAM
AGAIN = call("fs_list", path=".")

SCRIPT = script(
    lead("^ask (?P<who>[a-z]+) to (?P<what>.*)", spawn("{what}", "{who}"), wait(), say("The end: {result}")),
    lead("^twice to (?P<what>.*)", spawn("{what}"), wait(), spawn("{what}"), wait(), spawn("{what}"), say("{result}")),
    lead("^two who (?P<what>.*)", spawn("{what}"), wait(), spawn("{what}", "librarian"), wait(), say("{result}")),
    lead("^fail, then (?P<what>.*)", spawn("break"), wait(), spawn("{what}"), wait(),
         spawn("break", "librarian"), wait(), say("{result}")),
    lead("^thrice to (?P<what>.*)", spawn("{what}"), wait(), spawn("{what}"), wait("{agent_ids}"), spawn("{what}"),
         say("{result}")),
    lead("^read what (?P<what>.*)", spawn("{what}"), call("tool_output_get", ref="{agent_id}"), wait(), say("Read.")),
    lead("^say nothing", call("set_title", title="x"), say("")),
    lead("^nothing but once", call("set_title", title="x"), say(""), times=2),
    lead("^nothing but once", reply="There it is."),
    mate("^fetch a page", call("web_fetch", url="http://x"), say("That needs the web.")),
    mate("^fetch and list", call("web_fetch", url="http://x"), AGAIN, say("I listed.")),
    mate("^mistake a name", call("fs_reed", path="x"), say("I know no such tool, so I did it by hand.")),
    mate("^hand back", call("agent_escalate", reason="This needs a browser; I have none.")),
    mate("^plan$", reply="Step one."),
    mate("^plan with tools", call("exec", command="ls"), times=1),
    mate("^plan with tools", reply="I cannot run it."),
    mate("^circle", *[AGAIN] * 9, say("never")),
    mate("^near circle", *[AGAIN] * 5, say("I stopped myself.")),
    mate("^fall silent", AGAIN, say("")),
    mate("^fail silently", call("fs_read", path="not-there"), say("")),
    mate("^break", error="it broke"),
    mate("^succeed", reply="Fine."),
)  # fmt: skip


async def told(daemon: LiveDaemon, message: str, sender: str) -> tuple[dict[str, Any], str]:
    """What the orchestrator is told of the last teammate it waited for, and how its own turn ended."""
    async with daemon.client() as talk:
        speech = await talk.say("moot", message, sender)
    return results(speech, "agent_wait")[-1], speech.outcome


def calls_of(home: Home, run_id: str) -> tuple[list[str], list[str]]:
    """The ids of the calls a run made, and those that have a result, in order."""
    told = home.query("SELECT tool_calls, tool_call_id FROM messages WHERE run_id = ? ORDER BY id", run_id)
    calls = [call["id"] for made, _ in told if made for call in json.loads(made)]
    return calls, [answered for _, answered in told if answered]


# ---- handing a task back ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "sentence"),
    [("fetch a page", "That needs the web."), ("hand back", "This needs a browser; I have none.")],
)
async def test_a_task_that_is_not_for_a_teammate_ends_escalated_with_a_sentence(
    daemon: LiveDaemon, sender: str, task: str, sentence: str
) -> None:
    run, outcome = await told(daemon, f"ask operator to {task}", sender)
    assert (run["status"], run["outcome"], run["result"]) == ("completed", "escalated", sentence)
    assert "operator says that this is not its task" in run["hint"]
    assert outcome == "completed"


async def test_a_tool_that_nobody_has_is_a_mistake_and_no_reason_to_hand_the_task_back(
    daemon: LiveDaemon, sender: str
) -> None:
    run, _ = await told(daemon, "ask operator to mistake a name", sender)
    assert (run["outcome"], run["result"]) != ("escalated", "I know no such tool, so I did it by hand.")
    assert run["result"] == "I know no such tool, so I did it by hand."


async def test_one_call_that_was_its_own_makes_a_task_a_teammates(daemon: LiveDaemon, sender: str) -> None:
    run, _ = await told(daemon, "ask operator to fetch and list", sender)
    assert (run["outcome"], run["result"]) == ("completed", "I listed.")


async def test_the_planner_needs_no_tool_to_say_what_it_thinks(daemon: LiveDaemon, sender: str) -> None:
    run, _ = await told(daemon, "ask planner to plan", sender)
    assert (run["outcome"], run["result"]) == ("completed", "Step one.")


async def test_no_approval_gives_the_planner_a_tool(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        speech = await talk.say("moot", "ask planner to plan with tools", sender)
        (run,) = results(speech, "agent_wait")
        assert speech.of("approval_opened") == []
        assert await talk.asks() == []
    assert run["result"] == "I cannot run it."


async def test_only_a_teammate_can_hand_a_task_back(daemon: LiveDaemon, provider: Provider, home: Home) -> None:
    home.write_config((PROVIDER_CONFIG + TEAM).replace("PROVIDER_URL", provider.url))
    spawned = {"calls": [{"name": "agent_spawn", "arguments": {"agent": "operator", "instruction": "x"}}]}
    with daemon_thread(home) as own:
        async with own.client() as talk:
            await talk.say("ada", "hello")
            await talk.say("operator", "hello")
            provider.program(spawned, {"text": "worked"}, {"text": "done"})
            await talk.say("moot", "hello")
            bodies = provider.bodies(5)
    offered = [{tool["function"]["name"] for tool in body.get("tools", [])} for body in bodies]
    systems = [json.dumps(body["messages"]) for body in bodies]
    assert all("agent_spawn" in each for each in offered)
    for names, system in zip(offered, systems, strict=True):
        assert ("agent_escalate" in names) is ("You work as a teammate" in system)
    assert sum("agent_escalate" in names for names in offered) == 1


# ---- failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "outcome"),
    [
        ("circle", "loop_detected"),
        ("fall silent", "empty_after_tool_use"),
        ("fail silently", "tool_error"),
        ("break", "model_error"),
    ],
)
async def test_a_failure_is_one_note_that_names_who_failed(
    daemon: LiveDaemon, sender: str, task: str, outcome: str
) -> None:
    async with daemon.client() as talk:
        speech = await talk.say("moot", f"ask operator to {task}", sender)
        (run,) = results(speech, "agent_wait")
        assert (run["status"], run["outcome"]) == ("failed", outcome)
        assert run["error"]
        assert "result" not in run
        assert f"operator failed ({outcome}) and its partial work is discarded." in run["hint"]
        assert "choose another teammate" in run["hint"]
        # Nothing of what the teammate did is in the conversation it was spawned from.
        history = await talk.history("moot", sender)
        assert {call.name for each in history.messages for call in each.tool_calls} == {"agent_spawn", "agent_wait"}
    assert speech.outcome == "completed"
    # Every call of the teammate's has its result.
    calls, answered = calls_of(daemon.home, run["agent_id"])
    assert calls == answered
    assert bool(calls) is (task != "break")


async def test_circles_and_silence_are_pointed_out_once_before_they_end_a_run(daemon: LiveDaemon, sender: str) -> None:
    run, _ = await told(daemon, "ask operator to near circle", sender)
    assert (run["outcome"], run["result"]) == ("completed", "I stopped myself.")
    async with daemon.client() as talk:
        rescued = await talk.say("moot", "nothing but once", sender)
        assert (rescued.outcome, rescued.text) == ("completed", "There it is.")
        silent = await talk.say("moot", "say nothing", sender)
        assert (silent.outcome, silent.ended.steps) == ("empty_after_tool_use", 3)
        # What was pointed out is not part of the conversation.
        told_now = await talk.told("moot", sender)
        assert [content for role, _, content in told_now if role == "user"][1:] == ["nothing but once", "say nothing"]


async def test_a_recovery_is_in_the_trace(daemon: LiveDaemon, sender: str) -> None:
    run, _ = await told(daemon, "ask operator to fall silent", sender)
    shown = json.dumps(daemon.cli_json("trace", run["agent_id"]))
    assert "recovery_attempt" in shown
    assert "empty_after_tool_use" in shown
    found = [each for each in daemon.cli_json("trace", "--tree")["data"] if run["agent_id"] in json.dumps(each)]
    turn = daemon.cli_json("trace", found[0]["run_id"])["data"]
    # Its failure is the reason to give the work to another one, so it stands first.
    kinds = [event["kind"] for event in turn["events"] if event["kind"] in ("delegation_return", "recovery_attempt")]
    assert kinds == ["delegation_return", "recovery_attempt"]


async def test_the_doctor_counts_a_reroute_only_if_another_agent_got_work(daemon: LiveDaemon) -> None:
    await told(daemon, "ask operator to break", "alone")
    daemon.cli_json("doctor", "--acknowledge")
    await told(daemon, "ask operator to break", "alone")
    assert json.loads(daemon.cli("doctor", "--json").stdout)["data"]["traces"]["reroutes"] == 0
    await told(daemon, "two who break", "on")
    assert json.loads(daemon.cli("doctor", "--json").stdout)["data"]["traces"]["reroutes"] == 1


async def test_who_failed_twice_in_a_turn_is_not_started_again(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        speech = await talk.say("moot", "twice to break", sender)
        *_, third = results(speech, "agent_spawn")
        assert "operator has failed 2 times in this turn and is not started again" in third
        assert "Choose another teammate, or answer directly" in third
        # The next turn is another matter.
        again = await talk.say("moot", "ask operator to succeed", sender)
        assert results(again, "agent_wait")[0]["result"] == "Fine."


async def test_a_task_that_was_done_is_done_again_with_a_note_and_not_a_third_time(
    daemon: LiveDaemon, sender: str
) -> None:
    async with daemon.client() as talk:
        speech = await talk.say("moot", "thrice to succeed", sender)
        first, second, third = results(speech, "agent_spawn")
        assert "note" not in first
        assert f"operator has completed the same task in this turn before, as {first['agent_id']}." in second["note"]
        assert "Fine." in second["note"]
        assert "operator has completed the same task 2 times in this turn" in third
        assert first["agent_id"] in third
        assert second["agent_id"] in third
        assert "Answer with what is there" in third
        assert len(results(speech, "agent_wait")) == 2
        # The next turn is another matter.
        again = await talk.say("moot", "ask operator to succeed", sender)
        assert "note" not in results(again, "agent_spawn")[0]


async def test_who_takes_a_run_for_a_kept_result_is_told_to_wait_for_it_and_to_do_nothing_again(
    daemon: LiveDaemon, sender: str
) -> None:
    async with daemon.client() as talk:
        speech = await talk.say("moot", "read what succeed", sender)
        (told,) = results(speech, "tool_output_get")
        assert "This is the id of a run, not a ref: agent_wait returns its result." in told
        assert "again" not in told
        assert results(speech, "agent_wait")[0]["result"] == "Fine."


async def test_after_two_failures_in_a_row_the_hint_says_to_answer_directly(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        first, second = results(await talk.say("moot", "two who break", sender), "agent_wait")
        assert "choose another teammate" in first["hint"]
        assert "librarian failed (model_error)" in second["hint"]
        assert "2 in a row have failed: answer directly" in second["hint"]
        *_, third = results(await talk.say("moot", "fail, then succeed", sender), "agent_wait")
        assert "choose another teammate" in third["hint"]


# ---- what the person has seen -------------------------------------------------------------------


async def test_text_the_person_has_seen_is_not_said_again_by_a_retry(home: Home, provider: Provider) -> None:
    home.write_config((PROVIDER_CONFIG + TEAM).replace("PROVIDER_URL", provider.url))
    spawned = {"name": "agent_spawn", "arguments": {"agent": "operator", "instruction": "work"}}
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            # A passing failure before the first word, then words with a call, then a teammate that breaks off in the
            # middle of a sentence, then silence, then the answer.
            provider.program(
                {"status": 429, "headers": {"Retry-After": "0"}},
                {"text": "I will ask somebody.", "calls": [spawned]},
            )
            speech = talk.start("moot", "go")
            await speech.until("tool_start")
            provider.program({"text": "half of a sentence " * 10, "cut_at": 900, "match": "^work$"})
            await speech.end()
            assert speech.outcome == "completed"
            assert speech.text.count("I will ask somebody.") == 1
            assert "half of a sentence" not in speech.text
            history = [content for role, _, content in await talk.told("moot") if role == "assistant"]
            assert sum("I will ask somebody." in content for content in history) == 1


def newest(daemon: LiveDaemon) -> str:
    return str(daemon.cli_json("trace")["data"][0]["run_id"])


async def test_who_would_answer_without_a_result_is_told_to_fetch_it_and_nobody_reads_what_it_claimed(
    home: Home, provider: Provider
) -> None:
    home.write_config((PROVIDER_CONFIG + TEAM).replace("PROVIDER_URL", provider.url))
    spawned = {"name": "agent_spawn", "arguments": {"agent": "operator", "instruction": "work"}}
    provider.program(
        {"calls": [spawned], "match": "Routing"},
        {"text": "All is done!", "match": "^go$", "hold": True},
        {"text": "It was forty-two.", "match": "^work$"},
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "go")
            run_id = json.loads((await speech.until("tool_result")).output)["agent_id"]
            provider.program(
                {
                    "calls": [{"name": "agent_wait", "arguments": {"agent_id": run_id}}],
                    "match": f"of operator .{run_id}",
                },
                {"text": "Now it is done.", "match": "^go$"},
            )
            # The claim is held until the answers that follow it are programmed.
            provider.requests(3, seconds=30)
            provider.release()
            await speech.end()
            assert (speech.outcome, speech.text, speech.of("discarded")) == ("completed", "Now it is done.", [])
            (waited,) = results(speech, "agent_wait")
            assert waited["result"] == "It was forty-two."
            # Neither the claim nor what it was told is part of the conversation, and nothing is told twice.
            assert [role for role, _, _ in await talk.told("moot")] == ["user", *["assistant", "tool"] * 2, "assistant"]
        assert "results of teammates were not fetched" in daemon.cli("trace", newest(daemon)).stdout


async def test_who_means_to_answer_without_a_result_says_so_again_and_is_asked_no_third_time(
    home: Home, provider: Provider
) -> None:
    home.write_config((PROVIDER_CONFIG + TEAM).replace("PROVIDER_URL", provider.url))
    spawned = {"name": "agent_spawn", "arguments": {"agent": "operator", "instruction": "work"}}
    provider.program(
        {"calls": [spawned], "match": "Routing"},
        {"text": "It is under way.", "match": "^go$"},
        {"text": "It is under way.", "match": "not fetched"},
        {"text": "It was forty-two.", "match": "^work$", "hold": True},
        {"text": "And here it is.", "match": "has ended"},
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = await talk.say("moot", "go")
            assert (speech.outcome, speech.text, speech.ended.steps) == ("completed", "It is under way.", 3)
            provider.requests(4, seconds=30)
            provider.release()

            async def told_now() -> bool:
                return (await talk.told("moot"))[-1][2] == "And here it is."

            await eventually(told_now)


async def test_an_orchestrator_that_breaks_off_takes_its_words_back_and_says_none_twice(
    home: Home, provider: Provider
) -> None:
    home.write_config((PROVIDER_CONFIG + TEAM).replace("PROVIDER_URL", provider.url))
    provider.program({"text": "half of it " * 10, "cut_at": 900}, {"text": "never asked"})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = await talk.say("moot", "go")
            assert speech.outcome == "model_error"
            assert speech.of("chunk")
            assert len(speech.of("discarded")) == 1
            assert speech.text == ""
            assert await talk.told("moot") == [("user", "", "go")]
    assert len(provider.bodies()) == 1
