"""Downloads one wheel with pip, so that the user's index, proxy and certificate settings apply."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

_POLL_SECONDS = 0.2
_CREDENTIALS = re.compile(r"//[^/@\s]+@")
_UNREACHABLE = re.compile(
    r"Retrying \(|NewConnectionError|ConnectionError|Max retries|timed out|Temporary failure|"
    r"ProxyError|SSLError|CERTIFICATE|Network is unreachable|Connection broken|IncompleteRead"
)


class CannotDownload(Exception):
    """Why a package could not be fetched; `fix` is what to do, without a full stop."""

    def __init__(self, message: str, *, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


def download(requirement: str, scratch: Path, report: Callable[[int], None]) -> Path:
    """Fetch the wheel of `NAME==VERSION` into `scratch`, reporting the bytes that have arrived."""
    arrived, working = scratch / "wheels", scratch / "tmp"
    arrived.mkdir()
    working.mkdir()
    reason = ""
    for pip in _list_pips():
        reason = _run([*pip, *_ARGUMENTS, "-d", str(arrived), requirement], scratch, report)
        if not reason.endswith("No module named pip"):
            break
    wheels = list(arrived.glob("*.whl"))
    if len(wheels) == 1:
        return wheels[0]
    raise _explain(requirement, reason)


# Wheels only: a source distribution would run its own code to be built.
_ARGUMENTS = (
    "download",
    "--no-deps",
    "--only-binary=:all:",
    "--no-cache-dir",
    "--no-input",
    "--disable-pip-version-check",
    "--progress-bar=off",
    "--retries=2",
)


def _list_pips() -> Iterator[list[str]]:
    yield [sys.executable, "-P", "-m", "pip"]
    for name in ("pip3", "pip"):
        if found := shutil.which(name):
            yield [found]


def _run(command: list[str], scratch: Path, report: Callable[[int], None]) -> str:
    """Run pip and return its error output. Its working folder has nothing that could be imported."""
    environ = os.environ | {"TMPDIR": str(scratch / "tmp")}
    # An inherited pipe could fill and block pip, so its output goes to a file.
    with (
        open(scratch / "pip.log", "w+b") as log,
        subprocess.Popen(
            command, cwd=scratch / "tmp", env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        ) as process,
    ):
        try:
            while True:
                try:
                    process.wait(_POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    report(_folder_size(scratch))
        except BaseException:
            process.kill()
            raise
        if process.returncode == 0:
            return ""
        log.seek(0)
        return _CREDENTIALS.sub("//***@", log.read().decode(errors="replace")).strip()


def _folder_size(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name)).st_size
            except FileNotFoundError:
                continue
    return total


def _explain(requirement: str, reason: str) -> CannotDownload:
    last = reason.splitlines()[-1] if reason else "pip left no file"
    if last.endswith("No module named pip"):
        return CannotDownload(
            "There is no pip to fetch the model with", fix=f"Run `{sys.executable} -m ensurepip --upgrade`"
        )
    if "No space left on device" in reason:
        return CannotDownload(f"The disk is full: {last}", fix="Free some disk space and pull again")
    if _UNREACHABLE.search(reason):
        return CannotDownload(
            f"The package index cannot be reached: {last}",
            fix="Check the network and pip's index and proxy settings, then pull again",
        )
    return CannotDownload(
        f"pip could not fetch {requirement}: {last}",
        fix="Check that pip's index (`pip config list`) has this package, then pull again",
    )
