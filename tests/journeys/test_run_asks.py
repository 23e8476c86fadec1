"""What runs in the background and teammates ask comes up where the person is, and for nobody else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from moot.client.connection import connect
from moot.domain.errors import BadRequest, Forbidden, MootError, NotFound
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import PATIENCE, Home, LiveDaemon, eventually
from tests.daemon_thread import daemon_thread
from tests.scripting import call, lead, made, mate, say, script, spawn, wait
from tests.talking import Speech, Talking
from tests.terminal import terminal

CONFIG = (
    PLAIN.replace('tcp = "off"', 'tcp = "127.0.0.1:0"')
    + """
[agent]
multiAgent = true
[security.interceptor]
sensitive_tools = ["set_title"]
"""
)
SCRIPT = script(
    lead("^let it be named", spawn("name it"), wait(), say("It said: {result}")),
    lead("^let it ask", spawn("ask which"), wait(), say("It said: {result}")),
    lead("^let go", spawn("name it"), say("Gone on.")),
    lead("has ended", say("I heard.")),
    mate("^name", call("set_title", title="Boats"), say("named")),
    mate("^ask", call("ask_user", questions=[{"question": "Which boat?"}]), say("{result}")),
    {"match": "hang", "hang": True},
    {"match": "^name", "calls": [made("set_title", title="Ships")], "after_tool": "Came of it: {result}"},
    {"match": "^which", "calls": [made("ask_user", questions=[{"question": "Which ship?"}])], "after_tool": "{result}"},
    {"reply": "You said: {user}"},
)


async def start(talk: Talking, content: str, **fields: Any) -> pb.RunInfo:
    return (await talk.ask(start_run=pb.StartRunMsg(content=content, **fields))).run


async def runs(talk: Talking, *, all: bool = False) -> list[pb.RunInfo]:
    return list((await talk.ask(list_runs=pb.ListRunsMsg(all=all))).run_list.runs)


async def show(talk: Talking, run_id: str) -> pb.RunInfo:
    return (await talk.ask(get_run=pb.GetRunMsg(run_id=run_id))).run


async def over(talk: Talking, run_id: str) -> pb.RunInfo:
    message = pb.WaitRunsMsg(run_ids=[run_id], seconds=PATIENCE)
    (info,) = (await talk.ask(wait_runs=message)).run_list.runs
    return info


async def asked(talk: Talking, run_id: str) -> pb.RunInfo:
    """The run once it waits for a person."""
    message = pb.WaitRunsMsg(run_ids=[run_id], seconds=PATIENCE, until_asked=True)
    (info,) = (await talk.ask(wait_runs=message)).run_list.runs
    assert info.needs_person
    return info


async def decide(talk: Talking, ask_id: str, decision: str) -> pb.AskDecided:
    return (await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=ask_id, attempt=1, decision=decision))).ask_decided


@asynccontextmanager
async def holding(daemon: LiveDaemon, name: str, *senders: str) -> AsyncIterator[Talking]:
    """A connection of somebody with a token."""
    async with daemon.client() as owner:
        made_token = (await owner.ask(new_token=pb.NewTokenMsg(name=name, senders=senders))).token_created
        stats = (await owner.ask(get_stats=pb.GetStats())).stats
    async with connect(stats.tcp, token=made_token.token) as connection:
        yield Talking(connection)


async def test_an_approval_of_a_background_run_is_in_the_inbox_and_decides_it(daemon: LiveDaemon) -> None:
    async with daemon.client() as talk:
        run = await start(talk, "name it", agent="ada")
        info = await asked(talk, run.run_id)
        (ask,) = [ask for ask in await talk.asks() if ask.ask_id == info.ask_id]
        assert (ask.kind, ask.agent, ask.sender) == ("approval", "ada", run.sender)
        await decide(talk, ask.ask_id, "once")
        assert (await over(talk, run.run_id)).outcome == "completed"


async def test_a_question_of_a_background_run_is_answered_by_its_conversation(daemon: LiveDaemon) -> None:
    async with daemon.client() as talk:
        run = await start(talk, "which one", agent="ada")
        info = await asked(talk, run.run_id)
        assert info.condition == "blocked_waiting_message"
        await talk.reply("ada", "the blue one", run.sender)
        assert (await over(talk, run.run_id)).result == "the blue one"
    shown = daemon.cli_json("run", "which one", "--agent", "ada")
    assert shown["data"]["outcome"] == "waiting"
    (ask,) = [ask for ask in daemon.cli_json("inbox")["data"] if shown["data"]["run_id"] in ask["sender"]]
    assert daemon.cli("inbox", "reply", ask["ask_id"], "the red one").returncode == 0
    assert daemon.cli("wait", shown["data"]["run_id"]).stdout == "the red one\n"


async def test_what_a_teammate_asks_comes_up_in_the_stream_of_its_root(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        speech = talk.start("moot", "let it be named", sender)
        opened = await speech.until("approval_opened")
        (ask,) = [ask for ask in await talk.asks() if ask.sender == sender]
        assert (ask.ask_id, ask.agent, ask.speaker) == (opened.ask_id, "moot", "operator")
        late = talk.attach("moot", sender)
        assert (await late.until("approval_opened")).ask_id == opened.ask_id
        await decide(talk, opened.ask_id, "once")
        await speech.end()
        assert "named" in speech.text
        question = talk.start("moot", "let it ask", sender)
        await question.until("ask_user")
        await talk.reply("moot", "the third", sender)
        await question.end()
        assert "the third" in question.text


async def test_what_a_teammate_of_a_background_run_asks_comes_up_in_that_run(daemon: LiveDaemon) -> None:
    async with daemon.client() as talk:
        run = await start(talk, "let it be named")
        joined = Speech(talk.connection, pb.AttachRunMsg(run_id=run.run_id))
        opened = await joined.until("approval_opened")
        (ask,) = [ask for ask in await talk.asks() if ask.ask_id == opened.ask_id]
        assert (ask.agent, ask.sender, ask.speaker) == ("moot", run.sender, "operator")
        await decide(talk, opened.ask_id, "once")
        await joined.end()
        assert "named" in joined.text


async def test_subscribers_hear_what_a_teammate_asks_in_the_conversation_it_works_for(
    daemon: LiveDaemon, sender: str
) -> None:
    async with daemon.client() as talk, daemon.client() as listener:
        feed = await listener.connection.subscribe()
        speech = await talk.say("moot", "let go", sender)
        assert speech.outcome == "completed"
        async with asyncio.timeout(PATIENCE):
            async for event in feed:
                if event.root_sender == sender and event.kind == pb.APPROVAL:
                    break
        assert (event.root_agent, event.agent, event.speaker) == ("moot", "operator", "operator")
        await feed.aclose()
        (ask,) = [ask for ask in await talk.asks() if ask.sender == sender]
        await decide(talk, ask.ask_id, "deny")


async def test_an_idle_chat_asks_what_a_teammate_left_behind_asks(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "moot", "--as", sender) as person:
        person.enter("let go")
        person.wait_for("Gone on.")
        person.wait_on_screen("allow set_title?")
        person.wait_on_screen("o once · r run · c conversation")
        person.enter("o")
        person.wait_for("I heard.")
        person.type("\x04")
        assert person.wait_for_exit() == 0
    async with daemon.client() as talk:
        told = await talk.told("moot", sender)
        assert [agent for role, agent, _ in told if role == "user"] == ["", "operator"]
    shown = daemon.cli("history", "moot", "--as", sender).stdout
    assert "operator › operator (arun-" in shown


async def test_a_chat_that_is_opened_later_asks_it_too(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        await talk.say("moot", "let go", sender)
        await eventually(lambda: _asks_of(talk, sender))
    with terminal(daemon.home, "chat", "moot", "--as", sender) as person:
        person.wait_on_screen("o once · r run · c conversation")
        person.enter("d")
        person.wait_for("I heard.")


async def _asks_of(talk: Talking, sender: str) -> list[pb.AskInfo]:
    return [ask for ask in await talk.asks() if ask.sender == sender]


async def test_always_decided_in_a_background_run_holds_for_the_next(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            first = await start(talk, "name it", agent="ada", cwd=str(home.path))
            decided = await decide(talk, (await asked(talk, first.run_id)).ask_id, "always")
            assert decided.rule.endswith("for ada as user")
            second = await start(talk, "name it", agent="ada", cwd=str(home.path))
            assert (await over(talk, second.run_id)).outcome == "completed"
            # And for the same person's own conversation with the agent.
            speech = await talk.say("ada", "name it", cwd=str(home.path))
            assert speech.of("approval_opened") == []


# ---- whose runs they are ------------------------------------------------------------------------


async def test_a_token_sees_and_controls_the_runs_of_its_own_senders_alone(daemon: LiveDaemon) -> None:
    async with daemon.client() as owner, holding(daemon, "alice", "tg:*") as alice, holding(daemon, "mallory") as other:
        run = await start(alice, "hang on", agent="ada", sender="tg:1")
        assert run.sender == f"bg:{run.run_id}:tg:1"
        assert run.run_id in {info.run_id for info in await runs(alice)}
        assert run.run_id in {info.run_id for info in await runs(owner)}
        assert await runs(other, all=True) == []
        mine = await start(owner, "hang on", agent="ada")
        assert mine.run_id not in {info.run_id for info in await runs(alice, all=True)}
        for stranger, hidden in ((other, run.run_id), (other, run.run_id[:12]), (alice, mine.run_id)):
            await _cannot_reach(stranger, hidden)
        assert (await show(alice, run.run_id)).status == "running"
        for talk, mortal in ((alice, run.run_id), (owner, mine.run_id)):
            (stopped,) = (await talk.ask(stop_run=pb.StopRunMsg(run_id=mortal))).run_list.runs
            assert stopped.outcome == "cancelled"


async def _cannot_reach(talk: Talking, run_id: str) -> None:
    for message in (
        {"get_run": pb.GetRunMsg(run_id=run_id)},
        {"attach_run": pb.AttachRunMsg(run_id=run_id)},
        {"stop_run": pb.StopRunMsg(run_id=run_id)},
        {"wait_runs": pb.WaitRunsMsg(run_ids=[run_id])},
        {"get_run_history": pb.GetRunHistoryMsg(run_id=run_id)},
    ):
        with pytest.raises(NotFound):
            await talk.ask(**message)


async def test_a_token_reaches_the_teammates_of_its_own_conversations_alone(daemon: LiveDaemon) -> None:
    async with daemon.client() as owner, holding(daemon, "carol") as carol, holding(daemon, "dave") as dave:
        speech = carol.start("moot", "let it be named")
        await speech.until("approval_opened")
        (child,) = [info for info in await runs(carol) if info.kind == "teammate"]
        assert (child.root_agent, child.root_sender) == ("moot", "carol")
        history = (await carol.ask(get_run_history=pb.GetRunHistoryMsg(run_id=child.run_id))).history
        assert history.messages[0].content == "name it"
        listed = await carol.ask(list_conversations=pb.ListConversationsMsg(all=True))
        assert child.sender in {info.sender for info in listed.conversation_list.conversations}
        hidden = await dave.ask(list_conversations=pb.ListConversationsMsg(all=True))
        assert list(hidden.conversation_list.conversations) == []
        await _cannot_reach(dave, child.run_id)
        assert [ask.sender for ask in await carol.asks()] == ["carol"]
        assert await dave.asks() == []
        with pytest.raises(Forbidden):
            await decide(carol, child.ask_id, "once")
        await decide(owner, child.ask_id, "once")
        await speech.end()


async def test_nobody_speaks_as_a_background_run_or_a_teammate(daemon: LiveDaemon) -> None:
    async with daemon.client() as talk:
        run = await start(talk, "hello", agent="ada")
        await over(talk, run.run_id)
        with pytest.raises(BadRequest):
            await talk.say("ada", "as if I were it", run.sender)
        with pytest.raises(BadRequest):
            await start(talk, "another", sender=run.sender)
        # It can be looked at like any conversation of one's own.
        assert [content for _, _, content in await talk.told("ada", run.sender)] == ["hello", "You said: hello"]
        async with holding(daemon, "erin") as erin:
            with pytest.raises(MootError):
                await erin.history("ada", run.sender)


async def test_only_the_owner_chooses_where_a_task_works(daemon: LiveDaemon) -> None:
    async with holding(daemon, "frank") as frank:
        with pytest.raises(Forbidden):
            await start(frank, "hello", cwd="/")
