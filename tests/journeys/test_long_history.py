"""A conversation longer than a frame can be read, archived, exported and imported whole."""

import json
from pathlib import Path

from tests.daemon_process import Home
from tests.daemon_thread import daemon_thread

MESSAGES = 18
LENGTH = 1_000_000


def _file(path: Path) -> Path:
    lines = [
        {"agent": "ada", "created_by": "user", "created_at": "2026-01-01T00:00:00Z", "title": "", "uptime_secs": 0}
    ]
    for number in range(MESSAGES):
        role = "assistant" if number % 2 else "user"
        lines.append({"role": role, "content": f"{number} " + "é" * (LENGTH // 2)})
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


async def test_it_comes_in_parts_and_is_whole(home: Home, tmp_path: Path) -> None:
    original = _file(tmp_path / "long.jsonl")
    home.furnish()
    with daemon_thread(home) as daemon:
        imported = daemon.cli_json("import", str(original))
        assert imported["data"]["messages"] == MESSAGES

        history = daemon.cli_json("history", "ada")["data"]["messages"]
        assert [entry["seq"] for entry in history] == list(range(1, MESSAGES + 1))
        newest = daemon.cli_json("history", "ada", "-n", "3")["data"]["messages"]
        assert [entry["seq"] for entry in newest] == [MESSAGES - 2, MESSAGES - 1, MESSAGES]

        target = tmp_path / "again.jsonl"
        assert daemon.cli_json("export", "ada", "-o", str(target))["data"]["messages"] == MESSAGES
        assert daemon.cli_json("import", str(target), "--as", "copy")["data"]["messages"] == MESSAGES
        second = tmp_path / "once-more.jsonl"
        daemon.cli("export", "ada", "--as", "copy", "-o", str(second))
        first_lines, second_lines = target.read_text("utf-8").splitlines(), second.read_text("utf-8").splitlines()
        assert first_lines[1:] == second_lines[1:]
