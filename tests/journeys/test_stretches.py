"""A conversation is begun anew without a model call, an earlier one is continued, and its model is switched."""

import asyncio
from typing import Any

import pytest

from moot.client.connection import connect
from moot.domain.errors import Conflict, Forbidden, NotFound
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.talking import Talking
from tests.terminal import terminal

CONFIG = f"""{PROVIDER_CONFIG}
[models.broken]
provider = "openai"
model = "x"
api_key = "env:NOT_SET_ANYWHERE"
[project]
instructions = false
"""
CONTROL_D = "\x04"


async def open_stretch(talk: Talking, sender: str, resume: int = 0) -> pb.StretchOpened:
    asked = pb.OpenStretchMsg(agent="ada", sender=sender, resume=resume)
    return (await talk.ask(open_stretch=asked)).stretch_opened


def said(body: dict[str, Any]) -> list[str]:
    """What the conversation was in a model request, without what is added for one request."""
    texts = [message["content"] for message in body["messages"] if message["role"] != "system"]
    return [text.partition("<moot>")[0].strip() for text in texts]


async def test_the_agent_sees_nothing_of_what_was_before_and_all_of_it_when_it_is_resumed(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "Rye."}, {"text": "Blue."}, {"text": "Rye again."}, {"text": "Sky."})
    async with daemon.client() as talk:
        await talk.say("ada", "Which bread do you like?", sender)
        opened = await open_stretch(talk, sender)
        assert (opened.number, opened.title) == (1, "Which bread do you like?")
        assert len(provider.requests()) == 1, "a model was asked"

        await talk.say("ada", "Which colour?", sender)
        assert said(provider.bodies()[-1]) == ["Which colour?"]
        found = await talk.recall("ada", "bread", sender)
        assert [archive.number for archive in found] == [1]

        continued = await open_stretch(talk, sender, resume=1)
        assert (continued.number, continued.resumed_title) == (2, "Which bread do you like?")
        await talk.say("ada", "And again?", sender)
        assert said(provider.bodies()[-1]) == ["Which bread do you like?", "Rye.", "And again?"]
        history = await talk.history("ada", sender)
        assert [message.seq for message in history.messages] == [1, 2, 5, 6]
        assert history.title == "Which bread do you like?"
        # The request is rebuilt from its record, over the gap.
        traces = (await talk.ask(list_traces=pb.ListTracesMsg(limit=100))).trace_list.traces
        newest = max((each for each in traces if each.sender == sender), key=lambda each: each.started_at)
        rebuilt = (await talk.ask(get_prompt=pb.GetPromptMsg(run_id=newest.run_id, step=1))).prompt
        assert rebuilt.body.decode() == provider.requests()[-1]["raw"]

        await open_stretch(talk, sender, resume=2)
        await talk.say("ada", "Why?", sender)
        assert said(provider.bodies()[-1]) == ["Which colour?", "Blue.", "Why?"]
        # An export keeps which messages belong together.
        copy = f"{sender} copy"
        await talk.import_(await talk.export("ada", sender), agent="ada", sender=copy)
        imported = await talk.history("ada", copy)
        assert [message.content for message in imported.messages] == ["Which colour?", "Blue.", "Why?", "Sky."]


async def test_it_takes_its_place_in_the_queue(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"text": "One.", "hold": True}, {"text": "Two."}, {"text": "Three."})
    async with daemon.client() as talk:
        first = talk.start("ada", "first", sender, client_message_id=f"{sender}-1")
        await first.until("start")
        second = talk.start("ada", "second", sender, client_message_id=f"{sender}-2")
        opening = asyncio.get_running_loop().create_task(open_stretch(talk, sender))
        third = talk.start("ada", "third", sender, client_message_id=f"{sender}-3")
        await third.until("queued")
        assert not opening.done()
        provider.release()
        assert (await opening).number == 1
        assert (await third.end()).text == "Three."
        await second.end()
        assert said(provider.bodies()[-1]) == ["third"]
        assert (await talk.archive("ada", 1, sender)).last_seq == 4


async def test_what_cannot_be_done_is_refused_and_changes_nothing(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "Hello."})
    async with daemon.client() as talk:
        with pytest.raises(Conflict, match="empty"):
            await open_stretch(talk, sender)
        await talk.say("ada", "hello", sender)
        with pytest.raises(NotFound, match="no archive 9"):
            await open_stretch(talk, sender, resume=9)
        assert await talk.archives("ada", sender) == []
        await open_stretch(talk, sender)
        with pytest.raises(Conflict, match="new already"):
            await open_stretch(talk, sender)


async def test_after_a_resume_a_full_window_is_compacted_with_what_was_resumed(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    summary = {"match": "Write the summary now", "text": "They counted. On it goes."}
    async with daemon.client() as talk:
        provider.program({"text": "one."}, {"text": "other."}, {"text": "two.", "usage": {"prompt": 99_000}}, summary)
        provider.program({"text": "three."})
        await talk.say("ada", "count", sender)
        await open_stretch(talk, sender)
        await talk.say("ada", "something else", sender)
        await open_stretch(talk, sender, resume=1)
        await talk.say("ada", "go on", sender)
        await talk.say("ada", "and on", sender)
        asked, last = provider.bodies()[-2:]
        assert said(asked)[:4] == ["count", "one.", "go on", "two."]
        (whole,) = said(last)
        assert "They counted." in whole
        assert whole.endswith("and on")
        archives = await talk.archives("ada", sender)
        assert [(each.first_seq, each.last_seq, each.closed) for each in archives] == [
            (1, 2, True),
            (3, 4, True),
            (5, 6, False),
        ]
        findings = (await talk.ask(check=pb.CheckMsg())).checked.findings
        assert [each.message for each in findings if each.level == "error"] == []


async def test_the_model_of_a_conversation_is_switched_and_switched_back(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:

        async def model(**change: str) -> pb.ConversationModel:
            asked = pb.ConversationModelMsg(agent="ada", sender=sender, **change)
            return (await talk.ask(conversation_model=asked)).conversation_model

        assert ((await model()).model, (await model()).chosen) == ("fake", "")
        with pytest.raises(NotFound, match="there is no model 'claud'") as unknown:
            await model(model="claud")
        assert "Did you mean 'claude'?" in unknown.value.fix
        assert "broken cannot be used" in daemon.cli_json("models", "use", "ada", "broken")["error"]["message"]
        changed = await model(model="claude")
        assert (changed.model, changed.previous) == ("claude", "")
        provider.program({"text": "I am Claude."}, {"text": "I am not."}, {"text": "A guest."})
        await talk.say("ada", "who?", sender)
        assert provider.bodies()[-1]["model"] == "c"
        # A guest has its own model.
        await talk.say("ada", "and you?", sender, guest="bob")
        assert provider.bodies()[-1]["model"] == "m"
        shown = daemon.cli_json("models", "use", "ada", "--own", "--as", sender)["data"]
        assert (shown["model"], shown["previous"], shown["own"]) == ("fake", "claude", "fake")
        await talk.say("ada", "and now?", sender)
        assert provider.bodies()[-1]["model"] == "m"


async def test_a_token_begins_its_own_conversations_anew_and_chooses_no_model(home: Home, provider: Provider) -> None:
    home.write_config(CONFIG.replace("PROVIDER_URL", provider.url).replace('tcp = "off"', 'tcp = "127.0.0.1:0"'))
    provider.program({"text": "Hi."})
    with daemon_thread(home) as daemon:
        async with daemon.client() as owner:
            address = (await owner.ask(get_stats=pb.GetStats())).stats.tcp
            secret = (await owner.ask(new_token=pb.NewTokenMsg(name="phone"))).token_created.token
        async with connect(address, token=secret) as connection:
            talk = Talking(connection)
            await talk.say("ada", "hello")
            assert (await open_stretch(talk, "")).number == 1
            with pytest.raises(Forbidden):
                await open_stretch(talk, "user")
            with pytest.raises(Forbidden, match="only the owner"):
                await talk.ask(conversation_model=pb.ConversationModelMsg(agent="ada", model="claude"))


def test_the_commands_say_the_same(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"text": "Yes."}, {"text": "No."})
    daemon.cli("ask", "ada", "Shall we?", "--as", sender)
    assert daemon.cli("new", "ada", "--as", sender).stdout == (
        "New conversation. The earlier one is archive 1: Shall we?\n"
    )
    daemon.cli("ask", "ada", "Something else", "--as", sender)
    assert [each["number"] for each in daemon.cli_json("resume", "ada", "--as", sender)["data"]] == [1]
    resumed = daemon.cli_json("resume", "ada", "1", "--as", sender)["data"]
    assert resumed == {"archive": 2, "title": "Something else", "resumed": 1, "resumed_title": "Shall we?"}
    # What is continued now is not offered again.
    assert [each["number"] for each in daemon.cli_json("resume", "ada", "--as", sender)["data"]] == [2]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_chat_begins_anew_lists_and_continues(
    daemon: LiveDaemon, provider: Provider, sender: str, columns: int
) -> None:
    provider.program({"text": "**Rye.**"}, {"text": "Blue."}, {"text": "Because."})
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "Which bread?", columns=columns) as person:
        person.wait_for("ada › Rye.")
        person.enter("/new")
        person.wait_for("new conversation; the earlier one: /resume 1 (Which")
        person.enter("Which colour?")
        person.wait_for("ada › Blue.")
        person.enter("/resume")
        person.wait_for("1 Which bread?")
        person.enter("/resume 1")
        person.wait_for("continued: Which bread?")
        person.wait_for("ada › Rye.")
        person.enter("/resume 99999999999999999999")
        person.wait_for("there is no archive")
        person.enter("/archives 99999999999999999999")
        person.wait_for("there is no archive")
        person.enter("/rules rm 99999999999999999999")
        person.wait_for("there is no rule")
        person.enter("Why?")
        person.wait_for("ada › Because.")
        assert said(provider.bodies()[-1]) == ["Which bread?", "**Rye.**", "Why?"]
        person.enter("/model claude")
        person.wait_for("claude from now on; /model default switches back")
        person.enter("/model")
        person.wait_for("chosen for this conversation")
        person.enter("/modle")
        person.wait_for("Did you mean /model?")
        person.enter("/clear")
        person.wait_for("screen cleared")
        person.wait_off_screen("Did you mean")
        person.type(CONTROL_D)
        assert person.wait_for_exit() == 0


def test_the_chat_shows_that_a_new_conversation_waits_for_the_run(home: Home, provider: Provider) -> None:
    provider.program({"match": "first$", "text": "One."}, {"match": "second$", "text": "Two.", "hold": True})
    home.write_config(CONFIG.replace("PROVIDER_URL", provider.url))
    with daemon_thread(home), terminal(home, "chat", "ada", "-m", "first", columns=60) as person:
        person.wait_for("ada › One.")
        person.enter("second")
        person.wait_on_screen("ada thinking")
        person.enter("/new")
        person.wait_on_screen("ada beginning anew, once the conversation is free")
        person.enter("/resume 1")
        person.wait_on_screen("ada resuming, once the conversation is free")
        provider.release()
        person.wait_for("new conversation; the earlier one: /resume 1 (first)")
        person.wait_for("continued: first")
        person.wait_off_screen("once the conversation is free")
        person.type(CONTROL_D)
        assert person.wait_for_exit() == 0
