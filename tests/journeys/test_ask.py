"""An agent asks a human and waits: anybody who owns the conversation can answer, from any connection."""

import pytest

from moot.domain.errors import NotFound
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider

CONFIG = PROVIDER_CONFIG


def asking(*questions: str) -> dict[str, object]:
    return {"name": "ask_user", "arguments": {"questions": [{"question": question} for question in questions]}}


async def test_a_reply_from_another_connection_resumes_the_run(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    options = [{"label": "red", "description": "like a rose"}, {"label": "blue"}]
    question = {"question": "Which colour?", "header": "Colour of it all", "options": options, "multi_select": True}
    provider.program({"calls": [{"name": "ask_user", "arguments": {"questions": [question]}}]}, {"text": "Blue, then."})
    async with daemon.client() as talk, daemon.client() as other:
        speech = talk.start("ada", "paint it", sender)
        asked = await speech.until("ask_user")
        (shown,) = asked.questions
        assert (shown.question, shown.header, shown.multi_select) == ("Which colour?", "Colour of it", True)
        assert [(option.label, option.description) for option in shown.options] == [
            ("red", "like a rose"),
            ("blue", ""),
        ]
        (open_ask,) = [ask for ask in await other.asks() if ask.sender == sender]
        assert (open_ask.agent, open_ask.ask_id) == ("ada", asked.ask_id)
        assert (await other.active(sender=sender))[0].waiting
        answer = await other.reply("ada", "blue", sender)
        assert answer.WhichOneof("message") == "pong"
        await speech.end()
        assert speech.text == "Blue, then."
        assert speech.of("ask_closed")[0].answered
        assert ("tool", "", "blue") in await talk.told("ada", sender)
        assert [ask for ask in await other.asks() if ask.sender == sender] == []
    assert provider.bodies()[1]["messages"][-1]["content"] == "blue"


async def test_without_an_open_question_a_reply_finds_nothing(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        with pytest.raises(NotFound):
            await talk.reply("ada", "yes", sender)


async def test_a_reply_does_not_reach_another_conversations_question(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"calls": [asking("Well?")]})
    async with daemon.client() as talk:
        speech = talk.start("ada", "ask", sender)
        await speech.until("ask_user")
        for agent, name in (("ada", f"{sender}:2"), ("bob", sender)):
            with pytest.raises(NotFound):
                await talk.reply(agent, "yes", name)
        await talk.reply("ada", "yes", sender)
        assert (await speech.end()).outcome == "completed"


async def test_two_questions_at_once_are_answered_oldest_first(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"calls": [asking("First?"), asking("Second?")]}, {"text": "Thanks."})
    async with daemon.client() as talk:
        speech = talk.start("ada", "ask twice", sender)
        await speech.until("ask_user", count=2)
        first = speech.of("ask_user")[0].questions[0].question
        await talk.reply("ada", f"answer to {first}", sender)
        await speech.until("ask_closed")
        second = speech.of("ask_user")[1].questions[0].question
        await talk.reply("ada", f"answer to {second}", sender)
        await speech.end()
        results = {result.output for result in speech.of("tool_result")}
        assert results == {"answer to First?", "answer to Second?"}
    calls = provider.bodies()[1]["messages"][-3]["tool_calls"]
    answers = {message["tool_call_id"]: message["content"] for message in provider.bodies()[1]["messages"][-2:]}
    for call in calls:
        assert answers[call["id"]].removeprefix("answer to ") in call["function"]["arguments"]


async def test_a_question_nobody_answers_becomes_an_error_the_model_reads(home: Home, provider: Provider) -> None:
    home.write_config("ask_seconds = 0.2\n" + (home.path / "config.toml").read_text())
    provider.program({"calls": [asking("Anybody?")]}, {"text": "Then I go on alone."})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            said = await talk.say("ada", "ask")
            assert said.outcome == "completed"
            (result,) = said.of("tool_result")
            assert result.is_error
            assert "nobody answered" in result.output
            assert not said.of("ask_closed")[0].answered
            assert await talk.asks() == []
            with pytest.raises(NotFound):
                await talk.reply("ada", "too late")


async def test_the_runs_time_limit_stands_still_while_a_human_thinks(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"calls": [asking("Take your time?")]}, {"match": "^ask$", "text": "Good."})
    async with daemon.client() as talk:
        speech = talk.start("ada", "ask", sender, limits=pb.RunLimits(seconds=2.0))
        await speech.until("ask_user")
        # Another run with the same limit is over by the time this one is answered.
        provider.program({"match": "^never ends$", "text": "x", "hold": True})
        other = await talk.say("bob", "never ends", sender, limits=pb.RunLimits(seconds=2.0))
        assert other.outcome == "timeout"
        await talk.reply("ada", "thank you", sender)
        assert (await speech.end()).outcome == "completed"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "missing questions parameter"),
        ({"questions": []}, "between one and"),
        ({"questions": [{"q": "?"}]}, "question 1 is not valid: Object missing required field `question`"),
        ({"questions": [{"question": "?"}, "?"]}, "question 2 is not valid: Expected `object`, got `str`"),
        ({"questions": [{"question": "?", "options": ["Red"]}]}, "got `str` in options[0]"),
        ({"questions": [{"question": "?", "options": ["Red"]}]}, 'Each is an object such as {"question": '),
        ({"questions": "which?"}, "questions must be of type array"),
        ({"questions": [{"question": "?"}] * 5}, "between one and"),
    ],
)
async def test_a_question_that_is_none_is_refused_to_the_model(
    daemon: LiveDaemon, provider: Provider, sender: str, arguments: dict[str, object], complaint: str
) -> None:
    provider.program({"calls": [{"name": "ask_user", "arguments": arguments}]}, {"text": "Sorry."})
    async with daemon.client() as talk:
        said = await talk.say("ada", "ask", sender)
        assert said.outcome == "completed"
        assert said.of("ask_user") == []
        assert complaint in said.of("tool_result")[0].output


async def test_the_command_line_answers(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"calls": [asking("Well?")]}, {"text": "Good."})
    async with daemon.client() as talk:
        speech = talk.start("ada", "ask", sender)
        await speech.until("ask_user")
        assert daemon.cli_json("reply", "ada", "yes", "--as", sender)["ok"]
        assert (await speech.end()).text == "Good."
    refused = daemon.cli("reply", "ada", "yes", "--as", sender, "--json")
    assert refused.returncode != 0
