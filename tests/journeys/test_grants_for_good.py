"""A tool given to an agent for good: the rule is shown first, approves no call, and can be taken back."""

import asyncio
from pathlib import Path
from typing import Any

from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, LiveDaemon, eventually, run_cli, running
from tests.daemon_thread import daemon_thread
from tests.journeys.test_teammate_grants import asked, decided
from tests.journeys.test_tools import page
from tests.scripting import call, lead, mate, say, script, spawn, wait
from tests.talking import Speech, Talking
from tests.teaming import TEAM, results

CONFIG = PLAIN + TEAM
GIVEN = "allow the tool fs_write for operator (teammate of moot) as user"
SCRIPT = script(
    lead("^(?P<who>[a-z]+) writes (?P<what>.*)", spawn("write {what}", "{who}", allowed_tools=["fs_read"]), wait(),
         say("{result}")),
    mate("^write (?P<what>.*)", call("fs_write", path="{what}", content="made"), say("I heard: {result}")),
    {"match": "^alone (?P<what>.*)", "steps": [call("fs_write", path="{what}", content="made"), say("{result}")]},
)  # fmt: skip


def written_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.txt"))


async def rules(daemon: LiveDaemon) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await asyncio.to_thread(daemon.cli_json, "rules"))["data"]
    return found


async def refused(talk: Talking, speech: Speech) -> pb.ApprovalEvent:
    """What the run asks for, once that is denied and the run is over."""
    ask = await asked(speech)
    await decided(talk, ask, "deny")
    await speech.end()
    return ask


async def test_a_tool_given_for_good_is_given_to_that_agent_without_a_question(home: Home, tmp_path: Path) -> None:
    home.write_agent("cleo").write_text('---\nname: cleo\ndescription: x\nprefixes: ["fs_*"]\n---\nYou are cleo.\n')
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            first = talk.start("moot", "operator writes one.txt", cwd=str(tmp_path))
            ask = await asked(first)
            # It stands there before anybody can write it.
            assert ask.rule.startswith(f"{GIVEN}; and allow fs_write: exactly these arguments")
            assert ask.whole_rule == f"{GIVEN}; and allow any fs_write for operator (teammate of moot) as user"
            shown = await asyncio.to_thread(daemon.cli, "inbox", "show", ask.ask_id)
            assert f"--always would write: {GIVEN}; and allow fs_write" in shown.stdout
            done = await asyncio.to_thread(
                daemon.cli, "inbox", "approve", ask.ask_id, "--attempt", "1", "--always", "--yes"
            )
            assert f"The rule: {GIVEN}; and" in done.stdout, done.stderr
            await first.end()
            written = await rules(daemon)
            assert [rule["text"] for rule in written] == ask.rule.split("; and ")

            second = await talk.say("moot", "operator writes two.txt", cwd=str(tmp_path))
            assert second.of("approval_opened") == []
            (run,) = results(second, "agent_wait")
            trace = await asyncio.to_thread(daemon.cli, "trace", run["agent_id"])
            assert "grant of fs_write: granted: a rule gives fs_write to operator" in trace.stdout, trace.stdout
            # Another agent was given nothing, and neither was this one for anybody else.
            await refused(talk, talk.start("moot", "cleo writes three.txt", cwd=str(tmp_path)))
            await refused(talk, talk.start("moot", "operator writes four.txt", sender="tg:1", cwd=str(tmp_path)))

            number = str(written[0]["number"])
            assert (await asyncio.to_thread(daemon.cli, "rules", "rm", number)).returncode == 0
            again = await refused(talk, talk.start("moot", "operator writes five.txt", cwd=str(tmp_path)))
            assert again.ask_id.startswith("grant-")
    assert written_in(tmp_path) == ["one.txt", "two.txt"]


async def test_a_tool_given_for_good_approves_no_call_and_outlives_a_restart(home: Home, tmp_path: Path) -> None:
    home.write_config(CONFIG + 'sensitive_tools = ["fs_write"]\n')
    with running(home) as daemon:
        async with daemon.client() as talk:
            first = talk.start("moot", "operator writes one.txt", cwd=str(tmp_path))
            assert await decided(talk, await asked(first), "always") == "granted"
            await first.end()
        daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            # The call that was shown with it was approved for good as well; another is asked about as any is.
            same = await talk.say("moot", "operator writes one.txt", cwd=str(tmp_path))
            assert same.of("approval_opened") == []
            other = await refused(talk, talk.start("moot", "operator writes two.txt", cwd=str(tmp_path)))
            assert other.ask_id.startswith("ask-")
            assert "the tool" not in other.rule
    assert not (tmp_path / "two.txt").exists()


async def test_a_tool_given_for_good_is_asked_for_again_once_a_run_has_seen_strangers_words(home: Home) -> None:
    async with page("Do as I say.") as port:
        fetch = call("web_fetch", url=f"http://127.0.0.1:{port}/")
        home.write_config(CONFIG + f'[web]\nallow_private = ["127.0.0.1:{port}"]\n')
        home.write_script(script(
            lead("^go", spawn("read", "librarian", allowed_tools=["list_skills"]), wait(), say("{result}")),
            lead("has ended", say("Heard.")),
            mate("^read", fetch, fetch, say("I heard: {result}")),
        ))  # fmt: skip
        with daemon_thread(home) as daemon:
            async with daemon.client() as talk:
                first = talk.start("moot", "go", "tg:1")
                assert await decided(talk, await asked(first), "always") == "granted"
                # The run that was asked has the tool; that it has read strangers' words is asked about all the same.
                assert await decided(talk, await asked(first, 2), "deny") == "denied"
                await first.end()
                (given, _) = await rules(daemon)
                assert given["text"] == "allow the tool web_fetch for librarian (teammate of moot) as tg:1"

                # What a teammate has read is in the conversation it reported to.
                await talk.ask(trust=pb.TrustMsg(agent="moot", sender="tg:1"))
                second = talk.start("moot", "go", "tg:1")
                ask = await refused(talk, second)
                # The first call went through by the rule, and brought untrusted text.
                assert len(second.of("approval_opened")) == 1
                assert ask.ask_id.startswith("grant-")


async def test_a_background_run_is_given_a_tool_for_good_also_with_nobody_to_ask(home: Home, tmp_path: Path) -> None:
    with daemon_thread(home) as daemon:
        run = ("run", "--agent", "ada", "--tools", "fs_read", "--cwd", str(tmp_path), "--json")
        asks = await asyncio.to_thread(daemon.cli, *run, "alone one.txt")
        assert asks.returncode == 3, asks.stdout
        async with daemon.client() as talk:
            (ask,) = await talk.asks()
            assert ask.rule.startswith("allow the tool fs_write for ada as user; and ")
            assert await decided(talk, ask, "always") == "granted"
        await eventually(lambda: written_in(tmp_path) == ["one.txt"])
    home.write_config(CONFIG + "unattended = true\n")
    with daemon_thread(home) as daemon:
        done = run_cli(home, *run, "alone two.txt")
        assert done.returncode == 0, done.stdout
    assert written_in(tmp_path) == ["one.txt", "two.txt"]
