import os
import stat
from pathlib import Path

import pytest

from moot.cli.setup.config_edit import move_aside, set_default_model, write_config
from moot.daemon.config.config_file import load_config
from moot.domain.config import ModelConfig
from moot.domain.errors import ConfigError

MODEL = ModelConfig(name="mine", provider="openai", base_url="http://127.0.0.1:1/v1", model="m", api_key="env:K")


def test_an_empty_file_gets_the_model_as_its_default() -> None:
    assert set_default_model("", MODEL) == (
        'default_model = "mine"\n\n[models.mine]\nprovider = "openai"\n'
        'base_url = "http://127.0.0.1:1/v1"\nmodel = "m"\napi_key = "env:K"\n'
    )


def test_comments_order_and_other_keys_stay() -> None:
    before = (
        "# mine\n[limits] # hard\nsteps = 3\n\n"
        '[models.other]\nprovider = "scripted"\n\n[models.mine] # old\nprovider = "local"\nretries = 1 # few\n'
    )

    after = set_default_model(before, MODEL)

    assert after.startswith('# mine\ndefault_model = "mine"\n')
    assert "[limits] # hard\nsteps = 3\n" in after
    assert "[models.mine] # old\n" in after
    assert "retries = 1 # few\n" in after


def test_a_value_that_is_not_wanted_any_more_goes() -> None:
    before = '[models.mine]\nprovider = "openai"\napi_key = "env:OLD"\nmodel = "x"\n'

    after = set_default_model(before, ModelConfig(name="mine", provider="local", model="smollm2"))

    assert "env:OLD" not in after


@pytest.mark.parametrize("text", ["a = \n", "models = 3\n", "[models]\nmine = 3\n"])
def test_a_file_that_cannot_be_changed_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError):
        set_default_model(text, MODEL)


def test_what_is_written_is_for_its_owner_only_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.toml"

    write_config(path, set_default_model("", MODEL))

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_config(path)[0].models["mine"] == MODEL
    assert os.listdir(path.parent) == ["config.toml"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text("")
    path = tmp_path / "config.toml"
    path.symlink_to(real)

    write_config(path, "queue_bound = 3\n")

    assert path.is_symlink()
    assert real.read_text() == "queue_bound = 3\n"


def test_a_broken_file_is_kept_under_a_free_name(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    for text in ("one", "two"):
        path.write_text(text)
        move_aside(path)

    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["config.toml.broken", "config.toml.broken-2"]
