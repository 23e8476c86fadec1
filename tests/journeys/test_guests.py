"""A second agent speaks into a conversation as itself: who is asked, with what, and what is kept."""

from typing import Any

import pytest

from moot.domain.errors import BadRequest, NotFound
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider

CONFIG = PROVIDER_CONFIG
AGENTS = ("ada", "bob", "cyd", "dot")

GUEST = "a guest in a conversation"
PRIMARY = "Guests take part in this conversation"


def system(body: dict[str, Any]) -> str:
    (content,) = [message["content"] for message in body["messages"] if message["role"] == "system"]
    return str(content)


def spoken(body: dict[str, Any]) -> list[tuple[str, str]]:
    """Everything but the system text, as (role, content)."""
    return [(message["role"], message["content"]) for message in body["messages"] if message["role"] != "system"]


def framings(body: dict[str, Any]) -> tuple[int, int]:
    whole = str(body)
    return whole.count(GUEST), whole.count(PRIMARY)


async def test_a_guest_turn_stores_the_question_and_the_guests_answer(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "I am Bob and I think so."})
    async with daemon.client() as talk:
        said = await talk.say("ada", "What does Bob think?", sender, guest="bob")
        assert said.text == "I am Bob and I think so."
        assert said.of("start")[0].agent == said.ended.agent == said.of("text_start")[0].agent == "bob"
        assert await talk.told("ada", sender) == [
            ("user", "", "What does Bob think?"),
            ("assistant", "bob", "I am Bob and I think so."),
        ]
        # The conversation is still ada's; bob has none of his own.
        assert [info.agent for info in await talk.conversations(sender=sender)] == ["ada"]


async def test_a_guest_can_be_asked_without_a_stream(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    async with daemon.client() as talk:
        answer = await talk.send("ada", "Bob?", sender, guest="bob")
        assert (answer.agent, answer.content) == ("bob", "echo: Bob?")
        assert (await talk.told("ada", sender))[1] == ("assistant", "bob", "echo: Bob?")


async def test_the_guest_is_asked_with_its_own_prompt_and_no_tools_and_the_primary_is_not_asked(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        await talk.say("ada", "Good morning", sender)
        await talk.say("ada", "And Bob?", sender, guest="bob")
    primary, guest = provider.bodies()
    assert system(primary).startswith("You are ada.")
    assert {tool["function"]["name"] for tool in primary["tools"]} >= {"set_title", "ask_user", "recall"}
    assert system(guest).startswith("You are bob.")
    assert "You are ada." not in system(guest)
    assert "tools" not in guest
    assert "tool_choice" not in guest
    assert provider.faults() == []


async def test_the_primary_goes_on_with_the_guests_words_in_its_history(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "Morning."}, {"text": "Bob here."}, {"text": "Thank you, Bob."})
    async with daemon.client() as talk:
        await talk.say("ada", "one", sender)
        await talk.say("ada", "two", sender, guest="bob")
        said = await talk.say("ada", "three", sender)
        assert said.ended.agent == "ada"
        assert [agent for _, agent, _ in await talk.told("ada", sender)] == ["", "", "", "bob", "", ""]
    last = provider.bodies()[-1]
    assert spoken(last) == [
        ("user", "one"),
        ("assistant", "Morning."),
        ("user", "two"),
        ("assistant", '<from agent="bob">\nBob here.\n</from>'),
        ("user", last["messages"][-1]["content"]),
    ]
    # Who else has spoken is told behind the message: what stands before it stays as it was.
    assert last["messages"][-1]["content"].startswith("three\n\n<moot>\nYou are ada. Guests take part")
    assert system(last) == "You are ada."


async def test_each_request_has_the_one_framing_it_needs(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    async with daemon.client() as talk:
        for content, guest in (("a", ""), ("b", "bob"), ("c", ""), ("d", "cyd"), ("e", "bob"), ("f", "")):
            await talk.say("ada", content, sender, guest=guest)
        await talk.say("ada", "alone", f"{sender}:no guests")
        await talk.say("ada", "still alone", f"{sender}:no guests")
    counted = [framings(body) for body in provider.bodies()]
    assert counted == [(0, 0), (1, 0), (0, 1), (1, 0), (1, 0), (0, 1), (0, 0), (0, 0)]


async def test_the_guest_framing_names_both_and_explains_the_tag(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        await talk.say("ada", "hello", sender, guest="bob")
    text = system(provider.bodies()[0])
    assert '<from agent="' in text
    assert "agent ada" in text
    assert "You are bob, " in text


async def test_ten_alternating_turns_leave_no_framing_on_disk(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            for number in range(10):
                await talk.say("ada", f"turn {number}", guest="bob" if number % 2 else "")
            told = await talk.told("ada")
            exported = await talk.export("ada")
        assert [sum(framings(body)) for body in provider.bodies()] == [0] + [1] * 9
        assert len(told) == 20
    stored = home.on_disk()
    for mark in (GUEST, PRIMARY, "Your working directory", "<from agent"):
        assert mark.encode() not in stored
        assert mark not in exported
    assert stored.count(b"turn 7") > 0


async def test_several_guests_are_told_apart_by_every_reader(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "B1"}, {"text": "C1"}, {"text": "A1"}, {"text": "B2"}, {"text": "D1"})
    async with daemon.client() as talk:
        for content, guest in (("q1", "bob"), ("q2", "cyd"), ("q3", ""), ("q4", "bob"), ("q5", "dot")):
            await talk.say("ada", content, sender, guest=guest)
        await talk.say("ada", "q6", sender)
        voices = [agent for role, agent, _ in await talk.told("ada", sender) if role == "assistant"]
        assert voices == ["bob", "cyd", "", "bob", "dot", ""]
    bodies = provider.bodies()
    heard = [content for role, content in spoken(bodies[-1]) if role == "assistant"]
    tagged = ['<from agent="bob">\nB1\n</from>', '<from agent="cyd">\nC1\n</from>', "A1"]
    tagged += ['<from agent="bob">\nB2\n</from>', '<from agent="dot">\nD1\n</from>']
    assert heard == tagged
    # A guest sees itself tagged and the primary untagged, like everybody else.
    assert [content for role, content in spoken(bodies[3]) if role == "assistant"] == tagged[:3]
    assert framings(bodies[3]) == (1, 0)


async def test_a_guest_may_use_a_model_of_another_provider(home: Home, provider: Provider) -> None:
    home.write_agent("bob", model="claude")
    provider.program({"text": "A1"}, {"text": "B1"}, {"text": "A2"})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "one")
            said = await talk.say("ada", "two", guest="bob")
            await talk.say("ada", "three")
    assert said.ended.provider == "anthropic"
    assert [request["path"] for request in provider.requests()] == [
        "/v1/chat/completions",
        "/v1/messages",
        "/v1/chat/completions",
    ]
    assert provider.faults() == []
    assert "tools" not in provider.bodies()[1]


async def test_a_guest_that_calls_a_tool_is_told_once_and_answers_in_text(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    calls = [{"name": "set_title", "arguments": {"title": "Taken over"}}, {"name": "shell", "arguments": {"c": "rm"}}]
    provider.program({"text": "Let me see.", "calls": calls}, {"text": "In words, then: yes."})
    async with daemon.client() as talk:
        said = await talk.say("ada", "Bob, do it", sender, guest="bob")
        assert said.text == "In words, then: yes."
        assert said.outcome == "completed"
        results = said.of("tool_result")
        assert len(results) == 2
        assert all(result.is_error for result in results)
        assert await talk.told("ada", sender) == [
            ("user", "", "Bob, do it"),
            ("assistant", "bob", "In words, then: yes."),
        ]
        assert (await talk.history("ada", sender)).title == ""
    first, second = provider.bodies()
    assert "tools" not in first
    assert "tools" not in second
    refusals = [content for role, content in spoken(second) if "No tool was run" in content]
    assert len(refusals) == 1
    assert "set_title, shell" in refusals[0]
    assert provider.faults() == []


async def test_a_guest_that_only_calls_tools_ends_empty_and_nothing_empty_is_stored(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    call = {"calls": [{"name": "set_title", "arguments": {"title": "x"}}]}
    provider.program(call, call, {"text": "never asked"})
    async with daemon.client() as talk:
        said = await talk.say("ada", "Bob, do it", sender, guest="bob")
        assert said.outcome == "empty"
        assert said.ended.error
        assert said.text == ""
        assert await talk.told("ada", sender) == [("user", "", "Bob, do it")]
        assert len(provider.bodies()) == 2
        provider.reset()
        await talk.say("ada", "go on", sender)
    assert framings(provider.bodies()[0]) == (0, 0)


async def test_what_a_guest_said_beside_its_second_refused_call_is_kept_and_shown(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    call = [{"name": "set_title", "arguments": {"title": "x"}}]
    provider.program({"text": "First try.", "calls": call}, {"text": "Second try.", "calls": call})
    async with daemon.client() as talk:
        said = await talk.say("ada", "Bob, do it", sender, guest="bob")
        assert await talk.told("ada", sender) == [("user", "", "Bob, do it"), ("assistant", "bob", "Second try.")]
        assert said.text == "Second try."


async def test_what_a_guest_said_beside_a_refused_call_is_kept_when_it_adds_nothing(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "I would say yes.", "calls": [{"name": "recall", "arguments": {}}]}, {"text": ""})
    async with daemon.client() as talk:
        said = await talk.say("ada", "Bob?", sender, guest="bob")
        assert said.text == "I would say yes."
        assert await talk.told("ada", sender) == [("user", "", "Bob?"), ("assistant", "bob", "I would say yes.")]


async def test_one_who_attaches_after_a_refusal_does_not_hear_what_was_taken_back(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program(
        {"text": "Taken back.", "calls": [{"name": "recall", "arguments": {}}]}, {"text": "Kept.", "hold": True}
    )
    async with daemon.client() as talk, daemon.client() as late:
        first = talk.start("ada", "Bob?", sender, guest="bob")
        await first.until("tools_complete")
        provider.requests(at_least=2)
        second = late.attach("ada", sender)
        await second.until("tools_complete")
        provider.release()
        await first.end()
        await second.end()
        assert first.text == second.text == "Kept."


async def test_an_unknown_guest_is_an_error_and_nothing_is_appended(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        with pytest.raises(NotFound, match="guest"):
            await talk.say("ada", "hello", sender, guest="nobody")
        assert await talk.conversations(sender=sender) == []
        await talk.say("ada", "hello", sender)
        with pytest.raises(NotFound):
            await talk.say("ada", "hello again", sender, guest="nobody")
        assert len(await talk.told("ada", sender)) == 2
    assert len(provider.bodies()) == 1


async def test_an_agent_cannot_be_its_own_guest(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    async with daemon.client() as talk:
        with pytest.raises(BadRequest, match="cannot be its guest"):
            await talk.say("ada", "hello", sender, guest="ada")
        assert await talk.conversations(sender=sender) == []
    assert provider.bodies() == []


async def test_a_conversation_may_begin_with_a_guest(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    async with daemon.client() as talk:
        await talk.say("ada", "hello", sender, guest="bob")
        await talk.say("ada", "and you?", sender)
    assert [framings(body) for body in provider.bodies()] == [(1, 0), (0, 1)]


async def test_a_guest_reads_the_primarys_tool_work_as_text(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "Hello."}, {"calls": [{"name": "set_title", "arguments": {"title": "Bread"}}]})
    provider.program({"text": "Titled."}, {"text": "I see a title."})
    async with daemon.client() as talk:
        await talk.say("ada", "warm up", sender, guest="bob")
        await talk.say("ada", "call it bread", sender)
        await talk.say("ada", "Bob?", sender, guest="bob")
    last = provider.bodies()[-1]
    assert provider.faults() == []
    assert all("tool_calls" not in message and message["role"] != "tool" for message in last["messages"])
    text = "\n".join(content for _, content in spoken(last))
    assert '[called set_title with {"title": "Bread"}]' in text
    assert "[set_title answered]" in text


async def test_the_same_history_reads_the_same_after_a_restart(home: Home, provider: Provider) -> None:
    provider.program({"text": "B"}, {"calls": [{"name": "set_title", "arguments": {"title": "T"}}]}, {"text": "A"})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "one", guest="bob")
            await talk.say("ada", "two")
            await talk.say("ada", "three", guest="bob")
            before = provider.bodies()[-1]
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "four", guest="bob")
    after = provider.bodies()[-1]
    assert spoken(after)[: len(spoken(before))] == spoken(before)


async def test_the_command_line_brings_a_guest_in(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"text": "Bob here."})
    asked = daemon.cli_json("ask", "ada", "hello", "--as", sender, "--guest", "bob")
    assert (asked["data"]["agent"], asked["data"]["content"], asked["data"]["outcome"]) == (
        "bob",
        "Bob here.",
        "completed",
    )
    shown = daemon.cli_json("history", "ada", "--as", sender)["data"]["messages"]
    assert [(each["role"], each["agent"]) for each in shown] == [("user", ""), ("assistant", "bob")]
