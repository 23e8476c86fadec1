"""Programs that run outside the sandbox."""

from pathlib import Path

import pytest

from moot.tools.sandbox.environment import find_program


def test_a_program_of_the_system_comes_before_one_that_an_agent_may_have_put_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("env", "only-here"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    assert find_program("env") in ("/usr/bin/env", "/bin/env")
    assert find_program("only-here") == str(tmp_path / "only-here")
