"""The inbox on a terminal: three lines for each thing that waits, and a number that names what was seen."""

import asyncio
import shlex
import sys
from collections.abc import Sequence

from tests.daemon_process import PROVIDER_CONFIG, Home
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.talking import Speech, Talking
from tests.terminal import terminal

CONFIG = (
    PROVIDER_CONFIG
    + """
[security.interceptor]
sensitive_tools = ["set_title"]
"""
)

LONG = "A title that is much too long for one line of a terminal " * 3


def naming(title: str) -> dict[str, object]:
    return {"calls": [{"name": "set_title", "arguments": {"title": title}}]}


def at_a_terminal(home: Home, *lines: Sequence[str], allowed: int = 0) -> str:
    """What one terminal of eighty columns shows of some commands, one after the other; so many calls are allowed."""
    moot = shlex.join([sys.executable, "-m", "moot"])
    script = "; ".join(f"{moot} {shlex.join(line)} || echo exit=$?" for line in lines)
    with terminal(home, script, columns=80, command=("/bin/sh", "-c")) as person:
        for _ in range(allowed):
            person.wait_for("Allow it?")
            person.type("y\n")
        assert person.wait_for_exit() == 0
    return person.seen


async def two_wait(talk: Talking, provider: Provider) -> tuple[Speech, Speech]:
    provider.program({"match": "first", **naming(LONG)}, {"match": "first", "text": "One."})
    provider.program({"match": "second", **naming("Short")}, {"match": "second", "text": "Two."})
    first = talk.start("ada", "first")
    await first.until("approval_opened")
    second = talk.start("bob", "second")
    await second.until("approval_opened")
    return first, second


async def test_what_waits_is_listed_in_what_fits_and_decided_by_its_number(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            first, second = await two_wait(talk, provider)
            shown = await asyncio.to_thread(at_a_terminal, home, ["inbox"], ["inbox", "show", "1"])
            listed, _, whole = shown.partition("deny N\n")
            assert all(len(line) <= 80 for line in listed.splitlines()), listed
            entry = listed.splitlines()
            assert entry[0].startswith(" 1  title the conversation A title that is")
            assert entry.count("    why: it is in the list of tools that always need approval") == 2
            at = entry.index("    why: it is in the list of tools that always need approval")
            assert entry[at + 1].startswith("    ada as user, until ")
            assert entry[at + 3].startswith(" 2  title the conversation Short")
            assert "Show one in full with: moot inbox show N" in listed
            assert LONG.strip() in " ".join(whole.split())
            # The second is still number 2 once the first is decided, as long as nothing was listed anew.
            commands = [["inbox"], ["inbox", "approve", "1"], ["inbox", "deny", "2"], ["inbox", "approve", "2"]]
            done = await asyncio.to_thread(at_a_terminal, home, *commands, allowed=1)
            assert "Allowed once" in done
            assert "Denied" in done
            assert "number 2 of the last list is no longer open" in done
            assert "exit=6" in done
            assert [(await each.end()).of("approval_closed")[0].state for each in (first, second)] == [
                "granted",
                "denied",
            ]


async def test_a_number_means_nothing_where_nothing_was_listed(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            first, second = await two_wait(talk, provider)
            # What a script reads is as it was, has ids and no numbers, and counts nothing.
            plain = (await asyncio.to_thread(daemon.cli, "inbox")).stdout
            assert plain.startswith("ID ")
            await asyncio.to_thread(at_a_terminal, home, ["inbox"])
            elsewhere = await asyncio.to_thread(at_a_terminal, home, ["inbox", "approve", "1"])
            assert "no list was shown in this terminal" in elsewhere
            noted = [path for path in (home.path / "run").rglob("*") if path.is_file()]
            assert {path.suffix: path.stat().st_mode & 0o777 for path in noted} == {".pid": 0o600, ".json": 0o600}
            assert "exit=2" in elsewhere
            outside = await asyncio.to_thread(at_a_terminal, home, ["inbox"], ["inbox", "approve", "3"])
            assert "the last list has no number 3" in outside
            assert len(await talk.asks()) == 2
            for agent, speech in (("ada", first), ("bob", second)):
                await talk.kill(agent)
                await speech.end()


async def test_a_list_in_another_terminal_leaves_the_numbers_of_this_one(home: Home, provider: Provider) -> None:
    """Several terminals are remembered, each with what it showed, and the oldest are forgotten."""
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            provider.program({"match": "first", **naming("First")}, {"match": "first", "text": "One."})
            first = talk.start("ada", "first")
            await first.until("approval_opened")
            moot = shlex.join([sys.executable, "-m", "moot"])
            script = f"{moot} inbox; read next; {moot} inbox show 1; {moot} inbox show 2 || echo exit=$?"
            with terminal(home, script, columns=80, command=("/bin/sh", "-c")) as person:
                await asyncio.to_thread(person.wait_for, "deny N")
                provider.program({"match": "second", **naming("Second")}, {"match": "second", "text": "Two."})
                second = talk.start("bob", "second")
                await second.until("approval_opened")
                elsewhere = await asyncio.to_thread(at_a_terminal, home, ["inbox"], ["inbox", "show", "2"])
                assert "Second" in elsewhere.partition("deny N")[2]
                person.type("go\n")
                assert await asyncio.to_thread(person.wait_for_exit) == 0
            after = person.seen.partition("deny N")[2]
            assert "no list was shown" not in after
            assert "First" in after
            assert "the last list has no number 2" in after
            for agent, speech in (("ada", first), ("bob", second)):
                await talk.kill(agent)
                await speech.end()
