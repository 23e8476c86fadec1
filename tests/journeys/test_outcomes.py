"""How a run can end, and that the history is good for the next turn whatever happened in this one."""

from typing import Any

import pytest

from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider

CONFIG = PROVIDER_CONFIG.replace(
    "retries = 1\n[models.claude]",
    "retries = 1\nidle_seconds = 1\nprice_prompt = 1000000\nprice_completion = 2000000\n[models.claude]",
)

TITLE = {"name": "set_title", "arguments": {"title": "Bread"}}


def titled(number: int) -> dict[str, Any]:
    return {"calls": [{"name": "set_title", "arguments": {"title": f"Title {number}"}}]}


# ---- limits -------------------------------------------------------------------------------------


async def test_a_run_stops_at_its_limit_on_steps(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program(*(titled(number) for number in range(5)))
    async with daemon.client() as talk:
        said = await talk.say("ada", "go", sender, limits=pb.RunLimits(steps=3))
        assert (said.outcome, said.ended.limit, said.ended.steps) == ("limit", "steps", 3)
        assert "steps" in said.ended.error
        assert len(provider.bodies()) == 3
        # What was done stays, and the next turn is valid.
        assert [role for role, _, _ in await talk.told("ada", sender)] == ["user"] + ["assistant", "tool"] * 3
        provider.reset()
        assert (await talk.say("ada", "on", sender)).outcome == "completed"
    assert provider.faults() == []


async def test_a_run_stops_at_its_limit_on_time(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"text": "one two", "stall_after": 2})
    async with daemon.client() as talk:
        said = await talk.say("ada", "go", sender, limits=pb.RunLimits(seconds=0.3))
        assert (said.outcome, said.ended.limit) == ("timeout", "seconds")
        assert said.text == ""
        assert await talk.told("ada", sender) == [("user", "", "go")]


def bounds(provider: Provider) -> list[Any]:
    """How many tokens each request let the model write."""
    return [body.get("max_tokens", body.get("max_completion_tokens")) for body in provider.bodies()]


async def test_a_run_stops_at_its_limit_on_tokens(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program(*({**titled(number), "usage": {"prompt": 6_000, "completion": 1_000}} for number in range(4)))
    async with daemon.client() as talk:
        said = await talk.say("ada", "go", sender, limits=pb.RunLimits(tokens=16_000))
        assert (said.outcome, said.ended.limit, said.ended.steps) == ("limit", "tokens", 2)
    # The model is never allowed to write more than is left beside the prompt, nor asked what the limit has no room for.
    first, second = bounds(provider)
    assert first <= 8_192
    assert 2_500 < second < 16_000 - 7_000 - 6_000


async def test_a_prompt_with_no_room_under_the_limit_on_tokens_is_not_sent(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        said = await talk.say("ada", "go", sender, limits=pb.RunLimits(tokens=1))
        assert (said.outcome, said.ended.limit, said.ended.steps) == ("limit", "tokens", 0)
    assert provider.bodies() == []


async def test_a_reply_that_took_more_tokens_than_allowed_is_kept_and_told(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "Long.", "usage": {"prompt": 20, "completion": 40_000}})
    async with daemon.client() as talk:
        said = await talk.say("ada", "go", sender, limits=pb.RunLimits(tokens=12_000))
        assert (said.outcome, said.ended.limit, said.text) == ("limit", "tokens", "Long.")
        assert await talk.told("ada", sender) == [("user", "", "go"), ("assistant", "", "Long.")]


async def test_a_run_stops_at_its_limit_on_spend(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    # A dollar for a token of the prompt and two for one of the reply: 8,000 dollars a step.
    provider.program(*({**titled(number), "usage": {"prompt": 6_000, "completion": 1_000}} for number in range(5)))
    async with daemon.client() as talk:
        said = await talk.say("ada", "go", sender, limits=pb.RunLimits(spend=30_000))
        assert (said.outcome, said.ended.limit, said.ended.steps) == ("limit", "spend", 3)
        assert said.ended.cost == pytest.approx(24_000)
    # Each reply is bounded by what is left for it once the prompt is paid.
    assert bounds(provider)[1] <= (30_000 - 8_000 - 6_000) / 2
    assert bounds(provider)[2] <= (30_000 - 16_000 - 6_000) / 2


async def test_a_request_can_only_narrow_the_configured_limits(home: Home, provider: Provider) -> None:
    home.write_config((home.path / "config.toml").read_text() + "\n[limits]\nsteps = 2\n")
    provider.program(*(titled(number) for number in range(5)))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            said = await talk.say("ada", "go", limits=pb.RunLimits(steps=50))
            assert (said.ended.limit, said.ended.steps) == ("steps", 2)


async def test_usage_and_cost_are_kept_per_conversation_and_model(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({**titled(1), "usage": {"prompt": 10, "completion": 2, "cached": 4}})
    provider.program({"text": "Done.", "usage": {"prompt": 20, "completion": 3, "cached": 8}})
    provider.program({"text": "Bob.", "usage": {"prompt": 100, "completion": 5, "reasoning": 2}})
    async with daemon.client() as talk:
        said = await talk.say("ada", "go", sender)
        assert (said.ended.usage.prompt, said.ended.usage.completion, said.ended.usage.cache_hit) == (30, 5, 12)
        assert said.ended.cost == pytest.approx(30 + 2 * 5)
        await talk.say("ada", "Bob?", sender, guest="bob")
        (spent,) = await talk.usage(agent="ada", sender=sender)
        assert (spent.runs, spent.prompt, spent.completion, spent.cache_hit) == (2, 130, 10, 12)
        assert spent.reasoning == 2
        assert spent.cost == pytest.approx(150)
    shown = daemon.cli_json("usage", "ada", "--as", sender)["data"]
    assert [(each["runs"], each["prompt"], each["completion"]) for each in shown] == [(2, 130, 10)]


# ---- loops and silence --------------------------------------------------------------------------


async def test_the_same_calls_again_and_again_are_a_loop(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"calls": [TITLE], "repeat": 20})
    async with daemon.client() as talk:
        said = await talk.say("ada", "go", sender)
        assert said.outcome == "loop_detected"
        assert said.ended.steps == 5
        assert "5 times" in said.ended.error
        provider.reset()
        assert (await talk.say("ada", "on", sender)).outcome == "completed"
    assert provider.faults() == []


async def test_a_model_with_nothing_to_say_ends_empty_and_stores_nothing(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": ""}, {"text": "  \n"})
    async with daemon.client() as talk:
        for _ in range(2):
            said = await talk.say("ada", "hello", sender)
            assert said.outcome == "empty"
            assert said.ended.error
        assert {role for role, _, _ in await talk.told("ada", sender)} == {"user"}
        assert (await talk.say("ada", "on", sender)).outcome == "completed"
    assert provider.faults() == []


async def test_silence_after_tools_has_its_own_outcome(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"calls": [TITLE]}, {"text": ""})
    async with daemon.client() as talk:
        said = await talk.say("ada", "hello", sender)
        assert said.outcome == "empty_after_tool_use"
        assert [role for role, _, _ in await talk.told("ada", sender)] == ["user", "assistant", "tool"]
        assert (await talk.say("ada", "on", sender)).outcome == "completed"
    assert provider.faults() == []


async def test_thinking_is_streamed_apart_from_text(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"thinking": "Let me see.", "text": "Yes."})
    async with daemon.client() as talk:
        said = await talk.say("ada", "hello", sender)
        assert "".join(each.content for each in said.of("thinking")) == "Let me see."
        order = [kind for kind in said.kinds if kind not in ("chunk", "thinking")]
        assert order == ["start", "thinking_start", "thinking_end", "text_start", "text_end", "end"]
        assert said.text == "Yes."
        assert (await talk.told("ada", sender))[-1] == ("assistant", "", "Yes.")


# ---- a model that fails -------------------------------------------------------------------------

FAILURES: dict[str, dict[str, Any]] = {
    "an error of its own": {"status": 500},
    "a refusal": {"status": 400},
    "a page of HTML": {"body": "<html>hello</html>", "content_type": "text/html"},
    "garbage": {"body": "\x01\x02 nonsense", "content_type": "text/event-stream"},
    "a cut": {"text": "half of it " * 10, "cut_at": 500},
    "a reset": {"text": "half of it " * 10, "reset_at": 500},
    "an error in the stream": {"text": "half", "error": {"message": "overloaded"}},
    "silence": {"text": "half of it", "stall_after": 2},
}


@pytest.mark.parametrize("guest", ["", "bob"])
@pytest.mark.parametrize("failure", FAILURES)
async def test_a_model_that_fails_leaves_a_history_the_next_turn_can_use(
    daemon: LiveDaemon, provider: Provider, sender: str, failure: str, guest: str
) -> None:
    provider.program({**FAILURES[failure], "repeat": 2, "match": "^u1$"})
    async with daemon.client() as talk:
        said = await talk.say("ada", "u1", sender, guest=guest)
        assert said.outcome == "model_error"
        assert "fake" in said.ended.error
        assert said.text == ""
        assert said.kinds.count("end") == 1
        assert await talk.told("ada", sender) == [("user", "", "u1")]
        assert (await talk.say("ada", "u2", sender)).outcome == "completed"
        assert [role for role, _, _ in await talk.told("ada", sender)] == ["user", "user", "assistant"]
    assert provider.faults() == []


async def test_a_guest_that_fails_then_a_primary_that_answers_then_a_crash(home: Home, provider: Provider) -> None:
    provider.program({"status": 500, "repeat": 2}, {"text": "a2"})
    with running(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.say("ada", "u1", guest="bob")).outcome == "model_error"
            assert (await talk.say("ada", "u2")).text == "a2"
            daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert [content for _, _, content in await talk.told("ada")] == ["u1", "u2", "a2"]
            outcomes = [message.outcome for message in (await talk.history("ada")).messages]
            assert outcomes == ["model_error", "completed", ""]


async def test_a_passing_failure_is_told_and_tried_again(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.program({"status": 429, "headers": {"Retry-After": "0"}}, {"text": "Better."})
    async with daemon.client() as talk:
        said = await talk.say("ada", "hello", sender)
        (retry,) = said.of("retrying")
        assert retry.attempt == 1
        assert said.text == "Better."
        assert len(await talk.told("ada", sender)) == 2
    assert len(provider.bodies()) == 2


async def test_nothing_is_tried_again_once_something_was_said(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "half of it " * 10, "cut_at": 900}, {"text": "never asked"})
    async with daemon.client() as talk:
        said = await talk.say("ada", "hello", sender)
        assert said.outcome == "model_error"
        assert said.of("chunk")
        assert said.of("retrying") == []
    assert len(provider.bodies()) == 1


async def test_an_agent_whose_model_is_missing_says_so(home: Home, provider: Provider) -> None:
    home.write_agent("ada", model="gone")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            said = await talk.say("ada", "hello")
            assert said.outcome == "model_error"
            assert "gone" in said.ended.error
            assert await talk.told("ada") == [("user", "", "hello")]


# ---- tool calls with flaws ----------------------------------------------------------------------

FLAWED = {
    "no JSON": ({"name": "set_title", "arguments": '{"title": "x'}, "not valid JSON"),
    "no object": ({"name": "set_title", "arguments": "[1]"}, "object"),
    "nothing": ({"name": "set_title", "arguments": "{}"}, "missing title parameter"),
    "another type": ({"name": "set_title", "arguments": {"title": 7}}, "must be of type string"),
    "an unknown tool": ({"name": "launch_rockets", "arguments": {}}, "no tool 'launch_rockets'"),
    "a number for true": ({"name": "recall", "arguments": {"query": "x", "limit": True}}, "must be of type integer"),
}


@pytest.mark.parametrize("flaw", FLAWED)
async def test_a_flawed_call_is_told_to_the_model_and_the_run_goes_on(
    daemon: LiveDaemon, provider: Provider, sender: str, flaw: str
) -> None:
    call, complaint = FLAWED[flaw]
    provider.program({"calls": [call]}, {"text": "I see."})
    async with daemon.client() as talk:
        said = await talk.say("ada", "go", sender)
        assert said.text == "I see."
        (result,) = said.of("tool_result")
        assert result.is_error
        assert complaint in result.output
        assert (await talk.say("ada", "on", sender)).outcome == "completed"
    assert provider.faults() == []


async def test_calls_with_one_id_are_each_answered(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    same = [{**TITLE, "id": "same"}, {"name": "recall", "arguments": {"query": "x"}, "id": "same"}]
    provider.program({"calls": same}, {"text": "Both."})
    async with daemon.client() as talk:
        said = await talk.say("ada", "go", sender)
        assert said.text == "Both."
        assert len({result.call_id for result in said.of("tool_result")}) == 2
        await talk.say("ada", "on", sender)
    assert provider.faults() == []


async def test_a_hundred_parallel_calls_are_all_answered_in_order(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    calls = [{"name": "recall", "arguments": {"query": f"q{n}"}, "id": f"call_{n}"} for n in range(100)]
    provider.program({"calls": calls}, {"text": "All."})
    async with daemon.client() as talk:
        assert (await talk.say("ada", "go", sender)).text == "All."
        messages = (await talk.history("ada", sender)).messages
        results = [message.tool_call_id for message in messages if message.role == "tool"]
        assert results == [call.call_id for call in messages[1].tool_calls]
        assert [call.arguments for call in messages[1].tool_calls] == [f'{{"query": "q{n}"}}' for n in range(100)]
    assert provider.faults() == []


async def test_half_a_surrogate_pair_from_a_human_costs_nothing_ten_turns_later(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    arguments = '{"title": "half \\ud83d of it and on"}'
    provider.program(
        {"calls": [{"name": "set_title", "arguments": arguments}], "text": "ok \ud83d \x00"}, {"text": "done"}
    )
    async with daemon.client() as talk:
        first = await talk.say("ada", "go", sender)
        assert (first.outcome, first.ended.error) == ("completed", "")
        for number in range(10):
            assert (await talk.say("ada", f"turn {number}", sender)).outcome == "completed"
        told = await talk.told("ada", sender)
        assert len(told) == 4 + 20
        assert told[-1] == ("assistant", "", "echo: turn 9")
        assert "turn 9" in await talk.export("ada", sender)
    assert provider.faults() == []
