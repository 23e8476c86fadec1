"""A kill ends the run at once in every phase: what was said stays, what was half said goes."""

import asyncio
from typing import Any

import pytest

from moot.domain.errors import Conflict, NotFound
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, eventually
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider

CONFIG = PROVIDER_CONFIG

ASK = {"name": "ask_user", "arguments": {"questions": [{"question": "Which one?"}]}}
TITLE = {"name": "set_title", "arguments": {"title": "Halfway"}}
RECALL = {"name": "recall", "arguments": {"query": "bread"}}


def roles(body: dict[str, Any]) -> list[str]:
    return [message["role"] for message in body["messages"]]


async def test_a_kill_before_the_first_token_keeps_the_message_and_nothing_else(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "too late", "hold": True})
    async with daemon.client() as talk, daemon.client() as other:
        speech = talk.start("ada", "hello", sender)
        await speech.until("start")
        provider.requests(at_least=1)
        answer = await other.kill("ada", sender)
        assert answer.WhichOneof("message") == "pong"
        await speech.end()
        assert speech.outcome == "cancelled"
        assert speech.ended.error
        # The call to the provider is gone, not merely ignored.
        await eventually(lambda: provider.active() == 0)
        assert await talk.told("ada", sender) == [("user", "", "hello")]
        assert (await talk.history("ada", sender)).messages[0].outcome == "cancelled"
        said = await talk.say("ada", "again", sender)
        assert said.outcome == "completed"
        assert [role for role, _, _ in await talk.told("ada", sender)] == ["user", "user", "assistant"]
    assert provider.faults() == []


async def test_a_kill_in_mid_stream_discards_the_partial_text(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "one two three four five six", "stall_after": 4})
    async with daemon.client() as talk, daemon.client() as other:
        speech = talk.start("ada", "count", sender)
        await speech.until("chunk")
        await other.kill("ada", sender)
        await speech.end()
        assert speech.outcome == "cancelled"
        assert speech.kinds[-3:] == ["text_end", "discarded", "end"]
        assert speech.text == ""
        await eventually(lambda: provider.active() == 0)
        assert await talk.told("ada", sender) == [("user", "", "count")]
        assert (await talk.say("ada", "again", sender)).outcome == "completed"
    assert "one two" not in str(provider.bodies()[-1])


async def test_a_kill_during_an_ask_closes_the_question_and_the_call(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "Let me ask.", "calls": [ASK]})
    async with daemon.client() as talk, daemon.client() as other:
        speech = talk.start("ada", "choose", sender)
        await speech.until("ask_user")
        await other.kill("ada", sender)
        await speech.end()
        assert speech.outcome == "cancelled"
        (closed,) = speech.of("ask_closed")
        assert not closed.answered
        assert [ask for ask in await talk.asks() if ask.sender == sender] == []
        with pytest.raises(NotFound):
            await talk.reply("ada", "the red one", sender)
        messages = (await talk.history("ada", sender)).messages
        assert [message.role for message in messages] == ["user", "assistant", "tool"]
        assert messages[1].content == "Let me ask."
        assert messages[2].is_error
        assert messages[2].tool_call_id == messages[1].tool_calls[0].call_id
        assert "interrupted" in messages[2].content
        assert (await talk.say("ada", "never mind", sender)).outcome == "completed"
    assert roles(provider.bodies()[-1]) == ["system", "user", "assistant", "tool", "user"]
    assert provider.faults() == []


async def test_a_kill_with_some_parallel_tools_done_keeps_their_results(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"calls": [TITLE, ASK, RECALL]})
    async with daemon.client() as talk:
        speech = talk.start("ada", "do three things", sender)
        await speech.until("ask_user")
        await speech.until("tool_result", count=2)
        await talk.kill("ada", sender)
        await speech.end()
        messages = (await talk.history("ada", sender)).messages
        calls = [call.call_id for call in messages[1].tool_calls]
        assert [message.tool_call_id for message in messages[2:]] == calls
        assert [message.is_error for message in messages[2:]] == [False, True, False]
        assert (await talk.history("ada", sender)).title == "Halfway"
        await talk.say("ada", "go on", sender)
    assert provider.faults() == []


async def test_a_kill_between_steps_keeps_the_finished_step(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"calls": [TITLE]}, {"text": "never heard", "hold": True})
    async with daemon.client() as talk:
        speech = talk.start("ada", "name it", sender)
        await speech.until("tools_complete")
        provider.requests(at_least=2)
        await talk.kill("ada", sender)
        await speech.end()
        assert speech.outcome == "cancelled"
        assert [role for role, _, _ in await talk.told("ada", sender)] == ["user", "assistant", "tool"]
        await talk.say("ada", "go on", sender)
    assert provider.faults() == []


@pytest.mark.parametrize("phase", ["before the first token", "in mid stream"])
async def test_a_killed_guest_leaves_the_users_words_alone(
    daemon: LiveDaemon, provider: Provider, sender: str, phase: str
) -> None:
    half = {"hold": True} if phase == "before the first token" else {"stall_after": 3}
    provider.program({"text": "Bob says a lot of things", **half})
    async with daemon.client() as talk:
        speech = talk.start("ada", "Bob?", sender, guest="bob")
        await (speech.until("start") if "hold" in half else speech.until("chunk"))
        provider.requests(at_least=1)
        # The conversation is addressed, not the guest.
        await talk.kill("ada", sender)
        await speech.end()
        assert speech.outcome == "cancelled"
        assert await talk.told("ada", sender) == [("user", "", "Bob?")]
        assert (await talk.say("ada", "Ada?", sender)).ended.agent == "ada"
    last = provider.bodies()[-1]
    assert "guest" not in last["messages"][0]["content"].lower()
    assert "Bob says" not in str(last)


async def test_a_guest_killed_before_its_first_token_leaves_nothing_behind_after_a_restart(
    home: Home, provider: Provider
) -> None:
    provider.program({"text": "never", "hold": True})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "Bob?", guest="bob")
            await speech.until("start")
            provider.requests(at_least=1)
            await talk.kill("ada")
            await speech.end()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            provider.program({"text": "Yes?"})
            await talk.say("ada", "Ada?")
            assert [(role, content) for role, _, content in await talk.told("ada")] == [
                ("user", "Bob?"),
                ("user", "Ada?"),
                ("assistant", "Yes?"),
            ]
    assert b"a guest in a conversation" not in home.on_disk()


async def test_killing_an_idle_conversation_is_answered_and_changes_nothing(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        assert (await talk.kill("ada", sender)).WhichOneof("message") == "pong"
        assert await talk.conversations(sender=sender) == []
        await talk.say("ada", "hello", sender)
        before = await talk.told("ada", sender)
        assert (await talk.kill("ada", sender)).WhichOneof("message") == "pong"
        assert await talk.told("ada", sender) == before


async def test_a_kill_without_a_sender_means_the_default_one(daemon: LiveDaemon, provider: Provider) -> None:
    provider.program({"text": "never", "hold": True})
    async with daemon.client() as talk:
        speech = talk.start("cyd", "hello")
        await speech.until("start")
        await talk.kill("cyd", "somebody else")
        await talk.kill("ada")
        assert (await talk.active(agent="cyd", sender="user"))[0].speaker == "cyd"
        await talk.kill("cyd")
        assert (await speech.end()).outcome == "cancelled"


async def test_the_queue_goes_on_after_a_kill(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"match": "first", "text": "never", "hold": True})
    async with daemon.client() as talk:
        first = talk.start("ada", "first", sender)
        await first.until("start")
        provider.requests(at_least=1)
        second = talk.start("ada", "second", sender)
        await second.until("queued")
        await talk.kill("ada", sender)
        assert (await first.end()).outcome == "cancelled"
        assert (await second.end()).outcome == "completed"
        assert [role for role, _, _ in await talk.told("ada", sender)] == ["user", "user", "assistant"]


async def test_a_kill_reaches_a_run_that_waits_to_try_its_model_again(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"status": 503, "headers": {"Retry-After": "50"}})
    async with daemon.client() as talk:
        speech = talk.start("ada", "hello", sender)
        retry = await speech.until("retrying")
        assert retry.delay_ms >= 50_000
        await talk.kill("ada", sender)
        assert (await speech.end()).outcome == "cancelled"


async def test_a_run_that_ends_while_it_is_stopped_has_ended(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        for number in range(12):
            provider.program({"text": "never", "hold": True})
            speech = talk.start("ada", f"hello {number}", sender)
            await speech.until("start")
            (run,) = (await talk.ask(list_runs=pb.ListRunsMsg())).run_list.runs
            stopping = talk.ask(stop_run=pb.StopRunMsg(run_id=run.run_id, only=number % 2 == 0))
            stopped, _ = await asyncio.gather(stopping, talk.kill("ada", sender), return_exceptions=True)
            # Which of the two comes first is open; the other one is told what has happened.
            if not isinstance(stopped, Conflict):
                assert isinstance(stopped, pb.ServerMessage), stopped
                assert [each.outcome for each in stopped.run_list.runs] == ["cancelled"]
            assert (await speech.end()).outcome == "cancelled"


async def test_two_kills_at_once_end_one_run_once(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"text": "never", "hold": True})
    async with daemon.client() as talk, daemon.client() as other:
        speech = talk.start("ada", "hello", sender)
        await speech.until("start")
        async with asyncio.TaskGroup() as group:
            group.create_task(talk.kill("ada", sender))
            group.create_task(other.kill("ada", sender))
        await speech.end()
        assert speech.kinds.count("end") == 1


async def test_the_command_line_kills(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"text": "never", "hold": True})
    async with daemon.client() as talk:
        speech = talk.start("ada", "hello", sender)
        await speech.until("start")
        assert daemon.cli_json("kill", "ada", "--as", sender)["ok"]
        assert (await speech.end()).outcome == "cancelled"
