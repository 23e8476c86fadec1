"""What a turn and all the teammates it sets to work may spend together: tokens, steps, money and time."""

import json
from pathlib import Path
from typing import Any

from moot.daemon.clock import ManualClock
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, call_cli, eventually, running
from tests.daemon_thread import daemon_thread
from tests.scripting import call, lead, made, mate, say, script, spawn, wait
from tests.teaming import TEAM, asked, called, eventually_idle, results

PRICED = PLAIN.replace(
    'script = "script.toml"',
    # A dollar for a token of the prompt, two for one of the reply.
    'script = "script.toml"\nmax_output_tokens = 100\nprice_prompt = 1000000\nprice_completion = 2000000',
)
THREE = {"calls": [made("agent_spawn", agent="operator", instruction=f"work {number}") for number in range(3)]}
USED = {"prompt": 3000, "completion": 50}
ANY = lead("^call (?P<tool>[a-z_]+) (?P<arguments>.*)", call("{tool}", "{arguments}"), say("{result}"))
# Steps that are not the same twice.
BUSY = [call("fs_list", path=f"{number}") for number in range(20)]


def spent(home: Home, what: str) -> float:
    """The sum over all runs."""
    return float(asked(home, f"SELECT sum({what}) FROM runs"))


async def test_teammates_together_spend_no_more_than_the_turn_may(home: Home) -> None:
    home.furnish(
        config=PRICED + TEAM,
        script=script(
            lead("^go", THREE, wait("{agent_ids}"), say("{result}"), usage=USED),
            mate("^work", *BUSY[:4], say("Done."), usage=USED, delay_seconds=0.05),
        ),
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = await talk.say("moot", "go", limits=pb.RunLimits(tokens=30_000))
            (waited,) = results(speech, "agent_wait")
            assert "limit" in [run["outcome"] for run in waited["runs"]]
            errors = [run.get("error", "") for run in waited["runs"]]
            assert any("The run and all it set to work have no room" in error for error in errors), errors
            await eventually_idle(home, talk)
    # All that could be used was used, and not a call more.
    assert 30_000 - 3 * 3_150 < spent(home, "prompt + completion") <= 30_000


async def test_the_last_step_of_a_tree_is_kept_for_the_answer_of_its_root(home: Home) -> None:
    home.furnish(
        config=PRICED + TEAM,
        script=script(
            # It would go on for ever. Asked without tools, it reads as text what came of its calls.
            lead("agent_wait answered", say("All I have is half of it.")),
            lead("^go", spawn("work"), wait(), *BUSY),
            mate("^work", *BUSY),
        ),
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = await talk.say("moot", "go", limits=pb.RunLimits(steps=6))
            (waited,) = results(speech, "agent_wait")
            assert (waited["status"], waited["outcome"]) == ("failed", "limit")
            assert "no room for another step under the limit on steps" in waited["error"]
            assert (speech.outcome, speech.text) == ("completed", "All I have is half of it.")
    assert spent(home, "steps") == 6


async def test_a_report_is_answered_with_the_step_that_was_kept(home: Home) -> None:
    home.furnish(
        config=PRICED + TEAM + "\n[budget]\nsteps = 6\n",
        script=script(
            # What it calls in the last step is not made, and what it says is kept.
            lead("has ended: limit", {"reply": "It did not get to its end.", **BUSY[0]}),
            lead("^go", spawn("work"), say("On it."), say("It is under way.")),
            # It goes on after the turn has ended, so that the turn does not need the step that is kept.
            mate("^work", call("ask_user", questions=[{"question": "Go on?"}]), *BUSY),
        ),
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "go")
            await eventually(talk.asks)
            await talk.reply("moot", "yes")
            await eventually(lambda: asked(home, "SELECT count(*) FROM runs WHERE author <> '' AND status = 'ended'"))
            await eventually_idle(home, talk)
            assert (await talk.told("moot"))[-1][2] == "It did not get to its end."
    assert spent(home, "steps") == 6


async def test_money_is_counted_over_the_whole_tree(home: Home) -> None:
    home.furnish(
        config=PRICED + TEAM,
        script=script(
            lead("^go", spawn("work"), wait(), say("{result}"), usage=USED), mate("^work", *BUSY, usage=USED)
        ),
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = await talk.say("moot", "go", limits=pb.RunLimits(spend=20_000))
            (waited,) = results(speech, "agent_wait")
            assert (waited["status"], waited["outcome"]) == ("failed", "limit")
            assert "no room for another step under the limit on spend" in waited["error"]
            # What is left is not enough for the one who waited either.
            assert (speech.outcome, speech.ended.limit) == ("limit", "spend")
    assert 15_000 < spent(home, "cost") <= 20_000


async def test_the_configured_budget_bounds_a_tree_and_four_fifths_of_it_are_told_once(home: Home) -> None:
    home.furnish(
        config=PRICED + TEAM + "\n[budget]\nsteps = 10\n",
        script=script(lead("^go", spawn("work"), wait(), say("{result}")), mate("^work", *BUSY)),
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            (waited,) = results(await talk.say("moot", "go"), "agent_wait")
            trace = json.dumps(daemon.cli_json("trace", waited["agent_id"]))
    assert (waited["outcome"], spent(home, "steps")) == ("limit", 10)
    assert trace.count("budget_warning") == 1


async def test_a_turn_that_leaves_its_teammates_behind_still_pays_for_what_comes_of_them(home: Home) -> None:
    """A result that arrives as a message starts a new run, which spends from the old budget."""
    home.furnish(
        config=PRICED + TEAM + "\n[budget]\nsteps = 12\n",
        # Each time another task: the very same one is refused before the budget is empty.
        script=script(
            lead(r"^go|(?P<after>arun-\w+)\) has ended", spawn("work {after}"), say("On it.")),
            mate("^work", reply="Worked."),
        ),
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "go")
            # The last report finds nothing left to be answered with, which is no failure of anybody's.
            told = "SELECT count(*) FROM runs WHERE outcome = 'limit' OR error LIKE '%is used up%'"
            await eventually(lambda: asked(home, told))
            # Where it was the last teammate that found nothing left, its report still has a step.
            await eventually(lambda: spent(home, "steps") == 12)
            await eventually_idle(home, talk)
    assert spent(home, "steps") == 12


async def test_what_was_spent_is_still_spent_after_a_kill(home: Home) -> None:
    home.furnish(
        config=PRICED + TEAM + "\n[budget]\nsteps = 8\n",
        script=script(
            lead("^go", spawn("work"), wait(), say("{result}"), usage=USED),
            ANY,
            lead("has ended", say("Heard.")),
            # Four steps, then a model that hangs; after a restart the first rule serves four more.
            mate("^work", *BUSY, usage=USED, times=4),
            mate("^work", hang=True),
        ),
    )
    with running(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "go")
            run_id = json.loads((await speech.until("tool_result")).output)["agent_id"]
            results_of = "SELECT count(*) FROM messages WHERE role = 'tool' AND run_id = ?"
            await eventually(lambda: asked(home, results_of, run_id) == 4)
            daemon.kill_9()
    assert asked(home, "SELECT steps FROM runs WHERE id = ?", run_id) == 4
    assert asked(home, "SELECT prompt + completion FROM runs WHERE id = ?", run_id) == 4 * 3_050
    assert asked(home, "SELECT cost FROM runs WHERE id = ?", run_id) == 4 * 3_100
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await eventually(lambda: asked(home, "SELECT status FROM runs WHERE id = ?", run_id) == "ended")
            looked = await called(talk, "someone", "agent_wait", agent_id=run_id)
            assert "there is no run" in looked
            looked = await called(talk, "", "agent_wait", agent_id=run_id)
            assert (looked["status"], looked["outcome"]) == ("failed", "limit")
    # The turn above it had taken two before, and one was kept for its answer.
    assert asked(home, "SELECT steps FROM runs WHERE id = ?", run_id) == 8 - 3
    assert asked(home, "SELECT prompt + completion FROM runs WHERE id = ?", run_id) == 5 * 3_050


async def test_answers_from_documents_are_still_spent_after_a_kill(home: Home, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("The boiler is serviced in October.\n")
    index, answer = call("rag_index", source="notes.md"), call("rag_answer", question="When is the boiler serviced?")
    answered = {"prompt": 50_000, "completion": 50}
    home.furnish(
        config=PRICED + "\n[budget]\ntokens = 60000\n[project]\ninstructions = false\n",
        script=script(
            {"match": "^Passage", "reply": "In October [1].", "usage": answered},
            # Two steps, then a model that hangs; after a restart the first rule serves two more.
            {"match": "^go", "steps": [index, answer, *BUSY], "usage": USED, "times": 2},
            {"match": "^go", "hang": True},
        ),
    )
    with running(home) as daemon:
        call_cli(home, "run", "go", "--bg", "--agent", "librarian", "--cwd", str(tmp_path))
        await eventually(lambda: asked(home, "SELECT count(*) FROM messages WHERE role = 'tool'") == 2)
        daemon.kill_9()
    with daemon_thread(home):
        await eventually(lambda: asked(home, "SELECT status FROM runs") == "ended")
    assert asked(home, "SELECT outcome FROM runs") == "limit"
    assert asked(home, "SELECT sum(prompt + completion) FROM runs") < 20_000
    assert (
        asked(home, "SELECT sum(other_spend.prompt) FROM other_spend JOIN runs ON runs.id = other_spend.root_id")
        == 50_000
    )


async def test_a_summary_of_the_history_is_still_spent_after_a_kill(home: Home) -> None:
    home.furnish(
        config=PRICED.replace("max_output_tokens", "window = 20000\nmax_output_tokens")
        + TEAM
        + "\n[budget]\ntokens = 60000\n",
        script=script(
            {
                "system": "moot:compaction",
                "reply": "Much was said.",
                "usage": {"prompt": 50_000, "completion": 50},
            },
            lead("^much", say("Indeed."), usage={"prompt": 19_000, "completion": 50}),
            lead("^go", spawn("work"), wait(), say("{result}"), usage={"prompt": 100, "completion": 10}),
            # One step, then a model that hangs; after a restart the first rule serves one more.
            mate("^work", *BUSY, usage=USED, times=1),
            mate("^work", hang=True),
        ),
    )
    answer = {"prompt": 100, "completion": 10}
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "much")
            speech = talk.start("moot", "go")
            await speech.until("compacted")
            done = "SELECT count(*) FROM messages JOIN runs ON runs.id = run_id WHERE role = 'tool' AND parent_id <> ''"
            await eventually(lambda: asked(home, done) == 1)
            daemon.kill_9()
    root = asked(home, "SELECT id FROM runs WHERE parent_id = '' ORDER BY number DESC LIMIT 1")
    assert asked(home, "SELECT sum(prompt) FROM archives WHERE root_id = ?", root) == 50_000
    home.write_script(script(mate("^work", *BUSY, usage=USED), lead("", say("Heard."), usage=answer)))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await eventually_idle(home, talk)
    assert asked(home, "SELECT outcome FROM runs WHERE parent_id <> ''") == "limit"
    assert asked(home, "SELECT sum(prompt + completion) FROM runs WHERE ? IN (id, root_id)", root) <= 10_000


async def test_an_answer_from_documents_waits_for_what_others_hold(home: Home, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("The boiler is serviced in October.\n")
    both = {
        "calls": [
            made("agent_spawn", agent="librarian", instruction="find out"),
            made("agent_spawn", agent="operator", instruction="work"),
        ]
    }
    answer = call("rag_answer", question="When is the boiler serviced?")
    home.furnish(
        # Each call may take all that is left, so that one holds it until it is known what it used.
        config=PRICED.replace("max_output_tokens = 100\n", "max_output_tokens = 100000\n")
        + TEAM
        + "\n[budget]\ntokens = 60000\n[project]\ninstructions = false\n",
        script=script(
            {"match": "^Passage", "reply": "In October [1].", "usage": {"prompt": 500, "completion": 10}},
            {"match": "^index", "steps": [call("rag_index", source="notes.md"), say("Indexed.")]},
            lead("^go", both, wait("{agent_ids}"), say("{result}"), usage={"prompt": 100, "completion": 10}),
            mate("^find out", answer, say("{result}"), usage={"prompt": 100, "completion": 10}),
            mate("^work", say("Done."), usage={"prompt": 100, "completion": 10}, delay_seconds=0.5),
        ),
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("librarian", "index", cwd=str(tmp_path))
            speech = await talk.say("moot", "go", cwd=str(tmp_path))
    assert speech.outcome == "completed"
    assert "In October" in speech.text
    assert "leave no room" not in speech.text


async def test_notes_and_analyses_spend_what_their_turn_may(home: Home) -> None:
    found = {"knowledge": [{"key": "tea", "category": "fact", "content": "Ann has tea.", "confidence": "high"}]}
    home.furnish(
        config=PRICED
        + "\n[budget]\ntokens = 20000\n[librarian]\nenabled = true\n[memory]\nobserve_every = 2\n"
        + "[project]\ninstructions = false\n",
        script=script(
            {"match": "Open questions", "reply": json.dumps(found), "usage": {"prompt": 4_000, "completion": 10}},
            {"system": "moot:notes", "reply": "Tea was discussed.", "usage": {"prompt": 3_000, "completion": 10}},
            {"match": "^much", "reply": "Indeed.", "usage": {"prompt": 19_950, "completion": 40}},
            {"match": "^little", "reply": "Yes.", "usage": {"prompt": 100, "completion": 10}},
        ),
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "much")
            await talk.say("ada", "much")
            assert asked(home, "SELECT count(*) FROM other_spend") == 0
            # The next turn leaves room for them, and for no more than it may use.
            await talk.say("ada", "little")
            await eventually(lambda: asked(home, "SELECT count(*) FROM knowledge") == 1)
            await eventually(lambda: asked(home, "SELECT count(*) FROM notes") == 1)
    last = asked(home, "SELECT id FROM runs ORDER BY number DESC LIMIT 1")
    assert asked(home, "SELECT sum(prompt) FROM other_spend WHERE root_id = ?", last) == 7_000
    assert asked(home, "SELECT sum(prompt) FROM other_spend") == 7_000


# ---- time ---------------------------------------------------------------------------------------

# Far from each other and from what a busy machine may take, since time itself is what is tested.
IDLE = "\n[limits]\nidle_seconds = 3\nseconds = 30\n"
SLOWLY: dict[str, Any] = {"reply": "word " * 16, "token_seconds": 0.25}


async def test_nothing_happening_ends_a_run_and_says_that_it_was_that(home: Home) -> None:
    home.furnish(config=PLAIN + IDLE, script=script({"match": "^hang", "hang": True}))
    with daemon_thread(home, ManualClock()) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "hang")
            await daemon.wait_for_event(speech, "start")
            daemon.advance(3)
            await speech.end()
    assert (speech.outcome, speech.ended.limit) == ("timeout", "idle_seconds")
    assert "Nothing happened" in speech.ended.error


async def test_words_keep_a_run_awake_up_to_the_ceiling(home: Home) -> None:
    home.furnish(config=PLAIN + IDLE, script=script(SLOWLY))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            whole = talk.start("ada", "speak")
            cut = talk.start("bob", "speak", limits=pb.RunLimits(seconds=3.5))
            assert (await whole.end()).outcome == "completed"
            await cut.end()
    assert (cut.outcome, cut.ended.limit) == ("timeout", "seconds")


async def test_the_time_of_a_turn_is_that_of_its_teammates_too_when_they_outlive_it(home: Home) -> None:
    home.furnish(
        config=PLAIN + TEAM,
        script=script(
            lead("^go", spawn("hang", timeout=600), say("Begun.")), lead("", say("Heard.")), mate("^hang", hang=True)
        ),
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = await talk.say("moot", "go", limits=pb.RunLimits(seconds=2))
            run_id = results(speech, "agent_spawn")[0]["agent_id"]
            ended = "SELECT outcome || ' ' || hit_limit FROM runs WHERE id = ?"
            await eventually(lambda: asked(home, ended, run_id) == "timeout seconds")
            await eventually_idle(home, talk)


async def test_who_waits_for_a_teammate_is_not_idle_and_goes_on_when_the_teammate_fell_silent(home: Home) -> None:
    home.furnish(
        config=PLAIN + TEAM + IDLE,
        script=script(
            lead("^talk", spawn("have it said", "librarian"), wait(), say("{result}")),
            lead("^hang", spawn("hang"), wait(), say("{result}")),
            mate("^have it said", spawn("speak slowly"), wait(), say("{result}")),
            mate("^speak slowly", **SLOWLY),
            mate("^hang", hang=True),
        ),
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            hung = talk.start("moot", "hang", "another")
            spoken = await talk.say("moot", "talk")
            assert spoken.outcome == "completed"
            assert "word word" in spoken.text
            await hung.end()
    # Its own silence ended the teammate, and nobody else.
    (waited,) = results(hung, "agent_wait")
    assert (waited["outcome"], hung.outcome) == ("timeout", "completed")
    assert "Nothing happened" in waited["error"]
    assert "operator failed (timeout)" in hung.text


async def test_a_human_a_teammate_waits_for_stops_the_clock_of_those_above_it(home: Home) -> None:
    home.furnish(
        config=PLAIN + TEAM + "\n[limits]\nidle_seconds = 3\nseconds = 4\n",
        script=script(
            lead("^go", spawn("ask", "librarian"), wait(), say("{result}")),
            mate("^ask", spawn("really ask"), wait(), say("{result}")),
            mate("^really ask", call("ask_user", questions=[{"question": "Go on?"}]), say("They said {result}")),
        ),
    )
    with daemon_thread(home, ManualClock()) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "go")
            await speech.until("ask_user")
            daemon.advance(100)
            await talk.reply("moot", "yes")
            await speech.end()
            assert speech.outcome == "completed", speech.ended
            assert "They said" in speech.text
