"""What a daemon with a valid key, or anybody on the broker, sends on purpose: nothing stalls, is lost or believed."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from moot.broker.memory import MemoryBroker
from moot.domain.conversation import ConversationKey
from moot.domain.events import MailDropped
from moot.domain.goal import make_goal_id
from moot.domain.inbox_message import (
    INBOX_SUBJECT,
    NOTICE_SUBJECT,
    NoticeState,
    encode_message,
    encode_notice,
    list_signed_bytes,
    make_subject,
    write_about,
    write_headers,
)
from moot.domain.mail import Mail, make_mail_id
from moot.domain.outbox import Position
from moot.domain.ports.broker import BrokerMessage
from moot.domain.token import Token
from moot.multiagent.peers.daemons.presence_record import PresenceRecord, encode_record
from tests.simulation.clock import VirtualClock
from tests.unit.multiagent.peer_kit import Node, make_agent, pass_time, start_two

VIRTUAL_TIME = True
MAIL_ID = make_mail_id("run", "call", "goal")
DEEP = '{"type": "shutdown_request", "x": ' + "[" * 30_000


def make_broker_message(
    node: Node, subject: str, payload: bytes, mail_id: str = MAIL_ID, **headers: Any
) -> BrokerMessage:
    """A message with these bytes, signed by a daemon."""
    about = write_about(node.name, **headers)
    signature = node.identity.sign(list_signed_bytes(subject, mail_id, about, payload))
    return BrokerMessage(subject=subject, payload=payload, headers=write_headers(about, signature))


def make_mail(from_goal: str, goal_id: str, body: str = "hello", **fields: Any) -> Mail:
    names = {"id": MAIL_ID, "from_agent": "ada", "to_agent": "bob", **fields}
    return Mail(goal_id=goal_id, from_goal=from_goal, body=body, sent_at=1.0, **names)


async def give(broker: MemoryBroker, receiver: Node, broker_message: BrokerMessage, mail_id: str = MAIL_ID) -> None:
    """Put a message on the broker as any client can, and let it arrive."""
    broker._append(broker_message, mail_id)
    receiver.connection.wake()
    await pass_time(2.0)


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker(VirtualClock())


async def test_text_that_is_nested_without_end_arrives_and_stops_nothing(broker: MemoryBroker) -> None:
    desk, laptop = await start_two(broker)
    assert (await desk.send("ada", "bob", DEEP)).delivered_to
    assert (await desk.send("ada", "bob", "after it")).delivered_to
    await pass_time(2.0)
    assert await laptop.bodies("bob") == [DEEP, "after it"]
    for node in (desk, laptop):
        await node.stop()


@pytest.mark.parametrize("header", ["Moot-Mail", "Moot-Signature"])
@pytest.mark.parametrize("value", ['["\udc80"]', "desk \udc80 0", 'desk  0 ["\udc80"]', "\udc80  0"])
async def test_a_header_that_is_no_text_is_dropped_and_stops_nothing(
    broker: MemoryBroker, header: str, value: str
) -> None:
    desk, laptop = await start_two(broker)
    bob = await laptop.talk("bob")
    broker_message = make_broker_message(desk, make_subject(INBOX_SUBJECT, bob.id), b"{}")
    await give(broker, laptop, replace(broker_message, headers={**broker_message.headers, header: value}))
    assert (await desk.send("ada", "bob", "after it")).delivered_to
    await pass_time(2.0)
    assert await laptop.bodies("bob") == ["after it"]
    assert sum(laptop.others.receiver.dropped.values()) == 1
    for node in (desk, laptop):
        await node.stop()


async def test_a_message_whose_check_fails_unexpectedly_is_dropped_and_stops_nothing(broker: MemoryBroker) -> None:
    desk, laptop = await start_two(broker)
    laptop.agents["ann"] = make_agent("ann")
    ann = await laptop.talk("ann")
    # An agent whose lists cannot be read.
    laptop.agents["ann"] = object()  # type: ignore[assignment]
    mail = make_mail((await desk.talk("ada")).id, ann.id, to_agent="ann")
    await give(broker, laptop, make_broker_message(desk, make_subject(INBOX_SUBJECT, ann.id), encode_message(mail)))
    del laptop.agents["ann"]
    assert laptop.others.receiver.dropped == {"error": 1}
    assert (await desk.send("ada", "bob", "after it")).delivered_to
    await pass_time(2.0)
    assert await laptop.bodies("bob") == ["after it"]
    for node in (desk, laptop):
        await node.stop()


UNREADABLE = {
    "no JSON": b"hello",
    "not UTF-8": b"\xff\xfe",
    "empty": b"",
    "nested": b"[" * 50_000,
    "no object": b"[]",
    "a field is missing": b'{"body": "hello"}',
    "a field has another type": b'{"body": 7, "from_agent_id": [], "to_agent_id": {}, "sent_at": "never"}',
    "too long": b'{"body": "' + b"x" * 70_000 + b'"}',
    "too large": b'{"body": "' + b"x" * 500_000 + b'"}',
}


@pytest.mark.parametrize("payload", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("is_settled", [False, True])
async def test_what_a_known_daemon_signed_and_nobody_can_read_is_given_back(
    broker: MemoryBroker, payload: bytes, is_settled: bool
) -> None:
    """The sender's daemon has its own copy unless the receipt was announced before the notice came."""
    desk, laptop = await start_two(broker)
    ada, bob = await desk.talk("ada"), await laptop.talk("bob")
    mail = make_mail(ada.id, bob.id, body="as it was sent", to_agent="bob@laptop")
    if not is_settled:
        # It is in the outbox as published, so that it is not published again.
        await desk.storage.outbox.add([mail], most=10)
        await desk.storage.outbox.set_positions({mail.id: Position(desk.connection.stream, 10_000)})
    await give(broker, laptop, make_broker_message(desk, make_subject(INBOX_SUBJECT, bob.id), payload))
    assert await laptop.unread("bob") == []
    assert laptop.others.receiver.dropped == {"malformed": 1}
    await pass_time(3.0)
    (dead,) = await desk.storage.outbox.list_failed(limit=9)
    assert (dead.mail.id, dead.mail.goal_id) == (MAIL_ID, bob.id)
    assert dead.reason.startswith("the message")
    (event,) = [each for each in desk.events if isinstance(each.body, MailDropped)]
    assert isinstance(event.body, MailDropped)
    assert event.body.reason == dead.reason
    assert len(laptop.drops) == 1
    if not is_settled:
        assert dead.mail == mail
        assert event.source.key == ada.key
    for node in (desk, laptop):
        await node.stop()


async def test_a_sender_with_a_long_name_is_read_elsewhere(broker: MemoryBroker) -> None:
    desk, laptop = await start_two(broker)
    name = "x" * 200
    assert (await desk.send(f"@{name}", "bob@laptop", "hello")).delivered_to
    await pass_time(1.0)
    (mail,) = await laptop.unread("bob")
    assert mail.from_agent == f"@{name}@desk"
    for node in (desk, laptop):
        await node.stop()


@pytest.mark.parametrize("fields", [{"thread": "a b"}, {"hops": 10**7}, {"taint": frozenset({"a,b"})}], ids=str)
async def test_what_no_daemon_could_read_is_not_sent(broker: MemoryBroker, fields: dict[str, Any]) -> None:
    desk, laptop = await start_two(broker)
    report = await desk.send("ada", "bob@laptop", "hello", **fields)
    assert report.delivered_to == ()
    assert report.unreachable_reasons[0].startswith("delivery failed for goal ")
    assert await desk.storage.outbox.count_waiting() == 0
    for node in (desk, laptop):
        await node.stop()


def make_record(node: Node, store: int, **fields: Any) -> bytes:
    record = {"started_at": 1.0, "number": 10_000, "knows": {"desk": "", "laptop": ""}, **fields}
    return encode_record(PresenceRecord(name=node.name, key=node.identity.key, store=store, **record), node.identity)


async def test_no_daemon_can_announce_the_store_of_another(broker: MemoryBroker) -> None:
    """With it, others would forget mail that the right daemon has not received, and send it answers for it."""
    desk, laptop = await start_two(broker)
    eve = await Node(broker, "eve", 3, make_agent("eve"), seed=9).start()
    await pass_time(4.0)
    bob = await laptop.talk("bob")
    await laptop.kill()
    assert (await desk.send("ada", "bob", "hello")).delivered_to == (bob.id,)
    await pass_time(1.0)
    assert await desk.storage.outbox.count_waiting() == 1
    position = Position(broker.stream, 1 << 40)
    goals = ({"agent_id": "eve", "goals": [bob.id]},)
    for store in (2, 1):
        # That of the laptop, and that of the desk itself.
        await eve.connection.announce(make_record(eve, store, position=position, agents=goals if store == 2 else ()))
        await pass_time(0.01)
        problems = {each.name: each.problem for each in desk.others.directory.list_daemons()}
        assert f"announces the store of daemon `{'laptop' if store == 2 else 'desk'}`" in problems["eve"]
        assert await desk.storage.outbox.count_waiting() == 1
        known = {daemon.name: daemon.store for daemon in await desk.storage.daemons.list_all()}
        assert known == {"laptop": 2, "eve": 3}
    # Mail that names goals of that store is not from it.
    mail = make_mail(bob.id, (await desk.talk("ada")).id, from_agent="bob", to_agent="ada")
    await give(broker, desk, make_broker_message(eve, make_subject(INBOX_SUBJECT, mail.goal_id), encode_message(mail)))
    assert desk.others.receiver.dropped == {"sender": 1}
    await laptop.start()
    await pass_time(3.0)
    assert await laptop.bodies("bob") == ["hello"]
    # A daemon that is new cannot take it either.
    mallory = Node(broker, "mallory", 4, seed=8)
    for store in (2, 4):
        desk.connection.receive_presence("mallory", make_record(mallory, store, position=position))
        await pass_time(1.0)
        assert (desk.others.directory.find_daemon("mallory") is not None) == (store == 4)
    for node in (desk, laptop, eve):
        await node.stop()


async def test_a_daemon_that_is_renamed_keeps_its_store(broker: MemoryBroker) -> None:
    desk, laptop = await start_two(broker)
    await laptop.stop()
    laptop.name = "phone"
    await laptop.start()
    await laptop.talk("bob")
    await pass_time(4.0)
    assert desk.list_peers("ada") == {"bob@phone": True}
    for node in (desk, laptop):
        await node.stop()


@pytest.mark.parametrize(
    ("store", "position"),
    [(-1, None), (1 << 62, None), (10**30, None), (9, Position("s", -1)), (9, Position("s", 1 << 63))],
)
async def test_numbers_that_no_store_can_hold_are_ignored(
    broker: MemoryBroker, store: int, position: Position | None
) -> None:
    desk, laptop = await start_two(broker)
    eve = Node(broker, "eve", 3, seed=9)
    desk.connection.receive_presence("eve", make_record(eve, store, position=position))
    await pass_time(1.0)
    assert desk.others.directory.find_daemon("eve") is None
    desk.connection.receive_presence("eve", make_record(eve, (1 << 62) - 1, position=Position("s", (1 << 63) - 1)))
    await pass_time(1.0)
    assert desk.others.directory.find_daemon("eve") is not None
    assert (await desk.send("ada", "bob", "hello")).delivered_to
    await pass_time(3.0)
    assert await desk.storage.outbox.count_waiting() == 0
    for node in (desk, laptop):
        await node.stop()


async def test_a_daemon_can_give_back_only_what_was_sent_to_it(broker: MemoryBroker) -> None:
    desk, laptop = await start_two(broker)
    eve = await Node(broker, "eve", 3, make_agent("eve"), seed=9).start()
    own = await eve.talk("eve")
    await pass_time(4.0)
    ada, bob = await desk.talk("ada"), await laptop.talk("bob")
    await laptop.kill()
    await desk.send("ada", "bob", "hello")
    (waiting,) = await desk.storage.outbox.list_waiting(limit=9)
    nobody = make_goal_id(1, 0)
    notices = {
        # The mail for the laptop, as if it had been for this daemon; and one of a goal that does not exist.
        "other daemon": make_mail(ada.id, own.id, id=waiting.id),
        "other agent": make_mail(ada.id, own.id, from_agent="boss"),
        "no such goal": make_mail(make_goal_id(1, 77), own.id),
        "no person": make_mail(nobody, own.id),
    }
    for mail in notices.values():
        subject = make_subject(NOTICE_SUBJECT, mail.from_goal)
        notice_id = MAIL_ID.replace("mail-", "notice-")
        payload = encode_notice(mail, NoticeState.REFUSED, "no")
        await give(broker, desk, make_broker_message(eve, subject, payload, notice_id), notice_id)
    assert await desk.storage.outbox.list_failed(limit=9) == []
    assert desk.others.receiver.dropped == {"sender": 3}
    await laptop.start()
    await pass_time(3.0)
    assert await laptop.bodies("bob") == ["hello"]
    for node in (desk, laptop, eve):
        await node.stop()
    assert bob.agent == "bob"


async def test_the_id_of_another_message_cannot_be_taken_silently(broker: MemoryBroker) -> None:
    desk, laptop = await start_two(broker)
    eve = await Node(broker, "eve", 3, make_agent("eve"), seed=9).start()
    own = await eve.talk("eve")
    await pass_time(4.0)
    ada, bob = await desk.talk("ada"), await laptop.talk("bob")
    subject = make_subject(INBOX_SUBJECT, bob.id)
    first = encode_message(make_mail(own.id, bob.id, "first", from_agent="eve"))
    await give(broker, laptop, make_broker_message(eve, subject, first))
    second = encode_message(make_mail(ada.id, bob.id, "second"))
    await give(broker, laptop, make_broker_message(desk, subject, second))
    assert await laptop.bodies("bob") == ["first"]
    await pass_time(3.0)
    (dead,) = await desk.storage.outbox.list_failed(limit=9)
    assert (dead.mail.body, dead.reason) == ("second", "another message has its id")
    for node in (desk, laptop, eve):
        await node.stop()


async def test_agents_of_other_daemons_are_listed_for_the_owner_alone(broker: MemoryBroker) -> None:
    desk, laptop = await start_two(broker)
    desk.agents["ann"] = make_agent("ann")
    token = await desk.storage.store.add_token(Token(name="kim", senders=(), created_at=1.0), "digest")
    tool = next(each for each in desk.peers.build_tools() if each.spec.name == "list_peers")
    listed = {}
    for sender in ("user", token.sender):
        context = SimpleNamespace(speaker="ada", asks_in=ConversationKey("ada", sender))
        result: Any = await tool({}, cast(Any, context))
        listed[sender] = [peer["agent_id"] for peer in json.loads(result.content)["peers"]]
    assert listed == {"user": ["ann", "bob@laptop"], token.sender: ["ann"]}
    for node in (desk, laptop):
        await node.stop()


async def test_the_holder_of_a_token_learns_nothing_of_mail_that_is_refused(broker: MemoryBroker) -> None:
    desk, laptop = await start_two(broker)
    token = await laptop.storage.store.add_token(Token(name="kim", senders=(), created_at=1.0), "digest")
    theirs = await laptop.talk("bob", token.sender)
    ada = await desk.talk("ada")
    subject = make_subject(INBOX_SUBJECT, theirs.id)
    await give(
        broker, laptop, make_broker_message(desk, subject, encode_message(make_mail(ada.id, theirs.id, "secret")))
    )
    await give(broker, laptop, make_broker_message(desk, subject, b"secret"))
    await give(broker, laptop, BrokerMessage(subject=subject, payload=b"secret", headers={}))
    dropped = [event for event in laptop.events if isinstance(event.body, MailDropped)]
    assert len(dropped) == 3
    assert {event.source.root for event in dropped} == {ConversationKey("", "")}
    for node in (desk, laptop):
        await node.stop()
