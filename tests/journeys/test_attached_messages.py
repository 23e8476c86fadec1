"""A background run is a goal with an inbox: who attaches can write to it, leave it, and find it after a crash."""

import asyncio
from pathlib import Path
from typing import Any

from tests.daemon_process import PROVIDER_CONFIG, Home, eventually, running
from tests.fake_provider import Provider
from tests.journeys.test_peers import call, said
from tests.terminal import terminal

CONFIG = PROVIDER_CONFIG


async def test_a_line_typed_while_attached_is_read_by_the_run_also_after_a_crash(
    home: Home, provider: Provider
) -> None:
    provider.program({"hold": True, **call("list_peers")})
    with running(home) as daemon:
        done = await asyncio.to_thread(daemon.cli_json, "run", "--bg", "--agent", "bob", "count the links in docs")
        run_id = done["data"]["run_id"]
        await asyncio.to_thread(provider.requests, 1)
        daemon.process.kill()
        daemon.process.wait(60)
    provider.program({"hold": True, **call("list_peers")}, {"text": "Stopped at noon."})
    with running(home) as daemon:
        await asyncio.to_thread(provider.requests, 2)

        async def cli(*words: str) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = (await asyncio.to_thread(daemon.cli_json, *words))["data"]
            return found

        # Both lists have the run, with its task.
        (goal,) = await cli("goals", "bob")
        (run,) = await cli("ps")
        assert (goal["kind"], goal["state"], goal["owner"]) == ("background", "running", "user")
        assert goal["label"] == run["instruction"] == "count the links in docs"
        assert (run["run_id"], run["sender"]) == (run_id, goal["sender"])
        for _ in range(2):
            # Leaving does not stop it.
            with terminal(home, "attach", run_id[:13], columns=60) as person:
                person.wait_for("press Enter")
                person.type("\x03")
                person.wait_for("Detached. The run continues.")
                assert person.wait_for_exit() == 130
                assert "^C" not in person.rows.text
        with terminal(home, "attach", run_id[:13], columns=80) as person:
            person.wait_for("press Enter")
            person.enter("  ")
            person.enter("stop at noon")
            person.wait_for("Sent. It is read at the next step.")
            assert (await cli("goals", "bob"))[0]["unread"] == 1
            await asyncio.to_thread(provider.release)
            person.wait_for("✉ @user → bob: stop at noon")
            person.wait_for("Stopped at noon.")
            assert person.wait_for_exit() == 0
        read = said(provider.bodies()[-1])
        assert read.count('<peer-message from="@user"') == 1
        assert "stop at noon" in read
        assert await cli("goals", "bob") == []
        assert await eventually(lambda: home.query("SELECT 1 FROM runs WHERE id = ? AND status = 'ended'", run_id))
        assert provider.faults() == []


async def test_a_line_typed_before_an_approval_appears_is_no_answer_to_it(home: Home, provider: Provider) -> None:
    write = call("fs_write", path="a.txt", content="a")
    provider.program({"hold": True, **write}, {"text": "Denied, then."})
    with running(home) as daemon:
        done = await asyncio.to_thread(daemon.cli_json, "run", "--bg", "--agent", "bob", "write it")
        await asyncio.to_thread(provider.requests, 1)
        with terminal(home, "attach", done["data"]["run_id"]) as person:
            person.wait_for("press Enter")
            # Half a line, not entered yet.
            person.type("o")
            await asyncio.to_thread(provider.release)
            person.wait_for("o/r/c/a")
            person.enter("")
            person.wait_for("›")
            person.enter("d")
            person.wait_for("Denied, then.")
            person.wait_for_exit()
        assert home.query("SELECT state FROM asks") == [("denied",)]


async def test_a_line_typed_while_a_turn_works_does_not_allow_its_call(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    write = call("fs_write", path=".envrc", content="a")
    provider.program({"hold": True, **write}, {"text": "Denied, then."})
    with running(home), terminal(home, "ask", "bob", "write it", "--cwd", str(tmp_path)) as person:
        await asyncio.to_thread(provider.requests, 1)
        person.enter("o")
        await asyncio.to_thread(provider.release)
        person.wait_for("o/r/c/a")
        person.enter("d")
        person.wait_for("Denied, then.")
        assert person.wait_for_exit() == 4
    assert home.query("SELECT state FROM asks") == [("denied",)]


async def test_a_second_line_does_not_allow_the_call_that_is_shown_after_the_first(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    calls = [call("fs_write", path=path, content="a")["calls"][0] for path in (".envrc", "a.sh")]
    provider.program({"calls": calls}, {"text": "Denied, then."})
    with running(home), terminal(home, "ask", "bob", "write them", "--cwd", str(tmp_path)) as person:
        person.wait_for("o/r/c/a")
        person.enter("d\ro")
        person.wait_for("o/r/c/a")
        person.enter("d")
        person.wait_for("Denied, then.")
        assert person.wait_for_exit() == 4
    assert home.query("SELECT state FROM asks") == [("denied",), ("denied",)]
