"""What a run asks is stored before it is shown, and its answer before that is confirmed; both outlive a crash."""

import pytest

from moot.domain.errors import BadRequest, MootError, NotFound, TooLarge
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, eventually, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.talking import Talking

CONFIG = PROVIDER_CONFIG
ASK = {"name": "ask_user", "arguments": {"questions": [{"question": "Which colour?", "options": [{"label": "red"}]}]}}


async def told_to_the_model(talk: Talking, provider: Provider) -> str:
    """What the model was told of the one call, once the run is over."""

    async def quiet() -> bool:
        return await talk.active() == []

    await eventually(quiet)
    return str(provider.bodies()[-1]["messages"][-1]["content"])


async def test_an_answer_that_was_confirmed_is_there_after_a_crash(home: Home, provider: Provider) -> None:
    provider.program({"calls": [ASK]})
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.start("ada", "paint it").until("ask_user")
            provider.program({"match": "^paint it$", "text": "never", "hold": True})
            answer = await talk.reply("ada", "blue")
            assert answer.WhichOneof("message") == "pong"
            daemon.kill_9()
    provider.reset()
    with running(home) as daemon:
        async with daemon.client() as talk:

            async def answers() -> list[str]:
                return [each.content for each in (await talk.history("ada")).messages if each.role == "tool"]

            # Where the run heard it before the crash it stands in the history; else the run goes on and hears it now.
            assert await eventually(answers) == ["blue"]


@pytest.mark.parametrize("point", ["ask.answered", "tool.after"])
async def test_an_answer_the_run_has_not_recorded_yet_is_used_after_a_crash(
    home: Home, provider: Provider, point: str
) -> None:
    provider.program({"calls": [ASK]}, {"text": "Blue it is."})
    with running(home, MOOT_FAIL_AT=point) as daemon:
        async with daemon.client() as talk:
            await talk.start("ada", "paint it").until("ask_user")
            with pytest.raises(MootError, match="connection"):
                await talk.reply("ada", "blue")
        daemon.reap()
    with running(home) as daemon:
        async with daemon.client() as talk:
            assert await told_to_the_model(talk, provider) == "blue"
            messages = (await talk.history("ada")).messages
            assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
            assert (messages[0].outcome, messages[2].content) == ("completed", "blue")
    assert provider.faults() == []


@pytest.mark.parametrize("how", ["crash", "stop"])
async def test_a_question_outlives_the_daemon_with_its_id_and_the_time_it_has_left(
    home: Home, provider: Provider, how: str
) -> None:
    provider.program({"calls": [ASK]}, {"text": "Blue it is."})
    with running(home) as daemon:
        async with daemon.client() as talk:
            asked = await talk.start("ada", "paint it").until("ask_user")
            (before,) = await talk.asks()
        daemon.kill_9() if how == "crash" else daemon.stop()
    with running(home) as daemon:
        async with daemon.client() as talk:
            (after,) = await talk.asks()
            assert after == before
            assert (after.ask_id, after.expires_at) == (asked.ask_id, asked.expires_at)
            # Who comes later is asked the same.
            again = await talk.attach("ada").until("ask_user")
            assert again == asked
            await talk.reply("ada", "blue")
            assert await told_to_the_model(talk, provider) == "blue"
            with pytest.raises(NotFound):
                await talk.reply("ada", "blue")
    assert len(provider.bodies()) == 2
    assert provider.faults() == []


async def test_the_time_of_a_question_runs_on_while_the_daemon_is_away(home: Home, provider: Provider) -> None:
    home.write_config("ask_seconds = 1\n" + (home.path / "config.toml").read_text())
    provider.program({"calls": [ASK]}, {"text": "Then not."})
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.start("ada", "paint it").until("ask_user")
        daemon.kill_9()
    # It is asked for as long again only by a daemon that has forgotten since when.
    home.write_config((home.path / "config.toml").read_text().replace("ask_seconds = 1\n", "ask_seconds = 1000\n"))
    with running(home) as daemon:
        async with daemon.client() as talk:
            assert "nobody answered within 1 seconds" in await told_to_the_model(talk, provider)


@pytest.mark.parametrize("content", ["", " \n\t "])
async def test_an_empty_reply_is_rejected_and_the_question_stays_open(
    daemon: LiveDaemon, provider: Provider, sender: str, content: str
) -> None:
    provider.program({"calls": [ASK]}, {"text": "Thanks."})
    async with daemon.client() as talk:
        speech = talk.start("ada", "paint it", sender)
        await speech.until("ask_user")
        with pytest.raises(BadRequest, match="the reply is empty"):
            await talk.reply("ada", content, sender)
        await talk.reply("ada", "blue", sender)
        assert (await speech.end()).of("tool_result")[0].output == "blue"


async def test_a_reply_that_is_too_long_is_rejected_and_the_question_stays_open(home: Home, provider: Provider) -> None:
    home.write_config("max_content_bytes = 100\n" + (home.path / "config.toml").read_text())
    provider.program({"calls": [ASK]}, {"text": "Thanks."})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "paint it")
            await speech.until("ask_user")
            with pytest.raises(TooLarge, match="the reply has 101 bytes; at most 100 are taken"):
                await talk.reply("ada", "x" * 101)
            await talk.reply("ada", "x" * 100)
            assert (await speech.end()).of("tool_result")[0].output == "x" * 100


async def test_the_same_reply_sent_again_answers_nothing_else(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"calls": [ASK]}, {"calls": [ASK]}, {"text": "Thanks."})
    async with daemon.client() as talk:
        speech = talk.start("ada", "paint it", sender)
        first = pb.ReplyToAsk(agent="ada", sender=sender, content="blue", client_message_id="r1")
        await speech.until("ask_user")
        await talk.ask(reply_to_ask=first)
        await speech.until("ask_user", count=2)
        # Its pong was lost, and the client tries once more.
        await talk.ask(reply_to_ask=first)
        assert len([ask for ask in await talk.asks() if ask.sender == sender]) == 1
        await talk.reply("ada", "red", sender)
        await speech.end()
        assert [result.output for result in speech.of("tool_result")] == ["blue", "red"]
