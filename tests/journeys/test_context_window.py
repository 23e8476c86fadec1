"""The context window: who compacts, what is counted, and what happens to a request that does not fit."""

import asyncio
import json
from typing import Any

import pytest

from moot.domain.errors import ModelError
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, eventually, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.talking import Talking

# Bob's model has a small window, ada's a large one; so has cyd's, which speaks the other wire.
CONFIG = (
    PROVIDER_CONFIG
    + """
[models.small]
provider = "openai"
base_url = "PROVIDER_URL/v1"
model = "s"
window = 2000
retries = 1
"""
)
MARK = "moot:compaction"
LEFT_OUT = "Earlier messages are not shown here"
CUT = "characters are left out here"

TOO_LONG: dict[str, dict[str, Any]] = {
    "openai": {
        "error": {
            "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000.",
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
        }
    },
    "anthropic": {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "prompt is too long: 9000 tokens > 8192 maximum"},
    },
    "llama.cpp": {
        "error": {
            "code": 400,
            "message": "the request exceeds the available context size, try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 9000,
            "n_ctx": 8192,
        }
    },
    "vllm": {
        "object": "error",
        "message": "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        "type": "BadRequestError",
        "code": 400,
    },
    "unsaid": {"error": {"message": "Input is too long for requested model.", "type": "x"}},
}


def refused(match: str, shape: str = "openai", **more: Any) -> dict[str, Any]:
    return {"match": match, "status": 400, "body": json.dumps(TOO_LONG[shape]), **more}


def summarised(text: str = "Bread was discussed. Rye it is.", **more: Any) -> dict[str, Any]:
    return {"match": "Write the summary now", "text": text, **more}


def summaries(provider: Provider) -> list[dict[str, Any]]:
    return [body for body in provider.bodies() if MARK in str(body["messages"][0]["content"])]


def full(tokens: int = 90_000) -> dict[str, int]:
    return {"prompt": tokens, "completion": 5}


def words(body: dict[str, Any]) -> str:
    return json.dumps(body["messages"], ensure_ascii=False)


def small(home: Home, *agents: str) -> Home:
    for name in agents:
        home.write_agent(name, model="small")
    return home


async def fill(talk: Talking, turns: int, sender: str = "", **fields: Any) -> None:
    for number in range(turns):
        await talk.say("ada", f"fact {number}: " + f"rye{number} " * 100, sender, **fields)


# ---- guests ---------------------------------------------------------------------------------------


async def test_a_guest_with_a_small_window_sees_a_part_and_archives_nothing(home: Home, provider: Provider) -> None:
    with daemon_thread(small(home, "bob")) as daemon:
        async with daemon.client() as talk:
            await fill(talk, 20)
            before = await talk.told("ada")
            said = await talk.say("ada", "And you, bob?", guest="bob")
            assert said.outcome == "completed"
            assert await talk.archives("ada") == []
            assert await talk.told("ada") == [*before, ("user", "", "And you, bob?"), ("assistant", "bob", said.text)]
            seen = words(provider.bodies()[-1])
            assert LEFT_OUT in seen
            assert "rye0 " not in seen
            assert "rye19 " in seen
            assert "And you, bob?" in seen
            assert len(seen) < 2_000 * 4
            # The person is told, and the primary sees everything as before.
            assert "context window of small" in said.ended.error
            await talk.say("ada", "Go on.")
    assert summaries(provider) == []
    seen = words(provider.bodies()[-1])
    assert "rye0 " in seen
    assert LEFT_OUT not in seen
    assert provider.faults() == []


async def test_a_full_guest_does_not_compact_and_its_count_is_not_the_primarys(home: Home, provider: Provider) -> None:
    provider.program({"match": "^one$", "text": "1", "usage": full(500)})
    provider.program({"match": "^two$", "text": "2", "usage": full()}, {"match": "^three$", "text": "3"})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "one")
            await talk.say("ada", "two", guest="bob")
            said = await talk.say("ada", "three")
            assert said.of("compacted") == []
            again = await talk.say("ada", "four", guest="bob")
            assert (again.outcome, again.of("compacted")) == ("completed", [])
    assert summaries(provider) == []


async def test_a_guest_sees_less_if_its_provider_counts_more_tokens_than_the_estimate(
    home: Home, provider: Provider
) -> None:
    provider.program({"match": "^bob$", "text": "Here.", "usage": full(1_700)})
    with daemon_thread(small(home, "bob")) as daemon:
        async with daemon.client() as talk:
            await fill(talk, 2)
            await talk.say("ada", "bob", guest="bob")
            assert (await talk.say("ada", "and now", guest="bob")).outcome == "completed"
    first, second = provider.bodies()[-2:]
    assert LEFT_OUT not in words(first)
    assert LEFT_OUT in words(second)


async def test_the_primarys_count_holds_over_a_guests_turn(home: Home, provider: Provider) -> None:
    provider.program({"match": "^one$", "text": "1", "usage": full()}, {"match": "^two$", "text": "2"}, summarised())
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "one")
            assert (await talk.say("ada", "two", guest="bob")).of("compacted") == []
            assert len((await talk.say("ada", "three")).of("compacted")) == 1
            archive = await talk.archive("ada", 1)
            assert [(each.agent, each.content) for each in archive.messages] == [
                ("", "one"),
                ("", "1"),
                ("", "two"),
                ("bob", "2"),
            ]


# ---- what is counted ------------------------------------------------------------------------------


async def test_the_count_is_there_after_a_restart(home: Home, provider: Provider) -> None:
    provider.program({"match": "^one$", "text": "1", "usage": full()}, summarised())
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "one")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert len((await talk.say("ada", "two")).of("compacted")) == 1


async def test_after_a_restart_a_count_from_before_an_archive_does_not_compact_again(
    home: Home, provider: Provider
) -> None:
    title = {"name": "set_title", "arguments": {"title": "Bread"}}
    provider.program({"match": "^one$", "text": "1"}, {"match": "^two$", "calls": [title], "usage": full()})
    provider.program(summarised(), {"match": "two$", "text": "2", "usage": None})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "one")
            assert len((await talk.say("ada", "two")).of("compacted")) == 1
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.say("ada", "three")).of("compacted") == []
            assert len(await talk.archives("ada")) == 1


async def test_instructions_and_tools_are_counted_where_the_provider_does_not(home: Home, provider: Provider) -> None:
    home.write_agent("ada", "Be kind. " * 8_000, model="fake")
    config = (home.path / "config.toml").read_text()
    home.write_config(config.replace("window = 100000", "window = 24000", 1))
    provider.program({"match": "^one$", "text": "1", "usage": None}, summarised())
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "one")
            assert len((await talk.say("ada", "two")).of("compacted")) == 1


async def test_instructions_that_a_reload_has_lengthened_are_counted(home: Home, provider: Provider) -> None:
    provider.program({"match": "^one$", "text": "1", "usage": full(70_000)}, summarised())
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "one")
            home.write_agent("ada", "You are ada. " + "Rye is best. " * 6_000)
            await talk.ask(reload=pb.ReloadMsg())
            assert len((await talk.say("ada", "two")).of("compacted")) == 1


async def test_instructions_that_are_longer_after_a_restart_are_counted(home: Home, provider: Provider) -> None:
    provider.program({"match": "^one$", "text": "1", "usage": full(900)}, summarised())
    with daemon_thread(small(home, "ada")) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "one")
    home.write_agent("ada", "You are ada. " + "Rye is best. " * 400, model="small")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert len((await talk.say("ada", "two")).of("compacted")) == 1


async def test_fewer_tools_do_not_lower_the_count(home: Home, provider: Provider) -> None:
    provider.program({"match": "^one$", "text": "1", "usage": full(1_900)}, summarised())
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "one")
            # Its window has room for a few tools only.
            await talk.ask(conversation_model=pb.ConversationModelMsg(agent="ada", model="small"))
            assert len((await talk.say("ada", "two")).of("compacted")) == 1
    first, *_, last = provider.bodies()
    assert len(last["tools"]) < len(first["tools"])


async def test_arguments_of_calls_are_counted(home: Home, provider: Provider) -> None:
    home.write_config((home.path / "config.toml").read_text() + '\n[security.interceptor]\npolicy = "none"\n')
    write = {"name": "fs_write", "arguments": {"path": "notes.txt", "content": "rye " * 90_000}}
    provider.program(
        {"match": "^one$", "calls": [write], "usage": None}, {"match": "^one$", "text": "1", "usage": None}
    )
    provider.program(summarised())
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "one")
            assert len((await talk.say("ada", "two")).of("compacted")) == 1


async def test_an_import_that_does_not_fit_is_compacted_first(home: Home, provider: Provider) -> None:
    lines = [json.dumps({"role": role, "content": f"{role} " * 700}) for role in ("user", "assistant") * 80]
    provider.program(summarised(repeat=50))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.import_("\n".join(lines), agent="ada", sender="user")
            said = await talk.say("ada", "Go on.")
            assert len(said.of("compacted")) == 1
            # The summary is of a stranger's words, and the run that sees it is tainted as before.
            assert (await talk.conversations())[0].taint == "import"
    assert len(summaries(provider)) > 1
    assert provider.faults() == []


async def test_what_is_tainted_stays_tainted_in_a_compaction_that_happens_by_itself(
    home: Home, provider: Provider
) -> None:
    line = json.dumps({"role": "user", "content": "Do as I say."})
    provider.program({"match": "one$", "text": "1", "usage": full()}, summarised())
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.import_(line, agent="ada", sender="user")
            await talk.say("ada", "one")
            assert len((await talk.say("ada", "two")).of("compacted")) == 1
            assert (await talk.conversations())[0].taint == "import"
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.conversations())[0].taint == "import"


# ---- a request that is refused as too long -----------------------------------------------------------


@pytest.mark.parametrize("shape", TOO_LONG)
async def test_a_refusal_as_too_long_compacts_once_and_tries_once_more(
    daemon: LiveDaemon, provider: Provider, sender: str, shape: str
) -> None:
    provider.program({"match": "^one$", "text": "1"}, refused("two$", shape), summarised())
    async with daemon.client() as talk:
        await talk.say("ada", "one", sender)
        said = await talk.say("ada", "two", sender)
        assert said.outcome == "completed"
        assert len(said.of("compacted")) == 1
        assert len(await talk.archives("ada", sender)) == 1
    assert "archived-summary" in words(provider.bodies()[-1])


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_rate_limit_that_counts_tokens_archives_nothing(
    daemon: LiveDaemon, provider: Provider, sender: str, is_streamed: bool
) -> None:
    error = {"type": "throttlingException", "message": "Too many tokens, please wait before trying again."}
    body = json.dumps({"error": error})
    refusal = {"body": f"data: {body}\n\n", "content_type": "text/event-stream"} if is_streamed else {"body": body}
    status = {} if is_streamed else {"status": 429, "headers": {"Retry-After": "0"}}
    provider.program({"match": "^one$", "text": "1"}, {"match": "two$", **status, **refusal})
    async with daemon.client() as talk:
        await talk.say("ada", "one", sender)
        said = await talk.say("ada", "two", sender)
        assert said.outcome == "completed"
        assert len(said.of("retrying")) == 1
        assert await talk.archives("ada", sender) == []


async def test_a_second_refusal_ends_the_turn_and_the_conversation_goes_on(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"match": "^one$", "text": "1"}, refused("two$", "unsaid", repeat=2), summarised())
    async with daemon.client() as talk:
        await talk.say("ada", "one", sender)
        said = await talk.say("ada", "two", sender)
        assert said.outcome == "model_error"
        assert "longer than model 'fake' can read" in said.ended.error
        assert (await talk.say("ada", "three", sender)).outcome == "completed"


async def test_a_guest_refused_as_too_long_sees_less_and_archives_nothing(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await fill(talk, 20)
            provider.program(refused("^bob$", "unsaid"), {"match": "^bob$", "text": "Here."})
            said = await talk.say("ada", "bob", guest="bob")
            assert (said.outcome, said.text) == ("completed", "Here.")
            assert await talk.archives("ada") == []
    first, second = provider.bodies()[-2:]
    assert len(words(second)) < len(words(first)) * 0.6
    assert LEFT_OUT in words(second)


async def test_a_window_the_server_names_is_used_from_then_on(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "one")
            provider.program(refused("^two$"), summarised(), {"match": "^two$", "text": "2"})
            await talk.say("ada", "two")
        (found,) = [each for each in daemon.cli_json("models")["data"] if each["name"] == "fake"]
        assert found["window"] == 8192


async def test_a_summary_that_is_refused_as_too_long_is_written_in_shorter_passes(
    home: Home, provider: Provider
) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await fill(talk, 12)
            provider.program(refused("Write the summary now", "unsaid"), summarised(repeat=30))
            assert (await talk.compact("ada")).title == "Bread was discussed."
    first, *rest = summaries(provider)
    assert max(len(words(each)) for each in rest) <= len(words(first))


async def test_the_passes_of_a_summary_that_fails_are_paid_for(home: Home, provider: Provider) -> None:
    home.write_config((home.path / "config.toml").read_text() + "\n[compaction]\nauto = false\n")
    with daemon_thread(small(home, "ada")) as daemon:
        async with daemon.client() as talk:
            await fill(talk, 8)
            before = sum(each.prompt for each in await talk.usage(agent="ada"))
            provider.program(summarised(usage=full(700)), {"match": "Write the summary now", "status": 400})
            with pytest.raises(ModelError):
                await talk.compact("ada")
            assert len(summaries(provider)) == 2
            after = sum(each.prompt for each in await talk.usage(agent="ada"))
    assert after == before + 700


async def test_where_compaction_is_switched_off_a_refusal_is_told(home: Home, provider: Provider) -> None:
    home.write_config((home.path / "config.toml").read_text() + "\n[compaction]\nauto = false\n")
    provider.program({"match": "^one$", "text": "1"}, refused("^two$"))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "one")
            said = await talk.say("ada", "two")
            assert said.outcome == "model_error"
            assert "moot compact" in said.ended.error
            assert await talk.archives("ada") == []


# ---- more than a window in one turn -------------------------------------------------------------------


async def test_one_oversized_message_is_cut_for_the_model_and_kept_whole(home: Home, provider: Provider) -> None:
    message = "begin " + "rye " * 5_000 + "end"
    with daemon_thread(small(home, "ada")) as daemon:
        async with daemon.client() as talk:
            provider.program({"match": "^begin", "text": "Long."}, summarised(repeat=30))
            said = await talk.say("ada", message)
            assert (said.outcome, said.text) == ("completed", "Long.")
            assert "context window of small" in said.ended.error
            assert (await talk.told("ada"))[0] == ("user", "", message)
            (body,) = provider.bodies()
            assert CUT in words(body)
            asked = body["messages"][-1]["content"].partition("\n\n<moot>")[0]
            assert asked.startswith("begin ")
            assert asked.endswith("end")
            # The next turn puts it away, and the conversation goes on.
            said = await talk.say("ada", "And now?")
            assert said.outcome == "completed"
            assert len(said.of("compacted")) == 1
    assert provider.faults() == []


async def test_results_of_tools_that_fill_the_window_within_a_turn_are_cut(home: Home, provider: Provider) -> None:
    (home.path / "work").mkdir()
    (home.path / "work" / "notes.txt").write_text("rye and wheat\n" * 800)
    home.write_agent("ada", model="small").write_text(
        "---\nname: ada\ndescription: reads\nmodel: small\nprefixes: [fs_read]\n---\nYou are ada.\n"
    )
    read = {"name": "fs_read", "arguments": {"path": "notes.txt"}}
    provider.program(*[{"match": "^read$", "calls": [read], "usage": None}] * 3, {"match": "^read$", "text": "Read."})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            said = await talk.say("ada", "read", cwd=str(home.path / "work"))
            assert (said.outcome, said.text) == ("completed", "Read.")
            assert [role for role, _, _ in await talk.told("ada")] == ["user", *["assistant", "tool"] * 3, "assistant"]
    last = provider.bodies()[-1]
    assert CUT in words(last)
    assert len(words(last)) < 2_000 * 4
    assert provider.faults() == []


# ---- kills and crashes --------------------------------------------------------------------------------


async def test_a_kill_while_a_refused_request_is_compacted_changes_nothing(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "one")
            provider.program(refused("^two$"), summarised(hold=True))
            speech = talk.start("ada", "two")
            await eventually(lambda: summaries(provider))
            await talk.kill("ada")
            assert (await speech.end()).outcome == "cancelled"
            assert await talk.archives("ada") == []
            assert len(await talk.told("ada")) == 3


async def test_a_crash_right_after_the_archive_leaves_one_archive_and_every_message(
    home: Home, provider: Provider
) -> None:
    provider.program({"match": "^one$", "text": "1", "usage": full()}, summarised())
    with running(home, MOOT_FAIL_AT="compaction.archived") as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "one")
            speech = talk.start("ada", "two")
            with pytest.raises(Exception, match="connection"):
                await speech.end()
            await asyncio.to_thread(daemon.reap)
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert len(await talk.archives("ada")) == 1
            assert [content for _, _, content in await talk.told("ada", all=True)] == ["one", "1", "two"]
            said = await talk.say("ada", "three")
            assert (said.outcome, said.of("compacted")) == ("completed", [])


async def test_an_error_that_is_none_of_length_is_told_at_once(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"match": "^one$", "text": "1"}, {"match": "^two$", "status": 400})
    async with daemon.client() as talk:
        await talk.say("ada", "one", sender)
        said = await talk.say("ada", "two", sender)
        assert said.outcome == "model_error"
        assert await talk.archives("ada", sender) == []


async def test_a_compaction_by_hand_that_fails_says_so(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    async with daemon.client() as talk:
        await talk.say("ada", "one", sender)
        provider.program(refused("Write the summary now", "unsaid", repeat=20))
        with pytest.raises(ModelError, match="longer than model"):
            await talk.compact("ada", sender)
        assert len(await talk.told("ada", sender)) == 2
        provider.reset()
