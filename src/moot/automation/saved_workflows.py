"""SavedWorkflows: workflow files in the folder of the configuration, those of each sender apart. Used by the tools."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from moot.domain.errors import BadRequest, MootError, NotFound, StoreError
from moot.domain.near_names import suggest_name
from moot.domain.text import clean
from moot.domain.workflow_file import SUFFIX, check_name, mark_taint, read_taint
from moot.domain.workflow_yaml import MAX_BYTES

# The sender whose workflows are in the folder itself: the one of the person at this computer.
_MAIN_SENDER = "user"
# The workflows of one sender.
MOST_SAVED = 500


class SavedWorkflow(Struct, frozen=True, kw_only=True):
    """A workflow file: its text, and the sources of untrusted text that it was written from."""

    name: str
    path: str
    source: str
    taint: frozenset[str] = frozenset()


class SavedWorkflows:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_folder(self, owner: str) -> Path:
        """Return the folder of a sender's workflows."""
        if owner == _MAIN_SENDER:
            return self._folder
        # A sender may contain any character, and may be longer than a file name.
        return self._folder / "senders" / hashlib.sha256(owner.encode()).hexdigest()[:32]

    def save(self, owner: str, name: str, source: str, taint: frozenset[str]) -> Path:
        """Write a workflow; one of the same name is replaced. It is on disk when this returns."""
        folder, name = self.find_folder(owner), check_name(name)
        path = folder / f"{name}{SUFFIX}"
        names = self.list_names(owner)
        if len(names) >= MOST_SAVED and name not in names:
            raise BadRequest(f"there are {len(names)} saved workflows already", fix="Remove one first.")
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _replace(path, mark_taint(source, taint).encode())
        except OSError as error:
            raise StoreError(f"the workflow cannot be saved: {error.strerror}", fix=f"Check {folder}.") from error
        return path

    def load(self, owner: str, name: str) -> SavedWorkflow:
        name = check_name(name)
        path = self.find_folder(owner) / f"{name}{SUFFIX}"
        try:
            with open(path, "rb") as file:
                text = file.read(MAX_BYTES + 1).decode()
        except FileNotFoundError:
            near = suggest_name(name, self._list_names(owner))
            raise NotFound(
                f"there is no saved workflow {name!r}", fix=f"{near}`moot workflow list` lists them."
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"the workflow {path} cannot be read: {error}") from error
        return SavedWorkflow(name=name, path=str(path), source=text, taint=read_taint(text))

    def list_names(self, owner: str) -> list[str]:
        """Return the names of a sender's workflows. Their texts together could be very large."""
        return sorted(self._list_names(owner))

    def remove(self, owner: str, name: str) -> SavedWorkflow:
        """Delete a workflow file; return what it was."""
        found = self.load(owner, name)
        try:
            os.unlink(found.path)
        except OSError as error:
            raise StoreError(f"the workflow cannot be removed: {error.strerror}") from error
        return found

    def _list_names(self, owner: str) -> Iterator[str]:
        try:
            entries = os.listdir(self.find_folder(owner))
        except OSError:
            return
        for entry in entries:
            if entry.endswith(SUFFIX):
                with suppress(MootError):
                    yield check_name(clean(entry))


def _replace(path: Path, data: bytes) -> None:
    """Write a file so that it is either the old or the new one after a crash."""
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".workflow-")
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
