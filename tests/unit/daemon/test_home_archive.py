"""Archives of a home that would unpack to too much are refused before anything is written."""

import json
import zipfile
from pathlib import Path

import pytest

from moot.daemon.backup import archive
from moot.domain.errors import BadRequest


def pack(path: Path, entries: dict[str, bytes]) -> Path:
    manifest = {"form": "moot-home-1", "version": "1", "made_at": "", "key": "none", "folders": ["agents"]}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in {"manifest.json": json.dumps(manifest).encode(), "store.db": b"x", **entries}.items():
            packed.writestr(name, data)
    return path


def test_an_archive_that_grows_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = pack(tmp_path / "bomb.zip", {"workspaces/zeros": bytes(2_000_000)})
    assert archive.ArchiveReader(bomb).size > 2_000_000
    monkeypatch.setattr(archive, "_FREE_BYTES", 1_000_000)
    with pytest.raises(BadRequest, match="many times its size"):
        archive.ArchiveReader(bomb)


def test_too_many_entries_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crowded = pack(tmp_path / "crowded.zip", {f"agents/{number}": b"" for number in range(20)})
    monkeypatch.setattr(archive, "_MAX_ENTRIES", 10)
    with pytest.raises(BadRequest, match="more than 10 entries"):
        archive.ArchiveReader(crowded)


@pytest.mark.parametrize("change", [{"form": "moot-home-9"}, {"folders": ["data"]}, {"folders": "agents"}])
def test_a_manifest_of_another_form_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    manifest = {"form": "moot-home-1", "version": "1", "made_at": "", "key": "none", "folders": ["agents"]} | change
    path = tmp_path / "other.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("manifest.json", json.dumps(manifest))
        packed.writestr("store.db", b"x")
    with pytest.raises(BadRequest, match="is not a backup of a home"):
        archive.ArchiveReader(path)


def test_entries_that_share_data_are_refused(tmp_path: Path) -> None:
    path = pack(tmp_path / "shared.zip", {"agents/one": b"a" * 100, "agents/two": b"b" * 100})
    with zipfile.ZipFile(path, "a") as packed:
        packed.getinfo("agents/two").header_offset = packed.getinfo("agents/one").header_offset
        packed._didModify = True  # type: ignore[attr-defined]
    with pytest.raises(BadRequest, match="overlap"):
        archive.ArchiveReader(path)
