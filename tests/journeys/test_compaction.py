"""Compaction as memory: an archive takes the place of what was said, and loses nothing of it."""

import asyncio
from typing import Any

import pytest

from moot.domain.errors import Conflict, ModelError, NotFound
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, eventually, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider

CONFIG = PROVIDER_CONFIG

MARK = "moot:compaction"
SUMMARY = "Bread was discussed at length. Ada likes rye; Bob prefers wheat. Nothing is open."


def summarised(text: str = SUMMARY, **more: Any) -> dict[str, Any]:
    return {"match": "Write the summary now", "text": text, **more}


def summaries(provider: Provider) -> list[dict[str, Any]]:
    return [body for body in provider.bodies() if MARK in body["messages"][0]["content"]]


async def test_compacting_archives_the_history_and_returns_its_summary(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program(summarised())
    async with daemon.client() as talk:
        await talk.say("ada", "I like rye", sender)
        await talk.say("ada", "And Bob?", sender, guest="bob")
        before = await talk.told("ada", sender)
        answer = await talk.compact("ada", sender)
        assert (answer.summary, answer.title, answer.number) == (SUMMARY, "Bread was discussed at length.", 1)
        history = await talk.history("ada", sender)
        assert list(history.messages) == []
        assert (history.summary, history.summary_title) == (SUMMARY, "Bread was discussed at length.")
        # The conversation goes on: same pair, same count, everything still there.
        assert await talk.told("ada", sender, all=True) == before
        (info,) = await talk.conversations(sender=sender)
        assert (info.archives, info.message_count) == (1, 4)


async def test_the_next_request_has_the_summary_in_place_of_what_was_said(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "Rye it is."}, summarised(), {"text": "Now."}, {"text": "Then."})
    async with daemon.client() as talk:
        await talk.say("ada", "I like rye", sender)
        await talk.compact("ada", sender)
        await talk.say("ada", "And now?", sender)
        await talk.say("ada", "And then?", sender)
        assert [message.seq for message in (await talk.history("ada", sender)).messages] == [3, 4, 5, 6]
    for body in provider.bodies()[-2:]:
        text = str(body["messages"])
        assert "Rye it is." not in text
        assert text.count(SUMMARY) == 1
        assert text.count("<archived-summary>") == text.count("</archived-summary>") == 1
    assert provider.faults() == []


async def test_the_archive_keeps_the_original_messages_with_who_said_them(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    title = {"name": "set_title", "arguments": {"title": "Bread"}}
    provider.program({"text": "Rye."}, {"text": "Wheat!"}, {"calls": [title]}, {"text": "Named."}, summarised())
    async with daemon.client() as talk:
        await talk.say("ada", "one", sender)
        await talk.say("ada", "two", sender, guest="bob")
        await talk.say("ada", "three", sender)
        before = (await talk.history("ada", sender)).messages
        await talk.compact("ada", sender)
        (listed,) = await talk.archives("ada", sender)
        assert (listed.number, listed.first_seq, listed.last_seq) == (1, 1, 8)
        assert listed.title == "Bread was discussed at length."
        assert listed.archived_at > before[-1].created_at - 1
        assert list(listed.messages) == []
        archive = await talk.archive("ada", 1, sender)
        kept = [(each.seq, each.role, each.agent, each.content, each.tool_call_id) for each in archive.messages]
        assert kept == [(each.seq, each.role, each.agent, each.content, each.tool_call_id) for each in before]
        assert [each.agent for each in archive.messages if each.role == "assistant"] == ["", "bob", "", ""]
        assert [call.name for each in archive.messages for call in each.tool_calls] == ["set_title"]
        assert {each.archive for each in archive.messages} == {1}
        with pytest.raises(NotFound):
            await talk.archive("ada", 2, sender)


async def test_whoever_summarises_sees_who_said_what_and_no_tools(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    title = {"name": "set_title", "arguments": {"title": "Bread"}}
    provider.program({"calls": [title]}, {"text": "Named."}, {"text": "Wheat!"}, summarised())
    async with daemon.client() as talk:
        await talk.say("ada", "one", sender)
        await talk.say("ada", "two", sender, guest="bob")
        await talk.compact("ada", sender)
    (body,) = summaries(provider)
    assert "tools" not in body
    text = "\n".join(message["content"] for message in body["messages"][1:])
    assert '<from agent="bob">\nWheat!\n</from>' in text
    assert "[called set_title" in text
    assert all(message["role"] in ("system", "user", "assistant") for message in body["messages"])
    assert provider.faults() == []


async def test_compacting_twice_makes_two_archives_in_order(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program(summarised("First came rye. More."), summarised("Then came wheat. More."))
    # An echo of the request would tell the first summary as well.
    provider.program({"match": "wheat$", "text": "Wheat it is."})
    async with daemon.client() as talk:
        await talk.say("ada", "rye", sender)
        await talk.compact("ada", sender)
        await talk.say("ada", "wheat", sender)
        await talk.compact("ada", sender)
        archives = await talk.archives("ada", sender)
        assert [(each.number, each.first_seq, each.last_seq, each.title) for each in archives] == [
            (1, 1, 2, "First came rye."),
            (2, 3, 4, "Then came wheat."),
        ]
        assert archives[0].archived_at <= archives[1].archived_at
        assert len(await talk.told("ada", sender, all=True)) == 4
        assert (await talk.history("ada", sender)).summary == "Then came wheat. More."
    # The second summary is written knowing the first.
    assert "First came rye." in str(summaries(provider)[1]["messages"])


async def test_with_nothing_said_there_is_nothing_to_compact(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program(summarised())
    async with daemon.client() as talk:
        with pytest.raises(Conflict, match="nothing to compact"):
            await talk.compact("ada", sender)
        assert await talk.conversations(sender=sender) == []
        await talk.say("ada", "hello", sender)
        await talk.compact("ada", sender)
        with pytest.raises(Conflict, match="nothing to compact"):
            await talk.compact("ada", sender)
        assert len(await talk.archives("ada", sender)) == 1


@pytest.mark.parametrize("failure", [{"status": 400}, {"text": ""}, {"cut_at": 200, "text": "half a summary " * 20}])
async def test_a_compaction_that_fails_changes_nothing(
    daemon: LiveDaemon, provider: Provider, sender: str, failure: dict[str, Any]
) -> None:
    async with daemon.client() as talk:
        await talk.say("ada", "hello", sender)
        before = await talk.told("ada", sender)
        provider.program({"match": "Write the summary now", "repeat": 2, **failure})
        with pytest.raises(ModelError):
            await talk.compact("ada", sender)
        assert await talk.told("ada", sender) == before
        assert await talk.archives("ada", sender) == []
        assert (await talk.say("ada", "still here", sender)).outcome == "completed"
    assert "archived-summary" not in str(provider.bodies()[-1])


async def test_a_killed_compaction_changes_nothing(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    async with daemon.client() as talk, daemon.client() as other:
        await talk.say("ada", "hello", sender)
        provider.program(summarised(hold=True))
        compacting = asyncio.get_running_loop().create_task(talk.compact("ada", sender))
        await eventually(lambda: summaries(provider))
        await other.kill("ada", sender)
        with pytest.raises(Conflict, match="killed"):
            await compacting
        await eventually(lambda: provider.active() == 0)
        assert await talk.archives("ada", sender) == []
        assert len(await talk.told("ada", sender)) == 2
        assert (await talk.say("ada", "go on", sender)).outcome == "completed"


async def test_compaction_waits_for_the_run_in_flight_and_holds_up_what_comes_after(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"match": "^first$", "text": "1", "hold": True}, summarised())
    async with daemon.client() as talk, daemon.client() as other:
        first = talk.start("ada", "first", sender)
        await first.until("start")
        provider.requests(at_least=1)
        compacting = asyncio.get_running_loop().create_task(other.compact("ada", sender))

        async def waits() -> bool:
            return (await talk.active(sender=sender))[0].queued == 1

        await eventually(waits)
        second = talk.start("ada", "second", sender)
        assert (await second.until("queued")).position == 2
        provider.release()
        assert (await compacting).number == 1
        await second.end()
        assert [(role, content) for role, _, content in await talk.told("ada", sender)][0] == ("user", "second")
        assert (await talk.archives("ada", sender))[0].last_seq == 2


async def test_a_full_window_is_compacted_before_the_next_turn_and_keeps_its_message(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "long", "usage": {"prompt": 90_000, "completion": 10}}, summarised())
    async with daemon.client() as talk:
        await talk.say("ada", "much", sender)
        said = await talk.say("ada", "more", sender)
        (compacted,) = said.of("compacted")
        assert (compacted.number, compacted.title) == (1, "Bread was discussed at length.")
        assert said.kinds.index("start") < said.kinds.index("compacting") < said.kinds.index("compacted")
        assert said.kinds.index("compacted") < said.kinds.index("text_start")
        assert [content for _, _, content in await talk.told("ada", sender)] == ["more", said.text]
        archive = await talk.archive("ada", 1, sender)
        assert [each.content for each in archive.messages] == ["much", "long"]
    last = provider.bodies()[-1]
    assert SUMMARY in str(last)
    assert "more" in last["messages"][-1]["content"]
    assert "much" not in str(last["messages"][1:])


async def test_a_window_that_fills_between_steps_is_compacted_between_steps(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    title = {"name": "set_title", "arguments": {"title": "Bread"}}
    provider.program(
        {"match": "^small$", "text": "s"},
        {"match": "^big$", "calls": [title], "usage": {"prompt": 90_000, "completion": 1}},
        summarised(),
        {"match": "big$", "text": "done"},
    )
    async with daemon.client() as talk:
        await talk.say("ada", "small", sender)
        said = await talk.say("ada", "big", sender)
        assert said.outcome == "completed"
        assert said.kinds.index("tools_complete") < said.kinds.index("compacted")
        roles = [role for role, _, _ in await talk.told("ada", sender)]
        assert roles == ["user", "assistant", "tool", "assistant"]
    assert provider.faults() == []


async def test_an_automatic_compaction_that_fails_does_not_fail_the_turn(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "long", "usage": {"prompt": 90_000, "completion": 10}})
    provider.program({"match": "Write the summary now", "status": 400})
    async with daemon.client() as talk:
        await talk.say("ada", "much", sender)
        said = await talk.say("ada", "more", sender)
        assert said.outcome == "completed"
        assert said.of("compacted") == []
        assert len(await talk.told("ada", sender)) == 4
        assert await talk.archives("ada", sender) == []


async def test_a_kill_during_an_automatic_compaction_ends_the_run_and_keeps_everything(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "long", "usage": {"prompt": 90_000, "completion": 10}}, summarised(hold=True))
    async with daemon.client() as talk:
        await talk.say("ada", "much", sender)
        speech = talk.start("ada", "more", sender)
        await speech.until("start")
        await eventually(lambda: summaries(provider))
        await talk.kill("ada", sender)
        assert (await speech.end()).outcome == "cancelled"
        assert [content for _, _, content in await talk.told("ada", sender)] == ["much", "long", "more"]
        assert await talk.archives("ada", sender) == []


async def test_after_compaction_the_framing_follows_what_is_left(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "B"}, summarised())
    async with daemon.client() as talk:
        await talk.say("ada", "one", sender, guest="bob")
        await talk.compact("ada", sender)
        await talk.say("ada", "two", sender)
        await talk.say("ada", "three", sender, guest="bob")
        await talk.say("ada", "four", sender)
    framed = ["Guests take part" in body["messages"][-1]["content"] for body in provider.bodies()[-3:]]
    assert framed == [False, False, True]
    assert "a guest in a conversation" in provider.bodies()[-2]["messages"][0]["content"]


@pytest.mark.parametrize(
    ("summary", "title"),
    [
        ("Short. Rest.", "Short."),
        ("no end of a sentence here", "no end of a sentence here"),
        ("Is it so? Yes.", "Is it so?"),
        ("Version 1.5 was chosen. Rest.", "Version 1.5 was chosen."),
        ("We chose version 2.0. Rest.", "We chose version 2.0."),
        ("  \n Two\n lines.  More", "Two lines."),
        ("Dr. Smith, z. B., was right. Rest.", "Dr. Smith, z. B., was right."),
        ("El Sr. García viajó a EE. UU. en mayo. Más.", "El Sr. García viajó a EE. UU. en mayo."),
        ("## Summary\n\n**Rye** was chosen。 Rest.", "Rye was chosen。"),
        ("x" * 58 + "👨\u200d👩\u200d👧 and more. Rest", "x" * 58),
        ("x" * 80 + ". Rest", "x" * 60),
        ("é" * 59 + "e\u0301" + "z. Rest", "é" * 59),
        ("Über die Brücke gehen wir gemeinsam zum großen Markt und weiter. So", None),
    ],
)
async def test_a_title_is_the_first_sentence_cut_on_a_character(
    daemon: LiveDaemon, provider: Provider, sender: str, summary: str, title: str | None
) -> None:
    provider.program(summarised(summary))
    async with daemon.client() as talk:
        await talk.say("ada", "hello", sender)
        answer = await talk.compact("ada", sender)
        assert len(answer.title) <= 60
        if title is not None:
            assert answer.title == title
        assert (await talk.archives("ada", sender))[0].title == answer.title


async def test_archives_and_their_voices_survive_a_restart(home: Home, provider: Provider) -> None:
    provider.program({"text": "Wheat!"}, summarised())
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "one", guest="bob")
            await talk.compact("ada")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            archive = await talk.archive("ada", 1)
            assert [(each.agent, each.content) for each in archive.messages] == [("", "one"), ("bob", "Wheat!")]
            await talk.say("ada", "two")
    assert SUMMARY in str(provider.bodies()[-1])


async def test_a_crash_during_compaction_leaves_the_history_as_it_was(home: Home, provider: Provider) -> None:
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "hello")
            provider.program(summarised(hold=True))
            compacting = asyncio.get_running_loop().create_task(talk.compact("ada"))
            await eventually(lambda: summaries(provider))
            daemon.kill_9()
            with pytest.raises(Exception, match="connection"):
                await compacting
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert len(await talk.told("ada")) == 2
            assert await talk.archives("ada") == []


async def test_what_the_summary_took_is_counted(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"text": "hi", "usage": {"prompt": 10, "completion": 1}})
    provider.program(summarised(usage={"prompt": 500, "completion": 50}))
    async with daemon.client() as talk:
        await talk.say("ada", "hello", sender)
        await talk.compact("ada", sender)
        spent = await talk.usage(agent="ada", sender=sender)
        assert sum(each.prompt for each in spent) == 510
        assert sum(each.completion for each in spent) == 51
        assert sum(each.runs for each in spent) == 1


async def test_the_command_line_compacts_and_lists(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"text": "hi"}, summarised())
    daemon.cli_json("ask", "ada", "hello", "--as", sender)
    assert daemon.cli_json("compact", "ada", "--as", sender)["data"]["title"] == "Bread was discussed at length."
    (listed,) = daemon.cli_json("archives", "ada", "--as", sender)["data"]
    assert (listed["number"], listed["title"]) == (1, "Bread was discussed at length.")
