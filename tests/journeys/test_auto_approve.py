"""The auto-approve dial through a running daemon: what each level answers, what none does, and who turns it."""

import json
from pathlib import Path
from typing import Any

import pytest

from moot.domain.errors import BadRequest, Forbidden
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, LiveDaemon
from tests.daemon_thread import daemon_thread
from tests.journeys.test_modes import SCRIPT as SCRIPT  # noqa: PLC0414 - the fixture reads it
from tests.journeys.test_modes import decide, get_mode, holding, is_asked, set_mode
from tests.journeys.test_peers import allow
from tests.raw_client import tcp_address
from tests.scripting import call, lead, mate, say, script, spawn, wait
from tests.talking import Talking
from tests.teaming import TEAM
from tests.terminal import terminal

CONFIG = PLAIN.replace('tcp = "off"', 'tcp = "127.0.0.1:0"') + TEAM.replace('policy = "none"', 'mode = "ask"')
WRITE = 'fs_write {"path": "notes/a.txt", "content": "a"}'
MAKE = 'exec {"command": "echo made > made.txt"}'
LIST = 'fs_list {"path": "."}'


async def turn_dial(talk: Talking, level: str, agent: str = "ada", sender: str = "") -> pb.ModeInfo:
    return (await talk.ask(mode=pb.ModeMsg(agent=agent, sender=sender, auto_approve=level))).mode


def decisions(daemon: LiveDaemon, run_id: str) -> list[dict[str, Any]]:
    """What the trace of a run says about approvals."""
    trace = daemon.cli_json("trace", run_id)["data"]
    events = [event for event in trace["events"] if event["kind"] == "policy_decision"]
    return [json.loads(each["payload"]) if isinstance(each["payload"], str) else each["payload"] for each in events]


def list_tools(daemon: LiveDaemon, agent: str) -> set[str]:
    """The tools that `moot agents show` names in the levels of an agent."""
    levels = daemon.cli_json("agents", "show", agent)["data"]["levels"]
    return {tool for level in levels.values() for tool in level["tools"]}


async def test_a_level_answers_what_it_covers_and_nothing_that_always_asks(
    daemon: LiveDaemon, tmp_path: Path, sender: str
) -> None:
    (tmp_path / "folder").mkdir()
    async with daemon.client() as talk:
        assert (await get_mode(talk, sender=sender)).auto_approve == "none"
        assert await is_asked(talk, WRITE, sender, tmp_path) == "it is dangerous"
        found = await turn_dial(talk, "edits", sender=sender)
        assert (found.auto_approve, found.has_own_level, found.mode) == ("edits", True, "ask")
        speech = await talk.say("ada", WRITE, sender, cwd=str(tmp_path))
        assert speech.of("approval_opened") == []
        assert (tmp_path / "notes/a.txt").read_text() == "a"
        # It is in the trace who approved, and what would have been asked.
        (started,) = speech.of("start")
        (noted,) = decisions(daemon, started.run_id)
        assert (noted["by"], noted["state"], noted["tool"]) == ("auto_approve: edits", "granted", "fs_write")
        assert noted["reason"] == "it is dangerous"
        assert "auto_approve: edits" in daemon.cli("trace", started.run_id).stdout
        assert await is_asked(talk, MAKE, sender, tmp_path) == "it is dangerous"
        await turn_dial(talk, "commands", sender=sender)
        assert not await is_asked(talk, MAKE, sender, tmp_path)
        assert (tmp_path / "made.txt").exists()
        always = (
            'fs_write {"path": ".git/config", "content": "x"}',
            'fs_delete {"path": "folder"}',
            'exec {"command": "rm -rf folder"}',
            'exec {"command": "git reset --hard"}',
            'secrets_store {"name": "api", "value": "canary-81f5"}',
        )
        for text in always:
            assert await is_asked(talk, text, sender, tmp_path), text
        # What the run has read may have chosen the file.
        meta = {"agent": "ada", "created_by": "tainted", "title": "", "uptime_secs": 0}
        line = {"role": "user", "content": "hello", "sender": "tainted"}
        jsonl = "\n".join(json.dumps(each) for each in (meta | {"created_at": "2026-01-01T00:00:00Z"}, line)) + "\n"
        await talk.import_(jsonl, agent="ada", sender="tainted")
        await turn_dial(talk, "commands", sender="tainted")
        assert await is_asked(talk, WRITE, "tainted", tmp_path) == "it is dangerous"
    assert (tmp_path / "folder").exists()


async def test_an_agent_states_a_level_and_a_person_overrules_it(home: Home, tmp_path: Path) -> None:
    allow(home, "ada", "auto_approve: true")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            found = await get_mode(talk)
            assert (found.auto_approve, found.has_own_level) == ("edits", False)
            assert not await is_asked(talk, WRITE, "", tmp_path)
            assert await is_asked(talk, MAKE, "", tmp_path)
            # A mode that was set for the conversation counts more than what the agent states.
            assert (await set_mode(talk, "ask")).auto_approve == "none"
            assert await is_asked(talk, WRITE, "", tmp_path)
            assert (await turn_dial(talk, "reads")).auto_approve == "reads"
            assert await is_asked(talk, WRITE, "", tmp_path)
            await set_mode(talk, "plan")
            await turn_dial(talk, "commands")
            speech = await talk.say("ada", WRITE, cwd=str(tmp_path))
            assert "mode plan" in speech.of("tool_result")[0].output
            await set_mode(talk, "")
            # A waiting call keeps waiting when the dial is turned.
            await turn_dial(talk, "none")
            speech = talk.start("ada", MAKE, cwd=str(tmp_path))
            ask = await speech.until("approval_opened")
            await turn_dial(talk, "commands")
            assert [each.ask_id for each in await talk.asks()] == [ask.ask_id]
            await decide(talk, ask, "deny")
            await speech.end()
            # A reload of the file applies from the next call on.
            allow(home, "bob", "auto_approve: commands")
            daemon.cli("reload")
            assert (await get_mode(talk, "bob")).auto_approve == "commands"
        shown = daemon.cli("agents", "show", "bob").stdout
        assert "auto-approve commands" in shown
        assert "* commands edits, and ordinary sandboxed commands without network access: exec" in shown
        levels = daemon.cli_json("agents", "show", "bob")["data"]["levels"]
        assert "fs_read" in levels["reads"]["tools"]
        assert {"fs_write", "fs_edit"} < set(levels["edits"]["tools"])
        assert not any("secrets_get" in each["tools"] or "web_fetch" in each["tools"] for each in levels.values())
        # Only tools that the agent has: a worker directs and messages nobody, and only an assistant messages you.
        others = {"list_peers", "send_to_peer", "wait_for_peer"}
        assert others <= list_tools(daemon, "bob")
        assert not {"send_message_to_worker", "send_user_message", "agent_escalate"} & list_tools(daemon, "bob")
        allow(home, "cyd", "role: worker")
        assert not {*others, "agent_spawn", "send_message_to_worker", "send_user_message"} & list_tools(daemon, "cyd")
        done = daemon.cli("mode", "ada", "--auto-approve", "edits")
        assert "auto-approve edits: reads, edits below the working directory" in done.stdout
    # It is stored with the conversation.
    with daemon_thread(home) as daemon:
        assert daemon.cli_json("mode", "ada")["data"]["auto_approve"] == "edits"
        assert daemon.cli_json("mode", "ada", "--auto-approve", "default")["data"]["has_own_level"] is False
        allow(home, "cyd", "auto_approve: everything")
        broken = daemon.cli("agents", "validate")
        assert (
            "`auto_approve` must be one of none, reads, edits, commands, true or false" in broken.stdout + broken.stderr
        )


async def test_only_the_owner_turns_it_and_teammates_get_no_more(daemon: LiveDaemon, tmp_path: Path) -> None:
    token = str(daemon.cli_json("tokens", "new", "phone", "--may-approve")["data"]["token"])
    async with daemon.client() as talk, holding(tcp_address(daemon), token) as phone:
        with pytest.raises(Forbidden):
            await turn_dial(phone, "reads")
        with pytest.raises(BadRequest, match="not a level"):
            await turn_dial(talk, "all")
        events = await talk.connection.subscribe()
        await turn_dial(talk, "commands", "moot", "teams")
        while (event := await anext(events)).kind != pb.MODE_CHANGED:
            pass
        assert (event.body.mode_changed.mode, event.body.mode_changed.auto_approve) == ("ask", "commands")
        # A teammate has the level of the conversation it works for, in its own scope.
        speech = await talk.say("moot", "delegate", "teams", cwd=str(tmp_path))
        assert speech.of("approval_opened") == []
        assert (tmp_path / "made.txt").exists()
        await turn_dial(talk, "edits", "moot", "teams")
        speech = talk.start("moot", "delegate", "teams", cwd=str(tmp_path))
        await decide(talk, await speech.until("approval_opened"), "deny")
        await speech.end()
        # So has a background run.
        await turn_dial(talk, "commands", sender="backs")
        start = pb.StartRunMsg(agent="ada", content=MAKE, sender="backs", cwd=str(tmp_path / "backs"))
        (tmp_path / "backs").mkdir()
        run_id = (await talk.ask(start_run=start)).run.run_id
        (run,) = (await talk.ask(wait_runs=pb.WaitRunsMsg(run_ids=[run_id], seconds=30))).run_list.runs
        assert run.outcome == "completed"
    assert (tmp_path / "backs/made.txt").exists()


TEAMMATES = """---
name: {name}
description: makes things
prefixes: [exec]
auto_approve: {level}
---
Make what you are asked for."""


async def test_a_teammate_of_a_file_keeps_a_stricter_level_and_gets_no_wider_one(home: Home, tmp_path: Path) -> None:
    levels = {"careful": "none", "bold": "commands"}
    for name, level in levels.items():
        (home.path / "agents" / name).mkdir()
        (home.path / "agents" / name / "AGENT.md").write_text(TEAMMATES.format(name=name, level=level))
    rules = [lead(f"^delegate to {name}", spawn("make", agent=name), wait(), say("{result}")) for name in levels]
    home.write_script(script(*rules, mate("^make", call("exec", command="echo made >> made.txt"), say("{result}"))))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            for name in levels:
                for own in ("", "none", "edits", "commands"):
                    sender = f"{name}-{own}"
                    await turn_dial(talk, own, "moot", sender)
                    speech = talk.start("moot", f"delegate to {name}", sender, cwd=str(tmp_path))
                    if (name, own) == ("bold", "commands"):
                        await speech.end()
                        assert speech.of("approval_opened") == []
                        continue
                    # What a teammate states gives it nothing that the conversation does not have.
                    await decide(talk, await speech.until("approval_opened"), "deny")
                    await speech.end()
    assert (tmp_path / "made.txt").read_text() == "made\n"


async def test_it_answers_the_policy_all_too(home: Home, tmp_path: Path) -> None:
    config = home.path / "config.toml"
    config.write_text(
        config.read_text().replace('mode = "ask"', 'mode = "ask"\npolicy = "all"\nsensitive_tools = ["fs_stat"]')
    )
    allow(home, "ada", "auto_approve: reads")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert not await is_asked(talk, LIST, "", tmp_path)
            assert await is_asked(talk, WRITE, "", tmp_path) == "every tool needs approval"
            assert "always need approval" in await is_asked(talk, 'fs_stat {"path": "."}', "", tmp_path)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_chat_shows_and_sets_it(daemon: LiveDaemon, sender: str, columns: int) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, columns=columns) as person:
        person.wait_on_screen("mode ask")
        person.enter("/auto-approve edits")
        person.wait_on_screen("auto-approve edits: reads, edits below the working")
        person.wait_on_screen("mode ask · auto-approve edits")
        person.enter("/auto-approve default")
        person.wait_off_screen("mode ask · auto-approve")
        person.enter("/quit")
        assert person.wait_for_exit() == 0
