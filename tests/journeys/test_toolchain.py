"""The programs of the caller's PATH in the commands of agents, from the command line to the sandbox."""

import json
from pathlib import Path
from typing import Any

import pytest

from moot.client import Moot
from moot.client.connection import connect
from moot.domain.errors import Forbidden
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, eventually, running
from tests.daemon_thread import daemon_thread
from tests.scripting import call, lead, mate, say, script, spawn, wait
from tests.teaming import TEAM, called

CONFIG = (PLAIN + TEAM).replace('tcp = "off"', 'tcp = "127.0.0.1:0"')
ANY = lead("^call (?P<tool>[a-z_]+) (?P<arguments>.*)", call("{tool}", "{arguments}"), say("{result}"))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A virtual environment outside of any working directory, activated."""
    folder = tmp_path / "envs" / "app"
    program = folder / "bin" / "greet"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho hello from $VIRTUAL_ENV\n")
    program.chmod(0o755)
    (folder / "pyvenv.cfg").write_text("")
    (folder / "pip.conf").write_text("canary")
    monkeypatch.setenv("PATH", f"{folder}/bin", prepend=":")
    return folder


def greeting(command: str) -> dict[str, Any]:
    return {"match": "^greet", "steps": [call("exec", command=command), say("{result}")]}


async def test_commands_use_the_programs_of_the_caller_and_a_token_cannot_choose_them(home: Home, place: Path) -> None:
    home.write_script(script(greeting(f"greet; cat {place}/pip.conf")))
    with daemon_thread(home) as daemon:
        asked = daemon.cli("ask", "operator", "greet")
        started = daemon.cli("run", "greet", "--agent", "operator")
        found = daemon.cli_json("doctor")["data"]["findings"]
        async with daemon.client() as talk:
            # A client that sends no path has the programs of the system.
            without = (await talk.say("operator", "greet", "tg:1")).text
            made = await talk.ask(new_token=pb.NewTokenMsg(name="phone"))
            address = (await talk.ask(get_stats=pb.GetStats())).stats.tcp
        async with connect(address, token=made.token_created.token) as phone:
            bin_folder = f"{place}/bin"
            for message in (
                pb.ClientMessage(stream=pb.StreamMsg(agent="moot", content="greet", search_path=bin_folder)),
                pb.ClientMessage(send=pb.SendMsg(agent="moot", content="greet", search_path=bin_folder)),
                pb.ClientMessage(start_run=pb.StartRunMsg(agent="moot", content="greet", search_path=bin_folder)),
            ):
                with pytest.raises(Forbidden, match="set the search path for programs"):
                    await phone.request(message)
    assert f"hello from {place}" in asked.stdout
    assert f"hello from {place}" in started.stdout
    assert "canary" not in asked.stdout + started.stdout
    assert "greet: command not found" in without
    told = " ".join(each["message"] for each in found if each["check"] == "toolchain")
    assert str(place) in told.partition("not change: ")[2]
    assert f"{place}/pip.conf" in told


def test_the_python_client_tells_a_local_daemon_its_folder_and_programs(
    home: Home, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    home.write_script(script(greeting("pwd; greet")))
    expected = f"{tmp_path}/work\nhello from {place}"
    with daemon_thread(home), Moot(home=home.path) as moot:
        assert expected in moot.ask("operator", "greet").text
        run = moot.start_run("greet", "operator")
        assert expected in moot.wait(run)[0].result
        assert f"{place}\nhello from {place}" in moot.ask("operator", "greet", cwd=str(place)).text


async def test_the_answer_to_a_late_result_has_the_folder_and_programs_of_its_turn(
    home: Home, place: Path, tmp_path: Path
) -> None:
    home.write_script(
        script(
            lead("^go", spawn("first"), say("Started.")),
            lead("first done", spawn("second"), wait(), say("{result}")),
            mate("^first", say("first done")),
            mate("^second", call("exec", command="pwd; greet"), say("{result}")),
        )
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "go", cwd=str(tmp_path), search_path=f"{place}/bin")

            def reported() -> str:
                return str(daemon.cli_json("history", "moot")["data"]["messages"][-1]["content"])

            answer = await eventually(lambda: text if "second" not in (text := reported()) and "hello" in text else "")
    assert f"{tmp_path}\\nhello from {place}" in answer


async def test_a_teammate_has_the_same_programs_also_after_a_restart(home: Home, place: Path, tmp_path: Path) -> None:
    home.write_script(script(lead("^go", spawn("work"), wait(), say("{result}")), ANY, mate("^work", hang=True)))
    with running(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "go", cwd=str(tmp_path), search_path=f"{place}/bin")
            run_id = str(json.loads((await speech.until("tool_result")).output)["agent_id"])
        daemon.kill_9()
    home.write_script(
        script(ANY, lead("has ended", say("Heard.")), mate("^work", call("exec", command="greet"), say("{result}")))
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            done = await called(talk, "", "agent_wait", agent_id=run_id)
    assert f"hello from {place}" in done["result"]


def test_the_toolchain_can_be_turned_off(home: Home, place: Path) -> None:
    home.write_script(script(greeting("greet")))
    home.write_config((home.path / "config.toml").read_text() + "[sandbox]\ntoolchain = false\n")
    with daemon_thread(home) as daemon:
        asked = daemon.cli("ask", "operator", "greet")
        home.write_config(
            (home.path / "config.toml").read_text().replace("= false\n", f'= false\nsearch_path = ["{place}/bin"]\n')
        )
        assert daemon.cli("reload").returncode == 0
        added = daemon.cli("ask", "operator", "greet")
    assert "greet: command not found" in asked.stdout
    assert f"hello from {place}" in added.stdout
