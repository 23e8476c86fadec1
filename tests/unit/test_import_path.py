"""What a process that was started in a project imports later."""

import os
import sys
from pathlib import Path

import pytest

from moot.import_path import forget_working_directory


@pytest.mark.parametrize(
    ("path", "kept", "imports_here"),
    [(":/x", "/x", False), ("/x:./", "/x", False), (":{here}", "{here}", True), ("/x", "/x", True)],
)
def test_only_entries_that_mean_the_working_directory_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, kept: str, imports_here: bool
) -> None:
    here = os.path.realpath(tmp_path)
    monkeypatch.chdir(here)
    monkeypatch.setenv("PYTHONPATH", path.format(here=here))
    monkeypatch.setattr(sys, "path", [here, *sys.path])

    forget_working_directory()

    assert os.environ["PYTHONPATH"] == kept.format(here=here)
    assert (here in sys.path) is imports_here
