"""The files of the store: private, checked when opened, copied while in use, and put back."""

import asyncio
import fcntl
import os
import stat
from pathlib import Path

import apsw
import pytest

from moot.daemon.clock import SystemClock
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Conflict, NotFound, StoreError
from moot.domain.message import user
from moot.domain.run import RunRequest
from moot.store.backup import clear_unfinished, restore_backup
from moot.store.sqlite import SqliteStore, open_store

KEY = ConversationKey("ada", "user")


async def filled(path: Path, *words: str) -> SqliteStore:
    store = await open_store(path, SystemClock())
    for number, text in enumerate(words):
        request = RunRequest(id=f"r-{text}-{number}", key=KEY, speaker="ada", content=text)
        await store.begin(request, now=1.0)
    return store


def texts(path: Path) -> list[str]:
    async def scenario() -> list[str]:
        store = await open_store(path, SystemClock())
        found = [entry.message.content for entry in await store.list_entries(KEY)]
        assert await store.check() == []
        await store.close()
        return found

    return asyncio.run(scenario())


def write(path: Path, *words: str) -> None:
    async def scenario() -> None:
        await (await filled(path, *words)).close()

    asyncio.run(scenario())


def modes_below(folder: Path) -> dict[str, int]:
    return {str(item.relative_to(folder)): item.stat().st_mode for item in folder.rglob("*")}


def copy_live(store: Path, target: Path) -> None:
    """Take database and log as they are, as a killed daemon would leave them."""
    for suffix in ("", "-wal"):
        Path(f"{target}{suffix}").write_bytes(Path(f"{store}{suffix}").read_bytes())


# ---- opening ------------------------------------------------------------------------------------


def test_a_new_store_and_the_folders_above_it_belong_to_their_owner_alone(tmp_path: Path) -> None:
    modes: dict[str, int] = {}

    async def scenario() -> None:
        store = await filled(tmp_path / "a" / "b" / "moot.db", "hi")
        modes.update(modes_below(tmp_path))
        await store.close()

    asyncio.run(scenario())

    assert set(modes) == {"a", "a/b", "a/b/moot.db", "a/b/moot.db-wal", "a/b/moot.db-shm"}
    for mode in modes.values():
        assert stat.S_IMODE(mode) == (0o700 if stat.S_ISDIR(mode) else 0o600)


def test_a_store_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "moot.db"
    write(path, "hi")
    path.chmod(0o644)

    assert texts(path) == ["hi"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["moot.db", "moot.db-wal"])
def test_a_symbolic_link_is_not_followed(tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StoreError):
        asyncio.run(open_store(tmp_path / "moot.db", SystemClock()))

    assert (tmp_path / "elsewhere").read_text() == "mine"


@pytest.mark.parametrize("content", [b"this is not a database, it only has its place\n" * 40, os.urandom(5000)])
def test_a_damaged_file_is_named_and_a_restore_proposed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "moot.db"
    path.write_bytes(content)

    with pytest.raises(StoreError) as told:
        asyncio.run(open_store(path, SystemClock()))

    assert str(path) in told.value.message
    assert "moot restore" in told.value.fix
    assert path.read_bytes() == content


def test_a_folder_in_the_place_of_the_store_is_an_error_with_advice(tmp_path: Path) -> None:
    (tmp_path / "moot.db").mkdir()
    with pytest.raises(StoreError) as told:
        asyncio.run(open_store(tmp_path / "moot.db", SystemClock()))
    assert told.value.fix


def test_a_closed_store_is_one_file(tmp_path: Path) -> None:
    write(tmp_path / "moot.db", "hi")
    assert [item.name for item in tmp_path.iterdir()] == ["moot.db"]


# ---- backup -------------------------------------------------------------------------------------


def test_a_backup_is_one_private_file_with_everything_in_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await filled(tmp_path / "home" / "moot.db", "one", "two")
        await store.backup(str(tmp_path / "copy.db"))
        await store.begin(RunRequest(id="late", key=KEY, speaker="ada", content="three"), now=2.0)
        await store.close()

    asyncio.run(scenario())

    assert sorted(item.name for item in tmp_path.iterdir()) == ["copy.db", "home"]
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    assert texts(tmp_path / "copy.db") == ["one", "two"]


def test_a_backup_never_overwrites_a_file(tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("precious")
    (tmp_path / "link.db").symlink_to(tmp_path / "nowhere")

    async def scenario() -> None:
        store = await filled(tmp_path / "moot.db", "one")
        for name in ("copy.db", "link.db"):
            with pytest.raises(Conflict):
                await store.backup(str(tmp_path / name))
        with pytest.raises(StoreError):
            await store.backup(str(tmp_path / "no" / "such" / "folder" / "copy.db"))
        await store.close()

    asyncio.run(scenario())

    assert (tmp_path / "copy.db").read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()


def test_writing_goes_on_during_a_backup_and_the_copy_is_one_moment(tmp_path: Path) -> None:
    async def scenario() -> int:
        store = await filled(tmp_path / "moot.db", "begin")
        await store.append(KEY, "r-begin-0", [user("x" * 2000) for _ in range(4000)], now=1.0)
        written = 0
        running = asyncio.get_running_loop().create_task(store.backup(str(tmp_path / "copy.db")))
        while not running.done():
            await store.append(KEY, "r-begin-0", [user("pair"), user("pair")], now=2.0)
            written += 1
        await running
        await store.close()
        return written

    written = asyncio.run(scenario())

    copied = texts(tmp_path / "copy.db")
    assert written > 0
    assert 4001 <= len(copied) <= 4001 + 2 * written
    assert len(copied) % 2 == 1


# ---- restore ------------------------------------------------------------------------------------


def test_a_restored_backup_takes_the_place_of_the_store_which_is_kept(tmp_path: Path) -> None:
    write(tmp_path / "backup.db", "old")
    write(tmp_path / "moot.db", "new")

    aside = restore_backup(tmp_path / "backup.db", tmp_path / "moot.db")
    second = restore_backup(tmp_path / "backup.db", tmp_path / "moot.db")

    assert aside is not None
    assert second is not None
    assert aside != second
    assert aside.name.startswith("moot.db.before-restore-")
    assert texts(tmp_path / "moot.db") == ["old"]
    assert texts(aside) == ["new"]
    assert texts(tmp_path / "backup.db") == ["old"]
    assert stat.S_IMODE((tmp_path / "moot.db").stat().st_mode) == 0o600


def test_a_backup_is_restored_where_nothing_was(tmp_path: Path) -> None:
    write(tmp_path / "backup.db", "old")

    assert restore_backup(tmp_path / "backup.db", tmp_path / "new" / "home" / "moot.db") is None

    assert texts(tmp_path / "new" / "home" / "moot.db") == ["old"]


def test_a_damaged_store_and_its_log_give_way_to_the_backup(tmp_path: Path) -> None:
    write(tmp_path / "backup.db", "old")
    (tmp_path / "moot.db").write_bytes(b"rubbish" * 1000)
    (tmp_path / "moot.db-wal").write_bytes(b"more rubbish")

    aside = restore_backup(tmp_path / "backup.db", tmp_path / "moot.db")

    assert aside is not None
    assert aside.read_bytes() == b"rubbish" * 1000
    assert Path(f"{aside}-wal").read_bytes() == b"more rubbish"
    assert not (tmp_path / "moot.db-wal").exists()
    assert texts(tmp_path / "moot.db") == ["old"]


def test_the_log_of_a_killed_daemon_stays_with_the_old_store(tmp_path: Path) -> None:
    write(tmp_path / "backup.db", "old")

    async def left_behind() -> None:
        store = await filled(tmp_path / "live.db", "unflushed")
        copy_live(store.path, tmp_path / "moot.db")
        await store.close()

    asyncio.run(left_behind())

    aside = restore_backup(tmp_path / "backup.db", tmp_path / "moot.db")

    assert aside is not None
    assert texts(tmp_path / "moot.db") == ["old"]
    assert texts(aside) == ["unflushed"]


def test_an_unusable_backup_leaves_the_store_as_it_is(tmp_path: Path) -> None:
    write(tmp_path / "moot.db", "mine")
    (tmp_path / "rubbish").write_bytes(b"rubbish" * 1000)
    (tmp_path / "empty").touch()
    foreign = apsw.Connection(str(tmp_path / "foreign"))
    foreign.execute("CREATE TABLE bookmarks (url)")
    foreign.close()
    write(tmp_path / "torn", *["x" * 3000] * 40)
    with (tmp_path / "torn").open("r+b") as file:
        file.seek(5 * 4096)
        file.write(b"\xff" * 4096 * 20)

    for name in ("rubbish", "empty", "foreign", "torn"):
        with pytest.raises(StoreError):
            restore_backup(tmp_path / name, tmp_path / "moot.db")
    with pytest.raises(NotFound):
        restore_backup(tmp_path / "missing", tmp_path / "moot.db")

    assert texts(tmp_path / "moot.db") == ["mine"]
    assert not list(tmp_path.glob("*before-restore*"))
    assert not list(tmp_path.glob(".moot*"))


def test_a_store_in_use_is_not_replaced(tmp_path: Path) -> None:
    write(tmp_path / "backup.db", "old")

    async def scenario() -> None:
        store = await filled(tmp_path / "moot.db", "live")
        with pytest.raises(Conflict):
            await asyncio.to_thread(restore_backup, tmp_path / "backup.db", tmp_path / "moot.db")
        await store.begin(RunRequest(id="on", key=KEY, speaker="ada", content="goes on"), now=2.0)
        await store.close()

    asyncio.run(scenario())

    assert texts(tmp_path / "moot.db") == ["live", "goes on"]


def test_a_copy_that_somebody_is_writing_is_not_taken_for_a_forgotten_one(tmp_path: Path) -> None:
    forgotten, written = tmp_path / ".a.db.1-ff.moot-part", tmp_path / ".b.db.2-ff.moot-part"
    for path in (forgotten, Path(f"{forgotten}-journal"), written):
        path.write_bytes(b"")
    (tmp_path / "link").write_bytes(b"kept")
    (tmp_path / ".c.db.3-ff.moot-part").symlink_to(tmp_path / "link")
    with written.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        clear_unfinished(tmp_path)
    assert not forgotten.exists()
    assert not Path(f"{forgotten}-journal").exists()
    assert written.exists()
    assert (tmp_path / "link").read_bytes() == b"kept"
