"""SourceFiles: what listing the files of a source costs."""

from pathlib import Path

import pytest

from moot.daemon.clock import ManualClock
from moot.retrieval.files import SourceFiles
from moot.tools.files import off_limits
from moot.tools.files.off_limits import OffLimits


async def test_what_is_off_limits_is_looked_up_once_for_a_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search compares each file with the index: places looked up for each of them would make it take seconds."""
    for number in range(20):
        (tmp_path / f"{number}.md").write_text("words")
    (tmp_path / "private.md").write_text("mine")
    hidden = OffLimits(private=[str(tmp_path / "private.md")])
    looked_up: list[str] = []
    find = off_limits._path_identity

    def count(path: str) -> off_limits.Identity | None:
        looked_up.append(path)
        return find(path)

    monkeypatch.setattr(off_limits, "_path_identity", count)
    files = SourceFiles(lambda: hidden, ManualClock())
    found = await files.scan_place(await files.locate(".", str(tmp_path)), 100)
    assert sorted(found) == sorted(str(tmp_path / f"{number}.md") for number in range(20))
    assert looked_up.count(str(tmp_path / "private.md")) < 10
