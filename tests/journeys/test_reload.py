"""Files a person edits while the daemon runs: what is good counts from now on, what is broken changes nothing."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from moot.domain.errors import NotFound
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, call_cli, eventually, running, spawn
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.talking import Talking

CONFIG = PROVIDER_CONFIG
KEY = "canary-5f2c9e71d04b"
LEAKING = f'''
from moot.tools import tool


@tool(safety="safe")
async def look() -> str:
    """Look."""
    return "the key is {KEY}"
'''


def config_of(home: Home) -> Path:
    return home.path / "config.toml"


async def reloaded(talk: Talking) -> pb.Reloaded:
    return (await talk.ask(reload=pb.ReloadMsg())).reloaded


def system(body: dict[str, Any]) -> str:
    return str(body["messages"][0]["content"])


async def test_a_good_configuration_counts_from_the_reload_on(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "one")
            text = config_of(home).read_text()
            home.write_config(text.replace('default_model = "fake"', 'default_model = "claude"'))
            await talk.say("ada", "two")
            told = await reloaded(talk)
            assert list(told.flaws) == []
            assert list(told.changed) == ["default_model"]
            assert (await talk.say("ada", "three")).ended.provider == "anthropic"
    assert [request["path"] for request in provider.requests()] == [
        "/v1/chat/completions",
        "/v1/chat/completions",
        "/v1/messages",
    ]


async def test_a_key_that_only_the_new_configuration_names_is_hidden_before_it_is_used(
    home: Home, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATE_KEY", KEY)
    (home.path / "tools").mkdir()
    (home.path / "tools" / "tools.py").write_text(LEAKING)
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            text = config_of(home).read_text()
            home.write_config(text.replace('model = "c"\n', 'model = "c"\napi_key = "env:LATE_KEY"\n'))
            assert list((await reloaded(talk)).flaws) == []
            provider.program({"match": "look", "calls": [{"name": "look", "arguments": {}}], "then": {"text": "Ok."}})
            (result,) = (await talk.say("ada", "look")).of("tool_result")
    assert result.output.startswith("the key is ")
    assert KEY not in result.output
    assert KEY not in json.dumps(provider.bodies())


async def test_a_broken_configuration_is_told_with_its_line_and_the_last_good_one_stays(
    home: Home, provider: Provider
) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            good = config_of(home).read_text()
            home.write_config('default_model = "nowhere"\n' + good.replace('default_model = "fake"\n', ""))
            (flaw,) = (await reloaded(talk)).flaws
            assert flaw.startswith(f"{config_of(home)}:1: ")
            assert "nowhere" in flaw
            assert (await talk.say("ada", "one")).outcome == "completed"
            done = daemon.cli("reload", "--json")
            assert done.returncode == 78
            assert daemon.cli("status", "--json").returncode == 78
            home.write_config("this is not TOML")
            assert ":1: " in (await reloaded(talk)).flaws[0]
            assert (await talk.say("ada", "two")).outcome == "completed"
            home.write_config(good)
            assert list((await reloaded(talk)).flaws) == []
            assert daemon.cli("reload", "--json").returncode == 0


async def test_a_file_of_another_editor_is_read_and_edited(home: Home) -> None:
    file = config_of(home)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert list((await reloaded(talk)).flaws) == []
        added = daemon.cli("mcp", "add", "zoo", "--no-test", "--", "/bin/true")
        assert added.returncode == 0, added.stderr
        assert "[mcp.zoo]" in file.read_text()


async def test_a_reload_says_what_has_changed(home: Home) -> None:
    with daemon_thread(home) as daemon:
        assert daemon.cli("reload").stdout.endswith(" agents loaded. Configuration and agents are unchanged.\n")
        home.write_config(config_of(home).read_text() + "\n[sandbox]\nbackground_jobs = 3\n")
        home.write_agent("dee")
        home.write_agent("ada", "You are another ada.")
        said = daemon.cli("reload").stdout
        assert "Configuration changed: sandbox.\n" in said
        assert "Agents changed: ada (changed), dee (new).\n" in said
        home.write_config(config_of(home).read_text().replace("background_jobs = 3", "background_jobs = 4"))
        assert daemon.cli_json("reload")["data"]["changed"] == ["sandbox.background_jobs"]


async def test_a_hangup_signal_reloads_too(home: Home, provider: Provider) -> None:
    with running(home) as daemon:
        async with daemon.client() as talk:
            text = config_of(home).read_text()
            home.write_config(text.replace('default_model = "fake"', 'default_model = "claude"'))
            daemon.process.send_signal(signal.SIGHUP)

            async def changed() -> bool:
                return (await talk.ask(get_stats=pb.GetStats())).stats.active_model == "claude"

            await eventually(changed)


async def test_a_run_in_flight_keeps_the_model_it_began_with(home: Home, provider: Provider) -> None:
    provider.program({"match": "^one$", "text": "all said", "batch": 3, "stall_after": 3})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "one")
            await speech.until("chunk")
            text = config_of(home).read_text()
            home.write_config(text.replace('default_model = "fake"', 'default_model = "claude"'))
            await reloaded(talk)
            assert (await talk.say("bob", "two")).ended.provider == "anthropic"
            provider.release()
            assert (await speech.end()).text == "all said"


async def test_a_daemon_without_a_good_configuration_does_not_start(home: Home) -> None:
    home.write_config("[models.x]\nprovider = 'openai'\napi_key = 'sk-in-clear-text'\n")
    refused = spawn(home)
    out, complaint = refused.communicate(timeout=30)
    assert refused.returncode == 78
    assert out == ""
    assert f"{config_of(home)}:3" in complaint
    assert "Traceback" not in complaint
    assert "sk-in-clear-text" not in complaint


async def test_an_edited_agent_speaks_by_its_new_instruction(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "one")
            home.write_agent("ada", "You are ada, and now you rhyme.")

            async def rhymes() -> bool:
                provider.reset()
                await talk.say("ada", "next")
                return "now you rhyme" in system(provider.bodies()[0])

            await eventually(rhymes)
            # Nothing of the conversation was lost over it.
            assert (await talk.told("ada"))[0] == ("user", "", "one")


async def test_a_new_agent_is_there_with_the_first_message(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            with pytest.raises(NotFound):
                await talk.say("zoe", "hello")
            home.write_agent("zoe")
            assert (await talk.say("zoe", "hello")).ended.agent == "zoe"
            assert (await talk.say("ada", "Zoe?", guest="zoe")).ended.agent == "zoe"


async def test_a_broken_agent_keeps_its_last_good_definition_and_is_told(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            path = home.write_agent("ada")
            path.write_text("---\nname: ada\ndescription: [unclosed\n---\nhello\n")
            agents = (await talk.ask(list_agents=pb.ListAgentsMsg())).agent_list.agents
            (flawed,) = [agent for agent in agents if agent.flaw]
            assert flawed.flaw.startswith(f"{path}:")
            await talk.say("ada", "hello")
            assert "You are ada." in system(provider.bodies()[0])
            assert (await talk.say("bob", "hello")).outcome == "completed"
            assert call_cli(home, "status", "--json").returncode == 78


async def test_a_removed_agent_keeps_its_past(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("cyd", "hello")
            path = home.path / "agents" / "cyd" / "AGENT.md"
            path.unlink()
            path.parent.rmdir()
            await reloaded(talk)
            with pytest.raises(NotFound):
                await talk.say("cyd", "still there?")
            assert len(await talk.told("cyd")) == 2
            assert "hello" in await talk.export("cyd")


async def test_an_agent_may_name_its_model(home: Home, provider: Provider) -> None:
    home.write_agent("ada", model="claude")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.say("ada", "hello")).ended.provider == "anthropic"
            assert (await talk.say("bob", "hello")).ended.provider == "openai"
    assert provider.faults() == []


async def test_what_counts_from_the_next_start_on_is_named(home: Home, tmp_path: Path) -> None:
    text = config_of(home).read_text()
    changed = text + f'[agent]\nforeignDirs = ["{tmp_path}"]\nmaxDepth = 1\n[vault]\ndecrypted_seconds = 60\n'
    with daemon_thread(home) as daemon:
        assert daemon.cli_json("reload")["data"]["restart"] == []
        home.write_config(changed)
        done = daemon.cli("reload")
        assert done.returncode == 0
        assert "Needs a restart (moot down, moot up): vault.decrypted_seconds, agent.foreignDirs." in done.stderr
        assert daemon.cli_json("reload")["data"]["restart"] == ["vault.decrypted_seconds", "agent.foreignDirs"]
        # What stands as it stood at the start needs none.
        home.write_config(text)
        assert daemon.cli("reload").stderr == ""
