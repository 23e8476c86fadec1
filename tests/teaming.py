"""Shared by journeys with teammates: a configuration, tools that keep working, and queries about runs."""

import json
from pathlib import Path
from typing import Any

from moot.store.found_runs import IS_OWED
from tests.daemon_process import Home, eventually
from tests.talking import Speech, Talking

TEAM = """
[agent]
multiAgent = true
maxDepth = 2
[security.interceptor]
policy = "none"
"""

# How many results were shown to the parent itself, in an answer to a call of its own.
SHOWN_BY_PARENT = (
    "SELECT count(*) FROM deliveries JOIN runs ON runs.id = item_id"
    " WHERE deliveries.run_id = runs.parent_id AND deliveries.seq > 0"
)
# Belongs to the operator by its name. It says when it begins and when it is ended.
LINGER = '''
import asyncio
from pathlib import Path

from moot.tools import tool


@tool(safety="safe")
async def fs_linger(mark: str) -> str:
    """Work until told to stop.

    Args:
        mark: A file to write to.
    """
    Path(mark).write_text("began")
    try:
        await asyncio.Event().wait()
    finally:
        Path(mark).write_text("ended")
    return "never"


@tool(safety="safe")
async def fs_cling(mark: str) -> str:
    """Work on after being told to stop, until a file is there.

    Args:
        mark: A file to write to.
    """
    Path(mark).write_text("began")
    go = Path(mark).with_suffix(".go")
    while not go.exists():
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            continue
    Path(mark).write_text("late")
    return "too late"
'''


def results(speech: Speech, tool: str) -> list[Any]:
    """What the calls of a tool came to, read where it is JSON."""
    return [_read(each.output) for each in speech.of("tool_result") if each.name == tool]


def _read(output: str) -> Any:
    try:
        return json.loads(output)
    except json.JSONDecodeError:
        return output


async def called(talk: Talking, sender: str, tool: str, **arguments: Any) -> Any:
    """What a call of the orchestrator's comes to."""
    speech = await talk.say("moot", f"call {tool} {json.dumps(arguments)}", sender)
    (result,) = results(speech, tool)
    return result


async def runs_in(talk: Talking, sender: str) -> str:
    """All that the conversation holds, with the results of calls."""
    return json.dumps([content for _, _, content in await talk.told("moot", sender)])


# Runs that go on, and those that have ended and are still to be reported: while it is being written nothing is active.
_UNFINISHED = (
    "SELECT count(*) FROM runs JOIN conversations ON conversations.id = runs.conversation"
    " LEFT JOIN deliveries ON deliveries.item_id = runs.id"
    f" WHERE runs.status <> 'ended' OR ({IS_OWED})"
)


async def eventually_idle(home: Home, talk: Talking) -> None:
    """Wait until every run has ended and every result was delivered."""
    await eventually(lambda: asked(home, _UNFINISHED) == 0)
    await eventually(talk.is_idle)


async def began(mark: Path) -> None:
    await eventually(lambda: mark.exists() and mark.read_text() == "began")


def asked(home: Home, question: str, *values: str) -> Any:
    """What the store says, read from beside."""
    return (home.query(question, *values) or [(None,)])[0][0]
