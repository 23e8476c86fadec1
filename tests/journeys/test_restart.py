"""After a crash everything acknowledged is there, what was in flight says so, and what waited runs."""

import asyncio
import socket

import pytest
from msgspec.structs import replace

from moot.daemon.clock import SystemClock
from moot.domain.errors import MootError, StoreError
from moot.domain.message import assistant
from moot.domain.run import Outcome, RunEnd
from moot.store.sqlite import open_store
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, eventually, run_cli, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.talking import Talking

CONFIG = PROVIDER_CONFIG

ASK = {"name": "ask_user", "arguments": {"questions": [{"question": "Which one?"}]}}
TITLE = {"name": "set_title", "arguments": {"title": "Halfway"}}
RECALL = {"name": "recall", "arguments": {"query": "bread"}}


@pytest.mark.parametrize("guest", ["", "bob"])
async def test_a_run_in_flight_is_interrupted_and_the_history_says_so(
    home: Home, provider: Provider, guest: str
) -> None:
    provider.program({"text": "half of what it wanted to say", "stall_after": 4})
    with running(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "hello", guest=guest)
            await speech.until("chunk")
            daemon.kill_9()
            with pytest.raises(MootError, match="connection"):
                await speech.end()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            (message,) = (await talk.history("ada")).messages
            assert (message.role, message.content, message.outcome) == ("user", "hello", "interrupted")
            assert "stopped" in message.error
            assert await talk.active() == []
            # A user's turn is not taken up again by itself.
            assert (await talk.say("ada", "still there?")).outcome == "completed"
        shown = daemon.cli_json("history", "ada")["data"]["messages"]
        assert shown[0]["outcome"] == "interrupted"
    assert len(provider.bodies()) == 2
    assert provider.faults() == []


@pytest.mark.parametrize("taken", ["port", "socket"])
async def test_a_start_that_fails_because_an_address_is_taken_interrupts_nothing_that_waited(
    home: Home, provider: Provider, taken: str
) -> None:
    provider.program({"text": "half of what it wanted to say", "stall_after": 4})
    with running(home) as daemon:
        async with daemon.client() as talk, daemon.client() as other:
            speech = talk.start("ada", "hello")
            await speech.until("chunk")
            await other.start("ada", "and later").until("queued")
            daemon.kill_9()
    config = home.path / "config.toml"
    configured = config.read_text()
    with socket.create_server(("127.0.0.1", 0)) as other_server:
        if taken == "port":
            address = f"127.0.0.1:{other_server.getsockname()[1]}"
            config.write_text(configured.replace('tcp = "off"', f'tcp = "{address}"'))
        else:
            home.socket.unlink(missing_ok=True)
            home.socket.write_text("in the way")
        started = await asyncio.to_thread(run_cli, home, "serve")
    assert started.returncode == 78, started.stderr
    config.write_text(configured)
    if taken == "socket":
        home.socket.unlink()
    assert len(provider.bodies()) == 1
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await eventually(lambda: _has_ended(talk, "and later"))
            assert [each.outcome for each in (await talk.history("ada")).messages] == ["interrupted", "completed", ""]
    assert len(provider.bodies()) == 2


async def _has_ended(talk: Talking, content: str) -> bool:
    messages = (await talk.history("ada")).messages
    return not await talk.active() and content in [each.content for each in messages]


async def test_a_crash_with_results_that_are_not_on_disk_reruns_nothing_and_the_next_turn_is_valid(
    home: Home, provider: Provider
) -> None:
    # Results are kept in the order of the calls: behind an open one the others are not on disk.
    provider.program({"calls": [ASK, TITLE, RECALL]})
    with running(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "three things")
            await speech.until("ask_user")
            await speech.until("tool_result", count=2)
            daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            messages = (await talk.history("ada")).messages
            assert [message.role for message in messages] == ["user", "assistant", "tool", "tool", "tool"]
            calls = [call.call_id for call in messages[1].tool_calls]
            assert [message.tool_call_id for message in messages[2:]] == calls
            assert all("interrupted" in message.content and message.is_error for message in messages[2:])
            assert await talk.asks() == []
            assert len(provider.bodies()) == 1
            said = await talk.say("ada", "go on")
            assert said.of("tool_start") == []
    assert provider.faults() == []
    assert [message["role"] for message in provider.bodies()[1]["messages"]] == (
        ["system", "user", "assistant", "tool", "tool", "tool", "user"]
    )


async def test_messages_that_waited_run_after_a_restart_in_their_order(home: Home, provider: Provider) -> None:
    provider.program({"match": "^first$", "text": "never", "hold": True})
    with running(home) as daemon:
        async with daemon.client() as talk:
            first = talk.start("ada", "first")
            await first.until("start")
            for content, guest in (("second", ""), ("third", "bob"), ("fourth", "")):
                await talk.start("ada", content, guest=guest).until("queued")
            other = talk.start("cyd", "elsewhere")
            await other.end()
            daemon.kill_9()
    provider.reset()
    with daemon_thread(home) as again:
        provider.requests(at_least=3)
        async with again.client() as talk:
            await eventually(talk.is_idle)
            history = (await talk.history("ada")).messages
            assert [message.content for message in history if message.role == "user"] == (
                ["first", "second", "third", "fourth"]
            )
            outcomes = [message.outcome for message in history if message.role == "user"]
            assert outcomes == ["interrupted", "completed", "completed", "completed"]
            assert [message.agent for message in history if message.role == "assistant"] == ["", "bob", ""]
            assert [message.seq for message in history] == list(range(1, 8))


async def test_a_guest_that_waited_still_has_no_tools_after_a_restart(home: Home, provider: Provider) -> None:
    provider.program({"match": "^first$", "text": "never", "hold": True})
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.start("ada", "first").until("start")
            await talk.start("ada", "second", guest="bob").until("queued")
            daemon.kill_9()
    provider.reset()
    with daemon_thread(home):
        provider.requests(at_least=1)
    assert "tools" not in provider.bodies()[0]


async def test_a_message_for_an_agent_that_is_gone_does_not_hold_up_the_start(home: Home, provider: Provider) -> None:
    provider.program({"match": "^first$", "text": "never", "hold": True})
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.start("cyd", "first").until("start")
            await talk.start("cyd", "second").until("queued")
            daemon.kill_9()
    (home.path / "agents" / "cyd" / "AGENT.md").unlink()
    (home.path / "agents" / "cyd").rmdir()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.say("ada", "hello")).outcome == "completed"
            await eventually(talk.is_idle)
            assert [(message.content, message.outcome) for message in (await talk.history("cyd")).messages] == [
                ("first", "interrupted"),
                ("second", "internal_error"),
            ]


async def test_many_crashes_lose_and_double_nothing(home: Home, provider: Provider) -> None:
    acknowledged: list[str] = []
    for number in range(4):
        with running(home) as daemon:
            async with daemon.client() as talk:
                await talk.say("ada", f"whole {number}")
                acknowledged.append(f"whole {number}")
                provider.program({"match": f"^half {number}$", "text": "never", "stall_after": 1})
                speech = talk.start("ada", f"half {number}")
                await speech.until("start")
                acknowledged.append(f"half {number}")
                daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            messages = (await talk.history("ada")).messages
            assert [message.content for message in messages if message.role == "user"] == acknowledged
            assert [message.seq for message in messages] == list(range(1, len(messages) + 1))
            assert {message.outcome for message in messages if message.role == "user"} == {"completed", "interrupted"}


async def test_a_torn_end_of_the_journal_costs_nothing_that_was_acknowledged(home: Home, provider: Provider) -> None:
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "before")
            daemon.kill_9()
    journal = home.store.with_name("moot.db-wal")
    with journal.open("ab") as file:
        file.write(b"\x00torn" * 50)
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "after")
            daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            asked = [content for role, _, content in await talk.told("ada") if role == "user"]
            assert asked == ["before", "after"]


async def test_no_run_is_left_running_in_the_store(home: Home, provider: Provider) -> None:
    provider.program({"text": "never", "hold": True})
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.start("ada", "hello").until("start")
            daemon.kill_9()
    with daemon_thread(home):
        pass
    assert home.query("SELECT status FROM runs") == [("ended",)]


async def test_a_message_that_waited_is_kept_also_when_its_agent_is_gone(home: Home, provider: Provider) -> None:
    provider.program({"text": "half of what it wanted to say", "stall_after": 4})
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.start("ada", "first").until("chunk")
            await talk.start("ada", "second").until("queued")
            daemon.kill_9()
    (home.path / "agents" / "ada").rename(home.path / "ada-for-now")
    with daemon_thread(home) as again:
        async with again.client() as talk:

            async def ended() -> bool:
                messages = (await talk.history("ada")).messages
                return [entry.content for entry in messages] == ["first", "second"] and bool(messages[1].outcome)

            await eventually(ended)
            assert (await talk.history("ada")).messages[1].outcome == "internal_error"


async def test_a_run_that_another_daemon_has_taken_over_is_stopped_and_writes_nothing(
    home: Home, provider: Provider
) -> None:
    """As if this daemon had been paused, and another had found it dead and taken over what it was at work on."""
    # What was taken over may ask its model once more before it knows.
    provider.program({"calls": [ASK]}, *[{"text": "Here."}] * 4)
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "hello")
            await speech.until("ask_user")
            await talk.say("bob", "hello")

            other = await open_store(home.store, SystemClock())
            (left,) = await other.recover()
            assert left.run.key == ("ada", "user")

            with pytest.raises(StoreError, match="another daemon has taken over"):
                await talk.reply("ada", "this one")
            await speech.end()
            assert speech.ended.outcome == "interrupted"
            assert "another daemon has taken over" in speech.ended.error
            for refused in (talk.say("ada", "hello?"), talk.say("ada", "hello??", client_message_id="m")):
                with pytest.raises(StoreError, match="another daemon has taken over"):
                    await refused
            # It is live, and listed with its question as the other's. Only that one can act on it.
            (info,) = (await talk.ask(list_runs=pb.ListRunsMsg())).run_list.runs
            (ask,) = await talk.asks()
            (active,) = await talk.active()
            assert (info.run_id, info.status, info.ask_id) == (left.run.id, "running", ask.ask_id)
            assert (info.node, ask.node, active.node, active.waiting) == (other.node, other.node, other.node, True)
            assert {each.agent: each.running for each in await talk.conversations()} == {"ada": True, "bob": False}
            assert f"on node {other.node}" in daemon.cli("ps").stdout
            assert f"on node {other.node}" in daemon.cli("status").stdout
            at_other = f"another daemon has taken over .*: node {other.node}"
            for request in (
                {"stop_run": pb.StopRunMsg(run_id=left.run.id)},
                {"attach_run": pb.AttachRunMsg(run_id=left.run.id)},
                {"wait_runs": pb.WaitRunsMsg(run_ids=[left.run.id], seconds=60)},
                {"kill": pb.KillMsg(agent="ada")},
                {"attach": pb.AttachMsg(agent="ada")},
                {"withdraw": pb.WithdrawMsg(agent="ada")},
                {"compact": pb.CompactMsg(agent="ada")},
                {"reply_to_ask": pb.ReplyToAsk(agent="ada", content="this one")},
                {"delete": pb.DeleteMsg(agent="ada", confirm=True)},
            ):
                with pytest.raises(StoreError, match=at_other):
                    await talk.ask(**request)
            # What nobody has taken over goes on.
            assert (await talk.say("bob", "and now?")).outcome == "completed"

            # The run is the other daemon's, with all that it has said, and its question.
            interrupted = RunEnd(outcome=Outcome.INTERRUPTED)
            await other.end(left.run.key, left.run.id, interrupted, (), now=left.run.started_at + 1)
            await other.begin(replace(left.run.request, id="next", content="hello?"), now=left.run.started_at + 2)
            await other.end(left.run.key, "next", RunEnd(outcome=Outcome.COMPLETED), [assistant("Hi.")], now=1.0)
            assert await other.check() == []
            await other.close()

    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            said = [message.role for message in (await talk.history("ada")).messages]
            assert said == ["user", "assistant", "tool", "user", "assistant"]
            assert (await talk.say("ada", "hello again")).outcome == "completed"
            assert len((await talk.history("ada")).messages) == len(said) + 2
            assert len((await talk.history("bob")).messages) == 4
    assert home.query("SELECT outcome FROM runs ORDER BY number") == [
        (outcome,) for outcome in ("interrupted", "completed", "completed", "completed", "completed")
    ]
