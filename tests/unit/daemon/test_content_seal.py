"""Earlier contents of files with a secret in them are encrypted with a key that outlives the daemon."""

from pathlib import Path

import pytest

from moot.daemon.vault.content_seal import FileContentSeal
from moot.domain.errors import Unavailable
from moot.redaction.redactor import Redactor

SECRET = "sk-tests-4711-abcdef"


def make_seal(folder: Path) -> FileContentSeal:
    redactor = Redactor()
    redactor.register("api", SECRET)
    return FileContentSeal(redactor, folder / "file-changes.key")


def test_a_content_can_be_opened_after_a_restart_and_only_as_the_one_it_was(tmp_path: Path) -> None:
    seal, data = make_seal(tmp_path), f"KEY={SECRET}\n".encode()
    assert (seal.has_secret(data), seal.has_secret(b"KEY=\xff\n")) == (True, False)

    sealed = seal.close(data, "digest")

    assert SECRET.encode() not in sealed
    again = make_seal(tmp_path)
    assert again.open(sealed, "digest") == data
    assert (again.open(sealed, "other"), again.open(b"junk", "digest")) == (b"", b"")
    assert (tmp_path / "file-changes.key").stat().st_mode & 0o777 == 0o600


def test_without_a_key_that_lasts_nothing_is_sealed(tmp_path: Path) -> None:
    (tmp_path / "file-changes.key").mkdir()

    with pytest.raises(Unavailable):
        make_seal(tmp_path).close(b"x", "digest")
