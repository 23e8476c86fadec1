"""A rule that a teammate's call led to holds for that teammate alone, and says so wherever it is shown."""

import asyncio
from pathlib import Path

from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, running
from tests.daemon_thread import daemon_thread
from tests.journeys.test_teammate_grants import asked, decided
from tests.scripting import call, lead, mate, say, script, spawn, wait
from tests.talking import Talking
from tests.teaming import TEAM

CONFIG = PLAIN + TEAM.replace('policy = "none"', 'policy = "dangerous"')
WRITE = call("fs_write", path="a.txt", content="made\n")
SCRIPT = script(
    lead("^(?P<who>[a-z]+) through (?P<over>[a-z]+)", spawn("pass {who}", "{over}"), wait(), say("{result}")),
    lead("^(?P<who>[a-z]+) writes", spawn("write", "{who}"), wait(), say("{result}")),
    mate("^pass (?P<who>[a-z]+)", spawn("write", "{who}"), wait(), say("{result}")),
    mate("^write", WRITE, say("{result}")),
    {"match": "^write", "steps": [WRITE, say("{result}")]},
)
HOLDER = "cleo (teammate of moot) as user"


def write_agents(home: Home) -> None:
    for name in ("cleo", "dora"):
        home.write_agent(name).write_text(
            f'---\nname: {name}\ndescription: writes\nprefixes: ["fs_*"]\n---\nYou are {name}.\n'
        )


async def is_asked(talk: Talking, agent: str, content: str, cwd: Path, sender: str = "") -> bool:
    """Whether the call of a.txt is asked about; it is then denied."""
    speech = talk.start(agent, content, sender, cwd=str(cwd))
    await speech.until("tool_start")
    try:
        ask = await speech.until("approval_opened")
    except AssertionError:
        return False
    await decided(talk, ask, "deny")
    await speech.end()
    return True


async def test_a_rule_for_a_teammate_holds_for_no_other_agent(home: Home, tmp_path: Path) -> None:
    write_agents(home)
    with running(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "cleo writes", cwd=str(tmp_path))
            ask = await asked(speech)
            assert ask.rule.startswith("allow fs_write: exactly these arguments (sha256 ")
            assert ask.rule.endswith(f" for {HOLDER}")
            assert ask.whole_rule == f"allow any fs_write for {HOLDER}"
            assert await decided(talk, ask, "always") == "granted"
            await speech.end()
            (tmp_path / "a.txt").unlink()
        daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert not await is_asked(talk, "moot", "cleo writes", tmp_path)
            (tmp_path / "a.txt").unlink()
            # Another teammate, the same one spawned by another agent, and the agent itself as a primary.
            assert await is_asked(talk, "moot", "dora writes", tmp_path)
            assert await is_asked(talk, "moot", "cleo through dora", tmp_path)
            assert await is_asked(talk, "cleo", "write", tmp_path)
            assert await is_asked(talk, "moot", "cleo writes", tmp_path, "tg:1")
            (rule,) = (await asyncio.to_thread(daemon.cli_json, "rules"))["data"]
            assert (rule["agent"], rule["sender"], rule["teammates"]) == ("moot", "user", ["cleo"])
            assert rule["text"] == ask.rule
            assert HOLDER in (await asyncio.to_thread(daemon.cli, "rules")).stdout


async def test_a_rule_for_an_agent_does_not_hold_for_its_teammates(home: Home, tmp_path: Path) -> None:
    write_agents(home)
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            first = talk.start("moot", "cleo through dora", cwd=str(tmp_path))
            ask = await asked(first)
            assert ask.whole_rule == "allow any fs_write for cleo (teammate of moot → dora) as user"
            await decided(talk, ask, "always")
            await first.end()
            (tmp_path / "a.txt").unlink()
            assert await is_asked(talk, "moot", "cleo writes", tmp_path)
            assert await is_asked(talk, "moot", "dora writes", tmp_path)
            assert not await is_asked(talk, "moot", "cleo through dora", tmp_path)
            (tmp_path / "a.txt").unlink()
            # The same call of the agent itself, where a person talks to it.
            own = talk.start("cleo", "write", cwd=str(tmp_path))
            assert (ask := await asked(own)).whole_rule == "allow any fs_write for cleo as user"
            await decided(talk, ask, "always")
            await own.end()
            (tmp_path / "a.txt").unlink()
            assert not await is_asked(talk, "cleo", "write", tmp_path)
            (tmp_path / "a.txt").unlink()
            assert await is_asked(talk, "moot", "cleo writes", tmp_path)
    # What an earlier version wrote was shown for the agent itself, whoever had asked.
    home.change("UPDATE rules SET agent = 'moot', teammates = NULL")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert await is_asked(talk, "moot", "cleo through dora", tmp_path)
            shown = (await asyncio.to_thread(daemon.cli_json, "rules"))["data"]
            assert {rule["text"].rpartition(" for ")[2] for rule in shown} == {"moot as user"}
