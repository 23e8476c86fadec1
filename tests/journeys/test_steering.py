"""A message for a busy run is shown to it at its next step, once, in order; or it is a turn of its own."""

import asyncio
import json
import re
from contextlib import suppress
from typing import Any

import pytest

from moot.client import AsyncMoot
from moot.client.errors import Unreachable
from moot.domain.errors import BadRequest, Conflict
from moot.failpoint import STEER_POINTS
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, eventually, running
from tests.fake_provider import Provider
from tests.talking import Speech, Talking
from tests.terminal import terminal

CONFIG = PROVIDER_CONFIG
CONTROL_D = "\x04"
QUESTION = {"name": "ask_user", "arguments": {"questions": [{"question": "Which?"}]}}


async def ask(
    talk: Talking, provider: Provider, sender: str = "", *, usage: dict[str, int] | None = None, **fields: Any
) -> Speech:
    """A run in the middle of a tool call: it asks a question."""
    provider.program({"match": "begin$", "calls": [QUESTION], **({"usage": usage} if usage else {})})
    speech = talk.start("ada", "begin", sender, **fields)
    await speech.until("ask_user")
    return speech


async def steer(talk: Talking, text: str, sender: str = "", **fields: Any) -> Speech:
    speech = talk.start("ada", text, sender, steer=True, **fields)
    await speech.until("queued")
    return speech


async def user_messages(talk: Talking, sender: str = "") -> list[tuple[str, bool, str]]:
    messages = (await talk.history("ada", sender)).messages
    return [(each.content, each.steered, each.outcome) for each in messages if each.role == "user"]


async def test_messages_are_shown_in_order_at_the_next_step_and_can_be_withdrawn_before(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk, daemon.client() as watching:
        feed = await watching.connection.subscribe()
        run = await ask(talk, provider, sender)
        later = talk.start("ada", "later", sender)
        await later.until("queued")
        first = await steer(talk, "first", sender, client_message_id="m1")
        second, third = await steer(talk, "second", sender), await steer(talk, "third", sender)
        withdrawn = (await talk.ask(withdraw=pb.WithdrawMsg(agent="ada", sender=sender))).withdrawn
        assert withdrawn.content == "third"
        assert (await third.end()).outcome == "cancelled"
        provider.program({"match": "second$", "text": "steered"}, {"match": "later$", "text": "much later"})
        await talk.reply("ada", "this one", sender)
        await run.end()
        # The text of the run answers all of it; the messages themselves end with nothing to say.
        assert (run.text, run.kinds.count("steered")) == ("steered", 2)
        for speech in (first, second):
            await speech.end()
            assert (speech.outcome, speech.text, speech.kinds[-2:]) == ("completed", "", ["steered", "end"])
        # It has no model request of its own; its page names the run that has.
        run_id, shown_to = first.of("queued")[0].run_id, run.events[0].start.run_id
        assert f"moot show {run_id}" in daemon.cli("trace", run_id, "--prompt").stderr
        assert f"shown to run {shown_to}" in daemon.cli("show", run_id).stdout
        assert (await later.end()).text == "much later"
        assert await user_messages(talk, sender) == [
            ("begin", False, "completed"),
            ("first", True, ""),
            ("second", True, ""),
            ("later", False, "completed"),
        ]
        request = next(body for body in provider.bodies() if "second" in json.dumps(body["messages"]))
        told = [message["content"] for message in request["messages"] if message["role"] in ("tool", "user")]
        assert told[:2] == ["begin", "this one"]
        assert re.search(r"first\s+second", "\n".join(told[2:])), told
        # Sent again under its id it starts nothing, and says where it was shown.
        again = await talk.say("ada", "first", sender, client_message_id="m1", steer=True)
        assert (again.outcome, again.kinds) == ("completed", ["steered", "end"])
        run_id = next(event.steered.run_id for event in first.events if event.HasField("steered"))
        with pytest.raises(Conflict, match="has begun"):
            await talk.ask(withdraw=pb.WithdrawMsg(agent="ada", sender=sender, run_id=run_id))
        assert daemon.cli("trace", run_id).returncode == 0
        assert [f.message for f in (await talk.ask(check=pb.CheckMsg())).checked.findings if f.level == "error"] == []
        seen: list[tuple[str, str]] = []
        async for event in feed:
            if event.kind == pb.STEERED:
                seen.append((event.content, event.run_id))
            if len(seen) == 4:
                break
    assert [content for content, _ in seen] == ["first", "first", "second", "second"]


async def test_a_message_is_a_turn_of_its_own_if_the_run_has_no_other_step_or_another_speaker(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        # Nothing is active.
        provider.program({"match": "idle$", "text": "alone"})
        assert (await talk.say("ada", "idle", sender, steer=True)).text == "alone"
        # The last words of the run are being written.
        provider.program({"match": "busy$", "text": "done", "hold": True}, {"match": "late$", "text": "next"})
        run = talk.start("ada", "busy", sender)
        await run.until("start")
        provider.requests(at_least=2)
        late = await steer(talk, "late", sender)
        provider.release()
        assert ((await run.end()).text, (await late.end()).text) == ("done", "next")
        # It was stopped.
        run = await ask(talk, provider, sender)
        late = await steer(talk, "late", sender)
        provider.program({"match": "late$", "text": "after the stop"})
        await talk.kill("ada", sender)
        assert ((await run.end()).outcome, (await late.end()).text) == ("cancelled", "after the stop")
        # It is for the primary, and a guest speaks; a guest has no tools, and a message for another waits anyway.
        run = await ask(talk, provider, sender)
        guest = await steer(talk, "for bob", sender, guest="bob")
        provider.program({"match": "begin$", "text": "asked"}, {"match": "for bob$", "text": "bob here"})
        await talk.reply("ada", "this one", sender)
        assert ((await run.end()).outcome, (await guest.end()).text) == ("completed", "bob here")
        with pytest.raises(BadRequest, match="limits"):
            await talk.say("ada", "x", sender, steer=True, limits=pb.RunLimits(steps=1))


@pytest.mark.parametrize("limits", [pb.RunLimits(steps=1), pb.RunLimits(tokens=20_000)], ids=["steps", "tokens"])
async def test_what_arrives_when_no_step_is_left_is_shown_to_the_next_turn(
    daemon: LiveDaemon, provider: Provider, sender: str, limits: pb.RunLimits
) -> None:
    async with daemon.client() as talk:
        # Of the tokens some are left, but fewer than the next request has.
        run = await ask(talk, provider, sender, limits=limits, usage={"prompt": 11_000})
        late = await steer(talk, "and this", sender)
        goals = (await talk.ask(list_goals=pb.ListGoalsMsg(agent="ada"))).goals.goals
        (goal,) = [each.goal_id for each in goals if each.sender == sender]
        await talk.ask(send_mail=pb.SendMailMsg(agent="ada", sender=sender, content="a letter", goal_id=goal))
        provider.program({"match": "and this|a letter", "text": "here is all"})
        await talk.reply("ada", "this one", sender)
        assert (await run.end()).outcome == "limit"
        assert (await late.end()).text == "here is all"
        assert run.of("steered") == []
        roles = [(message.role, message.agent) for message in (await talk.history("ada", sender)).messages]
    assert roles[3:] == [("user", ""), ("injected", "@peers"), ("assistant", "")]


@pytest.mark.parametrize("point", ["", *STEER_POINTS, "commit.append:3", "committed.append:3"])
async def test_a_message_is_shown_once_also_over_a_crash(home: Home, provider: Provider, point: str) -> None:
    environment = {"MOOT_FAIL_AT": point} if point else {}
    with running(home, **environment) as daemon:
        async with daemon.client() as talk:
            await ask(talk, provider)
            await steer(talk, "faster", client_message_id="m1")
            provider.program({"match": "faster$", "text": "steered", "hold": True})
            with suppress(Unreachable):
                await talk.reply("ada", "this one")
            if point:
                await asyncio.to_thread(daemon.process.wait)
            else:
                provider.requests(at_least=2)
                daemon.kill_9()
    provider.reset()
    provider.program({"match": "faster$", "text": "steered", "repeat": 3}, {"match": "probe$", "text": "there"})
    with running(home) as daemon:
        async with daemon.client() as talk:
            # Sent again by a client that does not know what became of it.
            again = await talk.say("ada", "faster", client_message_id="m1", steer=True)
            assert again.outcome == "completed"
            await talk.say("ada", "probe")
            said = [content for content, _, _ in await user_messages(talk)]
    assert said == ["begin", "faster", "probe"]


async def test_a_compaction_during_a_steered_run_keeps_the_whole_turn(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    full = {"prompt": 90_000, "completion": 1}
    provider.program({"match": "^small$", "text": "s"}, {"match": "begin$", "calls": [QUESTION], "usage": full})
    async with daemon.client() as talk:
        await talk.say("ada", "small", sender)
        run = talk.start("ada", "begin", sender)
        await run.until("ask_user")
        await steer(talk, "faster", sender)
        provider.program({"match": "summary now", "text": "Small talk."}, {"match": "faster$", "text": "steered"})
        await talk.reply("ada", "this one", sender)
        await run.end()
        assert (run.text, len(run.of("compacted"))) == ("steered", 1)
        assert await user_messages(talk, sender) == [("begin", False, "completed"), ("faster", True, "")]


async def test_moot_ask_and_the_python_client_steer(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    async with daemon.client() as talk, AsyncMoot(home=str(daemon.home.path)) as moot:
        # Nobody has to be waited for, so that a command without a terminal stays.
        listing = {"name": "fs_list", "arguments": {"path": "."}}
        provider.program({"match": "begin$", "calls": [listing], "hold": True})
        run = talk.start("ada", "begin", sender)
        await run.until("start")
        provider.requests(at_least=1)
        command = asyncio.create_task(
            asyncio.to_thread(daemon.cli, "ask", "ada", "by command", "--as", sender, "--steer", "--json")
        )

        async def has_queued(number: int) -> bool:
            return len((await talk.history("ada", sender)).queued) == number

        await eventually(lambda: has_queued(1))
        call = asyncio.create_task(moot.ask("ada", "by call", sender=sender, steer=True))
        await eventually(lambda: has_queued(2))
        provider.program({"match": "by call$", "text": "steered"})
        provider.release()
        assert (await run.end()).text == "steered"
        run_id = run.events[0].start.run_id
        data = json.loads((await command).stdout)["data"]
        assert (data["outcome"], data["content"], data["steered_into"]) == ("completed", "", run_id)
        reply = await call
        assert (reply.text, reply.steered_into) == ("", run_id)


def test_now_in_a_chat_shows_the_message_once_and_the_setting_makes_it_the_default(
    home: Home, provider: Provider
) -> None:
    home.write_config(CONFIG.replace("PROVIDER_URL", provider.url) + '[chat]\nbusy = "steer"\n')
    slow = {"name": "exec", "arguments": {"command": "while ! [ -e go ]; do sleep 0.05; done"}}
    provider.program(
        {"match": "begin$", "calls": [slow]},
        {"match": "by setting$", "text": "all **three** of it"},
        {"match": "queued one$", "text": "at last"},
    )
    folder = home.path / "work"
    folder.mkdir()
    with running(home), terminal(home, "chat", "ada", "--cwd", str(folder), columns=80) as person:
        person.wait_on_screen("Ctrl-D leaves")
        person.enter("begin")
        person.wait_on_screen("allow exec?")
        person.enter("/later queued one")
        person.wait_on_screen("queued one  (queued 1")
        person.enter("/now hurry up")
        person.wait_on_screen("hurry up  (shown at the next step")
        person.enter("by setting")
        person.wait_on_screen("by setting  (shown at the next step")
        with terminal(home, "chat", "ada", columns=80) as other:
            other.wait_on_screen("⋯ queued one  (queued 1)")
            other.wait_on_screen("⋯ hurry up  (shown at the next step)")
            other.type(CONTROL_D)
            assert other.wait_for_exit() == 0
        (folder / "go").touch()
        person.enter("o")
        person.wait_for("you › hurry up")
        person.wait_for("you › by setting")
        person.wait_for("ada › all three of it")
        person.wait_for("you › queued one")
        person.wait_for("ada › at last")
        rows = person.rows.text
        assert [rows.count(f"you › {text}") for text in ("begin", "hurry up", "by setting", "queued one")] == [1] * 4
        assert rows.count("all three of it") == 1
        assert "It was shown" not in rows
        person.type(CONTROL_D)
        assert person.wait_for_exit() == 0
        with terminal(home, "chat", "ada", columns=80) as again:
            again.wait_for("you › hurry up")
            again.wait_for("you › by setting")
            again.wait_for("ada › at last")
            again.wait_on_screen("Ctrl-D leaves")
            assert again.rows.text.count("you › hurry up") == 1
            again.type(CONTROL_D)
            assert again.wait_for_exit() == 0


def test_a_compaction_that_takes_long_is_seen_in_the_chat(home: Home, provider: Provider) -> None:
    provider.program({"match": "hello$", "text": "hi"}, {"match": "summary now", "text": "They met.", "hold": True})
    with running(home), terminal(home, "chat", "ada", "-m", "hello", columns=80) as person:
        person.wait_for("ada › hi")
        person.enter("/compact")
        person.wait_on_screen("ada compacting, once the conversation is free")
        provider.requests(at_least=2)
        provider.release()
        person.wait_for("compacted into archive 1: They met.")
        person.wait_off_screen("once the conversation is free")
        person.type(CONTROL_D)
        assert person.wait_for_exit() == 0


async def test_a_message_that_is_run_again_and_steered_is_one_turn(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    """It is not told as stopped while it is answered, and what steers it belongs to its turn."""
    stopped = "was stopped by the person. Do not act on that message unless you are asked to."
    async with daemon.client() as talk:
        provider.program({"match": "begin$", "status": 400})
        assert (await talk.say("ada", "begin", sender, client_message_id="m1")).outcome == "model_error"
        run = await ask(talk, provider, sender, client_message_id="m1")
        steered = await steer(talk, "first", sender)
        provider.program({"match": "first$", "hold": True})
        count = len(provider.requests())
        await talk.reply("ada", "this one", sender)
        await asyncio.to_thread(provider.requests, count + 1)
        assert "Do not act on" not in json.dumps(provider.bodies()[-1])
        await talk.kill("ada", sender)
        assert (await run.end()).outcome == "cancelled"
        assert (await steered.end()).outcome == "completed"
        provider.program({"text": "Hello."})
        await talk.say("ada", "hello?", sender)
        assert f"first\\n\\n<moot>The answer to the message before this note {stopped}" in json.dumps(
            provider.bodies()[-1]
        )
        lines = [json.loads(line) for line in (await talk.export("ada", sender)).splitlines()[1:]]
    assert [(line["content"], line.get("outcome")) for line in lines if line["role"] == "user"] == [
        ("begin", "cancelled"), ("first", "cancelled"), ("hello?", None),
    ]  # fmt: skip
