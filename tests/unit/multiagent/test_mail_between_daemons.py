"""Mail between daemons over the broker in memory: who is there, what arrives, and what happens when something fails."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from moot.broker.memory import MemoryBroker, MemoryConnection
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Conflict, Unavailable
from moot.domain.events import EventSource, MailDropped, MailEvicted, RunEnded
from moot.domain.goal import make_goal_id
from moot.domain.inbox_message import (
    INBOX_SUBJECT,
    encode_message,
    list_signed_bytes,
    make_subject,
    write_about,
    write_headers,
)
from moot.domain.mail import INBOX_CAPACITY, MAIL_AUTHOR, UNVERIFIED_TAINT, Mail, make_mail_id
from moot.domain.message import user
from moot.domain.outbox import KnownDaemon
from moot.domain.ports.broker import BrokerMessage, BrokerUnavailable, Position
from moot.domain.token import Token
from moot.multiagent.peers.daemons import batch_signatures
from moot.multiagent.peers.daemons.batch_signatures import sign_all
from moot.multiagent.peers.daemons.signatures import Identity
from tests.contracts.broker_kit import publish
from tests.contracts.store_kit import DONE, request
from tests.simulation.clock import VirtualClock
from tests.unit.multiagent.peer_kit import OWNER, Node, make_agent, pass_time, start_two

VIRTUAL_TIME = True
BOB = ConversationKey("bob", OWNER)


async def test_two_daemons_find_each_other_and_exchange_mail() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    assert desk.list_peers("ada") == {"bob@laptop": True}
    assert laptop.list_peers("bob") == {"ada@desk": True}
    taint = frozenset({"web"})
    sent = await desk.send("ada", "bob@laptop", "hello", taint=taint, hops=2, thread="run-9")
    (goal,) = await laptop.storage.mail.list_goals(since=0.0, limit=9)
    assert (sent.delivered_to, sent.unreachable_reasons) == ((goal.id,), ())
    await pass_time(0.1)
    (mail,) = await laptop.unread("bob")
    assert (mail.from_agent, mail.to_agent, mail.body) == ("ada@desk", "bob", "hello")
    assert (mail.taint, mail.hops, mail.thread) == (taint, 2, "run-9")
    # The bare name is enough where no agent of this daemon has it, and the reply has a goal to go to.
    assert (await laptop.send("bob", "ada", "hi", goal_id=mail.from_goal)).delivered_to == (mail.from_goal,)
    await pass_time(3.0)
    assert await desk.bodies("ada") == ["hi"]
    assert [await node.storage.outbox.count_waiting() for node in (desk, laptop)] == [0, 0]
    assert broker.count_pending() == 0
    await desk.stop()
    await pass_time(0.1)
    assert laptop.list_peers("bob") == {}
    await laptop.stop()


@pytest.mark.parametrize("skew", [3600.0, -3600.0])
async def test_a_clock_that_is_an_hour_off_changes_nothing_but_the_time_of_a_message(skew: float) -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = Node(broker, "desk", 1, make_agent("ada")), Node(broker, "laptop", 2, make_agent("bob"))
    desk.skew = skew
    for node, name in ((desk, "ada"), (laptop, "bob")):
        await node.start()
        await node.talk(name)
    await pass_time(15.0)
    assert desk.list_peers("ada") == {"bob@laptop": True}
    assert laptop.list_peers("bob") == {"ada@desk": True}
    for body in ("one", "two"):
        assert (await desk.send("ada", "bob", body)).delivered_to
    await laptop.send("bob", "ada", "three")
    await pass_time(5.0)
    read = await laptop.unread("bob")
    assert [mail.body for mail in read] == ["one", "two"]
    assert abs(read[0].sent_at - VirtualClock(skew).now()) < 10
    assert await desk.bodies("ada") == ["three"]
    assert [await node.storage.outbox.count_waiting() for node in (desk, laptop)] == [0, 0]
    for node in (desk, laptop):
        await node.stop()


async def test_a_goal_that_writes_before_it_was_announced_can_be_answered() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    new = await desk.talk("ada", "tg:1")
    await desk.send("ada", "bob", "hello", "tg:1")
    await pass_time(0.01)
    assert new.id in (await laptop.send("bob", "ada@desk", "hi")).delivered_to
    await pass_time(0.01)
    assert [mail.body for mail in await desk.unread("ada", "tg:1")] == ["hi"]
    for node in (desk, laptop):
        await node.stop()


async def test_mail_for_a_daemon_that_is_down_waits_and_arrives_once_in_order() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    goal = await laptop.talk("bob")
    await laptop.kill()
    for number in range(3):
        # It is known until it expires; then a goal cannot be found any more, but the mail is on its way.
        assert (await desk.send("ada", "bob", f"message {number}")).delivered_to == (goal.id,)
    await pass_time(12.0)
    assert desk.list_peers("ada") == {}
    assert (await desk.send("ada", "bob@laptop", "late")).unreachable_reasons == (
        "daemon `laptop` of agent `bob@laptop` is not connected",
    )
    assert (await desk.send("ada", "bob", "late")).unreachable_reasons == (
        "daemon `laptop` of agent `bob` is not connected",
    )
    assert (await desk.send("ada", "eve@phone", "late")).unreachable_reasons == ("unknown agent_id `eve@phone`",)
    assert await desk.storage.outbox.count_waiting() == 3
    await laptop.start()
    await pass_time(3.0)
    assert await laptop.bodies("bob") == ["message 0", "message 1", "message 2"]
    assert await desk.storage.outbox.count_waiting() == 0
    await laptop.kill()
    await laptop.start()
    await pass_time(3.0)
    assert len(await laptop.bodies("bob")) == 3
    for node in (desk, laptop):
        await node.stop()


async def test_mail_for_a_goal_that_is_named_in_another_form_arrives() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    goal = await laptop.talk("bob")
    for form in (goal.id.upper(), goal.id.replace("-", "")):
        assert (await desk.send("ada", "bob@laptop", "hello", goal_id=form)).delivered_to == (goal.id,)
    await pass_time(3.0)
    assert await laptop.bodies("bob") == ["hello", "hello"]
    assert await desk.storage.outbox.count_waiting() == 0
    for node in (desk, laptop):
        await node.stop()


async def test_a_daemon_that_was_killed_knows_the_others_as_soon_as_it_is_back() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    await pass_time(1.0)
    await desk.kill()
    await desk.start()
    await pass_time(0.1)
    assert desk.list_peers("ada") == {"bob@laptop": True}
    await desk.kill()
    broker.stop()
    await desk.start()
    # What the others have is not stored.
    assert (await desk.send("ada", "bob@laptop", "late")).unreachable_reasons == (
        "there is no connection to the broker, so daemon `laptop` of agent `bob@laptop` cannot be reached",
    )
    for node in (desk, laptop):
        await node.stop()


async def test_mail_for_a_run_that_ends_while_it_is_stored_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    node = await Node(MemoryBroker(VirtualClock()), "desk", 1, make_agent("ada"), make_agent("bob", wake=True)).start()
    await node.talk("ada")
    key, storage, send = ConversationKey("bob", f"bg:arun-1:{OWNER}"), node.storage, node.storage.mail.send
    await storage.store.begin(request("arun-1", "work", key), now=1.0)
    goal = await storage.mail.find_goal_of(key)
    assert goal is not None

    async def end_first(mails: Sequence[Mail], *, now: float) -> list[Mail]:
        await storage.store.end(key, "arun-1", DONE, [], now=now)
        node.bus.publish(EventSource(key=key, root=key, run_id="arun-1"), RunEnded("bob", DONE))
        return await send(mails, now=now)

    monkeypatch.setattr(storage.mail, "send", end_first)
    sent = await node.send("ada", "bob", "too late")
    assert (sent.delivered_to, sent.unreachable_reasons) == ((), (f"no live goal `{goal.id}` of agent_id `bob`",))
    await pass_time(1.0)
    assert [dead.mail.body for dead in await storage.mail.list_dead(limit=9)] == ["too late"]
    # It is not woken either, and the sender is told once.
    assert node.runs.submitted == []
    lost = await node.mailboxes.collect_lost(ConversationKey("ada", OWNER), "run-next")
    assert [each.is_sent for each in lost] == []
    await node.stop()


@pytest.mark.parametrize("with_data", [True, False])
async def test_what_a_broker_loses_is_sent_again(with_data: bool) -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    goal = await laptop.talk("bob")
    await laptop.kill()
    for number in range(3):
        await desk.send("ada", "bob", f"message {number}")
    broker.restart(with_data=with_data)
    await desk.kill()
    await desk.start()
    await pass_time(3.0)
    await laptop.start()
    await pass_time(5.0)
    assert await laptop.bodies("bob") == ["message 0", "message 1", "message 2"]
    assert await desk.storage.outbox.count_waiting() == 0
    assert (await desk.send("ada", "bob", "more")).delivered_to == (goal.id,)
    await pass_time(1.0)
    assert (await laptop.bodies("bob"))[-1] == "more"
    for node in (desk, laptop):
        await node.stop()


async def test_without_the_broker_mail_is_queued_and_flows_when_it_returns() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    goal = await laptop.talk("bob")
    broker.stop()
    began = VirtualClock().monotonic()
    sent = await desk.send("ada", "bob", "hello")
    # A run that sends many messages does not wait for each.
    assert (sent.delivered_to, VirtualClock().monotonic() - began) == ((), 0.0)
    assert sent.unreachable_reasons == (
        f"queued for goal {goal.id}: the broker is unavailable; it is sent when it returns",
    )
    # Nobody can be judged without a connection.
    await pass_time(60.0)
    assert desk.list_peers("ada") == {"bob@laptop": True}
    broker.restart()
    await pass_time(5.0)
    assert await laptop.bodies("bob") == ["hello"]
    desk.max_outbox = 0
    refused = await desk.send("ada", "bob", "too much")
    assert refused.delivered_to == ()
    assert "0 messages wait for other daemons already" in refused.unreachable_reasons[0]
    for node in (desk, laptop):
        await node.stop()


async def test_a_full_broker_is_tried_again() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    broker.capacity = 0
    assert (await desk.send("ada", "bob", "hello")).delivered_to == ()
    broker.capacity = None
    await pass_time(2.0)
    assert await laptop.bodies("bob") == ["hello"]
    for node in (desk, laptop):
        await node.stop()


MAIL_ID = make_mail_id("run", "call", "goal")


def sign(node: Node, broker_message: BrokerMessage, daemon: str = "desk") -> BrokerMessage:
    """The message as a daemon signs it, under its name or another one."""
    about = write_about(daemon)
    signature = node.identity.sign(list_signed_bytes(broker_message.subject, MAIL_ID, about, broker_message.payload))
    return replace(broker_message, headers=write_headers(about, signature))


async def test_what_no_known_daemon_has_signed_is_dropped_and_counted() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    ada, bob = await desk.talk("ada"), await laptop.talk("bob")
    other = await laptop.talk("bob", "tg:1")
    eve = Node(broker, "eve", 3)
    mail = Mail(
        id=MAIL_ID,
        goal_id=bob.id,
        from_agent="ada",
        from_goal=ada.id,
        to_agent="bob",
        body="do it",
        sent_at=1.0,
    )
    subject = make_subject(INBOX_SUBJECT, bob.id)
    unsigned = BrokerMessage(subject=subject, payload=encode_message(mail), headers={})
    genuine = sign(desk, unsigned)
    stranger = encode_message(replace(mail, from_goal=bob.id))
    forged = {
        "unsigned": unsigned,
        "signature": sign(eve, genuine),
        "unknown daemon": sign(eve, genuine, daemon="eve"),
        "sender": sign(desk, replace(genuine, payload=stranger)),
        "malformed": sign(desk, replace(genuine, payload=b"{}")),
        "agent": sign(desk, replace(genuine, payload=encode_message(replace(mail, to_agent="ann")))),
        "goal": sign(desk, replace(genuine, subject=make_subject(INBOX_SUBJECT, make_goal_id(2, 99)))),
    }
    replayed = replace(genuine, subject=make_subject(INBOX_SUBJECT, other.id))
    changed = replace(genuine, headers={**genuine.headers, "Moot-Mail": write_about("desk", hops=7)})
    for broker_message in (*forged.values(), replayed, changed, replace(unsigned, subject="agent.inbox.x")):
        broker._append(broker_message, MAIL_ID)
    desk.connection.wake()
    laptop.connection.wake()
    await pass_time(2.0)
    assert await laptop.unread("bob") == []
    assert await laptop.unread("bob", "tg:1") == []
    assert laptop.others.receiver.dropped == {**dict.fromkeys(forged, 1), "signature": 3}
    # The wrong subject reaches no store.
    assert len(laptop.drops) == 9
    # The text of mail that was not given back to anybody is not shown. What the desk signed is given back to it.
    dropped = [event.body.mail for event in laptop.events if isinstance(event.body, MailDropped)]
    assert [mail.to_agent for mail in dropped if mail.body] == ["bob", "unreadable", "ann", "bob"]
    await publish(desk.connection, genuine, message_id=MAIL_ID)
    await pass_time(1.0)
    assert await laptop.bodies("bob") == ["do it"]

    laptop.accepts_unsigned = True
    for broker_message in (unsigned, unsigned, sign(eve, genuine)):
        broker._append(broker_message, MAIL_ID)
    laptop.connection.wake()
    await pass_time(1.0)
    read = await laptop.unread("bob")
    assert [(each.from_agent, each.from_goal, each.body) for each in read[1:]] == [("ada (unverified)", "", "do it")]
    assert read[1].taint == {UNVERIFIED_TAINT}
    assert read[1].id != mail.id
    for node in (desk, laptop):
        await node.stop()


async def test_messages_of_a_batch_stand_for_themselves() -> None:
    """Some may be lost, come late or come twice; nobody can put another one in their place."""
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    ada, bob, other = await desk.talk("ada"), await laptop.talk("bob"), await laptop.talk("bob", "tg:1")
    ids = [make_mail_id("run", str(number), "goal") for number in range(5)]
    unsigned = [
        (
            make_subject(INBOX_SUBJECT, bob.id),
            mail_id,
            write_about("desk"),
            encode_message(
                Mail(
                    id=mail_id,
                    goal_id=bob.id,
                    from_agent="ada",
                    from_goal=ada.id,
                    to_agent="bob",
                    body=f"mail {number}",
                    sent_at=1.0,
                )
            ),
        )
        for number, mail_id in enumerate(ids)
    ]
    signed = sign_all(desk.identity, [list_signed_bytes(*parts) for parts in unsigned])
    broker_messages = [
        BrokerMessage(subject=subject, payload=payload, headers=write_headers(about, signature, proof))
        for (subject, _, about, payload), (signature, proof) in zip(unsigned, signed, strict=True)
    ]
    batch_signatures._list_known.cache_clear()
    wrong = [
        (replace(broker_messages[2], payload=broker_messages[1].payload), ids[2]),
        (replace(broker_messages[2], subject=make_subject(INBOX_SUBJECT, other.id)), ids[2]),
        (broker_messages[2], ids[4]),
        (
            replace(
                broker_messages[4],
                headers={**broker_messages[4].headers, "Moot-Signature": broker_messages[1].headers["Moot-Signature"]},
            ),
            ids[4],
        ),
        (
            replace(
                broker_messages[2],
                headers={**broker_messages[2].headers, "Moot-Mail": write_about("desk", taint=frozenset({"web"}))},
            ),
            ids[2],
        ),
    ]
    for broker_message, mail_id in wrong:
        broker._append(broker_message, mail_id)
    laptop.connection.wake()
    await pass_time(1.0)
    assert laptop.others.receiver.dropped == {"signature": len(wrong)}
    assert await laptop.unread("bob", "tg:1") == []
    for number in (3, 1, 3, 0, 2):
        broker._append(broker_messages[number], ids[number])
        laptop.connection.wake()
        await pass_time(1.0)
    for broker_message, mail_id in wrong[:3]:
        broker._append(broker_message, mail_id)
    laptop.connection.wake()
    await pass_time(1.0)
    assert await laptop.bodies("bob") == ["mail 3", "mail 1", "mail 0", "mail 2"]
    assert laptop.others.receiver.dropped == {"signature": len(wrong) + 3}
    for node in (desk, laptop):
        await node.stop()


async def test_what_is_sent_at_the_same_time_is_stored_and_published_together() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    goals = [await laptop.talk("bob", f"tg:{number}") for number in range(4)]
    published: list[int] = []
    publish_all = desk.connection.publish_all

    async def note_size(messages: Mapping[str, BrokerMessage]) -> dict[str, Position | BrokerUnavailable]:
        published.append(len(messages))
        return await publish_all(messages)

    desk.connection.publish_all = note_size  # type: ignore[method-assign]
    reports = await asyncio.gather(
        *(desk.send("ada", "bob@laptop", f"to {goal.id}", goal_id=goal.id) for goal in goals)
    )
    assert [report.delivered_to for report in reports] == [(goal.id,) for goal in goals]
    assert published == [len(goals)]
    # One that does not fit does not prevent the others, and two for one goal stay in order.
    await pass_time(3.0)
    desk.max_outbox = 2
    reports = await asyncio.gather(
        *(desk.send("ada", "bob@laptop", f"{number}", goal_id=goals[0].id) for number in range(3))
    )
    assert [len(report.delivered_to) for report in reports] == [1, 1, 0]
    assert reports[2].unreachable_reasons == (
        f"delivery failed for goal {goals[0].id}: 2 messages wait for other daemons already",
    )
    await pass_time(3.0)
    assert [mail.body for mail in await laptop.unread("bob", "tg:0")] == [f"to {goals[0].id}", "0", "1"]
    for node in (desk, laptop):
        await node.stop()


async def test_mail_that_arrives_quickly_is_confirmed_before_the_outbox_is_full() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    goals = [await laptop.talk("bob", f"tg:{number}") for number in range(50)]
    await pass_time(3.0)
    desk.max_outbox = 1_500
    began = VirtualClock().monotonic()
    for number in range(60):
        reports = await asyncio.gather(
            *(desk.send("ada", "bob@laptop", str(number), goal_id=goal.id) for goal in goals)
        )
        assert [report.unreachable_reasons for report in reports] == [()] * len(goals)
    # Faster than a daemon announces other changes.
    assert VirtualClock().monotonic() - began < 1.0
    for node in (desk, laptop):
        await node.stop()


async def test_the_position_of_mail_is_stored_only_if_its_receiver_does_not_confirm_it() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    stored: list[int] = []
    set_positions = desk.storage.outbox.set_positions

    async def note_count(positions: Mapping[str, Position]) -> None:
        stored.append(len(positions))
        await set_positions(positions)

    desk.storage.outbox.set_positions = note_count  # type: ignore[method-assign]
    await desk.send("ada", "bob@laptop", "first")
    (item,) = await desk.storage.outbox.list_waiting(limit=9)
    assert item.position is None
    assert desk.others.is_published(item)
    await pass_time(5.0)
    assert (stored, await desk.storage.outbox.count_waiting()) == ([], 0)
    # Nobody confirms it: it is stored, and confirmed by what is received later.
    broker.partition("laptop")
    await desk.send("ada", "bob@laptop", "second")
    await pass_time(5.0)
    (item,) = await desk.storage.outbox.list_waiting(limit=9)
    assert (stored, item.position is not None) == ([1], True)
    # So is what is not confirmed when the daemon stops: it is not published again.
    await desk.send("ada", "bob@laptop", "third")
    await desk.stop()
    assert stored == [1, 1]
    pending = broker.count_pending()
    await desk.start()
    broker.heal("laptop")
    await pass_time(5.0)
    assert pending == 2
    assert await laptop.bodies("bob") == ["first", "second", "third"]
    assert await desk.storage.outbox.count_waiting() == 0
    for node in (desk, laptop):
        await node.stop()


async def test_both_sides_decide_who_may_write_across_daemons() -> None:
    broker = MemoryBroker(VirtualClock())
    ada = make_agent("ada", allowed_delegates=None)
    bob = make_agent("bob", accept_delegates_from=None)
    desk, laptop = await start_two(broker, ada=ada, bob=bob)
    goal = await laptop.talk("bob")
    assert desk.list_peers("ada") == {"bob@laptop": False}
    (reason,) = (await desk.send("ada", "bob", "x")).unreachable_reasons
    assert reason == (
        "agent `ada` may not write to `bob@laptop` (allowed_delegates); agents of other daemons need an entry such as"
        " [bob@laptop] in the AGENT.md of `ada`"
    )
    desk.agents["ada"] = make_agent("ada", allowed_delegates=("bob@laptop",))
    (reason,) = (await desk.send("ada", "bob", "x")).unreachable_reasons
    assert "agent `bob@laptop` accepts no messages from `ada@desk` (accept_delegates_from)" in reason
    # A daemon that does not keep to what was announced is refused by the receiver, and its sender is told.
    desk.agents["ada"] = make_agent("ada")
    laptop.agents["bob"] = make_agent("bob", accept_delegates_from=("ada@desk",))
    await pass_time(4.0)
    laptop.agents["bob"] = make_agent("bob", accept_delegates_from=("ann",))
    assert (await desk.send("ada", "bob", "sneaky")).delivered_to == (goal.id,)
    await pass_time(2.0)
    assert await laptop.unread("bob") == []
    assert laptop.others.receiver.dropped == {"not accepted": 1}
    reason = "agent `bob` accepts no messages from `ada@desk` (accept_delegates_from)"
    assert (desk.drops, laptop.drops) == ([reason], [reason])
    (dead,) = await desk.storage.outbox.list_failed(limit=9)
    assert (dead.mail.body, dead.mail.to_agent, dead.reason) == ("sneaky", "bob@laptop", reason)
    # Sent again when it is allowed, it arrives.
    laptop.agents["bob"] = make_agent("bob")
    await desk.peers.sender.resend_to_remote(dead.mail.id)
    await pass_time(2.0)
    assert await laptop.bodies("bob") == ["sneaky"]
    assert await desk.storage.outbox.list_failed(limit=9) == []
    # The owner may write to every agent.
    laptop.agents["bob"] = make_agent("bob", accept_delegates_from=())
    assert (await desk.send("@user", "bob@laptop", "from a person")).delivered_to == (goal.id,)
    await pass_time(2.0)
    assert (await laptop.unread("bob"))[-1].from_agent == "@user@desk"
    for node in (desk, laptop):
        await node.stop()


async def test_a_sender_elsewhere_is_told_of_an_eviction() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    for number in range(INBOX_CAPACITY + 1):
        await desk.send("ada", "bob", f"message {number}")
    await pass_time(3.0)
    assert len(await laptop.unread("bob")) == INBOX_CAPACITY
    evicted = [(event.source, event.body.mail) for event in desk.events if isinstance(event.body, MailEvicted)]
    assert [(source.key.agent, mail.body) for source, mail in evicted] == [("ada", "message 0")]
    (dead,) = await desk.storage.outbox.list_failed(limit=9)
    assert (dead.mail.body, dead.reason) == ("message 0", "too many unread messages")
    assert [await node.storage.outbox.count_waiting() for node in (desk, laptop)] == [0, 0]
    for node in (desk, laptop):
        await node.stop()


async def fill_while_held(desk: Node, laptop: Node) -> None:
    """Have a run be given the first two messages, and so many sent that they are evicted before it shows them."""
    for number in range(2):
        await desk.send("ada", "bob", f"message {number}")
    await pass_time(3.0)
    assert len(await laptop.mailboxes.collect(BOB, "run-bob")) == 2
    for number in range(2, INBOX_CAPACITY + 2):
        await desk.send("ada", "bob", f"message {number}")
    await pass_time(3.0)
    assert len(await laptop.storage.mail.list_dead(limit=9)) == 2
    # Nobody is told while it is not certain.
    assert await desk.storage.outbox.list_failed(limit=9) == []
    assert list_evicted(desk) == list_evicted(laptop) == []
    # Later mail to the same goal is not held up.
    await laptop.send("bob", "ada", "hello")
    await pass_time(3.0)
    assert await desk.bodies("ada") == ["hello"]


def list_evicted(node: Node) -> list[str]:
    return [event.body.mail.body for event in node.events if isinstance(event.body, MailEvicted)]


async def test_a_sender_elsewhere_is_not_told_of_an_eviction_of_what_a_run_has_shown() -> None:
    desk, laptop = await start_two(MemoryBroker(VirtualClock()))
    await fill_while_held(desk, laptop)
    first, second = reversed(await laptop.storage.mail.list_dead(limit=9))
    with pytest.raises(Conflict, match="a run is about to show"):
        await laptop.peers.sender.resend(second.mail.id)
    await laptop.storage.store.begin(request("run-bob", "hi", BOB), now=0.0)
    shown = [user("mail", author=MAIL_AUTHOR)]
    await laptop.storage.store.append(BOB, "run-bob", shown, now=0.0, delivers=[first.mail.id])
    await laptop.storage.store.end(BOB, "run-bob", DONE, [], now=0.0)
    laptop.bus.publish(EventSource(key=BOB, root=BOB, run_id="run-bob"), RunEnded("bob", DONE))
    await pass_time(3.0)
    # The second was not shown after all.
    assert list_evicted(desk) == list_evicted(laptop) == ["message 1"]
    assert [dead.mail.body for dead in await desk.storage.outbox.list_failed(limit=9)] == ["message 1"]
    assert [dead.mail.body for dead in await laptop.storage.mail.list_dead(limit=9)] == ["message 1"]
    lost = await laptop.mailboxes.collect_lost(BOB, "run-next")
    assert [each.mail_id for each in lost] == [second.mail.id]
    assert [await node.storage.outbox.count_waiting() for node in (desk, laptop)] == [0, 0]
    for node in (desk, laptop):
        await node.stop()


async def test_a_sender_elsewhere_is_told_of_an_eviction_of_what_a_run_held_in_a_crash() -> None:
    desk, laptop = await start_two(MemoryBroker(VirtualClock()))
    await fill_while_held(desk, laptop)
    await laptop.kill()
    await laptop.start()
    await pass_time(5.0)
    assert list_evicted(desk) == ["message 0", "message 1"]
    for node in (desk, laptop):
        await node.stop()


async def test_a_sender_on_this_daemon_is_not_told_of_an_eviction_of_what_a_run_may_show() -> None:
    desk = await Node(MemoryBroker(VirtualClock()), "desk", 1, make_agent("ada"), make_agent("bob")).start()
    await desk.talk("ada")
    await desk.talk("bob")
    await desk.send("ada", "bob", "message 0")
    assert len(await desk.mailboxes.collect(BOB, "run-bob")) == 1
    reports = [await desk.send("ada", "bob", f"message {number}") for number in range(1, INBOX_CAPACITY + 1)]
    assert not any(report.unreachable_reasons for report in reports)
    assert list_evicted(desk) == []
    ada = ConversationKey("ada", OWNER)
    assert await desk.mailboxes.collect_lost(ada, "run-ada") == []
    desk.mailboxes.release(BOB, "run-bob")
    await pass_time(1.0)
    # Both conversations get the event.
    assert list_evicted(desk) == ["message 0"] * 2
    assert len(await desk.mailboxes.collect_lost(ada, "run-ada")) == 1
    report = await desk.send("ada", "bob", "one more")
    assert "was evicted" in report.unreachable_reasons[0]
    await desk.stop()


async def test_goals_of_the_holders_of_tokens_are_neither_announced_nor_reached() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    token = await laptop.storage.store.add_token(Token(name="eve", senders=("eve:*",), created_at=0.0), "digest")
    theirs = await laptop.talk("bob", token.sender)
    more = await laptop.talk("bob", "eve:2")
    mine = await laptop.talk("bob")
    await desk.storage.store.add_token(Token(name="kim", senders=("kim:*",), created_at=0.0), "other")
    await pass_time(2.0)
    assert (await desk.send("ada", "bob", "secret")).delivered_to == (mine.id,)
    for goal in (theirs, more):
        await desk.send("ada", "bob", "secret", goal_id=goal.id)
    await pass_time(2.0)
    assert [await laptop.unread("bob", sender) for sender in (token.sender, "eve:2")] == [[], []]
    assert desk.drops == [f"no live goal `{goal.id}`" for goal in (theirs, more)]
    await desk.talk("ada", "kim:1")
    sent = await desk.send("ada", "bob", "x", "kim:1")
    assert sent.unreachable_reasons == ("unknown agent_id `bob`",)
    # What is sent at the same moment is stored together; each is judged by its own conversation.
    reports = await asyncio.gather(*(desk.send("ada", "bob", "y", sender) for sender in ("kim:1", OWNER, "kim:1")))
    assert [report.delivered_to for report in reports] == [(), (mine.id,), ()]
    assert {report.unreachable_reasons for report in reports[::2]} == {("unknown agent_id `bob`",)}
    assert [item.mail.from_agent for item in await desk.storage.outbox.list_waiting(limit=10)] == ["ada"]
    for node in (desk, laptop):
        await node.stop()


async def test_another_key_under_a_known_name_is_refused_until_the_name_is_forgotten() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    await laptop.kill()
    other = await Node(broker, "laptop", 3, make_agent("bob"), seed=9).start()
    await other.talk("bob")
    await pass_time(12.0)
    assert desk.list_peers("ada") == {}
    (status,) = desk.others.directory.list_daemons()
    assert (status.name, status.is_live) == ("laptop", False)
    assert "`moot peers daemons --forget laptop`" in status.problem
    assert await desk.others.presence.forget("laptop")
    await pass_time(4.0)
    assert desk.list_peers("ada") == {"bob@laptop": True}
    assert (await desk.send("ada", "bob", "hello")).delivered_to
    # Its own key was lost: the other one does not accept it any more, and says so before anything is lost.
    await desk.kill()
    desk.identity = Identity(b"x" * 32)
    await desk.start()
    await pass_time(4.0)
    (reason,) = (await desk.send("ada", "bob", "hello")).unreachable_reasons
    assert "knows another key under the name `desk`" in reason
    for node in (desk, other):
        await node.stop()


async def test_a_daemon_that_is_renamed_while_it_runs_is_there_once() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    goal = await laptop.talk("bob")
    laptop.connection.name = "phone"
    await pass_time(4.0)
    assert desk.list_peers("ada") == {"bob@phone": True}
    assert (await desk.send("ada", "bob", "hello")).delivered_to == (goal.id,)
    for node in (desk, laptop):
        await node.stop()


@pytest.mark.parametrize("restarts", [False, True])
async def test_mail_flows_between_daemons_that_were_both_renamed(*, restarts: bool) -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    if restarts:
        await laptop.kill()
        laptop.name = "phone"
        await laptop.start()
        await laptop.talk("bob")
    else:
        laptop.connection.name = "phone"
    await pass_time(15.0)
    desk.connection.name = "tower"
    await pass_time(15.0)
    goal = await laptop.talk("bob")
    assert (await desk.send("ada", "bob@phone", "hello")).delivered_to == (goal.id,)
    await pass_time(3.0)
    assert await laptop.bodies("bob") == ["hello"]
    for node in (desk, laptop):
        await node.stop()


async def test_of_two_daemons_with_one_name_the_second_takes_no_part() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    second = await Node(broker, "laptop", 3, make_agent("ann"), seed=9).start()
    await pass_time(5.0)
    assert "another daemon on the broker is called `laptop`" in second.others.directory.problem
    assert desk.list_peers("ada") == {"bob@laptop": True}
    assert laptop.others.directory.problem == ""
    await laptop.stop()
    await pass_time(15.0)
    assert second.others.directory.problem == ""
    for node in (desk, second):
        await node.stop()


async def test_nothing_is_announced_on_a_broker_of_its_own() -> None:
    broker = MemoryBroker(VirtualClock(), is_shared=False)
    node = Node(broker, "desk", 1, make_agent("ada"))
    node.identity = None  # type: ignore[assignment]  # it is not loaded
    await node.start()
    await node.talk("ada")
    await pass_time(60.0)
    assert await node.storage.outbox.load_position() is None
    assert (await node.send("ada", "bob", "x")).unreachable_reasons == ("unknown agent_id `bob`",)
    await node.stop()


async def test_three_daemons_that_know_each_other_in_a_circle_do_not_answer_each_other_without_a_pause() -> None:
    """Each knows the next one only, and needs some time to store the other; nothing else would let time pass."""

    class SlowNode(Node):
        def choose_latency(self) -> float:
            return 0.2

    broker, announced = MemoryBroker(VirtualClock()), 0
    spread = broker.broadcast

    def count(sender: MemoryConnection, payload: bytes) -> None:
        nonlocal announced
        announced += 1
        assert announced < 100, "they never pause"
        spread(sender, payload)

    broker.broadcast = count  # type: ignore[method-assign]
    nodes = [SlowNode(broker, name, number, make_agent("ada")) for number, name in enumerate(("a", "b", "c"), start=1)]
    for node, known in zip(nodes, (nodes[1], nodes[2], nodes[0]), strict=True):
        daemon = KnownDaemon(
            name=known.name, key=known.identity.key, store=known.database.identity, first_seen=0.0, last_seen=0.0
        )
        node.database.known_daemons.put(known.name, daemon)
        node.database._journal.commit()
    await asyncio.gather(*(node.start() for node in nodes))
    await pass_time(3.0)
    assert [len(node.list_peers("ada")) for node in nodes] == [2, 2, 2]
    assert announced < 30
    for node in nodes:
        await node.stop()


async def test_mail_for_a_daemon_that_is_gone_comes_back_after_its_time() -> None:
    desk, laptop = await start_two(MemoryBroker(VirtualClock()))
    await laptop.kill()
    await desk.send("ada", "bob", "one")
    await desk.send("ada", "bob", '{"type": "shutdown_request", "request_id": "7a3b2f00-0000-4000-8000-000000000001"}')
    desk.outbox_days = 0.0001
    await pass_time(5.0)
    await desk.others.expiry.expire()
    assert desk.drops == []
    await pass_time(5.0)
    await desk.others.expiry.expire()
    assert desk.drops == ["it was not received within 0.0001 days"]
    assert await desk.storage.outbox.count_waiting() == 0
    assert len(await desk.storage.outbox.list_failed(limit=9)) == 2
    (answer,) = await desk.unread("ada")
    assert (answer.from_agent, '"approved":false' in answer.body) == ("@moot", True)
    await desk.stop()


async def test_of_two_copies_of_a_home_only_the_one_that_started_first_receives() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    copy = Node(broker, "laptop", 2, make_agent("bob"))
    copy.database = laptop.database.snapshot()
    await copy.start()
    await pass_time(3.0)
    assert "another daemon on the broker is called `laptop`" in copy.others.directory.problem
    for number in range(9):
        await desk.send("ada", "bob", f"message {number}")
    await pass_time(1.0)
    assert await laptop.bodies("bob") == [f"message {number}" for number in range(9)]
    assert await copy.bodies("bob") == []
    # It takes over when the first one has gone.
    await laptop.stop()
    await pass_time(20.0)
    await desk.send("ada", "bob", "the last one")
    await pass_time(1.0)
    assert await copy.bodies("bob") == ["the last one"]
    for node in (desk, copy):
        await node.stop()


async def test_a_goal_that_cannot_be_written_to_does_not_prevent_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = await Node(MemoryBroker(VirtualClock()), "desk", 1, make_agent("ada"), make_agent("bob")).start()
    await desk.talk("ada")
    goals = [await desk.talk("bob", sender) for sender in ("user", "tg:1", "tg:2")]
    store = desk.storage.mail
    send = store.send

    async def refuse_one(mails: Sequence[Mail], *, now: float) -> list[Mail]:
        if mails[0].goal_id == goals[1].id:
            raise Unavailable("the disk is full", fix="Make room.")
        return await send(mails, now=now)

    monkeypatch.setattr(store, "send", refuse_one)
    report = await desk.send("ada", "bob", "hello")
    assert set(report.delivered_to) == {goals[0].id, goals[2].id}
    assert report.unreachable_reasons == (f"delivery failed for goal {goals[1].id}: the disk is full",)
    await desk.stop()
