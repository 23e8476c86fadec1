"""The same journeys on every kind of model: each provider accepts every request, whatever happened before it."""

from typing import Any

import pytest

from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, LiveDaemon
from tests.fake_provider import Provider
from tests.talking import Talking

CONFIG = f"""{PROVIDER_CONFIG}
[models.plain]
provider = "openai"
base_url = "PROVIDER_URL/v1"
model = "m"
tools = "none"
window = 100000
[models.chooser]
provider = "openai"
base_url = "PROVIDER_URL/v1"
model = "m"
tools = "schema"
window = 100000
[models.thinker]
provider = "anthropic"
base_url = "PROVIDER_URL"
model = "c"
window = 100000
thinking_tokens = 2000
"""
AGENTS = ("ada", "bob", "cyd")

TITLE = {"name": "set_title", "arguments": {"title": "Bread"}}
ASK = {"name": "ask_user", "arguments": {"questions": [{"question": "Which?"}]}}
SUMMARY = {"match": "Write the summary now", "text": "Of bread. And more."}


@pytest.fixture(autouse=True)
def agents_of_every_model(daemon: LiveDaemon) -> None:
    for model in ("fake", "claude", "plain", "chooser"):
        daemon.home.write_agent(f"on-{model}", model=model)


async def everything_happens(talk: Talking, provider: Provider, agent: str, sender: str) -> None:
    """Tools, guests, kills, failures, a compaction and an empty reply, one after the other."""
    provider.program({"match": "^tools$", "calls": [TITLE, {"name": "nonsense", "arguments": "{"}]})
    await talk.say(agent, "tools", sender)
    provider.program({"match": "guest", "calls": [TITLE]}, {"match": "guest", "text": "As a guest."})
    await talk.say(agent, "a guest", sender, guest="bob")
    provider.program({"match": "fails", "status": 400})
    assert (await talk.say(agent, "it fails", sender)).outcome == "model_error"
    provider.program({"match": "is killed", "text": "one two three", "stall_after": 6})
    speech = talk.start(agent, "it is killed", sender)
    await speech.until("start")
    await talk.kill(agent, sender)
    await speech.end()
    provider.program({"match": "is asked", "calls": [TITLE, ASK]})
    speech = talk.start(agent, "it is asked", sender)
    await speech.until("ask_user")
    await talk.kill(agent, sender)
    await speech.end()
    provider.program({"match": "is silent", "text": ""})
    silent = await talk.say(agent, "it is silent", sender)
    assert (silent.outcome, silent.ended.error) == ("empty", "The model returned no text.")
    await talk.say(agent, "another guest", sender, guest="cyd")
    provider.program(SUMMARY)
    await talk.compact(agent, sender)
    await talk.say(agent, "after", sender)
    await talk.say(agent, "a last guest", sender, guest="bob")


@pytest.mark.parametrize("agent", ["on-fake", "on-claude"])
async def test_whatever_happened_the_next_request_is_valid(
    daemon: LiveDaemon, provider: Provider, sender: str, agent: str
) -> None:
    async with daemon.client() as talk:
        await everything_happens(talk, provider, agent, sender)
        again = await talk.import_(await talk.export(agent, sender), sender=f"{sender}:copy")
        assert list(again.skipped) == []
        assert (await talk.say(agent, "and on", f"{sender}:copy")).outcome == "completed"
    assert provider.faults() == []


@pytest.mark.parametrize("other", ["on-fake", "on-claude", "on-plain", "on-chooser"])
@pytest.mark.parametrize("agent", ["on-fake", "on-claude"])
async def test_an_agent_may_go_on_with_another_model_in_mid_conversation(
    daemon: LiveDaemon, provider: Provider, sender: str, agent: str, other: str
) -> None:
    name = f"{agent}-then-{other}"
    daemon.home.write_agent(name, model=agent.removeprefix("on-"))
    async with daemon.client() as talk:
        provider.program({"match": "^tools$", "thinking": "Hm.", "text": "Wait.", "calls": [TITLE]})
        await talk.say(name, "tools", sender)
        jsonl = await talk.export(name, sender)
        await talk.import_(jsonl, agent=other, sender=sender)
        provider.program(
            {"match": "go on", "text": '{"tool": "say", "text": "Yes."}' if other == "on-chooser" else "Yes."}
        )
        said = await talk.say(other, "go on", sender)
        assert (said.outcome, said.text) == ("completed", "Yes.")
        await talk.say(other, "guest", sender, guest="bob")
    assert provider.faults() == []


async def test_a_turn_that_was_stopped_after_a_tool_can_be_followed_by_one_of_a_model_that_thinks(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    """The next message stands beside the results of tools, whose calls began without thinking."""
    async with daemon.client() as talk:
        provider.program({"match": "^tools$", "calls": [TITLE]}, {"status": 400})
        assert (await talk.say("on-claude", "tools", sender)).outcome == "model_error"
        wanted = pb.ConversationModelMsg(agent="on-claude", sender=sender, model="thinker")
        await talk.ask(conversation_model=wanted)
        for text in ("go on", "and on"):
            assert (await talk.say("on-claude", text, sender)).outcome == "completed"
    assert provider.faults() == []
    assert ["thinking" in body for body in provider.bodies()[-2:]] == [False, True]


def tool_traces(body: dict[str, Any]) -> list[Any]:
    return [message for message in body["messages"] if message["role"] == "tool" or message.get("tool_calls")]


async def test_a_model_without_tools_is_offered_none_and_reads_old_calls_as_text(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        provider.program({"match": "^tools$", "calls": [TITLE]})
        await talk.say("on-fake", "tools", sender)
        await talk.import_(await talk.export("on-fake", sender), agent="on-plain", sender=sender)
        assert (await talk.say("on-plain", "go on", sender)).outcome == "completed"
    body = provider.bodies()[-1]
    assert "tools" not in body
    assert tool_traces(body) == []
    assert "[called set_title" in str(body)
    assert provider.faults() == []


async def test_a_model_that_chooses_tools_by_schema_can_use_them(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program(
        {"text": '{"tool": "set_title", "arguments": {"title": "Chosen"}}'},
        {"text": '{"tool": "say", "text": "It is done."}'},
    )
    async with daemon.client() as talk:
        said = await talk.say("on-chooser", "name it", sender)
        assert said.text == "It is done."
        assert (await talk.history("on-chooser", sender)).title == "Chosen"
        roles = [role for role, _, _ in await talk.told("on-chooser", sender)]
        assert roles == ["user", "assistant", "tool", "assistant"]
    assert all("response_format" in body and "tools" not in body for body in provider.bodies())
    assert provider.faults() == []


async def test_a_guest_on_such_a_model_has_no_tools_to_choose(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "In plain words."})
    async with daemon.client() as talk:
        said = await talk.say("ada", "guest", sender, guest="on-chooser")
        assert said.text == "In plain words."
    assert "response_format" not in provider.bodies()[0]
    assert provider.faults() == []


async def test_the_built_in_agent_is_there_without_any_file(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        assert (await talk.say("moot", "hello", sender)).outcome == "completed"
        assert (await talk.say("ada", "hello", sender, guest="moot")).ended.agent == "moot"


@pytest.mark.parametrize("model", ["fake", "claude", "chooser"])
async def test_a_connection_that_the_server_closes_after_its_answer_is_replaced_without_a_word(
    daemon: LiveDaemon, provider: Provider, sender: str, model: str
) -> None:
    """As llama.cpp does: it announces to keep the connection, and closes it when its answer has ended."""
    provider.reset()
    provider.program({"calls": [TITLE], "drops": True}, {"text": "Done.", "drops": True}, {"text": "Again."})
    async with daemon.client() as talk:
        first = await talk.say(f"on-{model}", "go", sender)
        second = await talk.say(f"on-{model}", "go", sender)
    assert [said.text.strip() for said in (first, second)] == ["Done.", "Again."]
    assert [said.of("retrying") for said in (first, second)] == [[], []]
    assert len(provider.bodies()) == 3


@pytest.mark.parametrize("model", ["fake", "claude"])
async def test_an_impossible_number_of_tokens_is_counted_and_the_usage_can_still_be_read(
    daemon: LiveDaemon, provider: Provider, sender: str, model: str
) -> None:
    usage = dict.fromkeys(("prompt", "completion", "cached", "written", "reasoning"), 2**63 - 1)
    provider.program({"match": "^huge$", "text": "x", "usage": usage, "repeat": 2})
    async with daemon.client() as talk:
        said = [await talk.say(f"on-{model}", "huge", sender) for _ in range(2)]
        assert [each.outcome for each in said] == ["completed", "completed"]
        assert [spent.runs for spent in await talk.usage() if spent.sender == sender] == [2]


PIECE = "again and again " * 5_000
WRITING = {"name": "set_title", "arguments": {"title": PIECE * 10}}
ENDLESS: dict[str, dict[str, Any]] = {
    "text": {"tokens": [PIECE] * 26},
    "reasoning": {"thinking": PIECE * 26, "text": "x"},
    "calls": {"calls": [WRITING] * 3},
}


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("model", ["fake", "claude"])
async def test_a_reply_that_does_not_end_is_not_kept_whatever_it_consists_of(
    daemon: LiveDaemon, provider: Provider, sender: str, model: str, kind: str
) -> None:
    provider.program({"match": "^endless$", **ENDLESS[kind]})
    async with daemon.client() as talk:
        said = await talk.say(f"on-{model}", "endless", sender)
        assert said.outcome == "model_error"
        assert "does not end" in said.ended.error
        assert (await talk.say(f"on-{model}", "hello", sender)).outcome == "completed"
