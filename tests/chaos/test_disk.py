"""A daemon whose disk fills up or cannot be written: one clear error, no ghosts, and it goes on when there is room."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moot.domain.errors import StoreError
from moot.wire import moot_pb2 as pb
from tests.chaos.checker import read
from tests.chaos.daemon import ROOT, SCRIPT, Mortal, new_home
from tests.daemon_process import PROVIDER_CONFIG, Home
from tests.fake_provider import Provider
from tests.talking import Talking

LONG = "x" * 200_000
SLOW_TOOL = """
[[rule]]
match = "note slowly"
calls = [{ name = "note", arguments = { number = 0 } }, { name = "note", arguments = { number = 1, pause = 1 } }]
after_tool = "Noted."

[[rule]]
match = "long story"
reply = "STORY"
token_seconds = 0.02
""".replace("STORY", " ".join("y" * 4_000 for _ in range(40)))


def own_mounts(*commands: str) -> tuple[str, ...]:
    """What to put before a command so that it runs in a mount namespace of its own, after these commands."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("there is no unshare here to give a daemon a disk of its own")
    namespace = [unshare, "--mount"] if os.geteuid() == 0 else [unshare, "--user", "--map-root-user", "--mount"]
    prefix = (*namespace, "sh", "-c", " && ".join([*commands, 'exec "$0" "$@"']))
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system does not let us mount a small disk")
    return prefix


class SmallDisk:
    """A daemon whose data folder is a disk of four megabytes, seen through the daemon's own mounts."""

    def __init__(self, home: Home) -> None:
        data = home.path / "data"
        data.mkdir(parents=True)
        daemon = Mortal.launch(home, prefix=own_mounts(f"mount -t tmpfs -o size=4m,mode=700 moot '{data}'"))
        assert daemon is not None
        self.daemon = daemon
        self.folder = Path(f"/proc/{daemon.pid}/root{data}")
        self._copies = 0

    def fill(self) -> None:
        with (self.folder / "ballast").open("ab", buffering=0) as ballast:
            for size in (65_536, 4_096, 1):
                try:
                    while ballast.write(b"\0" * size) == size:
                        pass
                except OSError:
                    continue

    def free(self) -> None:
        (self.folder / "ballast").unlink()

    async def runs(self, talk: Talking) -> list[tuple[str, str]]:
        """Every run's status and outcome, read from a copy outside: the disk itself cannot be opened from here."""
        self._copies += 1
        copy = self.daemon.home.path / f"copy-{self._copies}.db"
        await talk.ask(backup=pb.BackupMsg(path=str(copy)))
        return [(run["status"], run["outcome"]) for talk in read(copy).values() for run in talk.runs]

    async def settled(self, talk: Talking) -> None:
        """Wait until every run has ended on disk, which nothing announces."""
        async with asyncio.timeout(30):
            while {status for status, _ in await self.runs(talk)} != {"ended"}:  # noqa: ASYNC110
                await asyncio.sleep(0.2)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    home = new_home(tmp_path / "home")
    home.write_script(SLOW_TOOL + SCRIPT)
    disk = SmallDisk(home)
    yield disk
    disk.daemon.stop()
    # A disk that refuses is logged; nothing else may have gone wrong because of it.
    assert [failure for failure in home.failures() if "StoreError" not in failure] == []


async def whole(talk: Talking) -> bool:
    findings = (await talk.ask(check=pb.CheckMsg())).checked.findings
    return all(finding.level == "ok" for finding in findings)


async def test_a_disk_full_at_the_user_message_is_an_error_and_leaves_no_ghost(disk: SmallDisk) -> None:
    async with disk.daemon.client() as talk:
        first = await talk.say("ada", "hello")
        disk.fill()
        for _ in range(3):
            with pytest.raises(StoreError, match="full") as refused:
                await talk.say("ada", LONG)
            assert refused.value.fix
        told = await talk.told("ada", all=True)
        assert [content for _, _, content in told] == ["hello", "Heard: hello"]
        assert await talk.active() == []
        disk.free()
        second = await talk.say("ada", "again")
        assert second.outcome == "completed"
        # A message that was refused and still shown to the model would cost tens of thousands of tokens.
        assert second.ended.usage.prompt < first.ended.usage.prompt + 100
        told = await talk.told("ada", all=True)
        assert [content for _, _, content in told] == ["hello", "Heard: hello", "again", "Heard: again"]
        assert await whole(talk)


async def test_a_message_that_a_full_disk_refuses_reaches_no_model_and_is_logged_as_that(
    tmp_path: Path, provider: Provider
) -> None:
    home = new_home(tmp_path / "home")
    home.write_config(PROVIDER_CONFIG.replace("PROVIDER_URL", provider.url))
    disk = SmallDisk(home)
    try:
        async with disk.daemon.client() as talk:
            disk.fill()
            with pytest.raises(StoreError, match="full"):
                await talk.say("ada", LONG)
            assert provider.requests() == []
            disk.free()
            assert (await talk.say("ada", "hello")).outcome == "completed"
    finally:
        disk.daemon.stop()
    logged = home.log.read_text()
    assert "a message to ada was refused: the disk of" in logged
    assert "The daemon stopped during this run" not in logged


async def test_a_disk_full_for_a_new_conversation_creates_none(disk: SmallDisk) -> None:
    async with disk.daemon.client() as talk:
        disk.fill()
        with pytest.raises(StoreError):
            await talk.say("ada", LONG, "nobody yet")
        disk.free()
        assert await talk.conversations(sender="nobody yet") == []
        assert (await talk.say("ada", "now", "nobody yet")).outcome == "completed"


async def test_other_conversations_and_readers_are_served_while_the_disk_is_full(disk: SmallDisk) -> None:
    async with disk.daemon.client() as talk:
        await talk.say("ada", "hello", "reader")
        disk.fill()
        with pytest.raises(StoreError):
            await talk.say("ada", LONG)
        assert len(await talk.told("ada", "reader")) == 2
        assert (await talk.ask(ping=pb.Ping())).HasField("pong")
        disk.free()


async def test_a_reply_that_finds_no_room_is_told_as_lost_and_recorded_once_there_is_some(disk: SmallDisk) -> None:
    async with disk.daemon.client() as talk:
        speech = talk.start("ada", "long story")
        await speech.until("chunk", count=3)
        disk.fill()
        await speech.end()
        assert speech.outcome == "internal_error"
        assert "could not be saved" in speech.ended.error
        disk.free()
        # Nobody has to come by for it: the daemon owes the record and writes it.
        await disk.settled(talk)
        assert await disk.runs(talk) == [("ended", "internal_error")]
        history = await talk.history("ada")
        assert [(each.role, each.outcome) for each in history.messages] == [("user", "internal_error")]
        assert (await talk.say("ada", "hello")).outcome == "completed"
        assert await whole(talk)


async def test_calls_whose_results_find_no_room_are_closed_once_there_is_some(disk: SmallDisk) -> None:
    async with disk.daemon.client() as talk:
        speech = talk.start("ada", "note slowly")
        await speech.until("tool_result")
        disk.fill()
        await speech.end()
        disk.free()
        after = await talk.say("ada", "hello")
        assert after.outcome == "completed"
        history = await talk.history("ada")
    calls = [call.call_id for each in history.messages for call in each.tool_calls]
    results = [each.tool_call_id for each in history.messages if each.role == "tool"]
    assert calls == results
    assert [each.role for each in history.messages][-2:] == ["user", "assistant"]
    assert len((disk.daemon.home.path / "notes.txt").read_text().splitlines()) == 2


async def test_a_conversation_that_is_owed_its_end_can_be_deleted_and_all_others_go_on(disk: SmallDisk) -> None:
    async with disk.daemon.client() as talk:
        speech = talk.start("ada", "long story", "doomed")
        await speech.until("chunk", count=3)
        disk.fill()
        await speech.end()
        assert speech.outcome == "internal_error"
        disk.free()
        await talk.ask(delete=pb.DeleteMsg(agent="ada", sender="doomed", confirm=True))
        assert (await talk.say("ada", "hello", "other")).outcome == "completed"
        assert (await talk.say("ada", "hello", "doomed")).outcome == "completed"


async def test_a_message_in_line_whose_turn_comes_on_a_full_disk_waits_until_there_is_room(disk: SmallDisk) -> None:
    async with disk.daemon.client() as talk:
        first = talk.start("ada", "note slowly")
        await first.until("tool_start")
        second = talk.start("ada", LONG)
        await second.until("queued")
        disk.fill()
        await first.end()
        # It was told to be in line, so it stays there; others are refused meanwhile and are told so.
        disk.free()
        await second.end()
        assert second.outcome == "completed"
        assert [content for _, _, content in await talk.told("ada", all=True)].count(LONG) == 1
        assert await whole(talk)


def test_a_daemon_on_a_read_only_data_folder_says_so_and_how_to_mend_it(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    (home.path / "data").mkdir(mode=0o700)
    data = home.path / "data"
    prefix = own_mounts(f"mount --bind '{data}' '{data}'", f"mount -o remount,ro,bind '{data}'")
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "moot", "serve"],
        cwd=ROOT,
        env=home.environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode not in (0, -9)
    assert "Traceback" not in done.stderr
    assert re.search("read-only|permission denied", done.stderr, re.IGNORECASE), done.stderr
    assert "MOOT_HOME" in done.stderr or "writable" in done.stderr, done.stderr
    assert list(data.iterdir()) == []


@pytest.mark.parametrize("command", [("serve",), ("up",), ("ask", "ada", "hello")])
def test_a_command_on_a_full_home_names_the_folder_and_what_to_do(tmp_path: Path, command: tuple[str, ...]) -> None:
    home = new_home(tmp_path / "home")
    folders = [home.path / name for name in ("run", "data", "logs")]
    fill = [
        f"mkdir -p '{each}' && mount -t tmpfs -o size=64k,mode=700 moot '{each}'"
        f" && (head -c 65536 /dev/zero > '{each}/ballast' 2>&1 || true)"
        for each in folders
    ]
    done = subprocess.run(
        [*own_mounts(*fill), sys.executable, "-m", "moot", *command],
        cwd=ROOT,
        env=home.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 69, done.stderr
    assert "bug in Moot" not in done.stderr
    assert re.search(rf"Cannot write in {re.escape(str(home.path))}\S*: the disk", done.stderr), done.stderr
    assert "Free some disk space" in done.stderr


def test_a_store_on_a_read_only_disk_can_be_talked_to_again_once_it_is_writable(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    daemon = Mortal.launch(home)
    assert daemon is not None

    async def say(daemon: Mortal) -> list[tuple[str, str, str]]:
        async with daemon.client() as talk:
            await talk.say("ada", "hello")
            return await talk.told("ada", all=True)

    try:
        asyncio.run(say(daemon))
    finally:
        daemon.stop()
    data = home.path / "data"
    prefix = own_mounts(f"mount --bind '{data}' '{data}'", f"mount -o remount,ro,bind '{data}'")
    with pytest.raises(AssertionError, match="before it was ready"):
        Mortal.launch(home, prefix=prefix)
    again = Mortal.launch(home)
    assert again is not None
    try:
        told = asyncio.run(say(again))
    finally:
        again.stop()
    assert [content for _, _, content in told] == ["hello", "Heard: hello"] * 2
