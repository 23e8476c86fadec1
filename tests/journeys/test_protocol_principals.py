"""A token speaks as what it owns: everything else is closed to it, on every door and with every message."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from moot.client.connection import Connection, connect
from moot.domain.errors import BadRequest, Busy, Forbidden, MootError, NotFound, Unauthorized
from moot.wire import moot_pb2 as pb
from tests.daemon_process import Home, LiveDaemon
from tests.daemon_thread import daemon_thread
from tests.raw_client import http_address, raw, tcp_address
from tests.talking import Talking

CONFIG = """
default_model = "scripted"
[models.scripted]
provider = "scripted"
script = "script.toml"
[listen]
http = "127.0.0.1:0"
tcp = "127.0.0.1:0"
"""

SCRIPT = """
[[rule]]
match = "hang"
hang = true

[[rule]]
reply = "You said: {user}"
"""

FOREIGN = "user"

# Every request that names a conversation.
# `import` is a keyword.
IMPORT: dict[str, Any] = {"import": pb.ImportMsg(agent="ada", sender=FOREIGN, jsonl='{"role":"user","content":"x"}')}
FLOW = "name: tea\nsteps: [{id: a, prompt: x, agent: ada}]"
ADDRESSED = [
    pb.ClientMessage(send=pb.SendMsg(agent="ada", content="hi", sender=FOREIGN)),
    pb.ClientMessage(stream=pb.StreamMsg(agent="ada", content="hi", sender=FOREIGN)),
    pb.ClientMessage(kill=pb.KillMsg(agent="ada", sender=FOREIGN)),
    pb.ClientMessage(compact=pb.CompactMsg(agent="ada", sender=FOREIGN)),
    pb.ClientMessage(reply_to_ask=pb.ReplyToAsk(agent="ada", sender=FOREIGN, content="x")),
    pb.ClientMessage(get_history=pb.GetHistoryMsg(agent="ada", sender=FOREIGN)),
    pb.ClientMessage(list_archives=pb.ListArchivesMsg(agent="ada", sender=FOREIGN)),
    pb.ClientMessage(get_archive=pb.GetArchiveMsg(agent="ada", sender=FOREIGN, number=1)),
    pb.ClientMessage(export=pb.ExportMsg(agent="ada", sender=FOREIGN)),
    pb.ClientMessage(**IMPORT),
    pb.ClientMessage(delete=pb.DeleteMsg(agent="ada", sender=FOREIGN, confirm=True)),
    pb.ClientMessage(recall=pb.RecallMsg(agent="ada", sender=FOREIGN, query="x")),
    pb.ClientMessage(attach=pb.AttachMsg(agent="ada", sender=FOREIGN)),
    pb.ClientMessage(trust=pb.TrustMsg(agent="ada", sender=FOREIGN)),
    pb.ClientMessage(start_run=pb.StartRunMsg(agent="ada", sender=FOREIGN, content="hi")),
    pb.ClientMessage(withdraw=pb.WithdrawMsg(agent="ada", sender=FOREIGN)),
    pb.ClientMessage(find_retried=pb.FindRetriedMsg(agent="ada", sender=FOREIGN, prefix="x")),
    pb.ClientMessage(send_mail=pb.SendMailMsg(agent="ada", sender=FOREIGN, content="hi")),
    pb.ClientMessage(undo=pb.UndoMsg(agent="ada", sender=FOREIGN)),
    pb.ClientMessage(mode=pb.ModeMsg(agent="ada", sender=FOREIGN, mode="plan")),
    pb.ClientMessage(visit=pb.VisitMsg(agent="ada", sender=FOREIGN)),
    pb.ClientMessage(working_directory=pb.WorkingDirectoryMsg(agent="ada", sender=FOREIGN)),
    pb.ClientMessage(open_stretch=pb.OpenStretchMsg(agent="ada", sender=FOREIGN)),
    pb.ClientMessage(conversation_model=pb.ConversationModelMsg(agent="ada", sender=FOREIGN)),
    pb.ClientMessage(add_task=pb.AddTaskMsg(agent="ada", sender=FOREIGN, title="x")),
    pb.ClientMessage(
        save_cron_job=pb.SaveCronJobMsg(
            agent="ada", sender=FOREIGN, name="x", schedule_type="every", schedule="1h", prompt="x"
        )
    ),
    pb.ClientMessage(save_workflow=pb.SaveWorkflowMsg(agent="ada", sender=FOREIGN, source=FLOW)),
    pb.ClientMessage(start_workflow=pb.StartWorkflowMsg(sender=FOREIGN, source=FLOW)),
    pb.ClientMessage(get_workflow=pb.GetWorkflowMsg(sender=FOREIGN, name="x")),
    pb.ClientMessage(list_workflows=pb.ListWorkflowsMsg(sender=FOREIGN)),
    pb.ClientMessage(remove_workflow=pb.RemoveWorkflowMsg(sender=FOREIGN, name="x")),
    pb.ClientMessage(get_workflow_run=pb.GetWorkflowRunMsg(sender=FOREIGN, run_id="x")),
    pb.ClientMessage(list_workflow_runs=pb.ListWorkflowRunsMsg(sender=FOREIGN)),
    pb.ClientMessage(cancel_workflow=pb.CancelWorkflowMsg(sender=FOREIGN, run_id="x")),
    pb.ClientMessage(forget_memory=pb.ForgetMemoryMsg(agent="ada", sender=FOREIGN, key="x")),
    pb.ClientMessage(index_documents=pb.IndexDocumentsMsg(agent="ada", sender=FOREIGN, place="archive")),
    pb.ClientMessage(search_documents=pb.SearchDocumentsMsg(agent="ada", sender=FOREIGN, query="x")),
    pb.ClientMessage(answer_question=pb.AnswerQuestionMsg(agent="ada", sender=FOREIGN, question="x")),
    pb.ClientMessage(list_sources=pb.ListSourcesMsg(agent="ada", sender=FOREIGN)),
    pb.ClientMessage(forget_source=pb.ForgetSourceMsg(agent="ada", sender=FOREIGN, source="x")),
]
OWNERS = [
    pb.ClientMessage(list_tokens=pb.ListTokensMsg()),
    pb.ClientMessage(new_token=pb.NewTokenMsg(name="more")),
    pb.ClientMessage(revoke_token=pb.RevokeTokenMsg(name="bot")),
    pb.ClientMessage(backup=pb.BackupMsg(path="/tmp/never-written")),
    pb.ClientMessage(check=pb.CheckMsg()),
    pb.ClientMessage(mute_agent=pb.MuteAgentMsg(agent="ada", muted=True)),
    pb.ClientMessage(reload=pb.ReloadMsg()),
    pb.ClientMessage(list_traces=pb.ListTracesMsg()),
    pb.ClientMessage(get_trace=pb.GetTraceMsg(run_id="run-")),
    pb.ClientMessage(get_trace_health=pb.GetTraceHealthMsg()),
]


def kind(message: pb.ClientMessage) -> str:
    return str(message.WhichOneof("message"))


def token(daemon: LiveDaemon, name: str, *senders: str) -> str:
    """A token, made once for the module's daemon."""
    path = daemon.home.path / f"token-{name}"
    if not path.exists():
        patterns = [part for sender in senders for part in ("--sender", sender)]
        path.write_text(daemon.cli_json("tokens", "new", name, *patterns)["data"]["token"])
    return path.read_text()


@asynccontextmanager
async def bot(daemon: LiveDaemon) -> AsyncIterator[Connection]:
    async with connect(tcp_address(daemon), token=token(daemon, "bot", "test:*")) as connection:
        yield connection


def fresh(message: pb.ClientMessage) -> pb.ClientMessage:
    copy = pb.ClientMessage()
    copy.CopyFrom(message)
    return copy


def fields_of(field: Any) -> Any:
    return field.message_type.fields


def test_every_request_that_names_a_conversation_is_in_the_matrix() -> None:
    fields = pb.ClientMessage.DESCRIPTOR.oneofs_by_name["message"].fields
    addressed = {field.name for field in fields if {"agent", "sender"} <= {inner.name for inner in fields_of(field)}}
    # These match many conversations; what they show is checked below.
    # test_tasks_and_memory.py checks those of tasks and memories, the last test those of scheduled jobs.
    lists = {"list_conversations", "list_active_conversations", "get_usage", "list_tasks", "list_memories"}
    jobs = {"list_cron_jobs", "change_cron_job", "list_firings"}
    # Workflows belong to a sender and name no agent.
    flows = {field.name for field in fields if "workflow" in field.name}
    assert (addressed - lists - jobs) | flows == {kind(message) for message in ADDRESSED}


@pytest.mark.parametrize("message", ADDRESSED, ids=kind)
async def test_another_principals_conversation_is_forbidden_whether_it_exists_or_not(
    daemon: LiveDaemon, message: pb.ClientMessage
) -> None:
    async with bot(daemon) as connection:
        with pytest.raises(Forbidden) as before:
            await connection.request(fresh(message))
        async with daemon.client() as owner:
            await owner.say("ada", "mine", FOREIGN)
            history = await owner.told("ada", FOREIGN)
        with pytest.raises(Forbidden) as after:
            await connection.request(fresh(message))
        assert after.value.message == before.value.message
    async with daemon.client() as owner:
        assert await owner.told("ada", FOREIGN) == history


@pytest.mark.parametrize("message", OWNERS, ids=kind)
async def test_what_is_the_owners_is_forbidden_to_a_token(daemon: LiveDaemon, message: pb.ClientMessage) -> None:
    async with bot(daemon) as connection:
        with pytest.raises(Forbidden):
            await connection.request(fresh(message))


async def test_a_token_learns_of_no_folder_while_the_owner_is_told_what_is_wrong(
    daemon: LiveDaemon, sender: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    folders = [str(tmp_path), str(tmp_path / "file"), str(tmp_path / "missing"), "/", "relative"]
    said: set[str] = set()
    async with bot(daemon) as connection:
        for cwd in folders:
            for name in ("stream", "send"):
                kind_of = {"stream": pb.StreamMsg, "send": pb.SendMsg}[name]
                message = kind_of(agent="ada", content="hi", sender=sender, cwd=cwd)
                with pytest.raises(Forbidden) as refused:
                    await connection.request(pb.ClientMessage(**{name: message}))
                said.add(refused.value.message)
    assert len(said) == 1
    async with daemon.client() as owner:
        told = []
        for cwd in folders[1:3]:
            with pytest.raises(BadRequest) as wrong:
                await owner.say("ada", "hi", sender, cwd=cwd)
            told.append(wrong.value.message)
    assert "not a folder" in told[0]
    assert "No such file" in told[1]


async def test_lists_show_a_token_only_its_own(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as owner, bot(daemon) as connection:
        talk = Talking(connection)
        await owner.say("ada", "mine", FOREIGN)
        await talk.say("ada", "ours", sender)
        await talk.say("ada", "the bot's")
        hanging = owner.start("bob", "hang", FOREIGN)
        await hanging.until("start")

        assert {each.sender for each in await talk.conversations()} == {sender, "bot"} | {
            each.sender for each in await talk.conversations() if each.sender.startswith("test:")
        }
        assert await talk.conversations(sender=FOREIGN) == []
        assert await talk.active() == []
        assert FOREIGN not in {each.sender for each in await talk.usage()}
        assert FOREIGN in {each.sender for each in await owner.conversations()}
        await owner.kill("bob", FOREIGN)
        await hanging.end()


async def test_a_token_speaks_as_its_name_when_it_names_nobody(daemon: LiveDaemon) -> None:
    async with bot(daemon) as connection, daemon.client() as owner:
        await Talking(connection).say("ada", "as myself")
        assert ("user", "", "as myself") in await owner.told("ada", "bot")


async def test_subscribers_are_told_of_their_own_conversations_only(daemon: LiveDaemon, sender: str) -> None:
    hello = pb.ClientMessage(hello=pb.Hello(version=1, token=token(daemon, "bot", "test:*")))
    async with raw(daemon) as subscriber, daemon.client() as owner:
        assert (await subscriber.ask(hello)).welcome.principal == "bot"
        # The first answer says that from here on nothing is missed.
        subscribe = pb.ClientMessage(request_id=5, subscribe_events=pb.SubscribeEvents())
        assert (await subscriber.ask(subscribe)).HasField("pong")
        await owner.say("ada", "not for the bot", FOREIGN)
        await owner.say("ada", "for the bot", sender)
        told: list[pb.AgentEventMsg] = []
        while not told or told[-1].kind != pb.DONE:
            answer = await subscriber.receive()
            assert answer.request_id == 5
            told.append(answer.agent_event)
        assert {event.sender for event in told} == {sender}
        assert "".join(event.content for event in told if event.kind == pb.TEXT_DELTA) == "You said: for the bot"
        assert told[-1].content == "completed"


async def test_a_revoked_token_is_out_at_once_everywhere(daemon: LiveDaemon) -> None:
    secret = token(daemon, "brief")
    headers = {"Authorization": f"Bearer {secret}"}
    async with (
        connect(tcp_address(daemon), token=secret) as connection,
        aiohttp.ClientSession() as client,
        client.ws_connect(f"{http_address(daemon)}/ws", headers=headers) as websocket,
    ):
        await Talking(connection).conversations()
        assert daemon.cli_json("tokens", "revoke", "brief")["ok"]

        assert json.loads(await websocket.receive_str(timeout=30))["error"]["code"] == 401
        await connection.closed.wait()
        with pytest.raises(MootError):
            await Talking(connection).conversations()
        with pytest.raises(Unauthorized):
            async with connect(tcp_address(daemon), token=secret):
                pass
        async with client.get(f"{http_address(daemon)}/v1/models", headers=headers) as response:
            assert response.status == 401


async def test_a_stream_of_a_revoked_token_does_not_go_on_under_another_one(daemon: LiveDaemon, sender: str) -> None:
    first, second = token(daemon, "first", "test:*"), token(daemon, "second")
    async with raw(daemon) as client:
        assert (await client.ask(_hello(first))).welcome.principal == "first"
        # Without requests in flight another token may follow.
        assert (await client.ask(_hello(second))).welcome.principal == "second"
        assert (await client.ask(_hello(first))).welcome.principal == "first"
        subscribe = pb.ClientMessage(request_id=5, subscribe_events=pb.SubscribeEvents())
        assert (await client.ask(subscribe)).HasField("pong")
        assert (await client.ask(_hello(second))).error.type == "conflict"
        assert daemon.cli_json("tokens", "revoke", "first")["ok"]
        assert (await client.receive()).error.code == 401
        async with daemon.client() as owner:
            await owner.say("ada", "no longer for the first", sender)
        assert await client.ended()


def _hello(secret: str) -> pb.ClientMessage:
    return pb.ClientMessage(hello=pb.Hello(version=1, token=secret))


async def test_guessing_is_slowed_down_on_every_door_together(home: Home) -> None:
    with daemon_thread(home) as daemon:
        good = token(daemon, "known")
        async with connect(tcp_address(daemon), token=good):
            pass
        refused: list[type[MootError]] = []
        for guess in range(8):
            with pytest.raises(MootError) as error:
                async with connect(tcp_address(daemon), token=f"moot_{guess}"):
                    pass
            refused.append(error.type)
        assert set(refused) == {Unauthorized}
        async with aiohttp.ClientSession() as client:
            statuses = []
            for guess in range(8):
                headers = {"Authorization": f"Bearer moot_more_{guess}"}
                async with client.get(f"{http_address(daemon)}/v1/models", headers=headers) as response:
                    statuses.append(response.status)
            assert statuses[-4:] == [429] * 4
            with pytest.raises(Busy):
                async with connect(tcp_address(daemon), token="moot_again"):
                    pass
            headers = {"Authorization": f"Bearer {good}"}
            async with client.get(f"{http_address(daemon)}/v1/models", headers=headers) as response:
                assert response.status == 200


async def test_a_token_is_shown_once_and_kept_nowhere_in_clear(daemon: LiveDaemon) -> None:
    secret = token(daemon, "secret")
    async with connect(tcp_address(daemon), token=secret) as connection:
        await Talking(connection).conversations()
        with pytest.raises(NotFound):
            await Talking(connection).say("ghost", "hi")

    (daemon.home.path / "token-secret").unlink()
    listed = daemon.cli_json("tokens", "list")
    assert "secret" in json.dumps(listed)
    assert secret not in json.dumps(listed)
    assert secret.encode() not in daemon.home.on_disk()
    assert secret not in daemon.home.log.read_text(encoding="utf-8")


async def test_a_token_has_jobs_of_its_own_senders_only(daemon: LiveDaemon, sender: str) -> None:
    assert daemon.cli("cron", "add", "owners", "count", "--agent", "ada", "--every", "1h").returncode == 0
    assert daemon.cli("cron", "run", "owners").returncode == 0
    asked = pb.SaveCronJobMsg(agent="ada", sender=sender, name="mine", schedule_type="every", schedule="1h", prompt="x")
    async with bot(daemon) as connection:
        made = (await connection.request(pb.ClientMessage(save_cron_job=asked))).cron_jobs.jobs[0]
        assert made.sender == sender
        listed = await connection.request(pb.ClientMessage(list_cron_jobs=pb.ListCronJobsMsg()))
        assert [job.name for job in listed.cron_jobs.jobs] == ["mine"]
        firings = await connection.request(pb.ClientMessage(list_firings=pb.ListFiringsMsg()))
        assert list(firings.firings.firings) == []
        with pytest.raises(NotFound):
            await connection.request(pb.ClientMessage(list_firings=pb.ListFiringsMsg(job="owners")))
        for action in ("pause", "resume", "remove", "run"):
            change = pb.ChangeCronJobMsg(job="owners", action=action)
            with pytest.raises(NotFound):
                await connection.request(pb.ClientMessage(change_cron_job=change))
        asked.cwd = "/"
        with pytest.raises(Forbidden):
            await connection.request(pb.ClientMessage(save_cron_job=asked))
    assert daemon.cli("cron", "remove", "owners", "--yes").returncode == 0


async def test_a_token_runs_its_own_workflows_and_knows_of_no_others(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as owner:
        asked = pb.StartWorkflowMsg(source=FLOW, sender=f"owner-{sender}")
        theirs = (await owner.ask(start_workflow=asked)).workflow_run
    async with bot(daemon) as connection:
        started = pb.StartWorkflowMsg(source=FLOW, sender=sender, client_message_id="once")
        first = (await connection.request(pb.ClientMessage(start_workflow=started))).workflow_run
        again = (await connection.request(pb.ClientMessage(start_workflow=started))).workflow_run
        assert first.run_id == again.run_id
        listed = await connection.request(pb.ClientMessage(list_workflow_runs=pb.ListWorkflowRunsMsg()))
        assert [run.run_id for run in listed.workflow_runs.runs] == [first.run_id]
        for message in (
            pb.ClientMessage(get_workflow_run=pb.GetWorkflowRunMsg(run_id=theirs.run_id)),
            pb.ClientMessage(cancel_workflow=pb.CancelWorkflowMsg(run_id=theirs.run_id)),
        ):
            with pytest.raises(NotFound):
                await connection.request(message)
        for change in ({"cwd": "/"}, {"search_path": "/bin"}):
            with pytest.raises(Forbidden):
                await connection.request(pb.ClientMessage(start_workflow=pb.StartWorkflowMsg(source=FLOW, **change)))
        saved = pb.SaveWorkflowMsg(source=FLOW, sender=sender)
        info = (await connection.request(pb.ClientMessage(save_workflow=saved))).workflow
        assert (info.name, str(daemon.home.path) in info.path) == ("tea", False)
    assert daemon.cli_json("workflow", "list")["data"] == []
