"""Which instruction files of projects the owner has approved, by digest, in one file. Used by `project_files`."""

from pathlib import Path

import msgspec

from moot.domain.project import ProjectFile
from moot.tools.files.contents import write_whole

_MOST = 1_000


class _Approved(msgspec.Struct):
    # The path that was shown with each digest, oldest first.
    digests: dict[str, str] = {}


class ProjectApprovals:
    """Reads the file whenever it has changed, so that an approval counts from the next turn on."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._stamp: tuple[int, int] = (0, 0)
        self._known = _Approved()

    @property
    def place(self) -> str:
        return str(self._place)

    def includes(self, digest: str) -> bool:
        return digest in self._read().digests

    def approve(self, files: list[tuple[str, ProjectFile]]) -> None:
        """Approve exactly these texts, each with its whole path."""
        known = self._read().digests | {file.digest: path for path, file in files}
        write_whole(self._place, msgspec.json.encode(_Approved(dict(list(known.items())[-_MOST:]))))

    def revoke(self, digests: list[str]) -> None:
        left = {digest: path for digest, path in self._read().digests.items() if digest not in digests}
        write_whole(self._place, msgspec.json.encode(_Approved(left)))

    def _read(self) -> _Approved:
        try:
            status = self._place.stat()
            stamp = (status.st_mtime_ns, status.st_ino)
            if stamp != self._stamp:
                self._known = msgspec.json.decode(self._place.read_bytes(), type=_Approved)
                self._stamp = stamp
        except FileNotFoundError:
            self._known, self._stamp = _Approved(), (0, 0)
        except (OSError, msgspec.MsgspecError):
            # What cannot be read approves nothing.
            return _Approved()
        return self._known
