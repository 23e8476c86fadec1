"""A client that does not know whether its message arrived sends it again under the same id."""

import pytest

from moot.domain.errors import BadRequest, Conflict
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider

CONFIG = PROVIDER_CONFIG


async def test_a_retry_while_the_run_goes_on_joins_it(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"text": "only once", "batch": 3, "stall_after": 3})
    async with daemon.client() as one, daemon.client() as two:
        first = one.start("ada", "hello", sender, client_message_id="m1")
        await first.until("chunk")
        second = two.start("ada", "hello", sender, client_message_id="m1")
        await second.until("chunk")
        provider.release()
        await first.end()
        await second.end()
        assert first.text == second.text == "only once"
        assert second.kinds[0] == "start"
        assert len(await one.told("ada", sender)) == 2
    assert len(provider.bodies()) == 1


async def test_a_retry_after_the_end_is_answered_from_the_store(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "the one answer", "usage": {"prompt": 21, "completion": 4}})
    async with daemon.client() as talk:
        first = await talk.say("ada", "hello", sender, client_message_id="m1")
        again = await talk.say("ada", "hello", sender, client_message_id="m1")
        assert again.kinds == ["start", "text_start", "chunk", "text_end", "end"]
        assert again.text == first.text == "the one answer"
        assert again.ended.usage.prompt == 21
        assert again.of("start")[0].user_seq == first.of("start")[0].user_seq == 1
        sent = await talk.send("ada", "hello", sender, client_message_id="m1")
        assert (sent.content, sent.outcome) == ("the one answer", "completed")
        assert len(await talk.told("ada", sender)) == 2
    assert len(provider.bodies()) == 1


async def test_the_same_id_in_another_conversation_is_another_message(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        await talk.say("ada", "one", sender, client_message_id="m1")
        await talk.say("bob", "two", sender, client_message_id="m1")
        await talk.say("ada", "three", f"{sender}:2", client_message_id="m1")
    assert len(provider.bodies()) == 3


async def test_a_finished_turn_is_replayed_after_a_restart(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            first = await talk.say("ada", "hello", client_message_id="m1", guest="bob")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            again = await talk.say("ada", "hello", client_message_id="m1", guest="bob")
            assert again.text == first.text
            assert again.ended.agent == "bob"
            assert len(await talk.told("ada")) == 2
    assert len(provider.bodies()) == 1


async def test_an_interrupted_turn_runs_again_on_the_message_that_is_there(home: Home, provider: Provider) -> None:
    provider.program({"text": "never", "hold": True}, {"text": "at last"})
    with running(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "hello", client_message_id="m1")
            await speech.until("start")
            provider.requests(at_least=1)
            daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.history("ada")).messages[0].outcome == "interrupted"
            again = await talk.say("ada", "hello", client_message_id="m1")
            assert again.text == "at last"
            assert again.of("start")[0].user_seq == 1
            assert await talk.told("ada") == [("user", "", "hello"), ("assistant", "", "at last")]
            assert (await talk.history("ada")).messages[0].outcome == "completed"
            # From now on it is a finished turn like any other.
            assert (await talk.say("ada", "hello", client_message_id="m1")).text == "at last"
    assert len(provider.bodies()) == 2


async def test_a_turn_the_model_failed_runs_again(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"status": 400}, {"text": "better"})
    async with daemon.client() as talk:
        first = await talk.say("ada", "hello", sender, client_message_id="m1")
        assert first.outcome == "model_error"
        again = await talk.say("ada", "hello", sender, client_message_id="m1")
        assert again.text == "better"
        assert await talk.told("ada", sender) == [("user", "", "hello"), ("assistant", "", "better")]


async def test_a_killed_turn_is_not_run_again(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"text": "never", "hold": True})
    async with daemon.client() as talk:
        speech = talk.start("ada", "hello", sender, client_message_id="m1")
        await speech.until("start")
        provider.requests(at_least=1)
        await talk.kill("ada", sender)
        await speech.end()
        again = await talk.say("ada", "hello", sender, client_message_id="m1")
        assert again.outcome == "cancelled"
    assert len(provider.bodies()) == 1


async def test_a_failed_turn_that_others_have_followed_runs_again_behind_them(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"status": 400}, {"text": "other"}, {"text": "better"})
    async with daemon.client() as talk:
        await talk.say("ada", "hello", sender, client_message_id="m1")
        await talk.say("ada", "something else", sender)
        again = await talk.say("ada", "hello", sender, client_message_id="m1")
        assert (again.text, again.of("start")[0].user_seq) == ("better", 4)
        # An answer belongs behind its question, and the id is used up now.
        told = [content for _, _, content in await talk.told("ada", sender)]
        assert told == ["hello", "something else", "other", "hello", "better"]
        assert (await talk.say("ada", "hello", sender, client_message_id="m1")).text == "better"
    assert len(provider.bodies()) == 3


async def test_an_interrupted_message_with_others_queued_behind_it_runs_again_after_them(
    home: Home, provider: Provider
) -> None:
    provider.program({"text": "never", "hold": True}, {"text": "second"}, {"text": "first at last"})
    with running(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "first", client_message_id="m1")
            await speech.until("start")
            provider.requests(at_least=1)
            behind = talk.start("ada", "second", client_message_id="m2")
            await behind.until("queued")
            daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.say("ada", "second", client_message_id="m2")).text == "second"
            assert (await talk.say("ada", "first", client_message_id="m1")).text == "first at last"
            told = [content for role, _, content in await talk.told("ada")]
            assert told == ["first", "second", "second", "first", "first at last"]


async def test_a_turn_that_waits_to_run_again_is_queued_and_outlives_the_daemon(home: Home, provider: Provider) -> None:
    provider.program({"status": 400}, {"text": "never", "hold": True})
    with running(home) as daemon:
        async with daemon.client() as talk:
            failed = await talk.say("ada", "try", "me", client_message_id="m1")
            assert failed.outcome == "model_error"
            first = talk.start("ada", "wait", "me")
            await first.until("start")
            provider.requests(at_least=2)
            again = talk.start("ada", "try", "me", client_message_id="m1")
            assert (await again.until("queued")).position == 1
            assert (await talk.history("ada", "me")).queued == ["try"]
        daemon.kill_9()
    provider.reset()
    provider.program({"text": "Yes."})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            answered = await talk.say("ada", "try", "me", client_message_id="m1")
            assert (answered.text, answered.outcome) == ("Yes.", "completed")
            assert [content for _, _, content in await talk.told("ada", "me")] == ["try", "wait", "try", "Yes."]
    assert len(provider.bodies()) == 1


async def test_a_failed_turn_that_was_put_away_runs_again_with_its_message(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    summary = {"match": "Write the summary now", "text": "A failure. Nothing more."}
    provider.program({"status": 400}, summary, {"text": "better"})
    async with daemon.client() as talk:
        await talk.say("ada", "hello", sender, client_message_id="m1")
        await talk.compact("ada", sender)
        assert (await talk.say("ada", "hello", sender, client_message_id="m1")).text == "better"
        assert [content for _, _, content in await talk.told("ada", sender)] == ["hello", "better"]


async def test_a_waiting_message_sent_twice_waits_once(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"match": "^first$", "text": "1", "hold": True})
    async with daemon.client() as talk, daemon.client() as other:
        first = talk.start("ada", "first", sender)
        await first.until("start")
        provider.requests(at_least=1)
        second = talk.start("ada", "second", sender, client_message_id="m2")
        await second.until("queued")
        again = other.start("ada", "second", sender, client_message_id="m2")
        await again.until("queued")
        assert (await talk.history("ada", sender)).queued == ["second"]
        provider.release()
        await second.end()
        await again.end()
        assert second.text == again.text
        assert len(await talk.told("ada", sender)) == 4


async def test_a_waiting_message_sent_again_after_a_crash_is_one_turn(home: Home, provider: Provider) -> None:
    provider.program({"match": "^first$", "text": "1", "hold": True})
    with running(home) as daemon:
        async with daemon.client() as talk:
            first = talk.start("ada", "first")
            await first.until("start")
            second = talk.start("ada", "second", client_message_id="m2")
            await second.until("queued")
            daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            again = await talk.say("ada", "second", client_message_id="m2")
            assert again.outcome == "completed"
            asked = [content for role, _, content in await talk.told("ada") if role == "user"]
            assert asked == ["first", "second"]


async def test_an_id_that_cannot_be_one_is_refused(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    async with daemon.client() as talk:
        for unfit in ("x" * 257, "line\nbreak"):
            with pytest.raises(BadRequest, match="client message id"):
                await talk.say("ada", "hello", sender, client_message_id=unfit)
        assert await talk.conversations(sender=sender) == []


async def test_one_id_is_one_message(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"text": "the one answer"})
    async with daemon.client() as talk:
        await talk.say("ada", "hello", sender, client_message_id="m1")
        with pytest.raises(Conflict):
            await talk.send("ada", "something else", sender, client_message_id="m1")
        with pytest.raises(Conflict):
            await talk.send("ada", "hello", sender, client_message_id="m1", guest="bob")
        assert len(await talk.told("ada", sender)) == 2
