"""Everything that ran, from the command line: turns too, the last ones last, and as many as wanted."""

import asyncio
from typing import Any

from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, LiveDaemon
from tests.daemon_thread import daemon_thread
from tests.raw_client import raw
from tests.scripting import lead, mate, say, script, spawn, wait

CONFIG = PLAIN + "\n[agent]\nmultiAgent = true\n"
SCRIPT = script(
    lead("^hand it on", spawn("work"), wait(), say("It said: {result}")),
    mate("^work", say("done")),
    {"match": "^fail", "error": "the model is out"},
    {"reply": "You said: {user}"},
)


async def listed(daemon: LiveDaemon, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await asyncio.to_thread(daemon.cli_json, "ps", *options))["data"]
    return found


async def test_all_that_ended_is_listed_with_turns_and_the_newest_last(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "one")
            await talk.say("ada", "two", guest="bob")
            await talk.say("moot", "hand it on")
            await talk.say("ada", "fail")
        done = await asyncio.to_thread(daemon.cli, "run", "three")
        assert done.returncode == 0, done.stderr
        everything = await listed(daemon, "-a")
        assert [(run["kind"], run["agent"], run["instruction"], run["outcome"]) for run in everything] == [
            ("turn", "ada", "one", "completed"),
            ("turn", "bob", "two", "completed"),
            ("turn", "moot", "hand it on", "completed"),
            ("teammate", "operator", "work", "completed"),
            ("turn", "ada", "fail", "model_error"),
            ("background", "moot", "three", "completed"),
        ]
        assert everything[0]["result"] == "You said: one"
        assert (await listed(daemon)) == []
        nested = await listed(daemon, "-a", "--tree")
        assert [len(run["children"]) for run in nested] == [0, 0, 1, 0, 0]
        # What is left out is said, where a person reads it.
        few = await asyncio.to_thread(daemon.cli, "ps", "--limit", "2")
        assert [line.split()[2] for line in few.stdout.splitlines()[1:]] == ["ada", "moot"]
        assert "Older runs are not shown" in few.stderr
        assert [run["instruction"] for run in await listed(daemon, "-a", "-n", "2")] == ["fail", "three"]
        all_of_them = await asyncio.to_thread(daemon.cli, "ps", "-a")
        assert "Older" not in all_of_them.stderr


async def test_a_token_lists_what_ended_of_its_own_however_much_came_after(home: Home) -> None:
    home.write_config(CONFIG.replace('tcp = "off"', 'tcp = "127.0.0.1:0"'))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk, raw(daemon) as bot:
            token = (await talk.ask(new_token=pb.NewTokenMsg(name="bot"))).token_created.token
            await bot.ask(pb.ClientMessage(hello=pb.Hello(version=1, token=token)))
            await bot.ask(pb.ClientMessage(send=pb.SendMsg(agent="ada", content="mine")))
            for number in range(3):
                await talk.say("ada", f"theirs {number}")
            found = await bot.ask(pb.ClientMessage(list_runs=pb.ListRunsMsg(all=True, limit=1)))
            assert [(run.instruction, run.root_sender) for run in found.run_list.runs] == [("mine", "bot")]
            assert not found.run_list.more
            found = await talk.ask(list_runs=pb.ListRunsMsg(all=True, limit=1))
            assert [run.instruction for run in found.run_list.runs] == ["theirs 2"]
            assert found.run_list.more
