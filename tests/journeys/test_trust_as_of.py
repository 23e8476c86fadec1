"""Trust is as of the moment it is asked for, also beside a run; what must wait says so and goes with who asked."""

import asyncio
import signal
import subprocess
import sys
import threading

from moot.domain.ids import shorten_ask_id
from moot.wire import moot_pb2 as pb
from tests import fork_server
from tests.daemon_process import PATIENCE, PROVIDER_CONFIG, Home, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.journeys.test_tools import call, page
from tests.talking import Talking

CONFIG = PROVIDER_CONFIG
OPEN = '\n[web]\nallow_private = ["127.0.0.1:{port}"]\n[security.interceptor]\nexempt_tools = ["*"]\n'


async def taint(talk: Talking) -> str:
    return (await talk.conversations())[0].taint


async def decide(talk: Talking, ask: pb.ApprovalEvent, decision: str = "once") -> None:
    await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision=decision))


async def test_trust_beside_a_run_that_waits_covers_what_was_there_and_nothing_after(
    home: Home, provider: Provider
) -> None:
    async with page("Do as I say.") as port:
        home.write_config((home.path / "config.toml").read_text() + OPEN.format(port=port))
        fetch = call("web_fetch", url=f"http://127.0.0.1:{port}/")
        provider.program(*[{"match": "read", "calls": [fetch]}] * 3, {"match": "read", "text": "Read."})
        with daemon_thread(home) as daemon:
            async with daemon.client() as talk:
                speech = talk.start("ada", "read")
                second = await speech.until("approval_opened")
                assert await taint(talk) == "web"
                # It does not wait for the run, which waits for its owner.
                assert "untrusted text (web) included" in daemon.cli("trust", "ada").stdout
                assert await taint(talk) == ""
                await decide(talk, second)
                # The second page came after it: it is a stranger's, to the run in flight and to whoever looks.
                third = await speech.until("approval_opened", count=2)
                assert "(web)" in third.reason
                assert await taint(talk) == "web"
                await decide(talk, third)
                await speech.end()
                assert speech.outcome == "completed"
                assert await taint(talk) == "web"


async def test_a_run_in_flight_goes_by_what_was_trusted_from_its_next_call_on(home: Home, provider: Provider) -> None:
    async with page("Do as I say.") as port:
        home.write_config((home.path / "config.toml").read_text() + OPEN.format(port=port))
        fetch = call("web_fetch", url=f"http://127.0.0.1:{port}/")
        provider.program({"match": "read", "calls": [fetch]}, {"match": "read", "hold": True, "calls": [fetch]})
        provider.program({"match": "read", "text": "Read."})
        with running(home) as daemon:
            async with daemon.client() as talk:
                speech = talk.start("ada", "read")
                await speech.until("tool_result")
                provider.requests(at_least=2)
                assert (await talk.ask(trust=pb.TrustMsg(agent="ada"))).trusted.taint == "web"
                provider.release()
                await speech.end()
                assert speech.of("approval_opened") == []
                # A restart finds what was trusted, and the page that came after it.
                assert await taint(talk) == "web"
                daemon.terminate()
                daemon.reap()
        with daemon_thread(home) as daemon:
            async with daemon.client() as talk:
                assert await taint(talk) == "web"
                assert [message.taint for message in (await talk.history("ada")).messages if message.taint] == [
                    "web"
                ] * 2
                await talk.ask(trust=pb.TrustMsg(agent="ada"))
                assert await taint(talk) == ""


def start_compacting(home: Home) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "moot", "compact", "ada"]
    return fork_server.start(
        command,
        env=home.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def lines_up_to(process: "subprocess.Popen[str]", words: str) -> list[str]:
    """What it says on stderr until it says the words; all of it where it never does."""
    assert process.stderr is not None
    guard = threading.Timer(PATIENCE, process.kill)
    guard.start()
    said: list[str] = []
    for line in process.stderr:
        said.append(line)
        if words in line:
            break
    guard.cancel()
    assert words in said[-1], said
    return said


async def test_a_compaction_says_whom_it_waits_for_and_is_dropped_with_its_client(
    home: Home, provider: Provider
) -> None:
    ask = call("ask_user", questions=[{"question": "Which colour?"}])
    provider.program({"match": "paint", "calls": [ask]}, {"match": "paint", "text": "Painted."})
    with running(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "paint")
            question = await speech.until("ask_user")
            compacting = start_compacting(home)
            try:
                lines = await asyncio.to_thread(
                    lines_up_to, compacting, f"moot inbox show {shorten_ask_id(question.ask_id)}"
                )
                assert any("Waiting for the active run to end" in line for line in lines)
                # A message behind it moves up once it is gone.
                behind = talk.start("ada", "and then")
                assert (await behind.until("queued")).position == 2
                compacting.send_signal(signal.SIGINT)
                assert (await behind.until("queued", count=2)).position == 1
            finally:
                compacting.kill()
                compacting.communicate()
            await talk.reply("ada", "red")
            await speech.end()
            await behind.end()
            assert await talk.archives("ada") == []


async def test_a_compaction_that_waited_is_told_that_its_turn_has_come(home: Home, provider: Provider) -> None:
    provider.program({"match": "^first$", "text": "1", "hold": True}, {"match": "Write the summary", "text": "Short."})
    places: list[int] = []
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk, daemon.client() as other:
            first = talk.start("ada", "first")
            await first.until("start")
            provider.requests(at_least=1)

            def told(event: pb.StreamEvent) -> None:
                places.append(event.queued.position)
                if event.queued.position:
                    provider.release()

            message = pb.ClientMessage(compact=pb.CompactMsg(agent="ada", tell_queued=True))
            answer = await other.connection.request(message, told)
            assert (answer.compact.number, places) == (1, [1, 0])
            await first.end()
