"""Every result of a teammate is delivered exactly once: long or short, waited for or not, and over a kill -9."""

import json
import re

import pytest

from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, eventually, running
from tests.daemon_thread import daemon_thread
from tests.scripting import call, lead, mate, say, script, spawn, wait
from tests.teaming import SHOWN_BY_PARENT, TEAM, asked, called, eventually_idle

CONFIG = PLAIN + TEAM
ANY = lead("^call (?P<tool>[a-z_]+) (?P<arguments>.*)", call("{tool}", "{arguments}"), say("{result}"))
HEARD = lead("has ended", say("Heard."))
# Far over what one tool result may take, with something to be found in the middle.
LONG = "x" * 70_000 + " the middle " + "y" * 70_000


@pytest.fixture
def home(home: Home) -> Home:
    home.write_config(CONFIG)
    return home


_REPORTS = "SELECT count(*) FROM messages WHERE role = 'user' AND content LIKE '%has ended:%'"
_ANSWERS = "SELECT count(*) FROM messages WHERE role = 'tool' AND content LIKE '%\"status\":\"completed\"%'"
_DELIVERED = "SELECT count(*) FROM deliveries"
_REPORT = "SELECT content FROM messages WHERE role = 'user' AND content LIKE '%has ended:%'"
_ANSWER = "SELECT content FROM messages WHERE role = 'tool' AND content LIKE '%\"status\":\"completed\"%'"


async def test_a_result_over_the_output_budget_is_shown_once_cut_and_can_be_read_to_its_end(home: Home) -> None:
    home.write_script(script(
        lead("^go", spawn("work"), wait(), say("Got it.")), ANY, HEARD, mate("^work", reply=LONG),
    ))  # fmt: skip
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.say("moot", "go")).text == "Got it."
            await eventually_idle(home, talk)
            shown = asked(home, _ANSWER)
            assert len(shown) < len(LONG)
            (ref,) = re.findall(r'tool_output_get, ref "(out-[^"]+)"', shown)
            found = await called(talk, "", "tool_output_get", ref=ref, mode="grep", pattern="the middle")
            assert "the middle" in json.dumps(found)
    assert (asked(home, SHOWN_BY_PARENT), asked(home, _REPORTS)) == (1, 0)


async def test_a_long_result_that_is_reported_says_what_was_cut_and_how_to_read_it(home: Home) -> None:
    home.write_script(script(
        lead("^go", spawn("work"), say("Begun.")), ANY, HEARD, mate("^work", delay_seconds=0.2, reply=LONG),
    ))  # fmt: skip
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "go")
            report = await eventually(lambda: asked(home, _REPORT))
            (cut, run_id) = re.findall(r'… (\d+) characters more; agent_wait\(agent_id="(arun-\w+)"\)', report)[0]
            assert int(cut) == len(LONG) - report.count("x" * 60_000) * 60_000
            await eventually_idle(home, talk)
            again = await talk.say("moot", f'call agent_wait {{"agent_id": "{run_id}"}}')
            assert "tool_output_get, ref" in again.text
            await eventually_idle(home, talk)
    # Read again, it is not delivered again.
    assert (asked(home, _DELIVERED), asked(home, _REPORTS)) == (1, 1)


@pytest.mark.parametrize(
    "point",
    [
        "teammate.ended",
        "commit.append:4",
        "committed.append:4",
        "tools.completed:2",
        "commit.end:1",
        "committed.end:1",
        "commit.end:2",
        "committed.end:2",
    ],
)
@pytest.mark.parametrize("waits", [True, False])
async def test_a_long_result_is_delivered_once_wherever_the_daemon_is_killed(
    home: Home, point: str, waits: bool
) -> None:
    steps = [spawn("work"), wait(), say("Got it.")] if waits else [spawn("work"), say("Begun."), say("Begun.")]
    home.write_script(script(lead("^go", *steps), ANY, HEARD, mate("^work", reply=LONG)))
    with running(home, MOOT_FAIL_AT=point) as daemon:
        async with daemon.client() as talk:
            talk.start("moot", "go")
            await eventually(lambda: daemon.process.poll() is not None or asked(home, _DELIVERED) == 1)
        daemon.kill_9()
    with running(home) as daemon:
        async with daemon.client() as talk:
            await eventually_idle(home, talk)
            await eventually(lambda: asked(home, _DELIVERED) == 1)
            await eventually_idle(home, talk)
    assert asked(home, _ANSWERS) + asked(home, _REPORTS) == 1


async def test_results_of_two_turns_are_reported_apart_each_in_the_tree_of_its_turn(home: Home) -> None:
    home.write_script(script(
        lead("^go (?P<task>[a-z]+)", spawn("{task}"), say("Begun."), say("Begun.")),
        lead("^hold", hang=True), ANY, HEARD, mate("^[a-z]+$", delay_seconds=0.3, reply="Done."),
    ))  # fmt: skip
    ended = "SELECT count(*) FROM runs WHERE kind = 'teammate' AND status = 'ended'"
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            for task in ("one", "two", "three"):
                await talk.say("moot", f"go {task}")
            # While the conversation is busy, the results gather.
            busy = talk.start("moot", "hold")
            await eventually(lambda: asked(home, ended) == 3)
            await busy.until("start")
            await talk.kill("moot")
            await eventually_idle(home, talk)
    reported = home.query(
        "SELECT reports.root_id, mates.root_id FROM deliveries JOIN runs AS reports ON reports.id = deliveries.run_id"
        " JOIN runs AS mates ON mates.id = item_id"
    )
    assert len(reported) == 3
    assert all(report == mate_root for report, mate_root in reported)
