"""Messages stand in the order in which they arrived, whatever has to be looked up for some of them on the way."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb
from tests.chaos.daemon import Mortal, new_home


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Mortal]:
    daemon = Mortal.launch(new_home(tmp_path / "home"))
    assert daemon is not None
    yield daemon
    daemon.stop()
    assert daemon.home.failures() == []


@pytest.mark.parametrize("with_id", [(0, 1), (0,), (1,)], ids=["all with an id", "even ones", "odd ones"])
async def test_messages_sent_at_once_are_answered_in_the_order_they_were_sent(
    daemon: Mortal, with_id: tuple[int, ...]
) -> None:
    async with daemon.client() as talk:
        for attempt in range(5):
            sender = f"sender {attempt}"
            texts = [f"hello #{number}" for number in range(20)]
            ids = [f"id-{number}" if number % 2 in with_id else "" for number in range(20)]
            speeches = [
                talk.start("ada", text, sender, client_message_id=each) for text, each in zip(texts, ids, strict=True)
            ]
            for speech in speeches:
                await speech.end()
            told = await talk.told("ada", sender)
            assert [content for role, _, content in told if role == "user"] == texts


async def test_the_same_id_sent_many_times_at_once_is_one_message(daemon: Mortal) -> None:
    async with daemon.client() as talk:
        speeches = [talk.start("ada", "hello #1", client_message_id="once") for _ in range(20)]
        for speech in speeches:
            await speech.end()
        assert {speech.text for speech in speeches} == {"Heard: #1"}
        assert len(await talk.told("ada")) == 2


async def test_a_compaction_that_waits_while_the_daemon_drains_is_answered(daemon: Mortal) -> None:
    async with daemon.client() as talk:
        await talk.say("ada", "hello #1")
        speech = talk.start("ada", "hang #2")
        await speech.until("start")
        waiting = asyncio.get_running_loop().create_task(talk.compact("ada"))
        async with asyncio.timeout(30):
            while (await talk.active())[0].queued != 1:  # noqa: ASYNC110 - a compaction in line announces nothing
                await asyncio.sleep(0.01)
        daemon.terminate()
        await speech.end()
        with pytest.raises(MootError) as refused:
            await waiting
        assert refused.value.type == "unavailable"
        assert refused.value.message.startswith("the daemon is shutting down")


async def test_a_run_killed_before_its_first_step_has_an_outcome(daemon: Mortal) -> None:
    async with daemon.client() as talk:
        for number in range(30):
            speech = talk.start("ada", f"hang #{number}", "kills")
            killed = await talk.ask(kill=pb.KillMsg(agent="ada", sender="kills"))
            if not killed.pong.stopped:
                # The message had not arrived yet.
                await speech.until("start")
                await talk.ask(kill=pb.KillMsg(agent="ada", sender="kills"))
            await speech.end()
            assert speech.outcome == "cancelled"
        complaints = (daemon.home.path / "stderr.txt").read_text()
    assert "never awaited" not in complaints
