"""Edits config.toml: comments are kept, the file is replaced atomically."""

import os
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moot.daemon.config.config_file import load_config
from moot.daemon.paths import make_folder
from moot.domain.config import Config, ModelConfig
from moot.domain.errors import ConfigError, StoreError

_WRITTEN = ("provider", "base_url", "model", "api_key", "window")


def set_default_model(text: str, model: ModelConfig) -> str:
    """The configuration text with `model` as the default; everything else is kept."""
    import tomlkit  # noqa: PLC0415 - only for a file that is really changed

    def change(document: Any) -> None:
        document["default_model"] = model.name
        tables = document.setdefault("models", tomlkit.table(is_super_table=True))
        table = tables.setdefault(model.name, tomlkit.table())
        for key in _WRITTEN:
            value = getattr(model, key)
            if value:
                table[key] = value
            else:
                table.pop(key, None)

    changed = _apply(text, change)
    _verify(changed, model)
    return changed


def set_default_name(text: str, name: str) -> str:
    """The configuration text with an existing model as the default."""

    def change(document: Any) -> None:
        document["default_model"] = name

    return _apply(text, change)


def _apply(text: str, change: Callable[[Any], None]) -> str:
    import tomlkit  # noqa: PLC0415 - only for a file that is really changed
    import tomlkit.exceptions  # noqa: PLC0415

    try:
        document = tomlkit.parse(text)
        change(document)
        return tomlkit.dumps(document)
    except (tomlkit.exceptions.TOMLKitError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"the configuration cannot be changed: {error}", fix="Correct it by hand; `moot doctor` says where."
        ) from error


def try_repair(path: Path, model: ModelConfig) -> tuple[Config, str] | None:
    """The configuration with another default model, and its text; None if that does not make it valid."""
    try:
        changed = set_default_model(path.read_text(encoding="utf-8-sig"), model)
        # In the same folder, because a configuration may contain relative paths.
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix=".config-", dir=path.parent) as file:
            file.write(changed)
            file.flush()
            return load_config(Path(file.name))[0], changed
    except (ConfigError, OSError, UnicodeDecodeError):
        return None


def write_config(path: Path, text: str) -> None:
    """Replace the file, readable only by its owner. A symbolic link is kept."""
    target = path.resolve()
    make_folder(target.parent)
    try:
        descriptor, name = tempfile.mkstemp(prefix=".config-", dir=target.parent)
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(descriptor)
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
        _sync_folder(target.parent)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written: {error.strerror}", fix="Free some disk space or correct its permissions."
        ) from error


def move_aside(path: Path) -> Path:
    """Rename a file that cannot be repaired to an unused name."""
    for number in range(1, 1000):
        kept = path.with_name(f"{path.name}.broken" + (f"-{number}" if number > 1 else ""))
        if not kept.exists():
            path.rename(kept)
            return kept
    raise ConfigError(f"there are too many broken copies beside {path}", fix="Delete the old ones.")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _verify(text: str, model: ModelConfig) -> None:
    """Raise unless the text parses back to the intended values."""
    document: dict[str, Any] = tomllib.loads(text)
    table = document["models"][model.name]
    meant = {key: getattr(model, key) for key in _WRITTEN if getattr(model, key)}
    if document["default_model"] != model.name or {key: table[key] for key in _WRITTEN if key in table} != meant:
        raise ConfigError("the configuration cannot be changed safely", fix="Change it by hand.")


def has_secret(path: Path, name: str) -> bool:
    """Whether the configuration refers to the secret; False if the file cannot be read."""

    def contains(value: Any) -> bool:
        if isinstance(value, dict | list):
            return any(map(contains, value.values() if isinstance(value, dict) else value))
        return bool(value == f"secret:{name}")

    try:
        return contains(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except (OSError, ValueError):
        return False
