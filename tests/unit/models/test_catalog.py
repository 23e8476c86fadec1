"""Models by name, built when needed, with what is wrong said before they are used."""

import asyncio
from types import MappingProxyType

import pytest

from moot.daemon.clock import SystemClock
from moot.domain.config import Config, ModelConfig
from moot.domain.errors import ConfigError, NotFound
from moot.models.catalog import Catalog
from tests.fake_provider.ask import run


def catalog(**models: ModelConfig) -> Catalog:
    return Catalog(
        Config(default_model="a", models=MappingProxyType(models)), data_dir="/nonexistent", clock=SystemClock()
    )


def openai(**settings: object) -> ModelConfig:
    return ModelConfig(**{"name": "a", "provider": "openai", "model": "gpt-4o", **settings})  # type: ignore[arg-type]


def test_a_model_is_built_once_and_the_default_has_no_need_of_a_name() -> None:
    models = catalog(a=ModelConfig(name="a", provider="scripted"))

    assert models.get() is models.get("a")


def test_an_unknown_name_is_not_found_and_the_known_ones_are_listed() -> None:
    models = catalog(a=ModelConfig(name="a", provider="scripted"))

    with pytest.raises(NotFound) as raised:
        models.get("ghost")

    assert "one of: a" in raised.value.fix
    assert "ghost" in asyncio.run(models.find_problem("ghost"))


def test_a_missing_variable_is_a_problem_before_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    models = catalog(a=openai(api_key="env:NOT_SET"))

    assert "NOT_SET" in asyncio.run(models.find_problem("a"))
    monkeypatch.setenv("NOT_SET", "sk-1")
    assert asyncio.run(models.find_problem("a")) == ""


@pytest.mark.parametrize(
    "settings",
    [
        {"base_url": "ftp://host/v1"},
        {"base_url": "not an address"},
        {"base_url": "http://user:pass@host/v1"},
        {"base_url": "http://[bad"},
        {"model": ""},
        {"tools": "sometimes"},
        {"provider": "other"},
        {"provider": "anthropic", "tools": "schema"},
    ],
)
def test_a_wrong_setting_is_a_problem_with_a_way_out(settings: dict[str, str]) -> None:
    models = catalog(a=openai(**settings))

    with pytest.raises(ConfigError) as raised:
        models.get("a")

    assert raised.value.fix
    assert asyncio.run(models.find_problem("a"))
    assert "pass" not in asyncio.run(models.find_problem("a")).replace("password", "")


def test_an_embedded_model_that_was_not_pulled_is_a_problem() -> None:
    assert "moot models pull" in asyncio.run(
        catalog(a=ModelConfig(name="a", provider="local", model="smollm2")).find_problem("a")
    )


@pytest.mark.parametrize(
    ("settings", "window"),
    [
        ({}, 128_000),
        ({"provider": "anthropic"}, 200_000),
        ({"base_url": "http://localhost:11434/v1"}, 32_768),
        ({"window": 5}, 5),
    ],
)
def test_a_window_is_guessed_only_where_none_is_set(settings: dict[str, object], window: int) -> None:
    assert catalog(a=openai(**settings)).get().window == window


def test_closing_twice_is_fine() -> None:
    models = catalog(a=ModelConfig(name="a", provider="scripted"))
    models.get()

    async def close() -> None:
        await models.close()
        await models.close()

    run(close)
