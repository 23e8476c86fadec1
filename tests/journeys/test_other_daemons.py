"""Two daemons on a real NATS server exchange mail, whatever is killed or forged meanwhile."""

import asyncio
import json
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, aclosing, suppress
from pathlib import Path

import nats
import pytest

from moot.daemon.vault.master_key import load_key
from moot.domain.errors import MootError
from moot.domain.inbox_message import list_signed_bytes, write_about, write_headers
from moot.domain.mail import make_mail_id
from moot.multiagent.peers.daemons.signatures import Identity
from moot.wire import moot_pb2 as pb
from tests.daemon_process import Home, LiveDaemon, eventually, running
from tests.daemon_thread import daemon_thread
from tests.journeys.test_metrics import scrape, value
from tests.journeys.test_peers import UUID, agent, allow, goal_id
from tests.nats_server import NatsServer, nats_server
from tests.scripting import call, say, script
from tests.talking import Talking

SCRIPTED = """default_model = "scripted"
[models.scripted]
provider = "scripted"
script = "script.toml"
[listen]
tcp = "off"
http = "off"
[broker]
url = "{url}"
name = "{name}"
"""
ASK_BOB = "Ask bob how many"
RULES = (
    agent(
        "ada",
        ASK_BOB,
        call("list_peers"),
        call("send_to_peer", to="bob@laptop", message="how many?", correlation_id=UUID),
        call("wait_for_peer", correlation_id=UUID, timeout=60),
        say("I know."),
    ),
    agent("ada", "Tell bob", call("send_to_peer", to="bob", message="the plan"), say("Told.")),
    agent("bob", "how many", call("send_to_peer", to="ada@desk", message="42", correlation_id=UUID), say("Answered.")),
    agent("bob", ".", say("I see.")),
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path / "nats") as server:
        yield server


def furnish(path: Path, server: NatsServer, name: str, agent_name: str, *lines: str) -> Home:
    """A home on the broker with one agent of its own, that may write to everybody and be written to."""
    home = Home(path).furnish(agents=(agent_name,))
    home.write_config(SCRIPTED.format(url=server.url, name=name))
    home.write_script(script(*RULES))
    allow(home, agent_name, "allowed_delegates: ['*']", "accept_delegates_from: ['*']", *lines)
    return home


@pytest.fixture
def desk(tmp_path: Path, server: NatsServer) -> Home:
    return furnish(tmp_path / "desk", server, "desk", "ada")


@pytest.fixture
def laptop(tmp_path: Path, server: NatsServer) -> Home:
    return furnish(tmp_path / "laptop", server, "laptop", "bob")


async def list_remote(talk: Talking) -> dict[str, int]:
    """The agents of other daemons, with the number of their goals."""
    peers = (await talk.ask(list_peers=pb.ListPeersMsg())).peers.peers
    return {peer.agent_id: peer.goals for peer in peers if peer.daemon}


async def meet(talk: Talking) -> None:
    """Wait until the daemon of ada knows the goal of bob, and is known there."""

    async def is_known() -> bool:
        peers = (await talk.ask(list_peers=pb.ListPeersMsg())).peers.peers
        return any(peer.agent_id == "bob@laptop" and peer.goals == 1 and peer.reachable for peer in peers)

    await eventually(is_known)


async def until_empty(talk: Talking) -> None:
    """Wait until the other daemon has said that it has all mail."""

    async def is_empty() -> bool:
        return not (await talk.ask(list_outbox=pb.ListOutboxMsg())).outbox.total

    await eventually(is_empty)


async def until_unread(talk: Talking, count: int = 1) -> None:
    """Wait until so many messages for bob have arrived."""

    async def is_there() -> bool:
        goals = (await talk.ask(list_goals=pb.ListGoalsMsg(agent="bob"))).goals.goals
        return [goal.unread for goal in goals] == [count]

    await eventually(is_there)


async def told_of(talk: Talking, agent_name: str, text: str) -> int:
    """How often a history contains a text."""
    return sum(each.count(text) for _, _, each in await talk.told(agent_name))


async def read_all(talk: Talking, what: str = "the plan") -> int:
    """Have bob read his mail; return how often he was shown this."""
    await talk.say("bob", "any news?")
    return sum(text.count(f"\n{what}\n</peer-message>") for _, _, text in await talk.told("bob"))


async def test_two_daemons_find_each_other_and_agents_answer_each_other(desk: Home, laptop: Home) -> None:
    allow(laptop, "bob", "wake: true")
    with daemon_thread(desk) as first, daemon_thread(laptop) as second:
        async with first.client() as here, second.client() as there:
            await there.say("bob", "hello")
            await meet(here)
            speech = await here.say("ada", ASK_BOB)
            listing, sending, waited = speech.of("tool_result")
            listed, sent = json.loads(listing.output), json.loads(sending.output)
            assert {"agent_id": "bob@laptop", "reachable": True} in [
                {name: peer[name] for name in ("agent_id", "reachable")} for peer in listed["peers"]
            ]
            assert (sent["delivered_to"], sent["unreachable_reasons"]) == ([await goal_id(there, "bob")], [])
            assert '<peer-message from="bob@laptop" sent_at="' in waited.output
            assert f'correlation_id="{UUID}">\n42\n</peer-message>' in waited.output
            assert any('from="ada@desk"' in text for _, _, text in await there.told("bob"))
            assert second.cli_json("goals")["data"][0]["unread"] == 0
            assert first.cli_json("goals")["data"][0]["agent"] == "ada"
            await until_empty(here)
            assert "No messages wait for other daemons." in first.cli("peers", "outbox").stdout
            assert "as desk, with 1 other daemon." in first.cli("status").stdout
            (known,) = first.cli_json("peers", "daemons")["data"]
            assert (known["name"], known["state"], known["problem"]) == ("laptop", "live", "")
            assert known["fingerprint"] in second.cli("peers", "daemons").stdout
            assert "bob@laptop" in first.cli("peers", "list").stdout
            # A person can write to it as well.
            assert "Sent to 1 goal of bob@laptop." in first.cli("peers", "send", "bob@laptop", "by hand").stdout

            # Also to one goal, in capital letters as other programs write ids; and to an agent here with its address.
            goal = (await goal_id(there, "bob")).upper()
            assert "Sent to 1 goal" in first.cli("peers", "send", "bob@laptop", "by id", "--goal", goal).stdout
            assert "Sent to 1 goal of ada@desk." in first.cli("peers", "send", "ada@desk", "at home").stdout

            async def is_read() -> bool:
                told = "".join(text for _, _, text in await there.told("bob"))
                return "by hand" in told and "by id" in told

            await eventually(is_read)
            second.stop()

            async def is_gone() -> bool:
                return await list_remote(here) == {}

            await eventually(is_gone)
        assert first.cli_json("peers", "daemons")["data"][0]["state"] == "away"
        forgotten = first.cli_json("peers", "daemons", "--forget", "laptop")
        assert forgotten["data"] == []
        assert first.cli("peers", "daemons", "--forget", "laptop").returncode != 0


async def test_without_the_broker_turns_go_on_and_mail_flows_when_it_returns(
    desk: Home, laptop: Home, server: NatsServer
) -> None:
    with daemon_thread(desk) as first, daemon_thread(laptop) as second:
        async with first.client() as here, second.client() as there:
            await there.say("bob", "hello")
            await meet(here)
            server.kill()
            await eventually(lambda: not first.cli_json("status")["data"]["broker"]["connected"])
            speech = await here.say("ada", "Tell bob")
            assert speech.text == "Told."
            (reason,) = json.loads(speech.of("tool_result")[0].output)["unreachable_reasons"]
            assert reason.endswith("the broker is unavailable; it is sent when it returns")
            (queued,) = first.cli_json("peers", "outbox")["data"]
            assert (queued["state"], queued["to_agent_id"]) == ("queued", "bob@laptop")
            # What waits is not lost: nobody has to send it again.
            by_hand = first.cli("peers", "send", "bob@laptop", "-", stdin="by hand")
            assert (by_hand.returncode, "Waits for 1 goal of bob@laptop" in by_hand.stdout) == (0, True), by_hand
            server.lose_data()
            server.start()
            await until_unread(there, 2)
            assert await read_all(there) == 1
            assert await read_all(there, "by hand") == 1
            await until_empty(here)


KILLED = {
    "desk": ("committed.outbox", "relay.published", "committed.settled"),
    "laptop": ("commit.receipt", "committed.receipt", "receipt.stored"),
}
SECOND = ("commit.receipt", "committed.receipt", "receipt.stored", "committed.settled")


@pytest.mark.parametrize(("name", "point"), [(name, point) for name, points in KILLED.items() for point in points])
async def test_mail_is_shown_once_whenever_a_daemon_is_killed(desk: Home, laptop: Home, name: str, point: str) -> None:
    """The position in the stream is stored with the first, empty batch; the mail comes with the second receipt."""
    at = f"{point}:2" if point in SECOND else point
    killed, other = (desk, laptop) if name == "desk" else (laptop, desk)
    with daemon_thread(other) as living:
        with running(killed, MOOT_FAIL_AT=at) as dying:
            first, second = (dying, living) if name == "desk" else (living, dying)
            async with second.client() as there:
                # Announced together with the goal of bob, so that the desk has settled it before there is mail.
                await eventually(lambda: laptop.query("SELECT 1 FROM inbox_position"))
                await there.say("bob", "hello")
            with suppress(MootError, OSError):
                async with first.client() as here:
                    await meet(here)
                    await here.ask(send_mail=pb.SendMailMsg(agent="bob@laptop", content="the plan"))
            assert dying.process.wait(60) == -signal.SIGKILL
        with running(killed) as again:
            second = living if name == "desk" else again
            async with second.client() as there:
                await until_unread(there)
                assert await read_all(there) == 1
                assert await read_all(there) == 1


def list_dead(daemon: LiveDaemon) -> list[str]:
    return [each["mail_id"] for each in daemon.cli_json("peers", "dead")["data"]]


def sign(home: Home, subject: str, payload: bytes, mail_id: str, daemon: str) -> dict[str, str]:
    """The headers with which a daemon sends this, made with its key."""
    identity = Identity(load_key(home.store.parent / "identity.key", "file").view)
    about = write_about(daemon)
    signature = identity.sign(list_signed_bytes(subject, mail_id, about, payload))
    return {**write_headers(about, signature), "Nats-Msg-Id": mail_id}


async def test_what_a_known_daemon_sends_on_purpose_stops_nothing_and_comes_back(
    desk: Home, laptop: Home, server: NatsServer
) -> None:
    """Bytes that nobody can read, and text that is nested without end; the next message arrives as always."""
    mail_id = make_mail_id("run", "call", "goal")
    nested = '{"type": "shutdown_request", "x": ' + "[" * 2_000
    with daemon_thread(desk) as first, daemon_thread(laptop) as second:
        async with first.client() as here, second.client() as there, second.client() as other:
            await there.say("bob", "hello")
            await meet(here)
            subject, payload = f"agent.inbox.{await goal_id(there, 'bob')}", b"not JSON"
            stranger = await nats.connect(server.url)
            try:
                async with aclosing(await other.connection.subscribe()) as events:
                    headers = sign(desk, subject, payload, mail_id, "desk")
                    await stranger.jetstream().publish(subject, payload, headers=headers)
                    dropped = await anext(event async for event in events if event.kind == pb.MAIL_DROPPED)
            finally:
                await stranger.close()
            assert dropped.body.mail_dropped.reason.startswith("the message is malformed")
            for content in (nested, "the plan"):
                sent = await here.ask(send_mail=pb.SendMailMsg(agent="bob@laptop", content=content))
                assert sent.mail_report.delivered_to, sent

            await until_unread(there, 2)
            assert await read_all(there) == 1
            assert await eventually(lambda: list_dead(first)) == [mail_id]
            shown = first.cli("peers", "dead").stdout
            assert "not JSON" in shown
            assert "the message is malformed" in " ".join(shown.split())


async def test_nobody_else_can_write_to_a_goal_unless_unsigned_mail_is_accepted(
    laptop: Home, server: NatsServer
) -> None:
    metered = SCRIPTED.replace('http = "off"', 'http = "127.0.0.1:0"') + "[metrics]\nenabled = true\n"
    laptop.write_config(metered.format(url=server.url, name="laptop"))
    with daemon_thread(laptop) as daemon:
        async with daemon.client() as talk, daemon.client() as other:
            await talk.say("bob", "hello")
            goal = await goal_id(talk, "bob")
            # Before that the server has no stream that accepts the message.
            await eventually(lambda: daemon.cli_json("status")["data"]["broker"]["connected"])
            subject, message = (
                f"agent.inbox.{goal}",
                {
                    "from_agent_id": "owner",
                    "from_goal_id": UUID,
                    "to_agent_id": "bob",
                    "body": "the plan",
                    "sent_at": "2026-04-30T14:00:00Z",
                },
            )
            stranger = await nats.connect(server.url)
            try:
                async with aclosing(await other.connection.subscribe()) as events:
                    await stranger.jetstream().publish(subject, json.dumps(message).encode())
                    dropped = await anext(event async for event in events if event.kind == pb.MAIL_DROPPED)
                assert dropped.body.mail_dropped.reason == "it has no signature"
                assert dropped.body.mail_dropped.body == ""
                assert value(await scrape(daemon), "moot_mail_dropped_total") == 1
                assert daemon.cli_json("status")["data"]["broker"]["dropped"] == {"unsigned": 1}
                assert "1 messages that arrived were dropped or refused" in daemon.cli("doctor").stdout
                config = SCRIPTED.format(url=server.url, name="laptop") + "accept_unsigned = true\n"
                laptop.write_config(config)
                assert daemon.cli("reload").returncode == 0
                await stranger.jetstream().publish(subject, json.dumps(message).encode())
                await until_unread(talk)
            finally:
                await stranger.close()
            assert await read_all(talk) == 1
            assert any('from="owner (unverified)"' in text for _, _, text in await talk.told("bob"))


async def test_messages_for_no_goal_are_removed_from_the_stream_and_counted(
    desk: Home, laptop: Home, server: NatsServer
) -> None:
    subjects = ["agent.inbox.not-a-uuid", "agent.inbox.a-b-c-d-e", "agent.notice.x", "agent.inbox.not-a-uuid"]
    with daemon_thread(laptop) as first:
        async with first.client() as talk:
            await talk.say("bob", "hello")
            kept = await goal_id(talk, "bob")
        subjects += [f"agent.inbox.{kept.upper()}", f"agent.notice.{kept.replace('-', '')}"]
        await eventually(lambda: first.cli_json("status")["data"]["broker"]["connected"])
    stranger = await nats.connect(server.url)
    try:
        stream = stranger.jetstream()
        for subject in (*subjects, f"agent.inbox.{kept}"):
            await stream.publish(subject, b"garbage")
        # What no stream takes is nobody's.
        await stranger.publish("agent.inbox.a.b", b"garbage")
        with daemon_thread(desk) as second:
            await eventually(
                lambda: second.cli_json("status")["data"]["broker"].get("dropped") == {"subject": len(subjects)}
            )
            # A message for a daemon that is away stays, whatever is in it.
            assert (await stream.stream_info("MOOT")).state.messages == 1
            assert second.cli("ask", "ada", "Are you there").returncode == 0
    finally:
        await stranger.close()


async def test_an_agent_is_told_that_another_daemon_has_evicted_its_mail(desk: Home, laptop: Home) -> None:
    with daemon_thread(desk) as here, daemon_thread(laptop) as there:
        async with here.client() as talk, there.client() as other:
            await other.say("bob", "hello")
            await talk.say("ada", "hello")
            await meet(talk)
            await talk.say("ada", "Tell bob")
            await until_unread(other)
            for number in range(64):
                await other.ask(send_mail=pb.SendMailMsg(agent="bob", content=f"message {number}"))

            async def is_back() -> bool:
                return bool((await talk.ask(list_dead_mail=pb.ListDeadMailMsg())).dead_mail.mail)

            await eventually(is_back)
            for _ in range(2):
                await talk.say("ada", "what now?")
                await other.say("bob", "what now?")
            assert await told_of(talk, "ada", "- to bob@laptop (goal ") == 1
            assert await told_of(talk, "ada", "&quot;the plan&quot;: too many unread messages") == 1
            assert await told_of(other, "bob", "1 message for you was evicted unread (from ada@desk)") == 1


async def test_mail_that_was_shown_is_not_reported_as_evicted(tmp_path: Path, server: NatsServer, desk: Home) -> None:
    """The receiver stands still while more is sent than it keeps, and then gets all of it while it shows the first."""
    laptop = furnish(tmp_path / "laptop", server, "laptop", "bob", "wake: true")
    sent = [f"message {number}" for number in range(300)]
    with daemon_thread(desk) as here, running(laptop) as there:
        async with here.client() as talk, there.client() as other:
            await other.say("bob", "hello")
            await meet(talk)
            there.process.send_signal(signal.SIGSTOP)
            try:
                for text in sent:
                    await talk.ask(send_mail=pb.SendMailMsg(agent="bob@laptop", content=text))
            finally:
                there.process.send_signal(signal.SIGCONT)

            async def list_both() -> tuple[list[str], list[str]]:
                dead = (await talk.ask(list_dead_mail=pb.ListDeadMailMsg())).dead_mail.mail
                told = [text for _, _, text in await other.told("bob")]
                shown = [found for text in told for found in re.findall(r"\n(message \d+)\n</peer-message>", text)]
                return shown, [each.mail.body for each in dead]

            async def is_decided() -> bool:
                shown, dead = await list_both()
                return {*shown, *dead} == {*sent}

            await eventually(is_decided)
            shown, dead = await list_both()
            assert dead, "nothing was evicted"
            assert sorted([*shown, *dead]) == sorted(sent)
            assert len((await other.ask(list_dead_mail=pb.ListDeadMailMsg())).dead_mail.mail) == len(dead)


@pytest.mark.parametrize("first_side", ["sender", "receiver"])
async def test_mail_that_is_sent_again_on_both_sides_is_shown_once(desk: Home, laptop: Home, first_side: str) -> None:
    with daemon_thread(desk) as here, daemon_thread(laptop) as there:
        async with here.client() as talk, there.client() as other:
            await other.say("bob", "hello")
            await meet(talk)
            await talk.ask(send_mail=pb.SendMailMsg(agent="bob@laptop", content="the plan"))
            await until_unread(other)
            for number in range(64):
                await other.ask(send_mail=pb.SendMailMsg(agent="bob", content=f"message {number}"))
            (mail_id,) = await eventually(lambda: list_dead(here))
            assert list_dead(there) == [mail_id]
            await other.say("bob", "read them")
            sides = (here, there) if first_side == "sender" else (there, here)
            assert sides[0].cli("peers", "resend", mail_id).returncode == 0
            await until_unread(other)
            again = sides[1].cli("peers", "resend", mail_id)
            if first_side == "sender":
                assert "was sent again already" in again.stderr
            await talk.ask(send_mail=pb.SendMailMsg(agent="bob@laptop", content="the next"))
            await until_unread(other, 2)
            assert await read_all(other) == 1


async def test_a_copy_of_a_home_that_is_started_beside_it_receives_none_of_its_mail(
    tmp_path: Path, desk: Home, laptop: Home
) -> None:
    with daemon_thread(laptop) as second:
        async with second.client() as there:
            await there.say("bob", "hello")
    shutil.copytree(laptop.path, tmp_path / "copy")
    copy = Home(tmp_path / "copy")
    is_refused = asyncio.Event()

    async def start_copy(stack: ExitStack) -> None:
        started = await asyncio.to_thread(lambda: stack.enter_context(running(copy)))
        async with started.client() as talk:

            async def is_told() -> bool:
                found = (await talk.ask(list_daemons=pb.ListDaemonsMsg())).daemons
                return "another daemon on the broker is called `laptop`" in found.problem

            await eventually(is_told)
        is_refused.set()

    with daemon_thread(desk) as first, daemon_thread(laptop) as second, ExitStack() as stack:
        async with first.client() as here, second.client() as there, asyncio.TaskGroup() as tasks:
            await meet(here)
            tasks.create_task(start_copy(stack))
            while not is_refused.is_set():
                # Every single one arrives where it belongs. It is read at once, so that none is evicted.
                await here.ask(send_mail=pb.SendMailMsg(agent="bob@laptop", content="the plan"))
                await until_unread(there)
                await there.say("bob", "any news?")
            await until_empty(here)
            assert copy.query("SELECT count(*) FROM mail") == [(0,)]
