"""Who is asking decides who is speaking: the owner on the socket, a token's holder on the network."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from moot.client.connection import connect
from moot.domain.errors import BadRequest, Busy, Conflict, Forbidden, NotFound, Unauthorized
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, LiveDaemon
from tests.fake_provider import Provider
from tests.talking import Talking

CONFIG = PROVIDER_CONFIG.replace('tcp = "off"', 'tcp = "127.0.0.1:0"')


@asynccontextmanager
async def guest_of(daemon: LiveDaemon, name: str, *senders: str) -> AsyncIterator[Talking]:
    """A client on TCP with a fresh token."""
    async with daemon.client() as owner:
        made = await owner.ask(new_token=pb.NewTokenMsg(name=name, senders=senders))
        address = (await owner.ask(get_stats=pb.GetStats())).stats.tcp
    async with connect(address, token=made.token_created.token) as connection:
        yield Talking(connection)


async def test_on_the_network_the_default_sender_is_the_tokens_name(daemon: LiveDaemon, provider: Provider) -> None:
    async with guest_of(daemon, "phone") as phone, daemon.client() as owner:
        await phone.say("ada", "hello")
        assert [info.sender for info in await phone.conversations()] == ["phone"]
        assert await owner.told("ada", "phone") == await phone.told("ada")
        with pytest.raises(NotFound):
            await owner.told("ada", "user")


async def test_an_empty_sender_means_the_same_everywhere(daemon: LiveDaemon, provider: Provider) -> None:
    question = {"name": "ask_user", "arguments": {"questions": [{"question": "Well?"}]}}
    provider.program({"match": "^ask$", "calls": [question]}, {"match": "^hang$", "text": "x", "hold": True})
    async with guest_of(daemon, "tablet") as tablet:
        speech = tablet.start("ada", "ask")
        await speech.until("ask_user")
        await tablet.reply("ada", "yes")
        assert (await speech.end()).outcome == "completed"
        hanging = tablet.start("ada", "hang")
        await hanging.until("start")
        await tablet.kill("ada")
        assert (await hanging.end()).outcome == "cancelled"
        assert (await tablet.compact("ada")).number == 1
        assert len(await tablet.archives("ada")) == 1


async def test_a_principal_can_only_use_senders_it_owns(daemon: LiveDaemon, provider: Provider) -> None:
    async with guest_of(daemon, "bot", "tg:*") as bot, daemon.client() as owner:
        await owner.say("ada", "private", "user")
        assert (await bot.say("ada", "hello", "tg:7")).outcome == "completed"
        for request in (
            bot.say("ada", "I am you", "user"),
            bot.told("ada", "user"),
            bot.kill("ada", "user"),
            bot.reply("ada", "yes", "user"),
            bot.compact("ada", "user"),
            bot.export("ada", "user"),
            bot.recall("ada", "private", "user"),
            bot.archives("ada", "user"),
            bot.attach("ada", "user").end(),
            bot.ask(delete=pb.DeleteMsg(agent="ada", sender="user", confirm=True)),
        ):
            with pytest.raises(Forbidden):
                await request
        assert {info.sender for info in await bot.conversations()} == {"tg:7"}
        assert {spent.sender for spent in await bot.usage()} == {"tg:7"}
        assert len(await owner.told("ada", "user")) == 2


async def test_a_principal_hears_no_events_and_no_questions_of_others(daemon: LiveDaemon, provider: Provider) -> None:
    question = {"name": "ask_user", "arguments": {"questions": [{"question": "Owner?"}]}}
    provider.program({"match": "^ask$", "calls": [question]})
    async with guest_of(daemon, "spy") as spy, daemon.client() as owner:
        feed = await spy.connection.subscribe()
        speech = owner.start("ada", "ask", "owner only")
        await speech.until("ask_user")
        assert await spy.asks() == []
        assert await spy.active() == []
        await owner.reply("ada", "yes", "owner only")
        await speech.end()
        await spy.say("ada", "my own")
        async with asyncio.timeout(30):
            first = await anext(feed)
        assert first.sender == "spy"
        await feed.aclose()


async def test_what_belongs_to_the_owner_is_refused_to_others(daemon: LiveDaemon, provider: Provider) -> None:
    async with guest_of(daemon, "other") as other:
        for message in (
            {"list_tokens": pb.ListTokensMsg()},
            {"new_token": pb.NewTokenMsg(name="mine", senders=["*"])},
            {"revoke_token": pb.RevokeTokenMsg(name="other")},
            {"reload": pb.ReloadMsg()},
            {"backup": pb.BackupMsg(path="/tmp/stolen.db")},
            {"check": pb.CheckMsg()},
            {"test_model": pb.TestModelMsg(name="fake")},
            {"import": pb.ImportMsg(agent="ada", jsonl='{"role":"user","content":"hi"}', trust=True)},
        ):
            with pytest.raises(Forbidden):
                await other.ask(**message)
        agents = (await other.ask(list_agents=pb.ListAgentsMsg())).agent_list.agents
        assert {agent.path for agent in agents} == {""}
    assert provider.bodies() == []


async def test_no_token_and_a_wrong_one_are_refused(daemon: LiveDaemon) -> None:
    async with daemon.client() as owner:
        address = (await owner.ask(get_stats=pb.GetStats())).stats.tcp
    with pytest.raises(Unauthorized):
        async with connect(address, token="moot_wrong"):
            pass
    async with connect(address) as connection:
        with pytest.raises(Unauthorized) as refusal:
            await Talking(connection).say("ada", "hello")
        assert "moot tokens new" in refusal.value.fix


async def test_a_revoked_token_ends_its_connections(daemon: LiveDaemon, provider: Provider) -> None:
    async with guest_of(daemon, "lost") as lost, daemon.client() as owner:
        await lost.say("ada", "hello")
        await owner.ask(revoke_token=pb.RevokeTokenMsg(name="lost"))
        async with asyncio.timeout(30):
            await lost.connection.closed.wait()
        with pytest.raises(Unauthorized):
            await lost.say("ada", "still here?")
        # What it said stays the owner's to read.
        assert len(await owner.told("ada", "lost")) == 2


@pytest.mark.parametrize("name", ["run:1", "user", "owner", "two words", "", "team:x"])
async def test_a_token_cannot_take_a_name_that_is_somebody_elses(daemon: LiveDaemon, name: str) -> None:
    async with daemon.client() as owner:
        with pytest.raises(BadRequest):
            await owner.ask(new_token=pb.NewTokenMsg(name=name))


async def test_a_name_issued_again_gives_no_access_to_what_the_earlier_holder_had(
    daemon: LiveDaemon, provider: Provider
) -> None:
    question = {"name": "ask_user", "arguments": {"questions": [{"question": "Well?"}]}}
    provider.program({"match": "^ask$", "calls": [question]})
    async with daemon.client() as owner:
        async with guest_of(daemon, "handset") as first:
            await first.say("ada", "a private matter")
            run = (await first.ask(start_run=pb.StartRunMsg(agent="ada", content="in private"))).run
            speech = first.start("ada", "ask")
            await speech.until("ask_user")
            await owner.ask(revoke_token=pb.RevokeTokenMsg(name="handset"))
        async with guest_of(daemon, "handset") as second:
            assert await second.conversations() == []
            assert await second.active() == []
            assert await second.asks() == []
            assert list((await second.ask(list_runs=pb.ListRunsMsg(all=True))).run_list.runs) == []
            assert await second.usage() == []
            for request in (
                second.told("ada", "handset"),
                second.export("ada", "handset"),
                second.recall("ada", "private", "handset"),
                second.reply("ada", "yes", "handset"),
                second.kill("ada", "handset"),
                second.say("ada", "what did I say?", "handset"),
                second.ask(**{"import": pb.ImportMsg(jsonl=await owner.export("ada", "handset"))}),
            ):
                with pytest.raises(Forbidden):
                    await request
            with pytest.raises(NotFound):
                await second.ask(get_run=pb.GetRunMsg(run_id=run.run_id))
            with pytest.raises(NotFound):
                await second.told("ada")
            await second.say("ada", "hello")
            assert {info.sender for info in await second.conversations()} == {"handset-2"}
            tokens = (await owner.ask(list_tokens=pb.ListTokensMsg())).token_list.tokens
            issued = [(token.sender, bool(token.revoked_at)) for token in tokens if token.name == "handset"]
            assert issued == [("handset", True), ("handset-2", False)]
            await owner.ask(revoke_token=pb.RevokeTokenMsg(name="handset"))
        # The owner can hand the conversations on, by naming the sender.
        async with guest_of(daemon, "handset", "handset") as third:
            assert {info.sender for info in await third.conversations()} == {"handset", f"bg:{run.run_id}:handset"}
            assert (await third.told("ada"))[0][2] == "a private matter"


FLOW = "name: private\nsteps:\n  - id: one\n    prompt: say it\n"


async def test_a_token_does_not_get_what_was_stored_for_its_name_without_a_conversation(
    daemon: LiveDaemon, provider: Provider, tmp_path: Path
) -> None:
    (tmp_path / "private.flow.yaml").write_text(FLOW, encoding="utf-8")
    learning = {"name": "save_learning", "arguments": {"trigger": "exec", "fix": "Use the private key."}}
    provider.program({"match": "^learn$", "calls": [learning]})
    async with daemon.client() as owner:
        await owner.say("librarian", "learn", "learner")
        await owner.ask(delete=pb.DeleteMsg(agent="librarian", sender="learner", confirm=True))
        await owner.ask(start_run=pb.StartRunMsg(agent="ada", content="in private", sender="runner"))
        daemon.cli("knowledge", "save", "address", "In private.", "--as", "knower")
        daemon.cli("tasks", "add", "ada", "A private task.", "--as", "doer")
        daemon.cli("workflow", "save", str(tmp_path / "private.flow.yaml"), "--as", "planner-2")
        for name in ("learner", "runner", "knower", "doer", "planner-2"):
            with pytest.raises(Conflict, match="which a token of this name would get"):
                await owner.ask(new_token=pb.NewTokenMsg(name=name))
            # The owner can hand it on, by naming the sender.
            await owner.ask(new_token=pb.NewTokenMsg(name=name, senders=[name]))


async def test_a_principal_has_a_limited_number_of_subscriptions(daemon: LiveDaemon, provider: Provider) -> None:
    async with guest_of(daemon, "watcher") as watcher, guest_of(daemon, "other-watcher") as other:
        feeds = [await watcher.connection.subscribe() for _ in range(64)]
        with pytest.raises(Busy):
            await watcher.connection.subscribe()
        await (await other.connection.subscribe()).aclose()
        for feed in feeds:
            await feed.aclose()
    async with guest_of(daemon, "watcher-again") as again:
        await (await again.connection.subscribe()).aclose()
