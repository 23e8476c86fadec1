"""A client may leave and come back: the run goes on, and whoever attaches misses nothing."""

import pytest

from moot.domain.errors import NotFound
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, LiveDaemon
from tests.fake_provider import Provider

CONFIG = PROVIDER_CONFIG


async def test_a_run_goes_on_without_the_client_that_started_it(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "said to nobody, and kept", "hold": True})
    async with daemon.client() as talk:
        speech = talk.start("ada", "hello", sender)
        await speech.until("start")
        provider.requests(at_least=1)
    async with daemon.client() as talk:
        assert [info.agent for info in await talk.active(sender=sender)] == ["ada"]
        back = talk.attach("ada", sender)
        await back.until("start")
        provider.release()
        assert (await back.end()).text == "said to nobody, and kept"
        assert await talk.told("ada", sender) == [("user", "", "hello"), ("assistant", "", "said to nobody, and kept")]


async def test_one_who_attaches_late_hears_everything_from_the_start(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    title = {"name": "set_title", "arguments": {"title": "Words"}}
    provider.program({"text": "First a title.", "calls": [title]})
    provider.program({"text": "one two three four", "batch": 4, "stall_after": 4})
    async with daemon.client() as talk, daemon.client() as late:
        first = talk.start("ada", "hello", sender)
        await first.until("tools_complete")
        await first.until("text_start", count=2)
        second = late.attach("ada", sender)
        await second.until("tools_complete")
        provider.release()
        await first.end()
        await second.end()
        assert second.text == first.text == "First a title.one two three four"
        assert [kind for kind in second.kinds if kind != "chunk"] == [kind for kind in first.kinds if kind != "chunk"]
        assert second.of("tool_result")[0].output == "The title is now: Words"


async def test_attaching_to_a_guest_turn_goes_by_the_conversation(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "Bob here", "hold": True})
    async with daemon.client() as talk, daemon.client() as late:
        first = talk.start("ada", "hello", sender, guest="bob")
        await first.until("start")
        second = late.attach("ada", sender)
        await second.until("start")
        with pytest.raises(NotFound):
            await late.attach("bob", sender).end()
        provider.requests(at_least=1)
        provider.release()
        assert (await second.end()).ended.agent == "bob"


async def test_one_who_attaches_to_a_question_is_asked_too(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    question = {"name": "ask_user", "arguments": {"questions": [{"question": "Which one?"}]}}
    provider.program({"calls": [question]}, {"text": "Red it is."})
    async with daemon.client() as talk:
        await talk.start("ada", "choose", sender).until("ask_user")
    async with daemon.client() as talk:
        back = talk.attach("ada", sender)
        assert (await back.until("ask_user")).questions[0].question == "Which one?"
        await talk.reply("ada", "red", sender)
        assert (await back.end()).text == "Red it is."


async def test_with_nothing_running_there_is_nothing_to_attach_to(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        with pytest.raises(NotFound) as refusal:
            await talk.attach("ada", sender).end()
        assert "moot history" in refusal.value.fix


async def test_subscribers_hear_every_conversation_with_who_speaks(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk, daemon.client() as listener:
        feed = await listener.connection.subscribe()
        await talk.say("ada", "hello", sender, guest="bob")
        heard: list[pb.AgentEventMsg] = []
        async for event in feed:
            if event.sender == sender:
                heard.append(event)
            if heard and heard[-1].kind == pb.DONE:
                break
        await feed.aclose()
        assert {(event.agent, event.speaker) for event in heard} == {("ada", "bob")}
        kinds = [event.kind for event in heard if event.kind != pb.TEXT_DELTA]
        assert kinds == [pb.STARTED, pb.TEXT_START, pb.TEXT_END, pb.DONE]
        assert "".join(event.content for event in heard if event.kind == pb.TEXT_DELTA) == "echo: hello"
