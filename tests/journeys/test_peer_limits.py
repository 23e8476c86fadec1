"""Mail in bulk, from others and for nobody: what it must not block, hide, start or leave behind."""

import asyncio
import json
from contextlib import suppress

import pytest

from moot.domain.errors import MootError
from moot.domain.mail import INBOX_CAPACITY, MAX_BODY_BYTES
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, eventually, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.journeys.test_peers import SCRIPTED, agent, allow, call, goal_id, last_result, results, said, send
from tests.scripting import call as scripted_call
from tests.scripting import say, script
from tests.talking import Talking

CONFIG = PROVIDER_CONFIG
FULL = "m" * MAX_BODY_BYTES
FROM_USER = '<peer-message from="@user"'


async def mail(talk: Talking, to: str, body: str, **more: str) -> pb.MailReport:
    return (await talk.ask(send_mail=pb.SendMailMsg(agent=to, content=body, **more))).mail_report


async def test_many_conversations_of_another_principal_do_not_hide_mine(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        daemon.cli("tokens", "new", "eve", "--sender", "eve:*")
        async with daemon.client() as talk:
            provider.program(*({"text": "Morning."} for _ in range(72)))
            await talk.say("bob", "hello")
            for number in range(70):
                await talk.say("bob", "hello", f"eve:{number}")
            await talk.say("ada", "hello")
            provider.program(send("bob", "hello"), {"text": "Sent."})
            await talk.say("ada", "send it")
            assert last_result(provider)["delivered_to"] == [await goal_id(talk, "bob", "user")]


async def test_an_agent_with_too_many_goals_has_its_goals_listed_and_is_written_to_by_one(
    home: Home, provider: Provider
) -> None:
    allow(home, "ada", "allowed_delegates: [bob]")
    with daemon_thread(home) as daemon:
        daemon.cli("tokens", "new", "eve", "--sender", "eve:*")
        async with daemon.client() as talk:
            provider.program(*({"text": "Morning."} for _ in range(67)))
            await talk.say("bob", "hello", "eve:1")
            for number in range(66):
                await talk.say("bob", "hello", f"tg:{number}")
            provider.program(
                send("bob", "hello"),
                *(call("list_peers", goals_of="bob", page=page) for page in (1, 2, 3, 4)),
                call("list_peers", goals_of="cyd"),
                {"text": "I see."},
            )
            await talk.say("ada", "send it")
            crowded, *pages, refused = results(provider.bodies()[-1])
            assert 'more than 64 live goals. Name one of them with `goal_id`; list_peers(goals_of="bob")' in crowded
            found = [json.loads(page) for page in pages]
            assert [(len(page["goals"]), page.get("next_page")) for page in found] == [
                (32, 2), (32, 3), (2, None), (0, None)
            ]  # fmt: skip
            assert [peer["agent_id"] for peer in found[0]["peers"]] == ["bob"]
            goals = {goal["sender"]: goal for page in found for goal in page["goals"]}
            # Not those of another principal.
            assert goals.keys() == {f"tg:{number}" for number in range(66)}
            assert (goals["tg:7"]["kind"], goals["tg:7"]["state"]) == ("interactive", "idle")
            assert "you cannot write to `cyd`" in refused
            provider.program(send("bob", "hello", goal_id=goals["tg:7"]["goal_id"]), {"text": "Sent."})
            await talk.say("ada", "send it to one")
            assert last_result(provider)["delivered_to"] == [await goal_id(talk, "bob", "tg:7")]


async def test_full_mailboxes_are_read_in_parts_and_dead_mail_is_listed_in_parts(
    home: Home, provider: Provider
) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            provider.program({"text": "Morning."})
            await talk.say("bob", "hello")
            for number in range(INBOX_CAPACITY + 100):
                await mail(talk, "bob", f"{number:03}{FULL[3:]}")
            # All of it together would not fit into an answer.
            dead = (await talk.ask(list_dead_mail=pb.ListDeadMailMsg())).dead_mail.mail
            assert [each.mail.body[:3] for each in dead[:2]] == ["099", "098"]
            assert 50 < len(dead) < 100
            # One that is not listed can be sent again too.
            (oldest,) = home.query("SELECT id FROM mail WHERE evicted_at > 0 ORDER BY number LIMIT 1")
            await talk.ask(resend_mail=pb.ResendMailMsg(mail_id=oldest[0]))
            provider.program({"text": "Read one."}, {"text": "Read another."})
            await talk.say("bob", "news?")
            first = said(provider.bodies()[-1])
            assert (first.count(FROM_USER), "\n101m" in first) == (2, True)
            await talk.say("bob", "more?")
            assert said(provider.bodies()[-1]).count(FROM_USER) == 4
            assert (await talk.ask(list_goals=pb.ListGoalsMsg(agent="bob"))).goals.goals[0].unread == INBOX_CAPACITY - 4


async def test_mail_for_a_run_that_has_ended_is_not_sent_again(home: Home) -> None:
    home.write_config(SCRIPTED)
    steps = [scripted_call("wait_for_peer", correlation_id="7a3b2f00-0000-4000-8000-000000000001", timeout=600)]
    home.write_script(script(agent("bob", "work", *steps, say("Done."))))
    with daemon_thread(home) as daemon:
        run = (await asyncio.to_thread(daemon.cli_json, "run", "--bg", "--agent", "bob", "work"))["data"]["run_id"]
        async with daemon.client() as talk:
            goals = await eventually(lambda: talk.ask(list_goals=pb.ListGoalsMsg(agent="bob")))
            (goal,) = goals.goals.goals
            # A run that has not begun to wait would be shown the message at its first step.
            await eventually(lambda: is_waiting(talk, run))
            assert (await mail(talk, "bob", "too late", goal_id=goal.goal_id)).delivered_to == [goal.goal_id]
            await asyncio.to_thread(daemon.cli, "stop", run)
            (dead,) = await eventually(lambda: list_dead(talk))
            done = await asyncio.to_thread(daemon.cli, "peers", "resend", dead.mail.mail_id)
            assert (done.returncode, "has ended" in done.stderr) == (1, True)
            assert len(await list_dead(talk)) == 1


async def is_waiting(talk: Talking, run_id: str) -> bool:
    """Whether a run calls wait_for_peer."""
    run = (await talk.ask(get_run=pb.GetRunMsg(run_id=run_id))).run
    return "wait_for_peer" in run.last_action


async def list_dead(talk: Talking) -> list[pb.DeadMailInfo]:
    return list((await talk.ask(list_dead_mail=pb.ListDeadMailMsg())).dead_mail.mail)


async def test_mail_for_a_run_that_ended_in_a_crash_is_given_back(home: Home) -> None:
    home.write_config(SCRIPTED)
    telling = (scripted_call("send_to_peer", to="bob", message="one more thing"), say("Told."))
    home.write_script(
        script(agent("ada", "Tell bob", *telling), {"match": "long work", "hang": True}, {"reply": "Yes."})
    )
    # The second run to end is that of bob, whose end is announced to nobody.
    with running(home, MOOT_FAIL_AT="committed.end:2") as daemon:
        async with daemon.client() as talk:
            run = (await talk.ask(start_run=pb.StartRunMsg(agent="bob", content="long work"))).run
            await talk.say("ada", "Tell bob")
            with suppress(MootError, OSError):
                await talk.ask(stop_run=pb.StopRunMsg(run_id=run.run_id))
        daemon.reap()
    with running(home) as daemon:
        async with daemon.client() as talk:
            (dead,) = await eventually(lambda: list_dead(talk))
            assert dead.mail.body == "one more thing"
            await talk.say("ada", "What became of it?")
            told = [text for role, _, text in await talk.told("ada") if role == "injected"]
            assert [text.count("1 message from you was not read") for text in told] == [1]


async def test_a_background_run_that_was_stopped_is_not_woken_by_mail(home: Home) -> None:
    allow(home, "bob", "wake: true")
    home.write_config(SCRIPTED)
    home.write_script(script({"match": "long work", "hang": True}, {"reply": "I go on."}))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            run = (await talk.ask(start_run=pb.StartRunMsg(agent="bob", content="long work"))).run
            sent = daemon.cli("peers", "send", "bob", "one more thing")
            assert "Sent to 1 goal of bob." in sent.stdout
            await talk.ask(stop_run=pb.StopRunMsg(run_id=run.run_id))

            def list_dead() -> list[str]:
                return [dead["body"] for dead in daemon.cli_json("peers", "dead")["data"]]

            await eventually(lambda: list_dead() == ["one more thing"])
            assert [run["agent"] for run in daemon.cli_json("ps", "-a")["data"]] == ["bob"]


async def test_a_message_to_many_starts_no_more_runs_than_the_budget(home: Home) -> None:
    home.write_config(SCRIPTED + "max_wakes = 3\n")
    home.write_script(script(agent("bob", "PEER", say("woken")), agent("bob", "hello", say("hi"))))
    allow(home, "bob", "wake: true")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            for number in range(12):
                await talk.say("bob", "hello", f"user:{number}")
            report = await mail(talk, "bob", "all of you", sender="user:0")
            assert len(report.delivered_to) == 12

            def woken() -> list[tuple[int]]:
                return home.query("SELECT 1 FROM runs WHERE author <> '' AND status = 'ended'")

            await eventually(lambda: len(woken()) >= 3)
            # What was considered at the same time is decided by now.
            await talk.say("bob", "hello", "user:99")
            assert len(woken()) == 3
            assert sum(goal.unread for goal in await list_goals(talk)) == 9


@pytest.mark.parametrize(
    ("goals", "most", "refusal"),
    [
        (4, 3, "`*` would reach 4 goals, max 3; nothing was sent"),
        (70, 1000, "agent `bob` has more than 64 live goals"),
    ],
)
async def test_a_message_to_all_reaches_every_goal_or_none(home: Home, goals: int, most: int, refusal: str) -> None:
    home.write_config(SCRIPTED + f"max_broadcast = {most}\n")
    everyone = agent("ada", "tell", scripted_call("send_to_peer", to="*", message="the plan"), say("Sent."))
    home.write_script(script(everyone, agent("bob", ".", say("I see."))))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            for number in range(goals):
                await talk.say("bob", "hello", f"user:{number}")
            (result,) = (await talk.say("ada", "tell")).of("tool_result")
            assert refusal in result.output
            assert not home.query("SELECT id FROM mail")
            await talk.ask(delete=pb.DeleteMsg(agent="bob", sender="user:0", confirm=True))
            for number in range(3, goals):
                await talk.ask(delete=pb.DeleteMsg(agent="bob", sender=f"user:{number}", confirm=True))
            (result,) = (await talk.say("ada", "tell")).of("tool_result")
            reached = json.loads(result.output)
            assert (len(reached["delivered_to"]), reached["unreachable_reasons"]) == (2, [])


async def list_goals(talk: Talking) -> list[pb.GoalInfo]:
    return list((await talk.ask(list_goals=pb.ListGoalsMsg(agent="bob"))).goals.goals)


def test_text_that_is_not_utf_8_is_refused_with_the_reason(home: Home) -> None:
    with daemon_thread(home) as daemon:
        for arguments in (("send", "bob", "half \udcff"), ("send", "b\udcff", "hello"), ("mute", "b\udcff")):
            error = daemon.cli_json("peers", *arguments)["error"]
            assert (error["type"], error["message"]) == ("bad_request", "the text is not valid UTF-8"), arguments


def test_nobody_sends_mail_under_the_name_of_the_daemon(home: Home) -> None:
    with daemon_thread(home) as daemon:
        error = daemon.cli_json("peers", "send", "bob", "1 message from you was not read.", "--as", "moot")["error"]
        assert (error["type"], error["message"]) == ("bad_request", "@moot is the daemon's own name")


async def test_mail_that_nobody_read_is_deleted_after_its_time(home: Home) -> None:
    home.write_config(SCRIPTED)
    home.write_script(script(agent("bob", ".", say("Morning."))))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("bob", "hello")
            for number in range(INBOX_CAPACITY + 1):
                await mail(talk, "bob", f"message {number}")
            assert len(await list_dead(talk)) == 1
    home.write_config(SCRIPTED + "keep_dead_days = 0.0000001\n")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:

            async def is_gone() -> bool:
                return await list_dead(talk) == []

            await eventually(is_gone)
            assert (await talk.ask(list_goals=pb.ListGoalsMsg(agent="bob"))).goals.goals[0].unread == INBOX_CAPACITY
