"""The master key of the vault, in the system keyring or in a private file. Created once.

`vault.key` in the data folder says where the key is. While it exists, no other key is created, so that a locked keyring
cannot lead to a loss of secrets. If it is missing while there are secrets, a new key is made only with the owner's
consent: for one request, or noted beside it by the restore of a backup without the key.
"""

import asyncio
import base64
import binascii
import os
import secrets
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from moot.daemon.clock import SystemClock
from moot.daemon.paths import make_folder
from moot.daemon.vault.key_memory import KeyMemory, wipe
from moot.domain.errors import ConfigError, Unavailable
from moot.domain.ports.clock import Clock

KEY_BYTES = 32
KEYRING = "moot"
_FORM = "moot-vault-1"
# Beside the file of the key: the owner restored secrets without their key, and the next one set may get a new key.
_NOT_RESTORED = "-not-restored"
_KEYRING_SECONDS = 60.0
_T = TypeVar("_T")


class MasterKey:
    """The key, loaded at first use. `place` is what `vault.key` contains, for display."""

    def __init__(self, path: Path, *, place: str = "auto", clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._path = path
        self._place = place
        self._key: KeyMemory | None = None

    @property
    def exists(self) -> bool:
        return self._path.exists()

    @property
    def may_be_new(self) -> bool:
        """Whether the owner restored secrets without their key, so that a key may be used that opens none of them."""
        return note_not_restored(self._path).exists()

    def settle(self) -> None:
        """End the consent to a new key: from now on there are secrets that the key opens."""
        note = note_not_restored(self._path)
        if note.exists():
            note.unlink(missing_ok=True)
            _sync_folder(note.parent)

    @property
    def place(self) -> str:
        """Return "keyring", "file", "none" while there is no key, or "broken"."""
        try:
            return "keyring" if _read_file(self._path)[0] == "keyring" else "file"
        except FileNotFoundError:
            return "none"
        except (OSError, ConfigError):
            return "broken"

    async def get(self) -> memoryview:
        """Return the key; create it if there is none. Raise Unavailable if it exists but cannot be read."""
        if self._key is None:
            # A keyring uses another process and may wait for a person: in a thread that ends with the daemon.
            self._key = await _run_in_thread(lambda: load_key(self._path, self._place), self._clock)
        return self._key.view


def note_not_restored(key_file: Path) -> Path:
    """Return the file whose presence is the owner's consent to a new key."""
    return key_file.with_name(key_file.name + _NOT_RESTORED)


def load_key(path: Path, place: str) -> KeyMemory:
    """Return the key that the file names; create it durably if there is none. May wait for a keyring."""
    try:
        kind, text = _read_file(path)
    except FileNotFoundError:
        return _make_key(path, place)
    except OSError as error:
        raise Unavailable(
            f"{path}, which says where the master key is, cannot be read: {error.strerror}",
            fix="Restore the file and make it readable.",
        ) from error
    try:
        if kind == "keyring":
            return _read_keyring(text.decode("ascii", errors="replace"), path)
        return _decode_key(text, f"{path}")
    finally:
        wipe(text)


def _read_file(path: Path) -> tuple[str, bytearray]:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    content = bytearray(4096)
    try:
        with os.fdopen(handle, "rb", buffering=0) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode) or stat.S_IMODE(mode) & 0o077:
                raise ConfigError(f"others can read {path}, which holds the master key", fix=f"Run: chmod 600 {path}")
            del content[file.readinto(content) :]
        line = content.strip()
    finally:
        wipe(content)
    form, _, rest = line.partition(b" ")
    kind, _, text = rest.partition(b" ")
    wipe(line)
    wipe(rest)
    if form != _FORM.encode() or bytes(kind) not in (b"key", b"keyring") or not text:
        raise ConfigError(
            f"{path} does not hold a master key", fix="Restore it from a backup; without it no secret can be opened."
        )
    return kind.decode(), text


def _make_key(path: Path, place: str) -> KeyMemory:
    key = secrets.token_bytes(KEY_BYTES)
    text = base64.b64encode(key).decode()
    line = f"{_FORM} key {text}"
    entry = f"vault-{secrets.token_hex(8)}"
    if place != "file":
        if _store_in_keyring(entry, text):
            line = f"{_FORM} keyring {entry}"
        elif place == "keyring":
            raise Unavailable(
                "no usable keyring for the master key",
                fix="Install one (pip install 'moot[keyring]'), or set key = \"file\" under [vault].",
            )
    try:
        if _write_once(path, line):
            return _take_key(key)
    except OSError as error:
        raise Unavailable(
            f"{path} cannot be written: {error.strerror}", fix="Free some space, or make the folder writable."
        ) from error
    # Another process was faster; use its key.
    _drop_from_keyring(entry)
    return load_key(path, place)


def _write_once(path: Path, line: str) -> bool:
    """Create the file atomically. Return False if it already exists."""
    make_folder(path.parent)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
        _sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)
    return True


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _take_key(key: bytes) -> KeyMemory:
    """Move the key to memory of its own, and clear where it was."""
    memory = KeyMemory(key)
    wipe(key)
    return memory


def _decode_key(text: str | bytearray, place: str) -> KeyMemory:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(
            f"the master key in {place} is damaged",
            fix="Restore it from a backup; without it no secret can be opened.",
        )
    return _take_key(key)


def _import_keyring() -> Any:
    try:
        import keyring  # noqa: PLC0415  an extra, and slow to import
        import keyring.errors  # noqa: PLC0415
    except ImportError:
        return None
    return keyring


def _store_in_keyring(entry: str, text: str) -> bool:
    """Store the key in a keyring; return whether it can be read back."""
    keyring = _import_keyring()
    if keyring is None:
        return False
    try:
        keyring.set_password(KEYRING, entry, text)
        return bool(keyring.get_password(KEYRING, entry) == text)
    except keyring.errors.KeyringError:
        return False
    except Exception:  # noqa: BLE001  backends fail in ways of their own, and a file does as well
        return False


def _drop_from_keyring(entry: str) -> None:
    keyring = _import_keyring()
    if keyring is not None:
        with suppress(Exception):
            keyring.delete_password(KEYRING, entry)


def _read_keyring(entry: str, path: Path) -> KeyMemory:
    keyring = _import_keyring()
    if keyring is None:
        raise Unavailable(
            "the master key is in the keyring, and keyring is not installed", fix="Run: pip install 'moot[keyring]'"
        )
    try:
        text = keyring.get_password(KEYRING, entry)
    except Exception as error:  # noqa: BLE001  backends fail in ways of their own; none may show the key
        raise Unavailable(
            f"the keyring, which holds the master key, cannot be read: {type(error).__name__}",
            fix="Unlock the keyring and try again.",
        ) from None
    if not text:
        raise Unavailable(
            f"the keyring has no entry {entry!r}, which {path} names as the master key",
            fix="Log in as the user who stored the secrets, or restore the entry.",
        )
    return _decode_key(text, f"the keyring's {entry!r}")


async def _run_in_thread(work: Callable[[], _T], clock: Clock) -> _T:
    """Run blocking work in a daemon thread, which does not delay the end of the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def settle(result: _T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        try:
            result, error = work(), None
        except Exception as caught:  # noqa: BLE001  it belongs to the caller
            result, error = None, caught
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            # The event loop is closed, so nobody waits any more.
            return

    threading.Thread(target=run, name="master key", daemon=True).start()
    try:
        async with clock.timeout(_KEYRING_SECONDS):
            return await future
    except TimeoutError:
        raise Unavailable("the keyring does not answer", fix="Unlock it, then try again.") from None
