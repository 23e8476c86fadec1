"""A turn that ended without an answer is told as such with the next request, and nothing of that is stored."""

import asyncio
import json
from typing import Any

import pytest

from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.talking import Talking

CONFIG = PROVIDER_CONFIG
NOTE = (
    "<moot>The answer to the message before this note {how}. Do not act on that message unless you are asked to.</moot>"
)
WIRES = ("fake", "claude")


def heard(body: dict[str, Any]) -> str:
    """What the user's side of the last request says, piece after piece."""
    pieces: list[str] = []
    for message in body["messages"]:
        content = message["content"]
        if message["role"] == "user":
            pieces += [content] if isinstance(content, str) else [each["text"] for each in content if "text" in each]
    return "\n\n".join(pieces)


async def killed(talk: Talking, provider: Provider, agent: str, content: str, sender: str, **fields: Any) -> None:
    provider.program({"hold": True})
    count = len(provider.requests())
    speech = talk.start(agent, content, sender, **fields)
    await speech.until("start")
    await asyncio.to_thread(provider.requests, count + 1)
    await talk.kill(agent, sender)
    assert (await speech.end()).outcome == "cancelled"


@pytest.mark.parametrize("model", WIRES)
async def test_after_a_kill_the_next_request_says_that_the_message_was_stopped(
    daemon: LiveDaemon, provider: Provider, sender: str, model: str
) -> None:
    agent = "ada" if model == "fake" else "claudia"
    daemon.home.write_agent("claudia", model="claude")
    async with daemon.client() as talk:
        await killed(talk, provider, agent, "delete everything", sender)
        provider.program({"text": "Hello."}, {"text": "Good."})
        await talk.say(agent, "hello?", sender)
        await talk.say(agent, "how are you?", sender)
        assert [content for _, _, content in await talk.told(agent, sender)] == [
            "delete everything", "hello?", "Hello.", "how are you?", "Good.",
        ]  # fmt: skip
    note = NOTE.format(how="was stopped by the person")
    for body in provider.bodies()[1:]:
        assert f"delete everything\n\n{note}\n\nhello?" in heard(body)
        assert heard(body).count("<moot>The answer") == 1
    assert provider.faults() == []


async def test_what_a_killed_guest_was_asked_is_not_put_to_the_primary(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        await killed(talk, provider, "ada", "Bob, what is your view?", sender, guest="bob")
        provider.program({"text": "Hello."}, {"text": "I am bob."})
        await talk.say("ada", "hello?", sender)
        await talk.say("ada", "Bob?", sender, guest="bob")
    for body in provider.bodies()[1:]:
        assert (
            "Bob, what is your view?\n\n<moot>The message before this note was put to bob, a guest, and not to ada. "
            "The answer of bob was stopped by the person. Nobody else is to answer that message or to act on it unless "
            "asked to.</moot>\n\nhello?"
        ) in heard(body)
    assert provider.faults() == []


@pytest.mark.parametrize("model", WIRES)
async def test_what_was_done_before_the_kill_stands_before_the_note(
    daemon: LiveDaemon, provider: Provider, sender: str, model: str
) -> None:
    agent = "ada" if model == "fake" else "claudia"
    daemon.home.write_agent("claudia", model="claude")
    provider.program({"calls": [{"name": "set_title", "arguments": {"title": "Bread"}}]})
    async with daemon.client() as talk:
        count = len(provider.requests())
        provider.program({"hold": True})
        speech = talk.start(agent, "name it, then go on", sender)
        await speech.until("tools_complete")
        await asyncio.to_thread(provider.requests, count + 2)
        await talk.kill(agent, sender)
        await speech.end()
        provider.program({"text": "Hello."})
        await talk.say(agent, "hello?", sender)
    assert NOTE.format(how="was stopped by the person") + "\n\nhello?" in heard(provider.bodies()[-1])
    assert provider.faults() == []


async def test_after_a_daemon_died_the_next_request_says_that_the_turn_was_interrupted(
    home: Home, provider: Provider
) -> None:
    provider.program({"hold": True}, {"text": "Hello."})
    with running(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "delete everything", "me")
            await speech.until("start")
            await asyncio.to_thread(provider.requests, 1)
        daemon.kill_9()
    with running(home) as again:
        async with again.client() as talk:
            await talk.say("ada", "hello?", "me")
    note = NOTE.format(how="was interrupted because the daemon stopped")
    assert f"delete everything\n\n{note}\n\nhello?" in heard(provider.bodies()[-1])


async def test_the_same_is_said_from_memory_and_from_disk(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await killed(talk, provider, "ada", "one", "me")
            provider.program({"text": "Two."})
            await talk.say("ada", "two", "me")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            provider.program({"text": "Three."})
            await talk.say("ada", "three", "me")
    _, before, after = provider.bodies()
    assert NOTE.format(how="was stopped by the person") in heard(before)
    assert heard(after).startswith(heard(before).split("\n\n<moot>\nYour working")[0])


async def test_a_time_that_ran_out_and_a_model_that_failed_are_told_too(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    # It may be over before it is asked.
    provider.program({"match": "^take your time$", "hold": True})
    async with daemon.client() as talk:
        late = await talk.say("ada", "take your time", sender, limits=pb.RunLimits(seconds=0.2))
        assert late.outcome == "timeout"
        provider.program({"status": 400})
        failed = await talk.say("ada", "fail", sender)
        assert failed.outcome == "model_error"
        provider.program({"text": "Hello."})
        await talk.say("ada", "hello?", sender)
    said = heard(provider.bodies()[-1])
    assert f"take your time\n\n{NOTE.format(how='ran out of time')}\n\nfail" in said
    assert f"fail\n\n{NOTE.format(how='failed because the model could not be used')}\n\nhello?" in said


async def test_an_empty_answer_is_told_as_empty(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    async with daemon.client() as talk:
        provider.program({"text": ""})
        assert (await talk.say("ada", "think", sender)).outcome == "empty"
        provider.program({"text": "Hello."})
        await talk.say("ada", "hello?", sender)
    assert f"think\n\n{NOTE.format(how='was empty')}\n\nhello?" in heard(provider.bodies()[-1])


async def test_a_message_that_was_answered_when_it_was_sent_again_has_no_note(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"status": 400}, {"text": "Yes."}, {"text": "Hello."})
    async with daemon.client() as talk:
        assert (await talk.say("ada", "try", sender, client_message_id="m-1")).outcome == "model_error"
        assert (await talk.say("ada", "try", sender, client_message_id="m-1")).text == "Yes."
        await talk.say("ada", "hello?", sender)
    assert "<moot>The answer" not in heard(provider.bodies()[-1])


async def test_a_summary_is_made_knowing_which_turns_were_stopped(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        await killed(talk, provider, "ada", "delete one", sender)
        provider.program({"text": "Hello."})
        await talk.say("ada", "hello?", sender)
        await killed(talk, provider, "ada", "delete all", sender)
        provider.program({"text": "A greeting. Nothing is to be deleted."}, {"text": "Yes."})
        await talk.compact("ada", sender)
        await talk.say("ada", "still there?", sender)
    compaction, after = provider.bodies()[-2:]
    note = NOTE.format(how="was stopped by the person")
    assert f"delete one\n\n{note}\n\nhello?" in heard(compaction)
    assert f"delete all\n\n{note}" in heard(compaction)
    assert "<moot>The answer" not in heard(after)


async def test_a_copy_of_a_conversation_tells_of_the_same_stopped_turns(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    copy, other, old = f"{sender}:copy", f"{sender}:other", f"{sender}:old"
    async with daemon.client() as talk:
        await killed(talk, provider, "ada", "delete everything", sender)
        await killed(talk, provider, "ada", "Bob, what is your view?", sender, guest="bob")
        text = await talk.export("ada", sender)
        lines = [json.loads(line) for line in text.splitlines()]
        assert [(each.get("outcome"), each.get("speaker")) for each in lines] == [
            (None, None), ("cancelled", None), ("cancelled", "bob"),
        ]  # fmt: skip
        await talk.import_(text, sender=copy, trust=True)
        await talk.import_(text, agent="bob", sender=other, trust=True)
        # A file of an earlier version does not say it.
        without = [{key: value for key, value in each.items() if key not in ("outcome", "speaker")} for each in lines]
        await talk.import_("\n".join(map(json.dumps, without)), sender=old, trust=True)

        assert [entry.outcome for entry in (await talk.history("ada", copy)).messages] == ["cancelled", "cancelled"]
        assert (await talk.export("ada", copy)).splitlines()[1:] == text.splitlines()[1:]
        # They were no runs of this daemon.
        runs = (await talk.ask(list_runs=pb.ListRunsMsg(all=True, limit=500))).run_list.runs
        assert {copy, other, old} & {run.sender for run in runs} == set()
        assert await talk.usage(sender=copy) == []

        count = len(provider.requests())
        for agent, who in (("ada", sender), ("ada", copy), ("bob", other), ("ada", old)):
            provider.program({"text": "Hello."})
            await talk.say(agent, "hello?", who)
        assert (await talk.ask(delete=pb.DeleteMsg(agent="ada", sender=copy, confirm=True))).deleted.deleted
    original, same, foreign, unmarked = (heard(body).split("hello?")[0] for body in provider.bodies()[count:])
    assert NOTE.format(how="was stopped by the person") in original
    assert "was put to bob, a guest, and not to ada" in original
    assert same == original
    assert "was put to ada, a guest, and not to bob" in foreign
    assert f"Bob, what is your view?\n\n{NOTE.format(how='was stopped by the person')}" in foreign
    assert "<moot>" not in unmarked


async def test_a_copy_of_a_conversation_tells_of_no_answered_turn_as_stopped(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        await talk.say("ada", "name it", sender)
        await killed(talk, provider, "ada", "delete everything", sender)
        text = await talk.export("ada", sender)
        assert [json.loads(line).get("outcome") for line in text.splitlines()[1:]] == [None, None, "cancelled"]
        await talk.import_(text, sender=f"{sender}:copy", trust=True)
        count = len(provider.requests())
        for who in (sender, f"{sender}:copy"):
            provider.program({"text": "Hello."})
            await talk.say("ada", "hello?", who)
    for body in provider.bodies()[count:]:
        assert heard(body).count("<moot>The answer") == 1


async def test_a_copy_says_of_a_steered_turn_that_all_its_messages_were_stopped(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    question = {"name": "ask_user", "arguments": {"questions": [{"question": "Which?"}]}}
    provider.program({"match": "begin$", "calls": [question]}, {"match": "delete everything$", "hold": True})
    async with daemon.client() as talk:
        run = talk.start("ada", "begin", sender)
        await run.until("ask_user")
        steered = talk.start("ada", "delete everything", sender, steer=True)
        await steered.until("queued")
        count = len(provider.requests())
        await talk.reply("ada", "this one", sender)
        await asyncio.to_thread(provider.requests, count + 1)
        await talk.kill("ada", sender)
        assert (await run.end()).outcome == "cancelled"
        text = await talk.export("ada", sender)
        await talk.import_(text, sender=f"{sender}:copy", trust=True)
        assert (await talk.export("ada", f"{sender}:copy")).splitlines()[1:] == text.splitlines()[1:]
        count = len(provider.requests())
        for who in (sender, f"{sender}:copy"):
            provider.program({"text": "Hello."})
            await talk.say("ada", "hello?", who)
    note = NOTE.format(how="was stopped by the person")
    for body in provider.bodies()[count:]:
        assert f"delete everything\n\n{note}\n\nhello?" in heard(body)


@pytest.mark.parametrize(
    ("tool", "outcome", "what"),
    [
        ("set_title", "denied", "calls were not approved and not executed"),
        ("fs_teleport", "tool_error", "the calls failed or were not executed and changed nothing"),
    ],
)
async def test_an_answer_that_nothing_was_done_for_is_followed_by_a_note(
    home: Home, provider: Provider, tool: str, outcome: str, what: str
) -> None:
    note = (
        f"<moot>In the turn before this note {what}, whatever its answer says. Do not try it again unless you are asked"
        " to.</moot>"
    )
    home.write_config(
        CONFIG.replace("PROVIDER_URL", provider.url) + '[security.interceptor]\nsensitive_tools = ["set_title"]\n'
    )
    done = {"calls": [{"name": tool, "arguments": {"title": "Boats"}}]}, {"text": "Done!"}
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            provider.program(*done, {"text": "Hello."}, {"text": "Bye."})
            speech = talk.start("ada", "name it", "me")
            if outcome == "denied":
                ask = await speech.until("approval_opened")
                await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision="deny"))
            assert (await speech.end()).outcome == outcome
            await talk.say("ada", "hello?", "me")
            assert f"{note}\n\nhello?" in heard(provider.bodies()[-1])
            # It has an answer, and is not told as stopped.
            assert '"stopped' not in daemon.cli("export", "ada", "--as", "me").stdout
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "bye", "me")
    said = heard(provider.bodies()[-1])
    assert f"{note}\n\nhello?" in said
    assert said.count("<moot>In the turn") == 1
    assert provider.faults() == []
