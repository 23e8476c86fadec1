"""More tools than fit: the others are found with tool_search, loaded, and kept until a compaction."""

import json
from typing import Any

from tests.daemon_process import PROVIDER_CONFIG, Home, eventually
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider

CONFIG = PROVIDER_CONFIG.replace("window = 100000", "window = 8192")
HASH = {"name": "crypto_hash", "arguments": {"data": "abc"}}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


STEPS = ({"calls": [HASH]}, call("tool_search", query="hash of a text"), {"calls": [HASH]}, {"text": "Done."})


def offered(body: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", [])]


def answers(body: dict[str, Any]) -> list[str]:
    return [each["content"] for each in body["messages"] if each["role"] == "tool"]


def searches(provider: Provider) -> list[dict[str, Any]]:
    return [json.loads(each) for body in provider.bodies() for each in answers(body) if "loaded" in each]


async def test_a_tool_is_called_only_after_it_was_loaded_and_stays_loaded(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            provider.program(*STEPS)
            speech = await talk.say("ada", "hash abc", "tg:1")
            first, second, third, last = provider.bodies()
            assert "tool_search" in offered(first)
            assert "crypto_hash" not in offered(second)
            assert "is not loaded" in answers(second)[0]
            assert "crypto_hash" in offered(third)
            # The tools that were there before keep their place, so that a provider's cache holds longer.
            assert offered(third)[: len(offered(first))] == offered(first)
            assert "ba7816bf" in answers(last)[-1]
            run_id = speech.of("start")[0].run_id
        provider.program(*STEPS)
        replayed = daemon.cli("replay", run_id)
        assert replayed.returncode == 0, replayed.stderr
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            provider.program({"calls": [HASH]}, {"text": "Again."}, {"match": "summary", "text": "It was hashed."})
            await talk.say("ada", "once more", "tg:1")
            assert "ba7816bf" in answers(provider.bodies()[-1])[-1]
            assert daemon.cli("compact", "ada", "--as", "tg:1").returncode == 0
            await talk.say("ada", "and now", "tg:1")
            assert "crypto_hash" not in offered(provider.bodies()[-1])
            assert "tool_search" in offered(provider.bodies()[-1])
        found = " ".join(each["message"] for each in daemon.cli_json("doctor")["data"]["findings"])
        assert "found with tool_search" in found
    assert provider.faults() == []


async def test_a_number_of_tools_can_be_set_and_else_only_deferred_ones_are_searched_for(
    home: Home, provider: Provider
) -> None:
    home.write_config((home.path / "config.toml").read_text().replace("window = 8192", "window = 200000"))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "hello", "tg:1")
            everything = set(offered(provider.bodies()[-1]))
            assert {"exec", "fs_read", "crypto_hash", "task_create", "tool_search"} <= everything
            assert not {"cron_add", "graph_query", "ontology_assert_fact"} & everything
            home.write_config((home.path / "config.toml").read_text() + "[tool_search]\nmax_offered = 6\n")
            assert daemon.cli("reload").returncode == 0
            await talk.say("ada", "hello", "tg:1")
            assert len(offered(provider.bodies()[-1])) == 6
            assert "tool_search" in offered(provider.bodies()[-1])


async def test_a_teammate_finds_only_what_it_was_given(home: Home, provider: Provider) -> None:
    home.write_config(
        (home.path / "config.toml").read_text() + "[agent]\nmultiAgent = true\n[tool_search]\nmax_offered = 3\n"
    )
    spawn = call("agent_spawn", agent="operator", instruction="work", allowed_tools=["fs_read", "fs_list", "fs_stat"])
    provider.program(
        {"match": "^go", **spawn},
        {"match": "work$", **call("tool_search", query="exec run a command fs_stat")},
        {"match": "work$", "text": "Reported."},
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "go", "tg:1")
            await eventually(lambda: bool(searches(provider)))
    results = searches(provider)
    names = {tool["name"] for result in results for tool in result["loaded"]}
    assert names & {"fs_list", "fs_stat"}
    assert not [name for name in names if name.startswith(("exec", "fs_write"))]
