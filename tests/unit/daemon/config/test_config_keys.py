import json
from pathlib import Path

import pytest
from msgspec.structs import fields

from moot.daemon.config.agent_keys import SECTIONS as AGENTS
from moot.daemon.config.agent_keys import to_snake_case
from moot.daemon.config.broker_keys import BROKER_KEYS
from moot.daemon.config.keys import (
    CHAT_KEYS,
    COMPACTION_KEYS,
    LIMIT_KEYS,
    LISTEN_KEYS,
    MODEL_KEYS,
    NETWORK_KEYS,
    PEERS_KEYS,
    SECTIONS,
    STORE_KEYS,
    TOP_KEYS,
    Key,
    Numbers,
)
from moot.daemon.config.telemetry_keys import SECTIONS as TELEMETRY
from moot.daemon.config.tool_keys import INTERCEPTOR_KEYS
from moot.daemon.config.tool_keys import SECTIONS as HANDS
from moot.domain.config import (
    BrokerConfig,
    ChatConfig,
    CompactionConfig,
    Config,
    InterceptorConfig,
    ListenConfig,
    ModelConfig,
    PeersConfig,
    StoreConfig,
    ToolsConfig,
    default_config,
)
from moot.domain.run import Limits

PAGE = Path(__file__).parents[4] / "docs" / "configuration.md"
TABLES = {
    "": TOP_KEYS,
    "models": MODEL_KEYS,
    "limits": LIMIT_KEYS,
    "compaction": COMPACTION_KEYS,
    "listen": LISTEN_KEYS,
    "network": NETWORK_KEYS,
    "store": STORE_KEYS,
    "peers": PEERS_KEYS,
    "broker": BROKER_KEYS,
    "chat": CHAT_KEYS,
    "interceptor": INTERCEPTOR_KEYS,
    **HANDS,
    **AGENTS,
    **TELEMETRY,
}


@pytest.mark.parametrize(
    ("keys", "kind", "besides"),
    [
        (
            TOP_KEYS,
            Config,
            set(SECTIONS) - {"security"} | {"tools", *TELEMETRY} | set(map(to_snake_case, AGENTS)),
        ),
        (INTERCEPTOR_KEYS, InterceptorConfig, set()),
        *((keys, type(getattr(ToolsConfig(), name)), set()) for name, keys in HANDS.items()),
        *((keys, type(getattr(default_config(), to_snake_case(name))), set()) for name, keys in AGENTS.items()),
        *((keys, type(getattr(default_config(), name)), set()) for name, keys in TELEMETRY.items()),
        (MODEL_KEYS, ModelConfig, {"name"}),
        (LIMIT_KEYS, Limits, set()),
        (COMPACTION_KEYS, CompactionConfig, set()),
        (LISTEN_KEYS, ListenConfig, set()),
        (STORE_KEYS, StoreConfig, set()),
        (PEERS_KEYS, PeersConfig, set()),
        (BROKER_KEYS, BrokerConfig, set()),
        (CHAT_KEYS, ChatConfig, set()),
    ],
)
def test_every_setting_has_a_key_and_every_key_a_setting(keys: tuple[Key, ...], kind: type, besides: set[str]) -> None:
    assert {to_snake_case(key.name) for key in keys} == {field.name for field in fields(kind)} - besides


@pytest.mark.parametrize("section", TABLES)
def test_the_stated_default_of_a_key_is_the_real_one(section: str) -> None:
    config = default_config()
    owner = {"": config, "models": ModelConfig(name="", provider="")}.get(section) or getattr(
        config if hasattr(config, to_snake_case(section)) else config.tools, to_snake_case(section)
    )

    for key in TABLES[section]:
        if key.name == "reading_tools":
            continue
        real = getattr(owner, to_snake_case(key.name))
        if key.kind is Numbers:
            assert tuple(json.loads(key.default)) == real
            continue
        stated = {"true": True, "false": False, "[]": ()}.get(
            key.default, key.kind(key.default or 0 if key.kind is not str else "")
        )
        assert (key.default if key.kind is str else stated) == (real if real is not None else 0), key.name


@pytest.mark.parametrize("section", TABLES)
def test_every_key_is_documented_with_its_meaning_and_default(section: str) -> None:
    rows = PAGE.read_text()

    for key in TABLES[section]:
        default = f"`{key.default}`" if key.default else ""
        assert f"| `{key.name}` | {default} | {key.meaning} |" in rows
