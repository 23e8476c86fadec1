"""`moot down` with something at work: what it waits for is named, and so is what it cut off."""

import asyncio

import pytest

from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import DaemonProcess, Home, LiveDaemon
from tests.scripting import call, say, script
from tests.terminal import terminal

CONFIG = PLAIN + '\n[security.interceptor]\nexempt_tools = ["exec", "exec_bg"]\nsensitive_tools = ["set_title"]\n'
SCRIPT = script(
    {
        "match": "^work",
        "steps": [call("exec_bg", command="sleep 601"), call("exec", command="sleep 100"), say("Done.")],
    },
    {"match": "^title", "steps": [call("set_title", title="One"), say("Done.")]},
    {"reply": "You said: {user}"},
)


async def at_work(daemon: LiveDaemon, *, how: str) -> str:
    """Stop the daemon while ada runs a command and bob waits for an approval; what the terminal or --json said."""
    home = daemon.home
    async with daemon.client() as talk:
        bob = talk.start("bob", "title")
        await bob.until("approval_opened")
        ada = talk.start("ada", "work")
        await ada.until("tool_start", count=2)
        if how == "json":
            done = await asyncio.to_thread(daemon.cli_json, "down", "--now")
            return ",".join(
                f"{name}={found['agent']}"
                for name in ("interrupted", "goes_on", "commands")
                for found in done["data"][name]
            )

        def watch() -> str:
            with terminal(home, "down", columns=80) as person:
                person.wait_for("Waiting up to 10 s for 1 run to finish: ada as user")
                person.wait_for("`moot down --now`")
                assert person.wait_for_exit(60) == 0
            return person.seen

        return await asyncio.to_thread(watch)


@pytest.mark.parametrize("how", ["json", "terminal"])
async def test_down_says_what_it_waits_for_and_what_was_cut_off(home: Home, how: str) -> None:
    daemon = DaemonProcess.start(home)
    try:
        said = await at_work(daemon, how=how)
    finally:
        daemon.terminate()
        daemon.reap()
    if how == "json":
        assert said == "interrupted=ada,goes_on=bob,commands=ada"
        return
    told = " ".join(said.split())
    assert "Stopped. Interrupted: ada as user (exec)." in told
    assert "Continues at the next start: bob as user" in told
    assert "Ended with it: $ sleep 601 & (ada as user)." in told


async def test_down_with_nothing_at_work_says_nothing_more(home: Home) -> None:
    daemon = DaemonProcess.start(home)
    async with daemon.client() as talk:
        await talk.say("ada", "hello")
    done = await asyncio.to_thread(daemon.cli, "down")
    assert done.stdout == "Stopped.\n"
    daemon.reap()
