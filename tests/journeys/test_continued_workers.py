"""A coordinator gives a worker that has ended another task: what is refused, what the worker keeps, what survives."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from moot.domain.task_notification import TaskStatus
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, eventually, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.journeys.test_roles import SPAWN, bodies_of, call, notifications, offered, say, steps, system, users, write
from tests.talking import Talking
from tests.teaming import LINGER, began, eventually_idle

CONFIG = PROVIDER_CONFIG
WORKER = "SELECT id FROM runs WHERE kind = 'teammate' ORDER BY number"


@pytest.fixture
def home(home: Home) -> Home:
    write(home, "boss", "role: coordinator\n")
    write(home, "hand", 'role: worker\nprefixes: ["fs_*"]\n')
    return home


def go_on(worker_id: str, message: str, **more: Any) -> dict[str, Any]:
    return call("send_message_to_worker", worker_id=worker_id, message=message, **more)


async def ask(
    talk: Talking,
    provider: Provider,
    arguments: dict[str, Any],
    agent: str = "boss",
    sender: str = "",
) -> Any:
    """What a call of send_message_to_worker comes to."""
    provider.program(*steps("^call it", call("send_message_to_worker", **arguments), say("ok")))
    speech = await talk.say(agent, "call it", sender)
    (result,) = [each.output for each in speech.of("tool_result")]
    return json.loads(result)


async def first_worker(talk: Talking, home: Home, provider: Provider, **fields: str) -> str:
    """Let the coordinator start a worker that reports; return its id."""
    provider.program(
        *steps("^go", SPAWN, say("Started.")),
        *steps("read the file", call("fs_list", path="."), say("It says hello.")),
        *steps("task-notification", say("Heard.")),
    )
    await talk.say("boss", "go", **fields)
    await eventually_idle(home, talk)
    return str(home.query(WORKER)[0][0])


async def test_a_worker_goes_on_with_all_it_knows_and_its_next_end_is_a_notification(
    home: Home, provider: Provider
) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            worker = await first_worker(talk, home, provider)
            provider.program(*steps("now count", say("Five letters.")), *steps("task-notification", say("Heard.")))
            told = await ask(talk, provider, {"worker_id": worker, "message": "now count the letters"})
            first, second = await notifications(talk, home)
            goals = home.query("SELECT count(*) FROM conversations WHERE agent = 'hand'")
            waits = steps("^wait", call("agent_wait", agent_id=worker), say("ok"))
            provider.program(*waits)
            again = await talk.say("boss", "wait")
    before, after = bodies_of(provider, "hand")[1], bodies_of(provider, "hand")[-1]

    assert told == {
        "ok": True,
        "kind": "Continued",
        "worker_id": worker,
        "prior_status": "completed",
        "messages_count": 4,
        "message_bytes": len(b"now count the letters"),
        "pipeline_pending": True,
    }
    assert (first.task_id, second.task_id) == (worker, worker)
    assert (first.result, second.result) == ("It says hello.", "Five letters.")
    assert (first.tool_uses, second.tool_uses) == (1, 0)
    assert goals == [(1,)]
    # The whole history of the worker, with its calls, and the same instructions and tools.
    roles = [message["role"] for message in after["messages"]]
    assert "tool" in roles
    assert "It says hello." in json.dumps(after["messages"])
    assert (system(before), offered(before)) == (system(after), offered(after))
    # The id of a worker names its newest run.
    assert "Five letters." in again.of("tool_result")[0].output


async def test_refusals_come_in_their_order_and_tell_nothing_of_others(home: Home, provider: Provider) -> None:
    write(home, "chief", "role: coordinator\n")
    write(home, "mute", "role: coordinator\ndenied: [send_message_to_worker]\n")
    write(home, "aide", "role: assistant\n")
    write(home, "few", 'prefixes: ["fs_*"]\n')
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            worker = await first_worker(talk, home, provider)
            # Whoever is no coordinator is refused by the tool itself: it is not told that there is none.
            roles = [
                await ask(talk, provider, {"worker_id": "", "message": 5}, agent=agent)
                for agent in ("ada", "few", "aide", "hand")
            ]
            provider.program(
                *steps("^go again", call("agent_spawn", agent="hand", instruction="climb"), say("Started.")),
                *steps("climb", go_on(worker, "x"), say("Could not.")),
                *steps("task-notification", say("Heard.")),
            )
            await talk.say("boss", "go again")
            await eventually_idle(home, talk)
            results = [each for each in bodies_of(provider, "hand")[-1]["messages"] if each["role"] == "tool"]
            roles.append(json.loads(results[-1]["content"]))
            # A coordinator whose file denies the tool does not have it, and nothing is done.
            provider.program(*steps("^call it", go_on(worker, "x"), say("ok")))
            (denied,) = (await talk.say("mute", "call it")).of("tool_result")
            wire = [
                await ask(talk, provider, arguments)
                for arguments in (
                    {},
                    {"message": "x" * 40_000},
                    {"worker_id": worker},
                    {"worker_id": 7, "message": "x"},
                    {"worker_id": worker, "message": "  "},
                )
            ]
            large = [
                await ask(talk, provider, {"worker_id": "arun-none", "message": text})
                for text in ("é" * 16_384, "é" * 16_384 + "x")
            ]
            unknown = [
                await ask(talk, provider, {"worker_id": worker, "message": "x"}, agent="chief"),
                await ask(talk, provider, {"worker_id": worker, "message": "x"}, sender="other"),
            ]
            missing = await ask(talk, provider, {"worker_id": "arun-0000000000000000", "message": "x"})
            provider.program(*steps("go slow", say("late", hold=True)))
            await ask(talk, provider, {"worker_id": worker, "message": "go slow"})
            busy = await ask(talk, provider, {"worker_id": worker, "message": "more"})
            provider.release()
            await eventually_idle(home, talk)

    refusal = {"ok": False, "kind": "RoleRefused", "error": "only a coordinator can call send_message_to_worker"}
    assert roles == [refusal] * 5
    assert denied.output.startswith("There is no tool 'send_message_to_worker' here.")
    assert {each["kind"] for each in wire} == {"Wire"}
    assert wire[0]["error"] == "send_message_to_worker requires `worker_id` (non-empty string)"
    assert wire[2]["error"] == "send_message_to_worker requires `message` (non-empty string)"
    assert [each["kind"] for each in large] == ["UnknownWorker", "MessageTooLarge"]
    assert large[1]["error"] == "`message` is 32769 bytes, max 32768"
    # Byte for byte what is said of an id that never existed.
    expected = json.dumps(missing).replace("arun-0000000000000000", worker)
    assert [json.dumps(each) for each in unknown] == [expected, expected]
    assert missing["error"] == "no worker `arun-0000000000000000` registered for this binding"
    assert (busy["ok"], busy["kind"]) == (False, "WorkerStillRunning")


async def test_one_step_continues_a_worker_only_once(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            worker = await first_worker(talk, home, provider)
            both = {"calls": [go_on(worker, "now one")["calls"][0], go_on(worker, "now two")["calls"][0]]}
            provider.program(
                *steps("^twice", both, say("ok")), *steps("^now", say("Done.", hold=True)),
                *steps("task-notification", say("Heard.")),
            )  # fmt: skip
            speech = await talk.say("boss", "twice")
            provider.release()
            kinds = sorted(json.loads(each.output)["kind"] for each in speech.of("tool_result"))
            assert len(await notifications(talk, home)) == 2

    assert kinds == ["Continued", "WorkerStillRunning"]


async def test_a_continued_worker_keeps_its_narrowing_and_can_be_stopped(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    spawn = call("agent_spawn", agent="hand", instruction="read the file", allowed_tools=["fs_read"])
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            provider.program(*steps("^go", spawn, say("ok")), *steps("read the file", say("Read.")))
            await talk.say("boss", "go", cwd=str(tmp_path))
            await eventually_idle(home, talk)
            ((worker,),) = home.query(WORKER)
            provider.program(*steps("go slow", say("late", hold=True)))
            await ask(talk, provider, {"worker_id": worker, "message": "go slow"})
            await eventually(lambda: len(bodies_of(provider, "hand")) == 2)
            provider.program(*steps("^stop it", call("agent_stop", agent_id=worker), say("ok")))
            stopped = await talk.say("boss", "stop it")
            first, second = await notifications(talk, home)
            again = await ask(talk, provider, {"worker_id": worker, "message": "and now"})
            await eventually_idle(home, talk)
            cwds = home.query("SELECT DISTINCT cwd FROM runs WHERE kind = 'teammate'")
    bodies = bodies_of(provider, "hand")

    assert "<status>killed</status>" in stopped.of("tool_result")[0].output
    assert (first.status, second.status) == (TaskStatus.COMPLETED, TaskStatus.KILLED)
    assert (again["kind"], again["prior_status"]) == ("Continued", "terminated")
    assert {"fs_read"} <= offered(bodies[0])
    assert "fs_write" not in offered(bodies[0])
    assert len({tuple(sorted(offered(body))) for body in bodies}) == 1
    assert cwds == [(str(tmp_path),)]


async def test_an_approval_inside_a_continued_worker_is_asked_in_the_coordinators_conversation(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            worker = await first_worker(talk, home, provider, cwd=str(tmp_path))
            writes = call("fs_write", path="a.txt", content="b")
            provider.program(*steps("now write", writes, say("Written.")), *steps("task-notification", say("Heard.")))
            await ask(talk, provider, {"worker_id": worker, "message": "now write"})
            (asked,) = await eventually(talk.asks)
            await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=asked.ask_id, attempt=asked.attempt, decision="once"))
            _, second = await notifications(talk, home)

    assert (asked.agent, asked.tool) == ("boss", "fs_write")
    assert (second.result, second.tool_uses) == ("Written.", 1)
    assert (tmp_path / "a.txt").read_text() == "b"


async def test_what_a_worker_has_read_taints_the_coordinator_that_continues_it(home: Home, provider: Provider) -> None:
    write(home, "hand", 'role: worker\nprefixes: ["fs_*", "web_*"]\n')
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            worker = await first_worker(talk, home, provider)
            home.change("UPDATE messages SET taint = '[\"web\"]' WHERE role = 'tool' AND run_id = ?", [[worker]])
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            provider.program(*steps("^now", say("Done.")), *steps("task-notification", say("Heard.")))
            await ask(talk, provider, {"worker_id": worker, "message": "now"})
            await eventually_idle(home, talk)
            tainted = home.query("SELECT taint FROM messages WHERE content LIKE '<task-notification>%' ORDER BY id")
            answers = home.query("SELECT taint FROM messages WHERE content = 'ok'")
    assert [row[0] for row in tainted] == ["", '["web"]']
    # What the coordinator was told of its worker, before any notification said so, taints it as well.
    assert answers == [('["web"]',)]


async def test_a_guest_of_a_coordinator_is_no_coordinator_and_sees_what_was_said(
    home: Home, provider: Provider
) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await first_worker(talk, home, provider)
            await talk.say("boss", "what do you think?", guest="ada")
            await talk.say("ada", "hello", guest="boss")
    guest, own = bodies_of(provider, "ada")[0], bodies_of(provider, "boss")[-1]

    assert (offered(guest), offered(own)) == (set(), set())
    assert "COORDINATOR ROLE" not in system(guest) + system(own)
    assert "Your workers" not in users(guest)
    assert "<task-notification>" in users(guest)


@pytest.mark.parametrize("point", ["teammate.ended:2", "teammate.spawned:2", "committed.spawn:2"])
async def test_a_continued_worker_survives_a_kill_and_is_told_once(home: Home, provider: Provider, point: str) -> None:
    with running(home, MOOT_FAIL_AT=point) as daemon:
        async with daemon.client() as talk:
            worker = await first_worker(talk, home, provider)
            provider.program(
                *steps("^more", go_on(worker, "now count"), say("Continued."), say("Continued.")),
                *steps("now count", say("Five."), say("Five.")),
                *steps("task-notification", say("Heard."), say("Heard.")),
            )
            talk.start("boss", "more")
            await eventually(lambda: daemon.process.poll() is not None)
        daemon.kill_9()
    with running(home) as daemon:
        async with daemon.client() as talk:
            told = await notifications(talk, home)
    assert [(each.task_id, each.result) for each in told] == [(worker, "It says hello."), (worker, "Five.")]
    assert home.query("SELECT count(*) FROM runs WHERE kind = 'teammate'") == [(2,)]


async def test_a_turn_begun_by_a_notification_goes_on_after_a_kill(home: Home, provider: Provider) -> None:
    provider.program(
        *steps("^go", SPAWN, say("Started.")),
        *steps("read the file", say("Read.")),
        *steps("task-notification", say("lost", hold=True), say("Heard.")),
    )
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("boss", "go")
            await eventually(lambda: any("<task-notification>" in users(body) for body in bodies_of(provider, "boss")))
        daemon.kill_9()
    with running(home) as daemon:
        async with daemon.client() as talk:
            (told,) = await notifications(talk, home)
            *_, last = await talk.told("boss")
    assert (told.status, last[2]) == (TaskStatus.COMPLETED, "Heard.")


async def test_a_worker_that_the_daemon_left_in_doubt_has_failed(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    (home.path / "tools").mkdir()
    (home.path / "tools" / "linger.py").write_text(LINGER)
    mark = tmp_path / "mark"
    provider.program(
        *steps("^go", SPAWN, say("Started.")),
        *steps("read the file", call("fs_linger", mark=str(mark))),
        *steps("task-notification", say("Heard.")),
    )
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("boss", "go")
            await began(mark)
        daemon.kill_9()
    with running(home) as daemon:
        async with daemon.client() as talk:
            (told,) = await notifications(talk, home)
            worker = told.task_id
            provider.program(*steps("try again", say("Done.")), *steps("task-notification", say("Heard.")))
            continued = await ask(talk, provider, {"worker_id": worker, "message": "try again"})
            _, second = await notifications(talk, home)
    assert (told.status, told.summary[:12]) == (TaskStatus.FAILED, "interrupted:")
    assert continued["prior_status"] == "terminated"
    assert (second.task_id, second.result) == (worker, "Done.")


async def test_a_worker_whose_context_is_full_is_compacted_when_it_goes_on(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            provider.program(
                *steps("^go", SPAWN, say("Started.")),
                *steps("read the file", say("Read it all.", usage={"prompt": 96_000, "completion": 4})),
                *steps("task-notification", say("Heard.")),
            )
            await talk.say("boss", "go")
            await eventually_idle(home, talk)
            ((worker,),) = home.query(WORKER)
            provider.program(
                *steps("summary", say("The file was read.")),
                *steps("now count", say("Five.")),
                *steps("task-notification", say("Heard.")),
            )
            await ask(talk, provider, {"worker_id": worker, "message": "now count"})
            _, second = await notifications(talk, home)
    asked = [body for body in bodies_of(provider, "boss") if "call it" in users(body)][0]
    last = bodies_of(provider, "hand")[-1]

    assert f"- {worker} (hand), completed, context 96% full: start another instead" in users(asked)
    assert (second.task_id, second.result) == (worker, "Five.")
    assert "The file was read." in users(last)
    assert "Read it all." not in json.dumps(last["messages"])


async def test_notifications_are_exported_and_imported_and_a_forged_one_is_text(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await first_worker(talk, home, provider)
        exported = daemon.cli("export", "boss").stdout
        forged = exported.replace("<status>completed", "<status>splendid")
        for sender, text in (("copy", exported), ("forged", forged)):
            (tmp_path / sender).write_text(text)
            assert daemon.cli("import", str(tmp_path / sender), "--as", sender).returncode == 0
        async with daemon.client() as talk:
            await talk.say("boss", "hello", "copy")
            await talk.say("boss", "hello", "forged")
    copy, fake = bodies_of(provider, "boss")[-2:]

    assert users(copy).count("<task-notification>") == 1
    assert "<task-notification>" not in users(fake)
    assert re.search("&lt;task-notification", users(fake))
