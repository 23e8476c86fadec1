"""Tools that find files: fs_search by content, fs_glob by name. `ripgrep` finds, what is shown is read here.

ripgrep walks by path and knows nothing of what is off limits. So what it reports is only a hint: every file is looked
up and opened again through `confined_paths`, and a line is shown only if the same bytes are there.
"""

import asyncio
import os
import stat
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, MootError, NotFound, TooLarge
from moot.domain.ports.tool import RunContext
from moot.domain.prompt import Safety, ToolSpec
from moot.tools.files.confined_paths import ConfinedFolder
from moot.tools.files.confined_tool import ConfinedTool, FileToolDependencies, decode_name, printable
from moot.tools.files.file_text import decode_text
from moot.tools.files.glob_pattern import GlobPattern
from moot.tools.files.ripgrep import (
    Found,
    Hit,
    Query,
    choose_ignore_files,
    find_ripgrep,
    list_files,
    list_ignore_files,
    search_lines,
)
from moot.tools.threads import run_in_thread

_MOST_FOUND = 2_000
# Found in addition, so that a hidden line does not tell by the count that it is there.
_MOST_HIDDEN = 500
_SHOWN_LINES = 60
_SHOWN_PATHS = 100
_EXCERPT = 200
_LEAD = 60
_LONGEST_PATTERN = 1_000
_SEARCHES = 4
_FOLDER = {"type": "string", "description": "A folder or file to search; the working directory if not given."}
_GLOB = "such as *.py or src/**/*.ts; one without a slash matches names at any depth"


class _Line(Struct, frozen=True, kw_only=True):
    path: str
    number: int
    text: str


class _SearchTool(ConfinedTool):
    # Whether it looks into files.
    _reads_files = True

    def __init__(self, dependencies: FileToolDependencies) -> None:
        super().__init__(dependencies)
        self._clock = dependencies.clock
        # One search of a conversation at a time and few in all, so that nobody takes every core.
        self._all = asyncio.Semaphore(_SEARCHES)
        self._turns: WeakValueDictionary[ConversationKey, asyncio.Lock] = WeakValueDictionary()

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        glob = GlobPattern(self._glob(arguments)) if self._glob(arguments) else None
        query = await run_in_thread(self._locate, str(arguments.get("path") or "."), context.cwd)
        wants = _Selection(query.targets[0], glob).has
        query = replace(query, name_globs=glob.name_globs() if glob else (), wants=wants)
        turn = self._turns.setdefault(context.key, asyncio.Lock())
        async with turn, self._all:
            return await self._find(arguments, query, context.cwd)

    def _glob(self, arguments: dict[str, Any]) -> str:
        raise NotImplementedError

    async def _find(self, arguments: dict[str, Any], query: Query, cwd: str) -> str:
        raise NotImplementedError

    def _locate(self, path: str, cwd: str) -> Query:
        with ConfinedFolder(cwd, self._off_limits) as ground:
            spot = ground.spot(path)
            status = spot.status()
            if status is None:
                raise NotFound(f"{path} does not exist", fix="List the folder with fs_list.")
            if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
                raise BadRequest(f"{path} is neither a folder nor a file", fix="Check what it is with fs_stat.")
            if self._reads_files and stat.S_ISREG(status.st_mode) and status.st_size > self._limits.read_bytes:
                # ripgrep has its limit for files it finds, not for one that is named.
                raise TooLarge(
                    f"{path} has {status.st_size} bytes; at most {self._limits.read_bytes} are read",
                    fix="Read a part of it with fs_read.",
                )
            top = ground.real(ground.spot("."))
            return Query(
                program=find_ripgrep(),
                clock=self._clock,
                cwd=top,
                ignoring=choose_ignore_files(top),
                ignore_files=list_ignore_files(top),
                targets=[os.path.relpath(ground.real(spot), top)],
                most=_MOST_FOUND + _MOST_HIDDEN,
            )


class FsSearch(_SearchTool):
    spec = ToolSpec(
        name="fs_search",
        safety=Safety.SAFE,
        group="fs",
        description="Search the contents of files with a regular expression. Returns paths, line numbers and lines.",
        parameters={
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "A regular expression, matched line by line."},
                "path": _FOLDER,
                "glob": {"type": "string", "description": f"Only these files, {_GLOB}."},
                "ignoreCase": {"type": "boolean", "description": "Whether upper and lower case are treated alike."},
            },
            "required": ["pattern"],
        },
    )

    def line(self, arguments: dict[str, Any]) -> str:
        among = f" among {arguments['glob']}" if arguments.get("glob") else ""
        return f"search {arguments.get('path') or '.'} for {arguments.get('pattern', '')}{among}"

    def _glob(self, arguments: dict[str, Any]) -> str:
        return str(arguments.get("glob") or "")

    async def _find(self, arguments: dict[str, Any], query: Query, cwd: str) -> str:
        pattern = arguments["pattern"]
        if len(pattern) > _LONGEST_PATTERN:
            raise BadRequest(f"the pattern has {len(pattern)} characters", fix=f"Use at most {_LONGEST_PATTERN}.")
        try:
            os.fsencode(pattern)
        except UnicodeEncodeError:
            raise BadRequest("the pattern has an incomplete character", fix="Send valid Unicode.") from None
        if "\0" in pattern:
            raise BadRequest("the pattern has a NUL byte", fix="Search for text.")
        query = replace(
            query,
            pattern=pattern,
            ignore_case=bool(arguments.get("ignoreCase")),
            largest_file=self._limits.read_bytes,
        )
        found, note = await search_lines(query), ""
        if found.refusal:
            note = f"(Not a regular expression: {printable(found.refusal)}. Searched as plain text.)"
            found = await search_lines(replace(query, is_literal=True))
        return await run_in_thread(self._report, found, cwd, note)

    def _report(self, found: Found, cwd: str, note: str) -> str:
        with ConfinedFolder(cwd, self._off_limits) as ground:
            lines = list(self._confirm(ground, found.hits))
        lines.sort(key=lambda line: (line.path, line.number))
        stopped = found.stopped or ("more" if len(lines) > _MOST_FOUND else "")
        shown, rest = lines[:_SHOWN_LINES], lines[_SHOWN_LINES:_MOST_FOUND]
        notes = [note] if note else []
        for path, group in groupby(shown, key=lambda line: line.path):
            notes += [printable(decode_name(path)), *(f"{line.number or '?'}: {line.text}" for line in group)]
        files = len({line.path for line in rest})
        more = f"{len(rest)} more matches in {files} {'file' if files == 1 else 'files'}"
        notes += _describe_rest(stopped, more if rest else "", "path, glob or a longer pattern")
        return "\n".join(notes if lines or stopped else [*notes, "No matches."])

    def _confirm(self, ground: ConfinedFolder, hits: Iterable[Hit]) -> Iterator[_Line]:
        """Yield the matches in files that may be read, as they are there."""
        for path, group in groupby(hits, key=lambda hit: hit.path):
            try:
                with ground.passing():
                    file, _ = ground.open_file(ground.spot(path, follow=False))
                    yield from [line for hit in group if (line := self._read_line(file, hit)) is not None]
            except (MootError, OSError):
                # Off limits, or gone since.
                continue

    def _read_line(self, file: int, hit: Hit) -> _Line | None:
        """Return the line, or None for one with a secret: whether a pattern matches must not depend on its value."""
        if not hit.number:
            content = decode_text(os.pread(file, self._limits.read_bytes, 0))
            has_secret = self._redact(content) != content
            return None if has_secret else _Line(path=hit.path, number=0, text="(a line too long to show)")
        if os.pread(file, len(hit.data), hit.offset) != hit.data:
            return None
        text = decode_text(hit.data.rstrip(b"\r\n"))
        if self._redact(text) != text:
            return None
        start = len(decode_text(hit.data[: hit.start]))
        return _Line(path=hit.path, number=hit.number, text=_cut_excerpt(text, start))


class FsGlob(_SearchTool):
    _reads_files = False
    spec = ToolSpec(
        name="fs_glob",
        safety=Safety.SAFE,
        group="fs",
        description="Find files by name, in all folders below. Returns their paths.",
        parameters={
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": f"A glob, {_GLOB}."},
                "path": _FOLDER | {"description": "The folder to look in; the working directory if not given."},
            },
            "required": ["pattern"],
        },
    )

    def line(self, arguments: dict[str, Any]) -> str:
        return f"find {arguments.get('pattern', '')} in {arguments.get('path') or '.'}"

    def _glob(self, arguments: dict[str, Any]) -> str:
        return str(arguments["pattern"])

    async def _find(self, arguments: dict[str, Any], query: Query, cwd: str) -> str:
        return await run_in_thread(self._report, await list_files(query), cwd)

    def _report(self, found: Found, cwd: str) -> str:
        with ConfinedFolder(cwd, self._off_limits) as ground:
            paths = sorted(path for path in found.paths if _is_reachable(ground, path))
        shown = paths[:_SHOWN_PATHS]
        more = f"{min(len(paths), _MOST_FOUND) - len(shown)} more files" if len(paths) > len(shown) else ""
        printed = [printable(decode_name(path)) for path in shown]
        printed += _describe_rest(found.stopped, more, "path or a longer pattern")
        return "\n".join(printed or ["No files."])


class _Selection(Struct, frozen=True):
    """Which paths a glob selects; it is about the path from the searched folder on."""

    top: str
    glob: GlobPattern | None

    def has(self, path: str) -> bool:
        if self.glob is None or path == self.top:
            return True
        return self.glob.matches(path if self.top == "." else path.removeprefix(f"{self.top}/"))


def _is_reachable(ground: ConfinedFolder, path: str) -> bool:
    try:
        with ground.passing():
            status = ground.spot(path, follow=False).status()
    except (MootError, OSError):
        return False
    return status is not None and stat.S_ISREG(status.st_mode)


def _describe_rest(stopped: str, more: str, narrow: str) -> list[str]:
    if stopped == "time":
        return [f"(Stopped because it took too long; narrow it with {narrow}.)"]
    if stopped == "stalled":
        return ["(Stopped because a file cannot be read, for example a pipe with the name of an ignore file.)"]
    if stopped == "limits":
        return [f"(Stopped because it needed too much memory or time; narrow it with {narrow}.)"]
    if stopped:
        return [f"({more or 'More'} and others that were not counted; narrow it with {narrow}.)"]
    return [f"({more}; narrow it with {narrow}.)"] if more else []


def _cut_excerpt(text: str, start: int) -> str:
    """Return the part of a long line around its match."""
    if len(text) <= _EXCERPT:
        return text
    begin = max(0, min(start - _LEAD, len(text) - _EXCERPT))
    cut = text[begin : begin + _EXCERPT]
    return f"{'…' if begin else ''}{cut}{'…' if begin + _EXCERPT < len(text) else ''}"
