"""Two hundred conversations at once: every reader that keeps up gets every word, and memory stays bounded."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from moot.wire import moot_pb2 as pb
from tests.chaos.daemon import Mortal
from tests.load.crowd import REPLY, WORDS, Sloth, launch
from tests.talking import Speech, Talking

CONVERSATIONS = 200
CONNECTIONS = 10
MEGABYTE = 1024 * 1024
# What a reader may leave unread is 8 MiB; that, and the crowd itself, must fit in here.
GROWTH = 96 * MEGABYTE
# So many replies of nine hundred kilobytes are more than that. With more, the daemon would not hear the questions.
UNREAD = 10
LASTING_GROWTH = 48 * MEGABYTE


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Mortal]:
    daemon = launch(tmp_path / "home")
    yield daemon
    daemon.stop()
    assert daemon.home.failures() == []


async def stats(talk: Talking) -> pb.DaemonStats:
    return (await talk.ask(get_stats=pb.GetStats())).stats


async def warm_up(talk: Talking) -> None:
    """Have everything opened that is opened on first use, such as the store's second reader."""
    await talk.say("ada", "warm up")
    async with asyncio.TaskGroup() as group:
        for _ in range(40):
            group.create_task(talk.history("ada"))


async def recite(daemon: Mortal, number: int, ready: asyncio.Barrier) -> list[Speech]:
    """One connection with its share of the conversations, each followed to its end."""
    async with daemon.client(patience=80) as talk:
        await ready.wait()
        share = range(number, CONVERSATIONS, CONNECTIONS)
        speeches = [talk.start("ada", "recite", f"reader {each}") for each in share]
        for speech in speeches:
            await speech.end()
        return speeches


async def watch(talk: Talking, over: asyncio.Event) -> tuple[int, int]:
    """The most memory and the most conversations at once, looked at ten times a second."""
    memory = active = 0
    while not over.is_set():
        seen = await stats(talk)
        memory, active = max(memory, seen.rss_bytes), max(active, seen.active_conversations)
        try:
            async with asyncio.timeout(0.1):
                await over.wait()
        except TimeoutError:
            continue
    return memory, active


async def crowd(daemon: Mortal) -> tuple[list[Speech], int, int]:
    over = asyncio.Event()
    ready = asyncio.Barrier(CONNECTIONS)
    async with daemon.client() as talk, asyncio.TaskGroup() as group:
        watching = group.create_task(watch(talk, over))
        readers = [group.create_task(recite(daemon, number, ready)) for number in range(CONNECTIONS)]
        await asyncio.wait(readers)
        over.set()
    return [speech for reader in readers for speech in reader.result()], *watching.result()


async def settled(daemon: Mortal, talk: Talking) -> pb.DaemonStats:
    async with asyncio.timeout(30):
        while (seen := await stats(talk)).active_conversations or seen.connections > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return seen


async def test_two_hundred_conversations_stream_at_once_and_no_reader_loses_a_word(daemon: Mortal) -> None:
    async with daemon.client() as talk:
        await warm_up(talk)
        baseline, tasks, files = (await stats(talk)).rss_bytes, daemon.tasks(), daemon.files()
        sloth = Sloth(daemon.home.socket)
        try:
            sloth.ask("ada", "recite", "sloth")
            speeches, memory, active = await crowd(daemon)
        finally:
            sloth.close()
        assert active >= CONVERSATIONS * 0.9
        assert len(speeches) == CONVERSATIONS
        for speech in speeches:
            assert speech.outcome == "completed"
            assert len(speech.of("chunk")) == WORDS
            assert speech.text == REPLY
        assert memory - baseline < GROWTH, f"{(memory - baseline) / MEGABYTE:.0f} MiB"
        for number in (0, CONVERSATIONS - 1):
            assert [told[2] for told in await talk.told("ada", f"reader {number}")] == ["recite", REPLY]
        after = await settled(daemon, talk)
        assert after.rss_bytes - baseline < LASTING_GROWTH, f"{(after.rss_bytes - baseline) / MEGABYTE:.0f} MiB"
        assert daemon.tasks() <= tasks
        assert daemon.files() <= files
        print(f"rss {baseline / MEGABYTE:.0f} → {memory / MEGABYTE:.0f} → {after.rss_bytes / MEGABYTE:.0f} MiB")


async def test_a_reader_that_stops_reading_is_told_so_and_can_join_again_while_others_hear_everything(
    daemon: Mortal,
) -> None:
    words = " ".join(str(number) * 10_000 for number in range(10, 55))
    async with daemon.client() as talk:
        baseline = (await stats(talk)).rss_bytes
        sloth = Sloth(daemon.home.socket)
        try:
            slow = sloth.ask("ada", "for long", "sloth")
            # The same run, followed by somebody who reads.
            other = await joined(talk, "sloth")
            for number in range(UNREAD):
                sloth.ask("ben", words, f"sloth {number}")
            async with asyncio.timeout(30):
                while not await all_ended(talk, UNREAD):  # noqa: ASYNC110 - nobody is there to be told
                    await asyncio.sleep(0.02)
            # One more word of the slow run finds the line full.
            await other.until("chunk", count=len(other.of("chunk")) + 2)
            full = (await stats(talk)).rss_bytes
            assert full - baseline < GROWTH, f"{(full - baseline) / MEGABYTE:.0f} MiB"
            told = await asyncio.to_thread(sloth.read_until_pong)
            refused = {each.request_id: each.error for each in told if each.HasField("error")}
            assert slow in refused
            assert {error.type for error in refused.values()} == {"fell_behind"}
            assert all("attach" in error.fix for error in refused.values())
            again = talk.attach("ada", "sloth")
            await again.end()
            await other.end()
            assert again.text == other.text == (await talk.told("ada", "sloth"))[-1][2]
        finally:
            sloth.close()
        # What was said while nobody read it is all in the history.
        for number in range(UNREAD):
            assert [each[2] for each in await talk.told("ben", f"sloth {number}")] == [words, words]
        # Histories stay in memory for the next turn, up to a bound; what was kept for the reader does not.
        after = await settled(daemon, talk)
        assert after.rss_bytes - baseline < GROWTH, f"{(after.rss_bytes - baseline) / MEGABYTE:.0f} MiB"


async def joined(talk: Talking, sender: str) -> Speech:
    """Attach to a run as soon as there is one."""
    async with asyncio.timeout(30):
        while not await talk.active(sender=sender):  # noqa: ASYNC110 - its start is told to another
            await asyncio.sleep(0.01)
    speech = talk.attach("ada", sender)
    await speech.until("start")
    return speech


async def all_ended(talk: Talking, count: int) -> bool:
    active = [info.sender for info in await talk.active(agent="ben")]
    return not active and len(await talk.conversations(agent="ben")) == count
