"""Tools that read files and folders: fs_read, fs_list and fs_stat. Work with `confined_tool`."""

import heapq
import os
import stat
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from moot.domain.errors import BadRequest, NotFound, TooLarge
from moot.domain.ports.tool import RunContext
from moot.domain.prompt import Safety
from moot.tools.files.confined_paths import ConfinedFolder, translate_errors
from moot.tools.files.confined_tool import ConfinedTool, build_spec, decode_name, to_json
from moot.tools.files.file_text import count_lines, decode_text, is_binary, number_lines, split_lines


class FsRead(ConfinedTool):
    verb = "read"
    spec = build_spec(
        "fs_read",
        Safety.SAFE,
        "Read a text file, completely or a range of lines. Set lineNumbers before editing by line.",
        offset={"type": "integer", "description": "First line of the range, counted from 1.", "optional": True},
        limit={"type": "integer", "description": "How many lines at most.", "optional": True},
        lineNumbers={"type": "boolean", "description": "Start every line with its number.", "optional": True},
    )

    def line(self, arguments: dict[str, Any]) -> str:
        text = super().line(arguments)
        first, most = arguments.get("offset"), arguments.get("limit")
        if first is None and most is None:
            return text
        return f"{text}, from line {first or 1}" + (f", at most {most} lines" if most is not None else "")

    def _on(self, ground: ConfinedFolder, arguments: dict[str, Any], context: RunContext) -> str:
        window = "offset" in arguments or "limit" in arguments
        most = self._limits.window_bytes if window else self._limits.read_bytes
        spot = ground.spot(arguments["path"])
        data, status = self._read_text(ground, spot, most)
        self._reads.note(context.key, context.run_id, ground.real(spot), data)
        if not window:
            lines = number_lines(split_lines(data), 1) if arguments.get("lineNumbers") else [data]
            return decode_text(b"".join(lines))
        lines = split_lines(data)
        first, limit = arguments.get("offset", 1), arguments.get("limit", len(lines))
        if first < 1 or limit < 0:
            raise BadRequest(f"there is no range of {limit} lines from line {first}", fix="Lines are counted from 1.")
        shown = lines[first - 1 : first - 1 + limit]
        content = decode_text(b"".join(number_lines(shown, first) if arguments.get("lineNumbers") else shown))
        if len(content) > self._limits.read_bytes:
            raise TooLarge(f"these {len(shown)} lines are too long together", fix="Ask for fewer lines.")
        answer = {"content": content, "totalLines": len(lines), "size": status.st_size, "offset": first, "limit": limit}
        return to_json(answer)


class FsList(ConfinedTool):
    verb = "list"
    spec = build_spec(
        "fs_list",
        Safety.SAFE,
        "List the contents of a folder; . is the working directory itself.",
        details={"type": "boolean", "description": "Also path, time and mode of each.", "optional": True},
    )

    def _on(self, ground: ConfinedFolder, arguments: dict[str, Any], context: RunContext) -> str:
        path = arguments["path"]
        folder = ground.open_folder(ground.spot(path))
        with translate_errors(path), os.scandir(folder) as entries:
            total, found = _choose_first(entries, self._limits.entries)
            describe = _describe_fully if arguments.get("details") else _describe
            listed = [describe(path, entry) for entry in found]
        if total > len(listed):
            listed.append({"more": total - len(listed)})
        return to_json(listed)


class FsStat(ConfinedTool):
    verb = "look at"
    spec = build_spec("fs_stat", Safety.SAFE, "Get the size, number of lines and modification time of a file.")

    def _on(self, ground: ConfinedFolder, arguments: dict[str, Any], context: RunContext) -> str:
        path = arguments["path"]
        spot = ground.spot(path)
        status = spot.status()
        if status is None:
            raise NotFound(f"{path} does not exist", fix="List the folder with fs_list.")
        lines = 0
        if stat.S_ISREG(status.st_mode) and status.st_size <= self._limits.window_bytes:
            data, status = self._read(ground, spot, self._limits.window_bytes)
            lines = 0 if is_binary(data) else count_lines(data)
        return to_json(
            {
                "path": path,
                "size": status.st_size,
                "lines": lines,
                "modTime": _format_time(status),
                "isDir": stat.S_ISDIR(status.st_mode),
                "permission": stat.filemode(status.st_mode),
            }
        )


def _choose_first(entries: Iterable[os.DirEntry[str]], most: int) -> tuple[int, list[os.DirEntry[str]]]:
    """Return how many there are and the first by name, without keeping the others: there can be millions."""
    total = 0

    def count() -> Iterator[os.DirEntry[str]]:
        nonlocal total
        for entry in entries:
            total += 1
            yield entry

    first = heapq.nsmallest(most, count(), key=lambda entry: entry.name)
    return total, first


def _describe(_path: str, entry: os.DirEntry[str]) -> dict[str, Any]:
    """Return what most callers need and no more, because the model reads every character."""
    name = decode_name(entry.name)
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        # Deleted since the folder was opened.
        return {"name": name, "gone": True}
    if stat.S_ISDIR(status.st_mode):
        return {"name": name, "isDir": True}
    return {"name": name, "size": status.st_size} | ({"isLink": True} if stat.S_ISLNK(status.st_mode) else {})


def _describe_fully(path: str, entry: os.DirEntry[str]) -> dict[str, Any]:
    name = decode_name(entry.name)
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return {"path": os.path.join(path, name), "name": name, "gone": True}
    return {
        "path": os.path.join(path, name),
        "name": name,
        "size": status.st_size,
        "isDir": stat.S_ISDIR(status.st_mode),
        "modTime": _format_time(status),
        "mode": stat.filemode(status.st_mode),
    }


def _format_time(status: os.stat_result) -> str:
    return datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="seconds")
