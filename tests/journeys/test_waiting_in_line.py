"""A message behind a run that waits for a person: who sent it is told what holds it up, and what to do about that."""

import asyncio
import json
import shlex
import subprocess
import sys
from typing import Any

from moot.domain.ids import shorten_ask_id
from moot.wire import moot_pb2 as pb
from moot.wire.codec import encode_frame
from tests import fork_server
from tests.daemon_process import PATIENCE, PROVIDER_CONFIG, Home, LiveDaemon, eventually, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.raw_client import raw
from tests.terminal import terminal

CONFIG = (
    PROVIDER_CONFIG
    + """
[security.interceptor]
sensitive_tools = ["set_title"]
"""
)

NAMING = {"calls": [{"name": "set_title", "arguments": {"title": "The lighthouse"}}]}
ASKING = {"calls": [{"name": "ask_user", "arguments": {"questions": [{"question": "Which colour?"}]}}]}


def start_asking(daemon: LiveDaemon, sender: str, *more: str) -> "subprocess.Popen[str]":
    return fork_server.start(
        [sys.executable, "-m", "moot", "ask", "ada", "me too", "--as", sender, *more],
        env=daemon.home.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def finish(process: "subprocess.Popen[str]") -> tuple[str, str]:
    return await asyncio.to_thread(process.communicate, timeout=PATIENCE)


async def ask_as_json(daemon: LiveDaemon, sender: str, *more: str) -> tuple[int, Any]:
    process = start_asking(daemon, sender, "--json", *more)
    out, _ = await finish(process)
    return process.returncode, json.loads(out)


async def test_without_a_terminal_a_message_behind_an_approval_is_left_in_line(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"match": "name it", **NAMING}, {"match": "name it", "text": "Named."})
    async with daemon.client() as talk:
        first = talk.start("ada", "name it", sender)
        asked = await first.until("approval_opened")
        code, document = await ask_as_json(daemon, sender)
        assert code == 3
        assert document["error"]["type"] == "waiting"
        assert "The lighthouse" in document["error"]["message"]
        assert f"moot inbox approve {shorten_ask_id(asked.ask_id)}" in document["error"]["fix"]
        assert "stays in the queue" in document["error"]["fix"]
        assert (document["data"]["outcome"], document["data"]["position"]) == ("queued", 1)
        assert [each["ask_id"] for each in document["data"]["in_front"]] == [asked.ask_id]
        assert list((await talk.history("ada", sender)).queued) == ["me too"]
        decided = await asyncio.to_thread(daemon.cli, "inbox", "approve", asked.ask_id, "--attempt", "1")
        assert decided.returncode == 0, decided.stderr

        async def answered() -> bool:
            return len(await talk.told("ada", sender)) == 6

        await eventually(answered)
        assert ("user", "", "me too") in await talk.told("ada", sender)


async def test_a_question_in_front_is_named_with_how_to_answer_it(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"match": "paint", **ASKING}, {"match": "paint", "text": "Painted."})
    async with daemon.client() as talk:
        first = talk.start("ada", "paint", sender)
        await first.until("ask_user")
        code, document = await ask_as_json(daemon, sender)
        assert code == 3
        assert "Which colour?" in document["error"]["message"]
        assert f"moot reply ada --as {shlex.quote(sender)} TEXT" in document["error"]["fix"]
        await talk.reply("ada", "red", sender)
        assert (await first.end()).outcome == "completed"


async def test_who_comes_back_after_a_crash_is_told_what_the_message_waits_for(home: Home, provider: Provider) -> None:
    provider.program({"match": "name it", **NAMING}, {"match": "name it", "text": "Named."})
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.start("ada", "name it", "me").until("approval_opened")
            for message in ("me too", "and me"):
                await talk.start("ada", message, "me", client_message_id=message).until("queued")
        daemon.kill_9()
    with running(home) as daemon:
        async with daemon.client() as talk:
            (ask,) = await talk.asks()
            code, document = await ask_as_json(daemon, "me", "--message-id", "me too")
            assert (code, document["error"]["type"]) == (3, "waiting")
            last = talk.start("ada", "and me", "me", client_message_id="and me")
            await last.until("queued")
            await eventually(lambda: last.of("queued")[-1].ask_id == ask.ask_id)
            assert last.of("queued")[-1].position == 2
            await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision="deny"))
            await eventually(talk.is_idle)


async def test_who_waits_is_told_when_the_run_in_front_begins_to_wait(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"match": "name it", "hold": True, **NAMING})
    async with daemon.client() as talk:
        first = talk.start("ada", "name it", sender)
        await first.until("start")
        process = start_asking(daemon, sender)
        assert process.stderr is not None
        line = ""
        while "position 1" not in line:
            line = await asyncio.to_thread(process.stderr.readline)
            assert line
        provider.release()
        _, told = await finish(process)
        assert process.returncode == 3, told
        assert "moot inbox approve ask-" in told
        await talk.kill("ada", sender)
        await first.end()


async def test_at_a_terminal_it_says_what_holds_it_up_and_goes_on_when_that_is_decided(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"match": "name it", **NAMING}, {"match": "name it", "text": "Named."})
    # What others left in line says something else, and takes no answer away.
    provider.program({"match": "here I am", "text": "Yes, you."})
    async with daemon.client() as talk:
        first = talk.start("ada", "name it", sender)
        asked = await first.until("approval_opened")
        with terminal(daemon.home, "ask", "ada", "here I am", "--as", sender, columns=200) as person:
            await asyncio.to_thread(person.wait_for, "The run ahead waits:")
            await asyncio.to_thread(person.wait_for, f"Decide with: moot inbox approve {shorten_ask_id(asked.ask_id)}")
            decided = await asyncio.to_thread(daemon.cli, "inbox", "deny", asked.ask_id)
            assert decided.returncode == 0
            await asyncio.to_thread(person.wait_for, "Yes, you.")
            assert await asyncio.to_thread(person.wait_for_exit) == 0


async def test_the_limit_on_seconds_is_one_on_waiting_for_a_turn_too(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"match": "take long", "text": "long", "hold": True})
    async with daemon.client() as talk:
        first = talk.start("ada", "take long", sender)
        await first.until("start")
        code, document = await ask_as_json(daemon, sender, "--max-seconds", "0.5")
        assert code == 124
        assert document["error"]["type"] == "timed_out"
        assert "stays in the queue" in document["error"]["fix"]
        assert list((await talk.history("ada", sender)).queued) == ["me too"]
        await talk.kill("ada", sender)
        await first.end()


async def test_status_shows_an_approval_with_its_reason_and_reply_says_that_words_do_not_approve(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"match": "name it", **NAMING})
    async with daemon.client() as talk:
        first = talk.start("ada", "name it", sender)
        asked = await first.until("approval_opened")
        shown = (await asyncio.to_thread(daemon.cli, "status")).stdout
        told = (await asyncio.to_thread(daemon.cli_json, "status"))["data"]
        replied = await asyncio.to_thread(daemon.cli, "reply", "ada", "yes", "--as", sender)
        await talk.kill("ada", sender)
        await first.end()
    assert f"ada as {sender} waits for an approval:" in shown
    assert f"  {asked.line}" in shown
    assert f"  why: {asked.reason}" in shown
    assert f"Decide with: moot inbox approve {shorten_ask_id(asked.ask_id)}" in shown
    assert told["open_asks"] == len(told["asks"]) >= 1
    (mine,) = [ask for ask in told["asks"] if ask["sender"] == sender]
    assert mine["reply"] == f"moot inbox approve {shorten_ask_id(asked.ask_id)}"
    assert replied.returncode == 1
    assert "text cannot approve" in replied.stderr
    assert f"moot inbox approve {shorten_ask_id(asked.ask_id)}" in replied.stderr


async def test_who_comes_with_a_token_is_told_that_the_owner_decides(home: Home, provider: Provider) -> None:
    home.write_config((home.path / "config.toml").read_text().replace('tcp = "off"', 'tcp = "127.0.0.1:0"'))
    provider.program({"match": "name it", **NAMING})
    with daemon_thread(home) as daemon:
        token = daemon.cli_json("tokens", "new", "bot")["data"]["token"]
        address = daemon.cli_json("status")["data"]["tcp"]

        def remote(*arguments: str) -> "subprocess.CompletedProcess[str]":
            return fork_server.run(
                [sys.executable, "-m", "moot", "--address", address, *arguments],
                env=home.environment(MOOT_TOKEN=token),
                stdin=subprocess.DEVNULL,
                timeout=PATIENCE,
            )

        for text in ("name it", "me too"):
            asked = await asyncio.to_thread(remote, "ask", "ada", text)
            assert asked.returncode == 3, asked.stderr
            assert "The owner decides, on the daemon's machine, with: moot inbox approve ask-" in asked.stderr
        async with daemon.client() as talk:
            await talk.kill("ada", "bot")


async def test_who_sends_and_wants_to_know_is_told_of_what_the_run_in_front_waits_for(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"match": "name it", "hold": True, **NAMING}, {"match": "name it", "text": "Named."})
    provider.program({"match": "so am I", "text": "Yes, you."})
    message = pb.SendMsg(agent="ada", content="so am I", sender=sender, tell_queued=True)
    async with daemon.client() as talk, raw(daemon) as other:
        first = talk.start("ada", "name it", sender)
        await first.until("start")
        told = await other.ask(pb.ClientMessage(send=message, request_id=7))
        queued = told.stream.queued
        assert (told.request_id, queued) == (7, pb.QueuedEvent(position=1, run_id=queued.run_id))
        provider.release()
        asked = await first.until("approval_opened")
        queued = (await other.receive()).stream.queued
        assert queued == pb.QueuedEvent(
            position=1, ask_id=asked.ask_id, ask_kind="approval", run_id=told.stream.queued.run_id
        )
        await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=asked.ask_id, attempt=1, decision="once"))
        queued = (await other.receive()).stream.queued
        assert queued == pb.QueuedEvent(position=1, run_id=told.stream.queued.run_id)
        answer = await other.receive()
        assert (answer.request_id, answer.response.content, answer.response.outcome) == (7, "Yes, you.", "completed")
        await first.end()


async def test_who_sends_behind_a_question_is_told_which_and_who_did_not_ask_is_told_nothing(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"match": "paint", **ASKING}, {"match": "paint", "text": "Painted."})
    async with daemon.client() as talk, raw(daemon) as other, raw(daemon) as silent:
        first = talk.start("ada", "paint", sender)
        question = await first.until("ask_user")
        message = pb.SendMsg(agent="ada", content="so am I", sender=sender, tell_queued=True)
        told = await other.ask(pb.ClientMessage(send=message))
        queued = told.stream.queued
        assert queued == pb.QueuedEvent(position=1, ask_id=question.ask_id, ask_kind="question", run_id=queued.run_id)
        assert queued.run_id.startswith("run-")
        silent.writer.write(
            encode_frame(pb.ClientMessage(send=pb.SendMsg(agent="ada", content="and I", sender=sender)))
        )

        async def in_line() -> bool:
            return list((await talk.history("ada", sender)).queued) == ["so am I", "and I"]

        await eventually(in_line)
        await talk.reply("ada", "red", sender)
        assert (await silent.receive()).HasField("response")
        await first.end()
