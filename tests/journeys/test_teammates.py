"""Teammates through a running daemon: spawned, awaited and stopped, and what their parents are told of them."""

import json
import re
from typing import Any

from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import DaemonProcess
from tests.scripting import lead, mate, say, script, spawn, wait
from tests.talking import Speech

TEAM = """
[agent]
multiAgent = true
[security.interceptor]
policy = "none"
"""
CONFIG = PLAIN + TEAM

# The orchestrator and its teammates share one model; what they are told tells them apart.
SCRIPT = script(
    lead(
        "^say (?P<what>.*)",
        spawn("answer {what}", spawn_reason="a test", allowed_tools=["fs_read", "exec"]),
        wait(),
        say("It came back: {result}"),
    ),
    mate("^answer (?P<what>.*)", reply="{what}"),
)


def results(speech: Speech, tool: str) -> list[Any]:
    """What the calls of a tool came to, read where it is JSON."""
    return [_read(each.output) for each in speech.of("tool_result") if each.name == tool]


def _read(output: str) -> Any:
    try:
        return json.loads(output)
    except json.JSONDecodeError:
        return output


async def test_a_teammate_is_spawned_awaited_and_told_to_its_parent(daemon: DaemonProcess, sender: str) -> None:
    async with daemon.client() as talk:
        speech = await talk.say("moot", "say forty-two", sender)

    (spawned,), (waited,) = results(speech, "agent_spawn"), results(speech, "agent_wait")
    assert re.fullmatch("arun-[0-9a-f]{16}", spawned["agent_id"])
    assert spawned["status"] == "spawned"
    assert (spawned["requested_agent"], spawned["spawn_reason"]) == ("operator", "a test")
    assert waited == {
        "agent_id": spawned["agent_id"], "agent": "operator", "status": "completed",
        "outcome": "completed", "result": "forty-two",
    }  # fmt: skip
    assert speech.outcome == "completed"
