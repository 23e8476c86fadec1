"""Keys by reference, and never in clear."""

import asyncio
import shlex
import sys
import types

import pytest

from moot.domain.errors import ConfigError, NotFound
from moot.models.keys import Key, resolve


def test_a_key_comes_from_the_environment() -> None:
    assert resolve("env:K", model="m", environ={"K": " secret "}) == "secret"


def test_no_reference_is_no_key() -> None:
    assert resolve("", model="m") == ""


@pytest.mark.parametrize("environ", [{}, {"K": ""}, {"K": "  "}])
def test_a_variable_that_is_not_set_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as raised:
        resolve("env:K", model="m", environ=environ)

    assert "K" in raised.value.fix


@pytest.mark.parametrize("reference", ["sk-live-1234", "env:", "keyring:", "file:/x", "ENV:K"])
def test_a_key_in_clear_is_refused_and_not_repeated(reference: str) -> None:
    with pytest.raises(ConfigError) as raised:
        resolve(reference, model="m")

    assert reference not in str(raised.value.message + raised.value.fix) or reference.endswith(":")


def test_a_key_with_a_line_break_is_refused() -> None:
    with pytest.raises(ConfigError):
        resolve("env:K", model="m", environ={"K": "sk-1\nX-Evil: 1"})


def test_a_missing_keyring_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)

    with pytest.raises(ConfigError) as raised:
        resolve("keyring:work", model="m")

    assert "pip install 'moot[keyring]'" in raised.value.fix


def test_a_key_comes_from_the_keyring_under_our_name(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {("moot", "work"): "from-the-ring"}
    ring = types.ModuleType("keyring")
    ring.errors = types.ModuleType("keyring.errors")  # type: ignore[attr-defined]
    ring.errors.KeyringError = OSError
    ring.get_password = lambda place, name: kept.get((place, name))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", ring)
    monkeypatch.setitem(sys.modules, "keyring.errors", ring.errors)

    assert asyncio.run(Key("keyring:work", model="m").get()) == "from-the-ring"
    with pytest.raises(ConfigError) as raised:
        resolve("keyring:other", model="m")
    assert raised.value.fix == f"Run: {shlex.quote(sys.executable)} -m keyring set moot other"


def test_a_key_does_not_show_itself() -> None:
    assert "hush" not in repr(Key.with_value("hush", model="m"))


def test_a_key_is_told_as_soon_as_it_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, str]] = []
    monkeypatch.setenv("TOLD_KEY", "sk-told-1234")
    key = Key("env:TOLD_KEY", model="m", on_lookup=lambda name, value: told.append((name, value)))
    assert told == []
    assert asyncio.run(key.get()) == asyncio.run(key.get()) == "sk-told-1234"
    assert told == [("TOLD_KEY", "sk-told-1234")]


async def _read_secret(name: str) -> str:
    if name != "K":
        raise NotFound(f"there is no secret {name!r}")
    return "from-the-vault"


def test_a_key_comes_from_the_vault_each_time() -> None:
    key = Key("secret:K", model="m", read_secret=_read_secret)

    assert asyncio.run(key.get()) == "from-the-vault"
    assert key.place == "the key in the secret 'K'"


def test_a_missing_secret_is_named_with_the_command_that_stores_it() -> None:
    with pytest.raises(ConfigError) as raised:
        asyncio.run(Key("secret:GONE", model="m", read_secret=_read_secret).get())

    assert raised.value.fix == "Run: moot secrets set GONE"


def test_only_the_daemon_reads_secrets() -> None:
    with pytest.raises(ConfigError, match="only the daemon"):
        asyncio.run(Key("secret:K", model="m").get())
