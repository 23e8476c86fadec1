"""What nobody should send: one clear error each, nothing stored, and the daemon goes on."""

import math
from typing import Any

import pytest

from moot.domain.errors import BadRequest, NotFound, TooLarge
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, LiveDaemon
from tests.fake_provider import Provider

CONFIG = PROVIDER_CONFIG


@pytest.mark.parametrize("content", ["", "   ", "\n\t\n", "before\x00after"])
@pytest.mark.parametrize("guest", ["", "bob"])
async def test_a_message_that_says_nothing_is_refused(
    daemon: LiveDaemon, provider: Provider, sender: str, content: str, guest: str
) -> None:
    async with daemon.client() as talk:
        with pytest.raises(BadRequest) as refusal:
            await talk.say("ada", content, sender, guest=guest)
        assert refusal.value.fix
        assert await talk.conversations(sender=sender) == []
    assert provider.bodies() == []


async def test_a_message_of_ten_megabytes_is_refused_and_the_connection_goes_on(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        with pytest.raises(TooLarge) as refusal:
            await talk.say("ada", "x" * 10_000_000, sender)
        assert "max_content_bytes" in refusal.value.fix
        assert await talk.conversations(sender=sender) == []
        assert (await talk.say("ada", "x" * 1_000_000, sender)).outcome == "completed"


async def test_the_bound_counts_bytes_not_characters(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    async with daemon.client() as talk:
        with pytest.raises(TooLarge):
            await talk.say("ada", "語" * 400_000, sender)


@pytest.mark.parametrize("agent", ["", "../ada", "ada/../bob", "ADA", "ada ", "x" * 1000, "a\nb"])
async def test_a_name_that_is_no_agents_is_refused(
    daemon: LiveDaemon, provider: Provider, sender: str, agent: str
) -> None:
    async with daemon.client() as talk:
        for request in (
            talk.say(agent, "hello", sender),
            talk.kill(agent, sender),
            talk.compact(agent, sender),
            talk.reply(agent, "yes", sender),
            talk.attach(agent, sender).end(),
        ):
            with pytest.raises(NotFound):
                await request
        assert await talk.conversations(sender=sender) == []


@pytest.mark.parametrize("name", ["x" * 201, "two\nlines", "bell\x07", "   "])
async def test_a_sender_nobody_can_read_is_refused(daemon: LiveDaemon, provider: Provider, name: str) -> None:
    async with daemon.client() as talk:
        with pytest.raises(BadRequest):
            await talk.say("ada", "hello", name)
        assert [info.sender for info in await talk.conversations() if info.sender == name] == []


@pytest.mark.parametrize(
    "limits",
    [
        {"seconds": math.nan},
        {"seconds": -1.0},
        {"spend": math.nan},
        {"spend": -0.5},
        {"seconds": math.inf},
        {"steps": 0},
        {"tokens": 0},
        {"seconds": 0.0},
    ],
)
async def test_odd_limits_end_in_one_answer_and_never_in_a_failure_inside(
    daemon: LiveDaemon, provider: Provider, sender: str, limits: dict[str, Any]
) -> None:
    async with daemon.client() as talk:
        said = await talk.say("ada", "hello", sender, limits=pb.RunLimits(**limits))
        assert said.outcome in ("completed", "limit", "timeout")
        assert (await talk.say("ada", "again", sender)).outcome == "completed"


@pytest.mark.parametrize(
    "asked",
    [
        pb.ClientMessage(get_history=pb.GetHistoryMsg(agent="ada", first_seq=2**63)),
        pb.ClientMessage(get_archive=pb.GetArchiveMsg(agent="ada", first_seq=2**64 - 1)),
        pb.ClientMessage(export=pb.ExportMsg(agent="ada", first_seq=2**64 - 1)),
        pb.ClientMessage(delete_rule=pb.DeleteRuleMsg(number=2**64 - 1)),
        pb.ClientMessage(send=pb.SendMsg(agent="ada", content="hi", limits=pb.RunLimits(tokens=2**63))),
    ],
)
async def test_a_number_that_the_store_cannot_hold_is_refused(daemon: LiveDaemon, asked: pb.ClientMessage) -> None:
    async with daemon.client() as talk:
        with pytest.raises(BadRequest, match="is too large: "):
            await talk.connection.request(asked)


def test_a_number_that_does_not_fit_into_a_request_is_a_wrong_command_line(daemon: LiveDaemon) -> None:
    number = str(10**30)
    for arguments in (
        ("resume", "ada", number),
        ("archives", "ada", number),
        ("rules", "rm", number),
        ("ask", "ada", "hello", f"--max-steps={number}"),
        ("history", "ada", "-n", number),
    ):
        error = daemon.cli_json(*arguments)["error"]
        assert (error["type"], error["message"]) == ("bad_request", f"{number} is too large"), arguments


async def test_an_empty_request_and_an_unknown_one_are_refused(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        with pytest.raises(BadRequest):
            await talk.ask()
        strange = pb.ClientMessage()
        strange.MergeFromString(b"\xfa\x7f\x03abc")
        with pytest.raises(BadRequest):
            await talk.connection.request(strange)
        assert (await talk.ask(ping=pb.Ping())).WhichOneof("message") == "pong"


async def test_odd_but_honest_text_goes_through_unchanged(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    text = "e\u0301 \u202eright to left\u202c \U0001f469\u200d\U0001f4bb \ufeff \x7f \x1b[31mred\r\n\ttab \u2028 end"
    async with daemon.client() as talk:
        await talk.say("ada", text, sender)
        assert (await talk.told("ada", sender))[0] == ("user", "", text)
    assert provider.bodies()[0]["messages"][1]["content"].partition("\n\n<moot>")[0] == text


async def test_an_archive_that_cannot_be_is_not_found(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    async with daemon.client() as talk:
        await talk.say("ada", "hello", sender)
        for number in (0, 1, 4_294_967_295):
            with pytest.raises(NotFound):
                await talk.archive("ada", number, sender)
