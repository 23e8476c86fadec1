"""A call that nobody approved is told to the model as not executed, however its run came to be stopped."""

from pathlib import Path
from typing import Any

import pytest

from moot.domain.interruption import NOT_EXECUTED, UNKNOWN
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, eventually, running
from tests.daemon_thread import daemon_thread
from tests.scripting import made, say, script
from tests.talking import Talking
from tests.teaming import LINGER, began

CONFIG = (
    PLAIN
    + """
[security.interceptor]
policy = "dangerous"
"""
)
EXEC = made("exec", command="true")


async def asked_once(talk: Talking) -> None:
    async def one() -> bool:
        return len(await talk.asks()) == 1

    await eventually(one)


async def results(talk: Talking) -> list[str]:
    return [content for role, _, content in await talk.told("ada") if role == "tool"]


@pytest.fixture
def home(home: Home) -> Home:
    home.write_config(CONFIG)
    (home.path / "tools").mkdir()
    (home.path / "tools" / "linger.py").write_text(LINGER)
    return home


def write(home: Home, *calls: dict[str, Any]) -> None:
    home.write_script(script({"match": "^go", "steps": [{"calls": list(calls)}, say("{result}")]}))


async def test_after_a_kill_while_it_waited_for_approval(home: Home) -> None:
    write(home, EXEC)
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "go")
            await asked_once(talk)
            await talk.kill("ada")
            assert (await speech.end()).outcome == "cancelled"
            assert await results(talk) == [NOT_EXECUTED]


async def test_after_a_restart_and_a_kill_of_what_went_on(home: Home) -> None:
    write(home, EXEC)
    with running(home) as daemon:
        async with daemon.client() as talk:
            talk.start("ada", "go")
            await asked_once(talk)
        daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await asked_once(talk)
            await talk.kill("ada")
            await eventually(lambda: home.query("SELECT outcome FROM runs") == [("cancelled",)])
            await eventually(talk.is_idle)
            assert await results(talk) == [NOT_EXECUTED]


async def test_after_a_restart_that_interrupts_its_run_and_beside_a_call_that_had_begun(
    home: Home, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    write(home, made("fs_linger", mark=str(mark)), EXEC)
    with running(home) as daemon:
        async with daemon.client() as talk:
            talk.start("ada", "go")
            await asked_once(talk)
            await began(mark)
        daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert home.query("SELECT outcome FROM runs") == [("interrupted",)]
            assert await results(talk) == [UNKNOWN, NOT_EXECUTED]
            assert await talk.asks() == []
