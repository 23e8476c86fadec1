"""Teammates and the context window: a long task is shortened for its model, and results outlast a compaction."""

from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as SCRIPTED
from tests.daemon_process import Home, eventually
from tests.daemon_thread import daemon_thread
from tests.scripting import call, lead, mate, say, script, spawn, wait
from tests.talking import Talking
from tests.teaming import TEAM

CONFIG = SCRIPTED.replace('script = "script.toml"', 'script = "script.toml"\nwindow = 6000') + TEAM
FILL = {"prompt": 5_900, "completion": 5}
SCRIPT = script(
    {"system": "moot:compaction", "reply": "Rye was discussed. Nothing is open."},
    lead("^read", spawn("read all of it"), wait(), say("It said: {result}")),
    lead("^begin", spawn("think of rye"), say("Begun."), usage=FILL),
    mate("read all of it", *[call("fs_read", path="notes.txt")] * 4, say("I have read it.")),
    mate("think of rye", say("Rye is good.")),
)


async def context_events(talk: Talking) -> list[str]:
    """Whom a request was shortened for, in the newest turn and those it set to work."""
    newest = (await talk.ask(list_traces=pb.ListTracesMsg(limit=1))).trace_list.traces[0]
    tree = (await talk.ask(get_trace=pb.GetTraceMsg(run_id=newest.run_id))).trace
    return [event.agent for run in (tree, *tree.children) for event in run.events if event.kind == "context"]


async def test_a_teammate_whose_task_outgrows_its_window_sees_less_and_finishes(home: Home) -> None:
    work = home.path / "work"
    work.mkdir()
    (work / "notes.txt").write_text("rye and wheat\n" * 600)
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            said = await talk.say("moot", "read it", cwd=str(work))
            assert said.outcome == "completed"
            assert "I have read it." in said.text
            assert set(await context_events(talk)) == {"operator"}
            # The task is one turn, so nothing of either conversation was archived.
            assert await talk.archives("moot") == []


async def test_a_result_that_comes_when_the_window_is_full_is_delivered_once_behind_the_archive(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "begin")

            async def reports() -> list[str]:
                told = await talk.told("moot", all=True)
                return [content for role, agent, content in told if role == "user" and agent]

            await eventually(reports)
            await eventually(lambda: talk.archives("moot"))
            (report,) = await reports()
            assert "Rye is good." in report
            (archive,) = await talk.archives("moot")
            history = await talk.history("moot")
            assert [each.seq for each in history.messages][0] == archive.last_seq + 1
            assert report in [each.content for each in history.messages]
