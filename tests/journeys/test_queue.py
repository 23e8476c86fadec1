"""Messages to a busy conversation wait in order; nobody else waits with them."""

import asyncio

import pytest

from moot.domain.errors import Busy
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, LiveDaemon
from tests.fake_provider import Provider

CONFIG = PROVIDER_CONFIG


async def test_a_message_to_a_busy_conversation_runs_after_the_one_before(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"match": "^A$", "text": "a", "hold": True}, {"match": "^B$", "text": "b"})
    async with daemon.client() as one, daemon.client() as two:
        first = one.start("ada", "A", sender)
        await first.until("start")
        second = two.start("ada", "B", sender)
        assert (await second.until("queued")).position == 1
        assert (await one.history("ada", sender)).queued == ["B"]
        # It waits outside the history until its turn comes.
        assert await one.told("ada", sender) == [("user", "", "A")]
        provider.requests(at_least=1)
        provider.release()
        await first.end()
        await second.end()
        assert second.kinds[:2] == ["queued", "start"]
        assert [content for _, _, content in await one.told("ada", sender)] == ["A", "a", "B", "b"]
        assert (await one.history("ada", sender)).queued == []


async def test_those_who_wait_are_told_their_place_and_come_first_come_first_served(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"match": "^0$", "text": "zero", "hold": True})
    async with daemon.client() as talk:
        first = talk.start("ada", "0", sender)
        await first.until("start")
        waiting = []
        for number in range(1, 6):
            speech = talk.start("ada", str(number), sender)
            assert (await speech.until("queued")).position == number
            waiting.append(speech)
        assert (await talk.active(sender=sender))[0].queued == 5
        provider.requests(at_least=1)
        provider.release()
        for speech in waiting:
            await speech.end()
        last = [event.position for event in waiting[-1].of("queued")]
        assert last == [5, 4, 3, 2, 1]
        asked = [content for role, _, content in await talk.told("ada", sender) if role == "user"]
        assert asked == ["0", "1", "2", "3", "4", "5"]


async def test_the_thirty_third_waiting_message_is_refused_and_not_stored(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"match": "^first$", "text": "never", "hold": True})
    async with daemon.client() as talk:
        first = talk.start("ada", "first", sender)
        await first.until("start")
        waiting = [talk.start("ada", f"message {number}", sender) for number in range(32)]
        for speech in waiting:
            await speech.until("queued")
        refused = talk.start("ada", "one too many", sender)
        with pytest.raises(Busy) as refusal:
            await refused.end()
        assert "moot kill" in refusal.value.fix
        with pytest.raises(Busy):
            await talk.compact("ada", sender)
        assert len((await talk.history("ada", sender)).queued) == 32
        await talk.kill("ada", sender)
        for speech in waiting:
            assert (await speech.end()).outcome == "completed"
        asked = [content for role, _, content in await talk.told("ada", sender) if role == "user"]
        assert asked == ["first", *(f"message {number}" for number in range(32))]


async def test_a_busy_pair_delays_no_other_pair_and_no_kill_reply_or_ping(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    question = {"name": "ask_user", "arguments": {"questions": [{"question": "Well?"}]}}
    provider.program({"match": "^stuck$", "text": "never", "hold": True}, {"match": "^ask me$", "calls": [question]})
    async with daemon.client() as talk, daemon.client() as other:
        stuck = talk.start("ada", "stuck", sender)
        await stuck.until("start")
        behind = talk.start("ada", "behind", sender)
        await behind.until("queued")
        # On the same connection and on another; the same agent and another; the same sender and another.
        for client, agent, name in ((talk, "bob", sender), (other, "ada", f"{sender}:2"), (other, "cyd", sender)):
            assert (await client.say(agent, "hello", name)).outcome == "completed"
        assert (await talk.ask(ping=pb.Ping())).WhichOneof("message") == "pong"
        asking = other.start("bob", "ask me", sender)
        await asking.until("ask_user")
        await talk.reply("bob", "yes", sender)
        assert (await asking.end()).outcome == "completed"
        await talk.kill("bob", sender)
        assert stuck.kinds == ["start"]
        await talk.kill("ada", sender)
        await behind.end()


async def test_two_sends_in_one_tick_are_both_answered_one_at_a_time(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"match": "^one$", "text": "1", "token_delay": 0.05}, {"match": "^two$", "text": "2"})
    async with daemon.client() as talk:
        async with asyncio.TaskGroup() as group:
            one = group.create_task(talk.send("ada", "one", sender))
            two = group.create_task(talk.send("ada", "two", sender))
        assert (one.result().content, two.result().content) == ("1", "2")
        assert [content for _, _, content in await talk.told("ada", sender)] == ["one", "1", "two", "2"]
    # The second was asked only once the first had been answered.
    seen = [message["content"].partition("\n\n<moot>")[0] for message in provider.bodies()[1]["messages"][1:]]
    assert seen == ["one", "1", "two"]


async def test_a_guest_turn_waits_its_turn_like_any_other(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"match": "^A$", "text": "a", "hold": True}, {"match": "^B$", "text": "b"})
    async with daemon.client() as talk:
        first = talk.start("ada", "A", sender)
        await first.until("start")
        second = talk.start("ada", "B", sender, guest="bob")
        await second.until("queued")
        provider.requests(at_least=1)
        provider.release()
        await second.end()
        assert [(agent, content) for _, agent, content in await talk.told("ada", sender)] == [
            ("", "A"),
            ("", "a"),
            ("", "B"),
            ("bob", "b"),
        ]


async def test_active_conversations_say_who_speaks_and_what_waits(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"match": "^A$", "text": "a", "hold": True})
    async with daemon.client() as talk:
        first = talk.start("ada", "A", sender, guest="bob")
        await first.until("start")
        second = talk.start("ada", "B", sender)
        await second.until("queued")
        (info,) = await talk.active(agent="ada", sender=sender)
        assert (info.agent, info.sender, info.speaker, info.queued) == ("ada", sender, "bob", 1)
        assert [each.running for each in await talk.conversations(sender=sender)] == [True]
        provider.requests(at_least=1)
        provider.release()
        await second.end()
        assert await talk.active(sender=sender) == []
