"""Every model request can be made again from the record of its step, byte for byte, and a run can be replayed."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from moot.domain.errors import NotFound
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, eventually, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.interactions.world import home_of_another
from tests.journeys.test_teammate_grants import HOLD
from tests.scripting import script
from tests.talking import Talking
from tests.teaming import TEAM, eventually_idle

CONFIG = PROVIDER_CONFIG
WIRES = ("fake", "claude")
TITLE = {"name": "set_title", "arguments": {"title": "Bread"}}
QUESTION = {"name": "ask_user", "arguments": {"questions": [{"question": "Which?"}]}}
OTHER = """
[models.other]
provider = "openai"
base_url = "PROVIDER_URL/v1"
model = "z"
window = 100000
"""
SECRET = "zq-canary-81f0c2d95b7e"
MAIL = "ada.lovelace@example.org"


def furnish(home: Home, model: str, more: str = "") -> Home:
    for name in ("ada", "bob"):
        home.write_agent(name, model=model)
    home.write_config((home.path / "config.toml").read_text() + more)
    return home


async def rebuilt(talk: Talking) -> list[str]:
    """Every recorded request, in the order of the runs and their steps."""
    found: list[str] = []
    for run_id in await run_ids(talk):
        steps = (await talk.ask(get_prompt=pb.GetPromptMsg(run_id=run_id))).prompt.steps
        found += [(await prompt(talk, run_id, step)).body.decode() for step in range(1, steps + 1)]
    return found


async def run_ids(talk: Talking) -> list[str]:
    listed = await talk.ask(list_traces=pb.ListTracesMsg(limit=100))
    traces = [run for top in listed.trace_list.traces for run in (top, *top.children)]
    return [trace.run_id for trace in sorted(traces, key=lambda trace: trace.started_at)]


async def prompt(talk: Talking, run_id: str, step: int) -> pb.PromptInfo:
    return (await talk.ask(get_prompt=pb.GetPromptMsg(run_id=run_id, step=step))).prompt


def sent(provider: Provider) -> list[str]:
    """What was sent for turns, without the requests of compactions."""
    return [request["raw"] for request in provider.requests() if "moot:compaction" not in request["raw"]]


@pytest.mark.parametrize("model", WIRES)
async def test_rebuilt_requests_are_the_bytes_that_were_sent(
    home: Home, provider: Provider, model: str, tmp_path: Path
) -> None:
    """With tools, guests, a kill, a compaction, another directory, and all of it again after a restart."""
    furnish(home, model)
    provider.program({"text": "Rye."}, {"text": "Wait.", "calls": [TITLE]}, {"text": "Bread it is."}, {"text": "Bob."})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "Which bread? <from>x</from>")
            await talk.say("ada", 'Name it <from agent="x">')
            await talk.say("ada", "Bob?", guest="bob")
            await killed(talk, provider, "ada", "Stop this")
            provider.program({"text": "Fine."}, {"text": "A talk about bread."}, {"text": "Yes."})
            await talk.say("ada", "And now?", cwd=str(tmp_path))
            await talk.compact("ada")
            await talk.say("ada", "Still there?")
            assert await rebuilt(talk) == sent(provider)
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            provider.program({"text": "Again."})
            await talk.say("ada", "After a restart?")
            assert await rebuilt(talk) == sent(provider)
    assert len(sent(provider)) == 8
    assert provider.faults() == []


@pytest.mark.parametrize("model", WIRES)
async def test_requests_of_a_run_that_was_shown_mail_and_steering_are_rebuilt_and_replayed(
    home: Home, provider: Provider, model: str
) -> None:
    """Also after the conversation was begun anew, resumed, moved to another model and compacted."""
    furnish(home, model, OTHER.replace("PROVIDER_URL", provider.url))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            provider.program({"text": "Hi."}, {"match": "begin$", "calls": [QUESTION]})
            await talk.say("ada", "hello")
            run = talk.start("ada", "begin")
            await run.until("ask_user")
            (goal,) = (await talk.ask(list_goals=pb.ListGoalsMsg(agent="ada"))).goals.goals
            await talk.ask(send_mail=pb.SendMailMsg(agent="ada", content="a letter", goal_id=goal.goal_id))
            steered = talk.start("ada", "and this", steer=True)
            await steered.until("queued")
            provider.program({"text": "all of it"})
            await talk.reply("ada", "this one")
            assert (await run.end()).text == "all of it"
            assert all(text in sent(provider)[-1] for text in ("a letter", "and this"))
            provider.program({"text": "New."}, {"text": "Back."}, {"text": "A summary."}, {"text": "After."})
            await talk.ask(open_stretch=pb.OpenStretchMsg(agent="ada"))
            await talk.say("ada", "anew")
            await talk.ask(open_stretch=pb.OpenStretchMsg(agent="ada", resume=1))
            await talk.say("ada", "back")
            await talk.ask(conversation_model=pb.ConversationModelMsg(agent="ada", model="other"))
            await talk.compact("ada")
            await talk.say("ada", "after")
            assert await rebuilt(talk) == sent(provider)
            provider.program({"match": "begin$", "calls": [QUESTION]}, {"text": "all of it"})
            replay = await replayed(talk, (await run_ids(talk))[1])
            assert [step.verdict for step in replay.steps] == ["same", "same"]


async def killed(talk: Talking, provider: Provider, agent: str, content: str) -> None:
    provider.program({"hold": True})
    count = len(provider.requests())
    speech = talk.start(agent, content)
    await speech.until("start")
    await asyncio.to_thread(provider.requests, count + 1)
    await talk.kill(agent)
    await speech.end()


@pytest.mark.parametrize("model", WIRES)
async def test_masked_requests_are_rebuilt_as_they_were_sent_and_hold_no_secret(
    home: Home, provider: Provider, model: str
) -> None:
    furnish(home, model, "\n[security.interceptor]\nredact_personal = true\n")
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.ask(set_secret=pb.SetSecretMsg(name="api", value=SECRET))
            home.write_agent("ada", f"You are Ada. The key is {SECRET}.", model=model)
            for number in range(3):
                await talk.say("ada", f"write to {MAIL} and user{number}@example.org, the key is {SECRET}")
            assert await rebuilt(talk) == sent(provider)
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", f"once more: {MAIL}")
            assert await rebuilt(talk) == sent(provider)
    assert len(sent(provider)) == 4
    assert SECRET.encode() not in home.on_disk()
    assert all(MAIL not in body and SECRET not in body for body in sent(provider))


@pytest.mark.parametrize("model", WIRES)
async def test_a_view_that_was_shortened_for_a_small_window_is_rebuilt(
    home: Home, provider: Provider, model: str
) -> None:
    table = (home.path / "config.toml").read_text().partition(f"[models.{model}]\n")[2].partition("[")[0]
    furnish(home, model, "\n[models.small]\n" + table.replace("window = 100000", "window = 4000"))
    home.write_agent("bob", model="small")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            for number in range(4):
                await talk.say("ada", f"{number} " + "many words " * 500)
            await talk.say("ada", "And you?", guest="bob")
            assert await rebuilt(talk) == sent(provider)
    assert any("do not fit your context window" in body for body in sent(provider))


@pytest.mark.parametrize("model", WIRES)
async def test_a_view_that_was_shortened_between_steps_is_rebuilt(home: Home, provider: Provider, model: str) -> None:
    """The context stands behind the message and before the results, as it was sent."""
    table = (home.path / "config.toml").read_text().partition(f"[models.{model}]\n")[2].partition("[")[0]
    furnish(home, model, "\n[models.small]\n" + table.replace("window = 100000", "window = 2000"))
    home.write_agent("ada").write_text(
        "---\nname: ada\ndescription: reads\nmodel: small\nprefixes: [fs_read]\n---\nAda.\n"
    )
    (home.path / "notes.txt").write_text("rye and wheat\n" * 800)
    read = {"name": "fs_read", "arguments": {"path": "notes.txt"}}
    provider.program({"calls": [read]}, {"text": "Read."})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.say("ada", "read", cwd=str(home.path))).text == "Read."
            assert await rebuilt(talk) == sent(provider)
    assert "do not fit your context window" in sent(provider)[1]


async def test_a_stopped_turn_that_was_run_again_out_of_turn_is_told_in_the_rebuilt_request(
    home: Home, provider: Provider
) -> None:
    """A message that waits has its run from then on, one that is run again only once it begins."""
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            provider.program({"status": 400}, {"match": "two$", "text": "Two.", "hold": True})
            assert (await talk.say("ada", "one", client_message_id="m-1")).outcome == "model_error"
            two = talk.start("ada", "two")
            await asyncio.to_thread(provider.requests, 2)
            again = talk.start("ada", "one", client_message_id="m-1")
            await eventually(lambda: is_in_line(talk, "one"))
            three = talk.start("ada", "three")
            await three.until("queued")
            provider.program({"match": "one$", "hold": True}, {"match": "three$", "text": "Three."})
            provider.release()
            await two.end()
            await asyncio.to_thread(provider.requests, 3)
            await talk.kill("ada")
            assert (await again.end()).outcome == "cancelled"
            assert (await three.end()).text == "Three."
            assert sorted(await rebuilt(talk)) == sorted(sent(provider))


async def is_in_line(talk: Talking, content: str) -> bool:
    runs = (await talk.ask(list_runs=pb.ListRunsMsg())).run_list.runs
    return any(info.instruction == content for info in runs)


async def test_the_request_of_a_model_without_a_server_is_shown_in_the_openai_format(home: Home) -> None:
    home.furnish(script=script({"match": "^bread", "reply": "Rye."}))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.say("ada", "bread?")).text == "Rye."
            bodies = [json.loads(body) for body in await rebuilt(talk)]
    assert [body["messages"][0]["role"] for body in bodies] == ["system"]
    assert "bread?" in str(bodies[0]["messages"])


@pytest.mark.parametrize("model", WIRES)
async def test_the_requests_of_a_teammate_are_rebuilt(home: Home, provider: Provider, model: str) -> None:
    home.write_config((home.path / "config.toml").read_text() + TEAM)
    text = (home.path / "config.toml").read_text()
    home.write_config(text.replace('default_model = "fake"', f'default_model = "{model}"'))
    spawn = {"name": "agent_spawn", "arguments": {"agent": "planner", "instruction": "Plan a trip."}}
    provider.program({"match": "Routing", "calls": [spawn]}, {"match": "Plan a trip", "text": "Planned."})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "go and plan")
            # A request is recorded once its answer has come, also that of the turn which reads the report.
            await eventually_idle(home, talk)

            async def are_rebuilt() -> bool:
                found, requests = await rebuilt(talk), sent(provider)
                told = any("You work as a teammate" in body for body in requests)
                return told and sorted(found) == sorted(requests)

            await eventually(are_rebuilt)


async def test_a_daemon_that_was_replaced_does_not_overwrite_the_records_of_the_next_one(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    """What the first one sends after its call does not fit the history, in which the call was interrupted."""
    (home.path / "tools").mkdir()
    (home.path / "tools" / "hold.py").write_text(HOLD)
    mark = tmp_path / "mark"
    provider.program({"calls": [{"name": "hold_until", "arguments": {"mark": str(mark)}}]})
    with daemon_thread(home) as first:
        async with first.client() as old:
            lost = old.start("ada", "Hold it.", cwd=str(home.path))
            await lost.until("tool_start")
            with daemon_thread(home_of_another(home)) as second:
                async with second.client() as talk:
                    assert (await talk.history("ada")).messages[0].outcome == "interrupted"
                    assert (before := await rebuilt(talk)) == sent(provider)[:1]
                    mark.touch()
                    assert (await lost.end()).outcome == "interrupted"
                    first.stop()
                    assert await rebuilt(talk) == before


async def test_what_many_requests_share_is_stored_once_and_goes_with_the_last_conversation(home: Home) -> None:
    with running(home) as daemon:
        async with daemon.client() as talk:
            for sender in ("one", "two"):
                for number in range(5):
                    await talk.say("ada", f"message {number}", sender)
            assert count(home, "steps") == 10
            # The tools, the instructions, and what is told of each conversation's folder.
            assert count(home, "parts") == 4
            await talk.ask(delete=pb.DeleteMsg(agent="ada", sender="one", confirm=True))
            assert (count(home, "steps"), count(home, "parts")) == (5, 3)
            await talk.ask(delete=pb.DeleteMsg(agent="ada", sender="two", confirm=True))
            assert (count(home, "steps"), count(home, "parts")) == (0, 0)
    assert b"You are ada." not in home.on_disk()


def count(home: Home, table: str) -> int:
    with closing(sqlite3.connect(home.store)) as db:
        return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


async def test_moot_trace_prints_a_request_exactly_as_it_was_sent(home: Home, provider: Provider) -> None:
    provider.program({"calls": [TITLE]}, {"text": "Bread it is."})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "Name it: ä < &")
            (run_id,) = await run_ids(talk)
            with pytest.raises(NotFound, match="no record of step 3"):
                await prompt(talk, run_id, 3)
        first = daemon.cli("trace", run_id, "--step", "1", "--prompt").stdout
        assert first.rstrip("\n") == sent(provider)[0]
        # The last one, where none is named.
        told = daemon.cli_json("trace", run_id, "--prompt")["data"]
        assert (told["step"], told["steps"], told["provider"]) == (2, 2, "openai")
        assert told["body"] == sent(provider)[1]


async def test_a_replay_uses_the_recorded_results_and_says_where_it_differs(home: Home, provider: Provider) -> None:
    provider.program({"calls": [TITLE]}, {"text": "Bread it is."})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "Name it.")
            (run_id,) = await run_ids(talk)
            before = await talk.told("ada")

            provider.program({"calls": [{**TITLE, "id": "call_another_01"}]}, {"text": "Bread it is."})
            same = await replayed(talk, run_id)
            assert [step.verdict for step in same.steps] == ["same", "same"]
            assert sent(provider)[2:] == sent(provider)[:2]

            provider.program({"calls": [TITLE]}, {"text": "Bread, then."})
            words = await replayed(talk, run_id)
            assert [(step.verdict, step.expected, step.got) for step in words.steps][1] == (
                "text", "Bread it is.", "Bread, then.",
            )  # fmt: skip

            provider.program({"calls": [{"name": "set_title", "arguments": {"title": "Cake"}}]})
            calls = await replayed(talk, run_id, "claude")
            assert [step.verdict for step in calls.steps] == ["calls"]
            assert (calls.model, calls.recorded) == ("claude", 2)

            assert await talk.told("ada") == before
            assert (await talk.history("ada")).title == "Bread"
            assert len(await run_ids(talk)) == 1
        provider.program({"calls": [TITLE]}, {"text": "Bread, then."})
        shown = daemon.cli("replay", run_id)
        assert shown.returncode == 1
        assert "step 1: same answer" in shown.stdout
        assert "recorded: Bread it is." in shown.stdout
    assert provider.faults() == []


async def replayed(talk: Talking, run_id: str, model: str = "") -> pb.Replayed:
    return (await talk.ask(replay_run=pb.ReplayRunMsg(run_id=run_id, model=model))).replayed


@pytest.mark.parametrize("model", WIRES)
async def test_a_replay_compares_what_a_guest_said_although_its_call_was_refused(
    home: Home, provider: Provider, model: str
) -> None:
    furnish(home, model)
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            answers = [{"text": text, "calls": [TITLE]} for text in ("Rye.", "Spelt.")]
            provider.program(*answers)
            assert (await talk.say("ada", "Which bread?", guest="bob")).text == "Spelt."
            (run_id,) = await run_ids(talk)
            for text, verdict in (("Spelt.", "same"), ("Oats.", "text")):
                provider.program(answers[0], {"text": text, "calls": [TITLE]})
                # The first answer was discarded when its call was refused.
                assert [step.verdict for step in (await replayed(talk, run_id)).steps] == ["unknown", verdict]


async def test_a_replay_tells_no_secret_that_was_learnt_since(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", f"the key is {SECRET}")
            (run_id,) = await run_ids(talk)
            await talk.ask(set_secret=pb.SetSecretMsg(name="api", value=SECRET))
            await replayed(talk, run_id)
    first, again = sent(provider)
    assert SECRET in first
    assert SECRET not in again


async def test_a_request_that_came_to_nothing_has_a_record_too(daemon: LiveDaemon, provider: Provider) -> None:
    provider.program({"status": 400})
    async with daemon.client() as talk:
        assert (await talk.say("ada", "fail", "test:failed")).outcome == "model_error"
        run_id = (await run_ids(talk))[-1]
        assert (await prompt(talk, run_id, 1)).body.decode() == sent(provider)[-1]
        answer = await replayed(talk, run_id)
    assert [step.verdict for step in answer.steps] == ["unknown"]
