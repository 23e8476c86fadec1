"""Long-term memory: what was put away is found again, by the person and by the agent, and by nobody else."""

import pytest

from moot.domain.errors import BadRequest, NotFound
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.talking import Talking

CONFIG = PROVIDER_CONFIG


async def put_away(talk: Talking, provider: Provider, sender: str, about: str, *, guest: str = "") -> None:
    provider.program({"match": f"{about}$", "text": f"Indeed, {about}."})
    provider.program({"match": "Write the summary now", "text": f"Talk of {about}. They agreed."})
    await talk.say("ada", f"Let us speak of {about}", sender, guest=guest)
    await talk.compact("ada", sender)


async def test_an_archive_is_found_by_what_was_said_in_it(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    async with daemon.client() as talk:
        for about in ("sourdough", "bicycles", "gardening"):
            await put_away(talk, provider, sender, about)
        found = await talk.recall("ada", "bicycles", sender)
        assert [archive.number for archive in found] == [2]
        assert found[0].title == "Talk of bicycles."
        assert "Let us speak of bicycles" in [message.content for message in found[0].messages]
        assert await talk.recall("ada", "astronomy", sender) == []


async def test_what_was_recalled_says_who_said_it(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    async with daemon.client() as talk:
        await put_away(talk, provider, sender, "sourdough", guest="bob")
        (archive,) = await talk.recall("ada", "sourdough indeed", sender)
        assert ("assistant", "bob") in [(message.role, message.agent) for message in archive.messages]


async def test_the_recall_tool_gives_the_agent_the_words_and_the_voices(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        await put_away(talk, provider, sender, "sourdough", guest="bob")
        provider.program(
            {"match": "remember", "calls": [{"name": "recall", "arguments": {"query": "sourdough", "limit": 3}}]},
            {"match": "remember", "text": "Bob said so."},
        )
        said = await talk.say("ada", "Do you remember?", sender)
        output = said.of("tool_result")[0].output
        assert "Talk of sourdough." in output
        assert "bob said: Indeed, sourdough." in output
        assert "user said: Let us speak of sourdough" in output
        assert said.text == "Bob said so."


async def test_nothing_found_is_said_so(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"calls": [{"name": "recall", "arguments": {"query": "anything"}}]}, {"text": "No."})
    async with daemon.client() as talk:
        said = await talk.say("ada", "Do you remember?", sender)
        assert said.of("tool_result")[0].output == "Nothing in the archives matches."
        assert not said.of("tool_result")[0].is_error


async def test_another_senders_and_another_agents_archives_are_never_found(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        await put_away(talk, provider, f"{sender}:secret", "platypus")
        await put_away(talk, provider, sender, "gardening")
        await talk.say("bob", "hello", f"{sender}:secret")
        assert await talk.recall("ada", "platypus", sender) == []
        assert await talk.recall("bob", "platypus", f"{sender}:secret") == []
        provider.program(
            {"match": "look$", "calls": [{"name": "recall", "arguments": {"query": "platypus"}}]},
            {"match": "look$", "text": "Nothing."},
        )
        said = await talk.say("ada", "look", sender)
        assert said.of("tool_result")[0].output == "Nothing in the archives matches."


async def test_what_is_still_in_the_history_is_not_recalled(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        await put_away(talk, provider, sender, "sourdough")
        await talk.say("ada", "marmalade", sender)
        assert await talk.recall("ada", "marmalade", sender) == []


async def test_recall_goes_on_after_a_restart(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await put_away(talk, provider, "user", "sourdough")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert [archive.title for archive in await talk.recall("ada", "sourdough")] == ["Talk of sourdough."]


async def test_edits_recalls_and_guests_between_turns_leave_every_message_stored_once(
    home: Home, provider: Provider
) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await put_away(talk, provider, "user", "sourdough")
            for number in range(4):
                home.write_agent("ada", f"You are ada, number {number}.")
                query = {"name": "recall", "arguments": {"query": "sourdough"}}
                provider.program({"match": f"turn {number}$", "calls": [query]})
                await talk.say("ada", f"turn {number}")
                await talk.say("ada", f"guest {number}", guest="bob")
            told = await talk.told("ada", all=True)
            asked = [content for role, _, content in told if role == "user"]
            expected = [f"{kind} {number}" for number in range(4) for kind in ("turn", "guest")]
            assert asked == ["Let us speak of sourdough", *expected]
            assert len([role for role, _, _ in told if role == "assistant"]) == 1 + 4 * 3
            assert "You are ada" not in str(told)


@pytest.mark.parametrize(
    "query", ['"', "AND OR NOT", "sour*", "a NEAR b", "col:x", "'; DROP TABLE messages", "(((", "ß語"]
)
async def test_any_text_can_be_looked_for(daemon: LiveDaemon, provider: Provider, sender: str, query: str) -> None:
    async with daemon.client() as talk:
        await put_away(talk, provider, sender, "sourdough")
        await talk.recall("ada", query, sender)
        assert len(await talk.recall("ada", f"sourdough {query}", sender)) == 1


async def test_an_empty_question_and_an_unknown_conversation_are_errors(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        with pytest.raises(NotFound):
            await talk.recall("ada", "bread", sender)
        await talk.say("ada", "hello", sender)
        with pytest.raises(BadRequest):
            await talk.recall("ada", "  ", sender)


async def test_no_more_archives_come_than_were_asked_for(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    async with daemon.client() as talk:
        for number in range(7):
            await put_away(talk, provider, sender, f"sourdough number {number}")
        assert len(await talk.recall("ada", "sourdough", sender)) == 5
        assert len(await talk.recall("ada", "sourdough", sender, limit=2)) == 2
        assert len(await talk.recall("ada", "sourdough", sender, limit=50)) == 7


async def test_the_command_line_recalls(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    async with daemon.client() as talk:
        await put_away(talk, provider, sender, "sourdough")
    shown = daemon.cli_json("recall", "ada", "sourdough", "--as", sender)
    assert shown["data"][0]["title"] == "Talk of sourdough."
