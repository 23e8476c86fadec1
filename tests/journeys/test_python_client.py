"""Programs use `moot.client`: interruptions stop what they started, losses are survived, errors say what to do."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from moot.client import (
    Approval,
    AsyncMoot,
    Discarded,
    Ended,
    EventInfo,
    Gap,
    Limits,
    Moot,
    Question,
    Queued,
    RunFailed,
    Started,
    StreamItem,
    Text,
    ToolResult,
    Unreachable,
    WaitingForPerson,
)
from moot.domain.errors import Conflict, NotFound
from tests.daemon_process import Home, LiveDaemon, run_cli
from tests.daemon_thread import DaemonThread, daemon_thread

CONFIG = """
default_model = "scripted"
[models.scripted]
provider = "scripted"
script = "script.toml"
[listen]
http = "off"
tcp = "off"
[security.interceptor]
sensitive_tools = ["set_title"]
"""
SCRIPT = """
[[rule]]
match = "hang"
hang = true

[[rule]]
match = "fail"
error = "the model is on fire"

[[rule]]
match = "rename"
calls = [{ name = "set_title", arguments = { title = "Ferry" } }]
after_tool = "Renamed."

[[rule]]
match = "both"
calls = [
  { name = "ask_user", arguments = { questions = [{ question = "Which name?" }] } },
  { name = "set_title", arguments = { title = "Ferry" } },
]
after_tool = "Did both."

[[rule]]
match = "two questions"
calls = [{ name = "ask_user", arguments = { questions = [{ question = "First?" }, { question = "Second?" }] } }]
after_tool = "{result}"

[[rule]]
reply = "You said: {user}"
"""


def client(daemon: LiveDaemon, sender: str) -> AsyncMoot:
    return AsyncMoot(home=daemon.home.path, sender=sender)


async def outcomes(moot: AsyncMoot) -> list[str]:
    return [message.outcome for message in await moot.history("ada") if message.role == "user"]


async def until(events: AsyncGenerator[EventInfo | Gap, None], kind: str, sender: str) -> None:
    async for event in events:
        if isinstance(event, EventInfo) and (event.kind, event.sender) == (kind, sender):
            return


async def test_a_cancelled_ask_stops_its_run_and_only_its_own(daemon: LiveDaemon, sender: str) -> None:
    async with client(daemon, sender) as moot, client(daemon, sender) as other, asyncio.TaskGroup() as tasks:
        async with moot.events() as events:
            first = tasks.create_task(moot.ask("ada", "hang", detach=True))
            await until(events, "started", sender)
            second = tasks.create_task(other.ask("ada", "hang on"))
            await until(events, "queued", sender)
            # The message in the queue is withdrawn; the run ahead of it goes on.
            second.cancel()
            await until(events, "withdrawn", sender)
            assert [run.status for run in await moot.runs() if run.root_sender == sender] == ["running"]
            # Left alone where that was asked for.
            first.cancel()
            async with aclosing(moot.attach("ada")) as items:
                async for item in items:
                    assert isinstance(item, Started)
                    break
            (run,) = [run for run in await moot.runs() if run.root_sender == sender]
            assert [stopped.outcome for stopped in await moot.stop(run)] == ["cancelled"]
            third = tasks.create_task(moot.ask("ada", "hang again"))
            await until(events, "started", sender)
            third.cancel()
            await until(events, "done", sender)
        assert await outcomes(moot) == ["cancelled", "cancelled"]


async def test_an_ask_that_is_cancelled_before_anything_came_back_is_stopped(daemon: LiveDaemon, sender: str) -> None:
    async with client(daemon, sender) as moot, moot.events() as events:
        task = asyncio.get_running_loop().create_task(moot.ask("ada", "hang"))
        # It has sent its message and waits.
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(events, "done", sender)
        assert await outcomes(moot) == ["cancelled"]


async def test_leaving_a_stream_early_stops_the_run(daemon: LiveDaemon, sender: str) -> None:
    async with client(daemon, sender) as moot:
        async with aclosing(moot.stream("ada", "hang")) as items:
            async for item in items:
                if isinstance(item, Started):
                    break
        assert await outcomes(moot) == ["cancelled"]


def test_ctrl_c_stops_the_run_of_a_synchronous_ask(daemon: LiveDaemon, sender: str) -> None:
    with Moot(home=daemon.home.path, sender=sender) as moot:
        with moot.events() as events:

            def interrupt() -> None:
                for event in events:
                    if isinstance(event, EventInfo) and (event.kind, event.sender) == ("started", sender):
                        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                        return

            watching = threading.Thread(target=interrupt)
            watching.start()
            with pytest.raises(KeyboardInterrupt):
                moot.ask("ada", "hang")
            watching.join()
        # It has been stopped when `ask` returns, and the client can still be used.
        assert [message.outcome for message in moot.history("ada")] == ["cancelled"]
        assert moot.ask("ada", "hello").text == "You said: hello"
        for item in moot.stream("ada", "hang"):
            if isinstance(item, Started):
                break
        assert [each.outcome for each in moot.history("ada") if each.role == "user"][-1] == "cancelled"
    moot.close()
    with pytest.raises(RuntimeError, match="closed"):
        moot.agents()


async def test_a_lost_connection_in_the_middle_of_a_turn_is_survived(daemon: LiveDaemon, sender: str) -> None:
    async with client(daemon, sender) as moot:
        seen: list[StreamItem] = []
        async with moot.events() as events, aclosing(moot.stream("ada", "rename")) as items:
            async for item in items:
                seen.append(item)
                if isinstance(item, Approval) and not any(isinstance(each, Discarded) for each in seen):
                    (await moot._link.open()).close()
                elif isinstance(item, Approval):
                    await moot.decide(item, "once")
            kinds = []
            async for event in events:
                assert isinstance(event, EventInfo)
                if event.sender == sender:
                    kinds.append(event.kind)
                if kinds and kinds[-1] == "done":
                    break
        ended = seen[-1]
        assert isinstance(ended, Ended)
        assert (ended.reply.text, ended.reply.outcome) == ("Renamed.", "completed")
        # The subscription continued where it was: nothing twice, nothing missing.
        assert [kind for kind in kinds if kind in ("started", "approval", "approval_closed", "done")] == [
            "started", "approval", "approval_closed", "done",
        ]  # fmt: skip
        assert [message.text for message in await moot.history("ada") if message.role == "user"] == ["rename"]


async def test_a_turn_that_the_end_of_the_daemon_interrupts_is_not_sent_again(home: Home) -> None:
    first = DaemonThread.start(home)
    async with AsyncMoot(home=home.path) as moot, aclosing(moot.stream("ada", "hang")) as items:
        assert isinstance(await anext(items), Started)
        await asyncio.to_thread(first.stop)
        with daemon_thread(home):
            *_, ended = [item async for item in items]
            assert isinstance(ended, Ended)
            assert ended.reply.outcome == "interrupted"
            assert await outcomes(moot) == ["interrupted"]
            assert (await moot.ask("ada", "hello")).text == "You said: hello"
    with pytest.raises(Unreachable) as raised:
        await AsyncMoot(home=home.path).agents()
    assert "moot up" in raised.value.fix


async def test_without_a_callback_an_ask_that_waits_raises_and_can_be_decided_later(
    daemon: LiveDaemon, sender: str
) -> None:
    async with client(daemon, sender) as moot:
        with pytest.raises(WaitingForPerson) as raised:
            await moot.ask("ada", "rename")
        approval = raised.value.ask
        assert isinstance(approval, Approval)
        assert (approval.tool, approval.agent, approval.sender, approval.attempt) == ("set_title", "ada", sender, 1)
        assert [ask for ask in await moot.asks() if ask.sender == sender] == [approval]
        # A message behind it says so instead of waiting for ever.
        with pytest.raises(WaitingForPerson, match="the run ahead waits") as behind:
            await moot.ask("ada", "hello", message_id="behind")
        assert behind.value.ask == approval
        async with aclosing(moot.attach("ada")) as items:
            assert await moot.decide(approval, True) == "granted"
            *_, ended = [item async for item in items]
        assert isinstance(ended, Ended)
        assert ended.reply.text == "Renamed."
        with pytest.raises(Conflict):
            await moot.decide(approval, True)
        # The one behind it has had its turn; its id makes sending it again the same turn.
        assert (await moot.ask("ada", "hello", message_id="behind")).text == "You said: hello"
        assert [each.text for each in await moot.history("ada") if each.role == "user"] == ["rename", "hello"]


async def test_callbacks_answer_for_the_run_ahead_in_the_queue(daemon: LiveDaemon, sender: str) -> None:
    shown: list[Approval | Question] = []

    async def allow(approval: Approval) -> bool:
        shown.append(approval)
        return True

    def answer(question: Question) -> str:
        shown.append(question)
        return "Tide"

    async with client(daemon, sender) as moot:
        with pytest.raises(WaitingForPerson) as raised:
            await moot.ask("ada", "rename")
        # A callback that decides nothing is as none, and so is one for the other kind.
        with pytest.raises(WaitingForPerson, match="the run ahead waits") as behind:
            await moot.ask("ada", "hello", message_id="1", on_approval=lambda _: None)
        assert behind.value.ask == raised.value.ask
        with pytest.raises(WaitingForPerson, match="the run ahead waits"):
            await moot.ask("ada", "hello", message_id="1", on_question=answer)
        assert (await moot.ask("ada", "hello", message_id="1", on_approval=allow)).text == "You said: hello"
        assert shown == [raised.value.ask]
        # One ask of the run ahead after another, of both kinds.
        shown.clear()
        with pytest.raises(WaitingForPerson):
            await moot.ask("ada", "both")
        assert (await moot.ask("ada", "hi", on_approval=allow, on_question=answer)).text == "You said: hi"
        assert {type(ask) for ask in shown} == {Question, Approval}
        assert len(shown) == 2
        # A stream yields them after the position.
        shown.clear()
        with pytest.raises(WaitingForPerson) as raised:
            await moot.ask("ada", "rename")
        items = [item async for item in moot.stream("ada", "hey", on_approval=allow)]
        assert isinstance(items[0], Queued)
        assert items[1] == raised.value.ask
        assert shown == [raised.value.ask]
        assert str(items[-1].reply if isinstance(items[-1], Ended) else "") == "You said: hey"


def test_callbacks_of_the_synchronous_client_answer_for_the_run_ahead(daemon: LiveDaemon, sender: str) -> None:
    shown: list[Approval | Question] = []

    def allow(approval: Approval) -> bool:
        shown.append(approval)
        return True

    def answer(question: Question) -> list[str]:
        shown.append(question)
        return ["Yes" for _ in question.questions]

    with Moot(home=daemon.home.path, sender=sender) as plain:
        with pytest.raises(WaitingForPerson) as approval:
            plain.ask("ada", "rename")
        with Moot(home=daemon.home.path, sender=sender, on_approval=allow, on_question=answer) as moot:
            with pytest.raises(WaitingForPerson, match="the run ahead waits"):
                plain.ask("ada", "hello", message_id="1")
            assert str(moot.ask("ada", "hello", message_id="1")) == "You said: hello"
            with pytest.raises(WaitingForPerson) as question:
                plain.ask("ada", "two questions")
            items = list(moot.stream("ada", "hey"))
    assert shown == [approval.value.ask, question.value.ask]
    assert (type(items[0]), items[1], type(items[-1])) == (Queued, question.value.ask, Ended)


async def test_callbacks_may_be_coroutines_and_a_no_reaches_the_model(daemon: LiveDaemon, sender: str) -> None:
    async def deny(approval: Approval) -> bool:
        await asyncio.sleep(0)
        return False

    async def answer(question: Question) -> list[str]:
        return [f"to {item.text}" for item in question.questions]

    async with client(daemon, sender) as moot:
        results = [
            item.is_error
            async for item in moot.stream("ada", "rename", on_approval=deny)
            if isinstance(item, ToolResult)
        ]
        assert results == [True]
        reply = await moot.ask("ada", "two questions", on_question=answer)
        assert reply.text == '{"First?": "to First?", "Second?": "to Second?"}'


async def test_errors_are_the_same_classes_and_a_failed_run_has_its_reply(daemon: LiveDaemon, sender: str) -> None:
    async with client(daemon, sender) as moot:
        with pytest.raises(NotFound) as missing:
            await moot.ask("nobody", "hello")
        assert missing.value.fix
        with pytest.raises(RunFailed, match="on fire") as failed:
            await moot.ask("ada", "fail")
        assert (failed.value.type, failed.value.reply and failed.value.reply.outcome) == ("model_error",) * 2
        *_, ended = [item async for item in moot.stream("ada", "fail")]
        assert isinstance(ended, Ended)
        run = await moot.run(ended.reply.run_id)
        assert (run.kind, run.outcome, run.has_ended) == ("turn", "model_error", True)


async def test_an_option_that_does_not_exist_is_an_error_and_starts_nothing(daemon: LiveDaemon, sender: str) -> None:
    unknown: Any = {"limit": Limits(steps=1)}
    async with AsyncMoot(home=daemon.home.path, sender=sender) as moot:
        with pytest.raises(TypeError, match="unknown keyword arguments: 'limit'; known are: .*limits"):
            await moot.ask("ada", "hello", **unknown)
        with pytest.raises(TypeError, match="'guest'"):
            await moot.start_run("hello", "ada", **{"guest": "bob"} | unknown)
        with Moot(home=daemon.home.path, sender=sender) as sync, pytest.raises(TypeError, match="'limit'"):
            sync.stream("ada", "hello", **unknown)
        assert [each for each in await moot.conversations() if each.sender == sender] == []


async def test_runs_are_started_waited_for_and_repeated(daemon: LiveDaemon, sender: str) -> None:
    async with client(daemon, sender) as moot:
        started = await moot.start_run("work", agent="ada", message_id="one")
        assert (await moot.start_run("work", agent="ada", message_id="one")).id == started.id
        (run,) = await moot.wait(started)
        assert (run.kind, run.outcome, run.result) == ("background", "completed", "You said: work")
        items = [item async for item in moot.attach_run(run.id)]
        assert "".join(str(item) for item in items if isinstance(item, Text)) == "You said: work"
        hanging = await moot.start_run("hang", agent="ada")
        assert not (await moot.wait(hanging, seconds=0))[0].has_ended
        assert [each.outcome for each in await moot.stop(hanging)] == ["cancelled"]
        assert {run.id, hanging.id} <= {each.id for each in await moot.runs(ended=True)}


def test_a_client_can_start_the_daemon(home: Home) -> None:
    try:
        with Moot(home=home.path, start=True) as moot:
            assert moot.ask("ada", "hello").text == "You said: hello"
            assert {agent.name for agent in moot.agents()} >= {"ada", "bob"}
    finally:
        assert run_cli(home, "down", "--now").returncode == 0


def test_importing_the_package_imports_nothing_else(tmp_path: Path) -> None:
    code = "import sys, moot.client; print(sorted({'asyncio', 'google', 'msgspec', 'typing'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
