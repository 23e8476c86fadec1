"""The master key: where it is kept, that it is made once, and what happens when it cannot be had."""

import asyncio
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moot.daemon.vault.master_key import KEY_BYTES, MasterKey
from moot.domain.errors import ConfigError, MootError, Unavailable

keyring = pytest.importorskip("keyring")

from keyring.backend import KeyringBackend  # noqa: E402
from keyring.backends import fail  # noqa: E402
from keyring.errors import KeyringLocked  # noqa: E402


class Drawer(KeyringBackend):
    """A keyring in memory."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entries: dict[tuple[str, str], str] = {}
        self.locked = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.locked:
            raise KeyringLocked("locked")
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if self.locked:
            raise KeyringLocked("locked")
        self.entries[service, username] = password


@pytest.fixture
def drawer() -> Iterator[Drawer]:
    before = keyring.get_keyring()
    made = Drawer()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


@pytest.fixture
def no_keyring() -> Iterator[None]:
    before = keyring.get_keyring()
    keyring.set_keyring(fail.Keyring())  # type: ignore[no-untyped-call]
    yield
    keyring.set_keyring(before)


async def test_the_key_is_in_the_keyring_where_there_is_one(tmp_path: Path, drawer: Drawer) -> None:
    key = await MasterKey(tmp_path / "vault.key").get()
    assert len(key) == KEY_BYTES
    assert len(drawer.entries) == 1
    assert next(iter(drawer.entries.values())) not in (tmp_path / "vault.key").read_text(encoding="ascii")
    again = MasterKey(tmp_path / "vault.key")
    assert again.place == "keyring"
    assert await again.get() == key


async def test_without_a_keyring_it_is_in_a_file_for_the_owner_alone(tmp_path: Path, no_keyring: None) -> None:
    path = tmp_path / "data" / "vault.key"
    key = await MasterKey(path).get()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert MasterKey(path).place == "file"
    assert await MasterKey(path, place="keyring").get() == key
    assert [each.name for each in path.parent.iterdir()] == ["vault.key"]


async def test_a_locked_keyring_is_an_error_and_never_a_new_key(tmp_path: Path, drawer: Drawer) -> None:
    path = tmp_path / "vault.key"
    key = await MasterKey(path).get()
    before = path.read_bytes()
    drawer.locked = True
    with pytest.raises(Unavailable, match="cannot be read") as refused:
        await MasterKey(path).get()
    assert "Unlock" in refused.value.fix
    assert path.read_bytes() == before
    drawer.locked = False
    assert await MasterKey(path).get() == key
    drawer.entries.clear()
    with pytest.raises(Unavailable, match="no entry"):
        await MasterKey(path).get()


async def test_a_keyring_that_was_asked_for_and_does_not_work_is_an_error(tmp_path: Path, no_keyring: None) -> None:
    with pytest.raises(Unavailable, match="no usable keyring"):
        await MasterKey(tmp_path / "vault.key", place="keyring").get()
    assert os.listdir(tmp_path) == []


async def test_a_key_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "vault.key"
    await MasterKey(path, place="file").get()
    path.chmod(0o640)
    with pytest.raises(ConfigError) as refused:
        await MasterKey(path, place="file").get()
    assert refused.value.fix == f"Run: chmod 600 {path}"


@pytest.mark.parametrize(
    "text", ["", "x", "moot-vault-1 key", "moot-vault-1 key c2hvcnQ=", "moot-vault-1 key !!", "\xff"]
)
async def test_a_damaged_key_file_is_an_error_and_stays_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "vault.key"
    path.write_bytes(text.encode("latin-1"))
    path.chmod(0o600)
    with pytest.raises(ConfigError):
        await MasterKey(path, place="file").get()
    assert path.read_bytes() == text.encode("latin-1")


async def test_a_link_in_place_of_the_key_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("moot-vault-1 key " + "A" * 43 + "=", encoding="ascii")
    (tmp_path / "other").chmod(0o600)
    (tmp_path / "vault.key").symlink_to("other")
    with pytest.raises(MootError):
        await MasterKey(tmp_path / "vault.key", place="file").get()


async def test_of_many_at_once_all_get_the_same_key(tmp_path: Path) -> None:
    async with asyncio.TaskGroup() as group:
        keys = [group.create_task(MasterKey(tmp_path / "vault.key", place="file").get()) for _ in range(16)]
    assert len({bytes(task.result()) for task in keys}) == 1
    assert os.listdir(tmp_path) == ["vault.key"]


def test_of_many_processes_at_once_all_get_the_same_key(tmp_path: Path) -> None:
    code = (
        "import asyncio, json, sys; from pathlib import Path; from moot.daemon.vault.master_key import MasterKey;"
        "sys.stdin.read();"
        "print(json.dumps(asyncio.run(MasterKey(Path(sys.argv[1]), place='file').get()).hex()))"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "vault.key")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ.copy(),
        )
        for _ in range(4)
    ]
    printed = [process.communicate(timeout=60)[0] for process in started]
    assert len({json.loads(text) for text in printed}) == 1
