"""A run whose calls were denied or failed, and that changed nothing, does not end as `completed`, whatever it says."""

import asyncio
from pathlib import Path

import pytest

from moot.client import AsyncMoot, RunFailed
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, eventually, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.scripting import call, lead, mate, say, script, spawn, wait
from tests.talking import Speech, Talking
from tests.teaming import TEAM

ASKS = '\n[security.interceptor]\nsensitive_tools = ["fs_write"]\n'
CONFIG = PLAIN + ASKS
READ, TITLE = call("fs_list", path="."), call("set_title", title="Boats")
EDIT = call("fs_edit", path="missing.txt", oldText="a", newText="b")


def write(name: str) -> dict[str, object]:
    return call("fs_write", path=name, content="made")


SCRIPT = script(
    {"match": "^write it", "steps": [READ, TITLE, write("made.txt"), say("All done!")]},
    {"match": "^write both", "steps": [write("one.txt"), write("two.txt"), say("One of them.")]},
    {
        "match": "^write and ask",
        "steps": [write("made.txt"), call("ask_user", questions=[{"question": "What?"}]), say("Fine.")],
    },
    {"match": "^edit it", "steps": [READ, TITLE, EDIT, say("I have edited it!")]},
    {"match": "^edit otherwise", "steps": [EDIT, write("made.txt"), say("Written instead.")]},
    {"match": "^edit or run", "steps": [EDIT, call("exec", command="false"), say("Ran it.")]},
    {"match": "^call nothing", "steps": [call("fs_teleport", path="x"), say("Teleported!")]},
    {"match": "^run nothing", "steps": [call("exec", commnd="make"), say("It is built!")]},
    {"match": "^list nothing", "steps": [call("fs_list", folder=7), say("I cannot say.")]},
    {"match": "^list and read", "steps": [call("fs_list", folder=7), READ, say("I have looked.")]},
    {"match": "^recall nothing", "steps": [call("recall", question=7), say("It is Paris.")]},
    {"match": "^run missing", "steps": [call("exec", command="no-such-program --now"), say("It is built!")]},
    {
        "match": "^run partly",
        "steps": [call("exec", command="echo x > made.txt; no-such-program"), say("Half of it.")],
    },
    {"match": "^call and read", "steps": [call("fs_teleport", path="x"), READ, say("I have looked.")]},
    {"match": "^read it", "steps": [call("fs_read", path="missing.txt"), say("There is no such file.")]},
    {
        "match": "^edit and ask",
        "steps": [EDIT, call("ask_user", questions=[{"question": "What?"}]), say("Edited.")],
    },
    {"reply": "Hello."},
)


async def decide(talk: Talking, speech: Speech, decision: str, count: int = 1) -> None:
    ask: pb.ApprovalEvent = await speech.until("approval_opened", count=count)
    message = pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision=decision)
    await talk.ask(decide_ask=message)


async def test_a_run_that_was_denied_and_changed_nothing_says_so_everywhere(daemon: LiveDaemon, tmp_path: Path) -> None:
    async with daemon.client() as talk:
        speech = talk.start("ada", "write it", cwd=str(tmp_path), client_message_id="one")
        await decide(talk, speech, "deny")
        ended = (await speech.end()).ended
        assert (ended.outcome, ended.error) == ("denied", "Denied: fs_write. Nothing was changed.")
        # The text is kept, and a retry of the message gets the same end.
        assert await talk.told("ada") == [*(await talk.told("ada"))[:-1], ("assistant", "", "All done!")]
        again = talk.start("ada", "write it", cwd=str(tmp_path), client_message_id="one")
        assert (await again.end()).outcome == "denied"
        run_id = speech.of("start")[0].run_id
        info = (await talk.ask(get_run=pb.GetRunMsg(run_id=run_id))).run
        assert (info.status, info.outcome) == ("failed", "denied")
        # A guest has no tools, and an answer without calls is one.
        assert (await talk.say("ada", "hi", guest="bob")).outcome == "completed"
    waited = daemon.cli("wait", run_id)
    assert waited.returncode == 4
    assert "Nothing was changed" in waited.stdout + waited.stderr
    assert "(denied: fs_write. Nothing was changed.)" in daemon.cli("history", "ada", "--all").stdout
    shown = daemon.cli_json("history", "ada", "--all")["data"]
    assert [entry["outcome"] for entry in shown["messages"] if entry.get("outcome")][0] == "denied"
    assert not (tmp_path / "made.txt").exists()
    # What a person has decided is no problem of the daemon.
    assert daemon.cli_json("doctor")["data"]["traces"]["failed"] == []

    async with AsyncMoot(home=daemon.home.path, sender="program") as moot:
        with pytest.raises(RunFailed) as failed:
            await moot.ask("ada", "write it", cwd=str(tmp_path), on_approval=lambda _: False)
        assert failed.value.reply is not None
        assert (failed.value.type, failed.value.reply.text) == ("denied", "All done!")


async def test_a_run_that_changed_something_completes_although_a_call_was_denied(
    daemon: LiveDaemon, tmp_path: Path
) -> None:
    async with daemon.client() as talk:
        speech = talk.start("ada", "write both", "both", cwd=str(tmp_path))
        await decide(talk, speech, "once")
        await decide(talk, speech, "deny", count=2)
        assert (await speech.end()).outcome == "completed"
    assert ((tmp_path / "one.txt").exists(), (tmp_path / "two.txt").exists()) == (True, False)


async def test_a_denial_before_a_restart_counts_when_the_run_ends(home: Home, tmp_path: Path) -> None:
    with running(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "write and ask", cwd=str(tmp_path))
            await decide(talk, speech, "deny")
            await speech.until("ask_user")
        daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await eventually(talk.asks)
            await talk.reply("ada", "Nothing, thank you.")
            await eventually(lambda: home.query("SELECT outcome FROM runs WHERE status = 'ended'") == [("denied",)])


@pytest.mark.parametrize(("second", "outcome"), [("deny", "denied"), ("once", "completed")])
async def test_a_turn_ends_denied_if_nothing_was_done_by_its_teammates(
    home: Home, tmp_path: Path, second: str, outcome: str
) -> None:
    home.write_config(PLAIN + TEAM + 'sensitive_tools = ["fs_write"]\n')
    home.write_script(
        script(
            lead("^go", spawn("write one"), wait(), spawn("write two"), wait(), say("All done!")),
            mate("^write one", write("one.txt"), say("I wrote it.")),
            mate("^write two", write("two.txt"), say("I wrote it.")),
        )
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "go", cwd=str(tmp_path))
            await decide(talk, speech, "deny")
            await decide(talk, speech, second, count=2)
            ended = (await speech.end()).ended
            assert ended.outcome == outcome
            assert ("a call of operator" in ended.error) is (outcome == "denied")
    assert (tmp_path / "two.txt").exists() is (second == "once")


@pytest.mark.parametrize(
    ("made", "outcome", "error"),
    [
        ([write("made.txt")], "tool_error", "Not executed: fs_write. Nothing was done."),
        # The task was given to nobody.
        ([call("agent_spawn", agent="operator")], "tool_error", "Not executed: agent_spawn. Nothing was done."),
        ([call("list_peers", goals_of=7)], "completed", ""),
        ([write("made.txt"), spawn("write made.txt"), wait()], "completed", ""),
    ],
)
async def test_a_leader_that_has_given_a_task_to_nobody_has_done_nothing(
    home: Home, tmp_path: Path, made: list[dict[str, object]], outcome: str, error: str
) -> None:
    home.write_config(PLAIN + TEAM)
    home.write_script(
        script(lead("^go", *made, say("I wrote it!")), mate("^write made", write("made.txt"), say("I wrote it.")))
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            ended = (await talk.start("moot", "go", cwd=str(tmp_path)).end()).ended
            assert (ended.outcome, ended.error) == (outcome, error)
    assert (tmp_path / "made.txt").exists() is (len(made) > 1)


async def test_a_run_whose_only_change_failed_says_so_everywhere(daemon: LiveDaemon, tmp_path: Path) -> None:
    async with daemon.client() as talk:
        speech = talk.start("ada", "edit it", "editor", cwd=str(tmp_path))
        ended = (await speech.end()).ended
        assert (ended.outcome, ended.error) == ("tool_error", "Failed: fs_edit. No other call changed anything.")
        assert (await talk.told("ada", "editor"))[-1] == ("assistant", "", "I have edited it!")
        run_id = speech.of("start")[0].run_id
        # A file that cannot be read is an answer.
        assert (await talk.say("ada", "read it", "reader", cwd=str(tmp_path))).outcome == "completed"
    asked = daemon.cli("ask", "ada", "edit it", "--as", "shell", "--cwd", str(tmp_path))
    assert (asked.returncode, asked.stdout.strip()) == (1, "I have edited it!")
    assert "Failed: fs_edit" in asked.stderr
    assert daemon.cli("wait", run_id).returncode == 1


@pytest.mark.parametrize("request_text", ["edit otherwise", "edit or run"])
async def test_a_run_that_found_another_way_completes(daemon: LiveDaemon, tmp_path: Path, request_text: str) -> None:
    async with daemon.client() as talk:
        speech = talk.start("ada", request_text, request_text, cwd=str(tmp_path))
        await decide(talk, speech, "once")
        assert (await speech.end()).outcome == "completed"


@pytest.mark.parametrize(
    ("request_text", "called"),
    [("call nothing", "fs_teleport"), ("run nothing", "exec"), ("run missing", "exec"), ("list nothing", "fs_list")],
)
async def test_a_run_whose_only_calls_were_not_executed_says_so(
    daemon: LiveDaemon, tmp_path: Path, request_text: str, called: str
) -> None:
    async with daemon.client() as talk:
        speech = talk.start("ada", request_text, request_text, cwd=str(tmp_path))
        if request_text == "run missing":
            await decide(talk, speech, "once")
        ended = (await speech.end()).ended
        assert (ended.outcome, ended.error) == ("tool_error", f"Not executed: {called}. Nothing was done.")


async def test_a_command_that_cannot_be_started_is_not_executed(home: Home, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "run missing", cwd=str(work))
            await speech.until("approval_opened")
            work.rmdir()
            await decide(talk, speech, "once")
            ended = (await speech.end()).ended
            assert (ended.outcome, ended.error) == ("tool_error", "Not executed: exec. Nothing was done.")


@pytest.mark.parametrize("request_text", ["list and read", "recall nothing", "call and read", "run partly"])
async def test_a_run_that_read_or_did_something_completes(
    daemon: LiveDaemon, tmp_path: Path, request_text: str
) -> None:
    async with daemon.client() as talk:
        speech = talk.start("ada", request_text, request_text, cwd=str(tmp_path))
        if request_text == "run partly":
            await decide(talk, speech, "once")
        assert (await speech.end()).outcome == "completed"


async def test_a_failure_before_a_restart_counts_when_the_run_ends(home: Home, tmp_path: Path) -> None:
    with running(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "edit and ask", cwd=str(tmp_path))
            await speech.until("ask_user")
        daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await eventually(talk.asks)
            await talk.reply("ada", "Nothing, thank you.")
            await eventually(lambda: home.query("SELECT outcome FROM runs WHERE status = 'ended'") == [("tool_error",)])


@pytest.mark.parametrize("called", ["fs_teleport", "fs_list"])
async def test_a_call_that_was_not_executed_before_a_crash_is_told_so_after_it(
    home: Home, provider: Provider, called: str
) -> None:
    home.write_config(PROVIDER_CONFIG.replace("PROVIDER_URL", provider.url))
    provider.program({"calls": [{"name": called, "arguments": {"folder": 7}}]}, {"hold": True}, {"text": "All done!"})
    with running(home) as daemon:
        run_id = daemon.cli("run", "--bg", "do it", "--agent", "ada").stdout.strip()
        await asyncio.to_thread(provider.requests, 2)
        await eventually(lambda: home.query("SELECT 1 FROM messages WHERE role = 'tool'"))
        daemon.kill_9()
    with daemon_thread(home) as daemon:
        waited = daemon.cli("wait", run_id)
    assert waited.returncode == 1
    assert f"tool_error: Not executed: {called}. Nothing was done." in waited.stderr


async def test_a_turn_does_not_complete_if_the_changes_of_its_teammates_failed(home: Home, tmp_path: Path) -> None:
    home.write_config(PLAIN + TEAM)
    home.write_script(
        script(
            lead("^fail", spawn("edit it"), wait(), say("All done!")),
            lead("^mend", spawn("edit it"), wait(), spawn("look"), wait(), say("All done!")),
            mate("^edit it", EDIT, say("I edited it.")),
            mate("^look", READ, say("I looked.")),
        )
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            ended = (await talk.say("moot", "fail", cwd=str(tmp_path))).ended
            assert (ended.outcome, ended.error) == (
                "tool_error",
                "Failed: a call of operator. No other call changed anything.",
            )
            assert (await talk.say("moot", "mend", cwd=str(tmp_path))).outcome == "completed"
