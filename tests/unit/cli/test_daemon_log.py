"""The daemon's log as `moot logs --daemon` reads it: nothing is lost or shown twice where a file is rotated."""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from moot.cli.follow.daemon_log import _LogReader


def _write(path: Path, *messages: str) -> None:
    with path.open("a") as log:
        log.writelines(f'{{"message":"{message}"}}\n' for message in messages)


def _rotate(path: Path) -> None:
    path.rename(path.with_name(f"{path.name}.1"))


def _list_messages(entries: Iterable[dict[str, Any]]) -> list[str]:
    return [entry["message"] for entry in entries]


def test_a_rotation_between_reading_and_following_hides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "moot.log"
    _write(path, "first")
    with closing(_LogReader(path)) as log:
        assert _list_messages(log.read_newest()) == ["first"]
        _write(path, "before the rotation")
        _rotate(path)
        _write(path, "after the rotation")
        following = log.follow()
        assert _list_messages([next(following), next(following)]) == ["before the rotation", "after the rotation"]


def test_a_line_that_is_being_written_is_shown_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "moot.log"
    _write(path, "first")
    with path.open("a") as writer:
        writer.write('{"message":"half')
    with closing(_LogReader(path)) as log:
        assert _list_messages(log.read_newest()) == ["first"]
        with path.open("a") as writer:
            writer.write(' and whole"}\n')
        assert _list_messages([next(log.follow())]) == ["half and whole"]


def test_a_log_that_became_the_earlier_one_while_it_was_read_is_shown_once(tmp_path: Path) -> None:
    path = tmp_path / "moot.log"
    _write(path.with_name("moot.log.1"), "long ago")
    _write(path, "first")
    with closing(_LogReader(path)) as log:
        _rotate(path)
        assert _list_messages(log.read_newest()) == ["first"]


def test_a_log_that_does_not_exist_yet_is_followed_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "moot.log"
    with closing(_LogReader(path)) as log:
        assert log.read_newest() == []
        _write(path, "first")
        assert _list_messages([next(log.follow())]) == ["first"]
