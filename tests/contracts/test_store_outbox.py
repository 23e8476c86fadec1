"""Mail between daemons: kept until the other daemon has it, received once, and given back with a reason."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, Busy, Conflict, NotFound
from moot.domain.goal import Goal, MailTarget, make_goal_id
from moot.domain.inbox_message import NoticeState
from moot.domain.mail import INBOX_CAPACITY, Mail, make_mail_id
from moot.domain.message import user
from moot.domain.outbox import KnownDaemon, OutboxItem, Position, Receipt, ReturnedMail, make_notice_id, make_resent_id
from moot.domain.ports.storage import Storage
from moot.domain.token import Token
from tests.contracts.store_kit import DONE, KEY, Disk, request, with_disk, with_storage
from tests.contracts.test_store_mail import goal_of, talk

NOW = 1000.0
OTHER_KEY = ConversationKey("bob", "user")
THERE = 8
BOB = make_goal_id(THERE, 1)
ANN = make_goal_id(THERE, 2)
DAEMON = KnownDaemon(name="laptop", key="a2V5", store=THERE, first_seen=1.0, last_seen=2.0)


def outgoing(number: int, goal_id: str = BOB, from_goal: str = make_goal_id(1, 0)) -> Mail:
    return Mail(
        id=make_mail_id("run", str(number), goal_id),
        goal_id=goal_id,
        from_agent="ada",
        from_goal=from_goal,
        to_agent="bob",
        body=f"message {number} é",
        sent_at=NOW + number,
        thread="run",
        hops=1,
        taint=frozenset({"web"}),
    )


def incoming(goal: Goal, number: int) -> Mail:
    return replace(outgoing(number, goal.id, BOB), from_agent="bob@laptop", to_agent=goal.agent)


async def show(storage: Storage, mail: Mail) -> None:
    """Have a run of KEY that reads a mail."""
    await storage.store.begin(request("run-9", "any news?"), now=NOW)
    await storage.store.append(KEY, "run-9", [user("mail")], now=NOW, delivers=[mail.id])
    await storage.store.end(KEY, "run-9", DONE, [], now=NOW)


async def unpublished(storage: Storage, stream: str = "s1", after: int = 0) -> list[OutboxItem]:
    return await storage.outbox.list_unpublished(stream, after=after, limit=100)


async def receive(storage: Storage, sequence: int, *mails: Mail) -> Sequence[Mail]:
    receipt = Receipt(position=Position("s1", sequence), mails=mails)
    return (await storage.outbox.receive(receipt, now=NOW)).stored


@with_storage
async def test_mail_waits_until_the_other_store_has_it(storage: Storage) -> None:
    outbox = storage.outbox
    first, second, other = outgoing(1), outgoing(2), outgoing(3, make_goal_id(9, 1))
    added = await outbox.add([first, second], most=10)
    added += await outbox.add([other, first], most=10)
    items = await unpublished(storage)
    assert added == items
    assert [item.mail for item in items] == [first, second, other]
    assert [item.goal_id for item in items] == [BOB, BOB, other.goal_id]
    assert [item.mail for item in await unpublished(storage, after=items[0].number)] == [second, other]
    assert await outbox.list_unpublished("s1", after=0, limit=1) == items[:1]
    await outbox.set_positions({first.id: Position("s1", 4), other.id: Position("s1", 5), "gone": Position("s1", 6)})
    assert [item.mail for item in await unpublished(storage)] == [second]
    # A broker that lost its data has another stream: everything is published again.
    assert [item.mail for item in await unpublished(storage, "s2")] == [first, second, other]
    # What another store has received, or this one in another stream, removes nothing.
    assert [await outbox.settle(THERE, Position("s2", 9)), await outbox.settle(THERE, Position("s1", 3))] == [0, 0]
    assert await outbox.settle(THERE, Position("s1", 9)) == 1
    waiting = await outbox.list_waiting(limit=10)
    assert [(item.mail, item.position) for item in waiting] == [(second, None), (other, Position("s1", 5))]
    assert await outbox.count_waiting() == 2


@with_storage
async def test_mail_whose_position_is_not_stored_is_removed_by_its_number(storage: Storage) -> None:
    outbox = storage.outbox
    items = await outbox.add([outgoing(number) for number in range(6)], most=10)
    numbers = [item.number for item in items]
    await outbox.set_positions({items[1].id: Position("s1", 2)})
    back = ReturnedMail(mail=items[3].mail, state=NoticeState.REFUSED, reason="not accepted")
    await outbox.receive(Receipt(position=Position("s1", 1), returned=[back]), now=NOW)
    # What was given back stays, to be looked at.
    assert await outbox.settle(THERE, Position("s1", 9), [numbers[5], *numbers[2:4], 99]) == 3
    assert [item.number for item in await outbox.list_waiting(limit=10)] == [numbers[0], numbers[4]]
    assert [dead.mail for dead in await outbox.list_failed(limit=10)] == [items[3].mail]


@with_storage
async def test_nothing_is_added_if_the_check_of_the_tokens_raises(storage: Storage) -> None:
    def refuse(tokens: Sequence[Token]) -> None:
        if tokens:
            raise Conflict(tokens[0].name)

    await storage.outbox.add([outgoing(1)], most=10, check=refuse)
    await storage.store.add_token(Token(name="eve", senders=(), created_at=0.0), "digest")
    with pytest.raises(Conflict, match="eve"):
        await storage.outbox.add([outgoing(2)], most=10, check=refuse)
    assert [item.mail for item in await unpublished(storage)] == [outgoing(1)]


@with_storage
async def test_the_sender_is_told_when_only_the_disk_is_waited_for(storage: Storage) -> None:
    told: list[str] = []
    await storage.outbox.add([outgoing(1)], most=1, note_written=lambda: told.append("first"))
    assert told == ["first"]
    with pytest.raises(Busy):
        await storage.outbox.add([outgoing(2)], most=1, note_written=lambda: told.append("second"))
    assert told == ["first"]


@with_storage
async def test_mail_that_comes_twice_in_one_batch_is_one_item(storage: Storage) -> None:
    first, second, third = outgoing(1), outgoing(2), outgoing(3)
    added = await storage.outbox.add([first, first, second], most=10)
    added += await storage.outbox.add([second, third, third, first], most=10)
    assert [item.mail for item in added] == [first, second, third]
    assert added == await unpublished(storage)


@with_storage
async def test_a_full_outbox_takes_nothing(storage: Storage) -> None:
    await storage.outbox.add([outgoing(1)], most=2)
    with pytest.raises(Busy):
        await storage.outbox.add([outgoing(2), outgoing(3)], most=2)
    assert await storage.outbox.count_waiting() == 1
    with pytest.raises(BadRequest):
        await storage.outbox.add([replace(outgoing(4), body="\ud800")], most=2)
    await storage.outbox.add([outgoing(4)], most=2)


@with_storage
async def test_what_arrives_is_stored_once_with_the_position(storage: Storage) -> None:
    goal = await talk(storage)
    assert await storage.outbox.load_position() is None
    assert await receive(storage, 3, incoming(goal, 1), incoming(goal, 2)) == [incoming(goal, 1), incoming(goal, 2)]
    assert await storage.outbox.load_position() == Position("s1", 3)
    # It comes again after a crash, and may be published twice.
    assert await receive(storage, 3, incoming(goal, 1)) == []
    assert await receive(storage, 2, incoming(goal, 1)) == []
    assert await storage.outbox.load_position() == Position("s1", 3)
    assert await receive(storage, 4, incoming(goal, 2), incoming(goal, 3)) == [incoming(goal, 3)]
    assert [mail.id for mail in await storage.mail.list_unread(KEY)] == [incoming(goal, n).id for n in (1, 2, 3)]
    await storage.outbox.receive(Receipt(position=Position("s2", 1)), now=NOW)
    assert await storage.outbox.load_position() == Position("s2", 1)
    assert await storage.outbox.count_waiting() == 0


@with_storage
async def test_a_batch_for_one_goal_evicts_the_oldest_whatever_its_size(storage: Storage) -> None:
    goal = await talk(storage)
    mails = [incoming(goal, number) for number in range(3 * INBOX_CAPACITY)]
    await receive(storage, 1, *mails[:10])
    # One of them comes twice, and one was there.
    batch = [mails[9], mails[10], *mails[10:]]
    result = await storage.outbox.receive(Receipt(position=Position("s1", 2), mails=batch), now=NOW)
    assert result.stored == mails[10:]
    assert result.evicted == mails[: 2 * INBOX_CAPACITY]
    assert await storage.mail.list_unread(KEY) == mails[2 * INBOX_CAPACITY :]


@with_storage
async def test_what_is_received_can_be_decided_by_the_goals_there_are(storage: Storage) -> None:
    goal = await talk(storage)
    token = await storage.store.add_token(Token(name="eve", senders=(), created_at=0.0), "digest")
    mail, unknown = incoming(goal, 1), make_goal_id(await storage.outbox.load_store_number(), 99)
    asked: list[tuple[list[str], list[Token]]] = []

    def judge(goals: Mapping[str, MailTarget], tokens: Sequence[Token]) -> Receipt:
        asked.append((list(goals), list(tokens)))
        return Receipt(position=Position("s1", 1), mails=[mail])

    # Another transaction of the same commit fails, so that this one may be repeated.
    failing = asyncio.ensure_future(storage.outbox.resend("mail-unknown", now=NOW))
    result, goals, tokens = await storage.outbox.receive_checked([goal.id, unknown], judge, now=NOW)
    with pytest.raises(NotFound):
        await failing
    assert set(map(repr, asked)) == {repr(([goal.id], [token]))}
    assert (result.stored, list(tokens)) == ([mail], [token])
    assert {each: target.key for each, target in goals.items()} == {goal.id: KEY}
    assert await storage.mail.list_unread(KEY) == [mail]
    assert await storage.outbox.load_position() == Position("s1", 1)


@with_storage
async def test_a_sender_elsewhere_is_told_of_what_is_not_read(storage: Storage) -> None:
    goal = await talk(storage)
    full = [incoming(goal, number) for number in range(INBOX_CAPACITY + 1)]
    lost = replace(incoming(goal, 99), goal_id=make_goal_id(await storage.outbox.load_store_number(), 99))
    refused = ReturnedMail(mail=incoming(goal, 100), state=NoticeState.REFUSED, reason="not accepted")
    receipt = Receipt(position=Position("s1", 1), mails=[*full, lost], refused=[refused])
    result = await storage.outbox.receive(receipt, now=NOW)
    assert (result.stored, result.evicted) == (full, full[:1])
    assert [each.mail for each in result.refused] == [refused.mail, lost]
    # A local mail can evict one as well; a local sender gets no notice.
    local = [replace(outgoing(n, goal.id, goal.id), id=f"mail-local-{n}") for n in (200, 201)]
    assert await storage.mail.send(local[:1], now=NOW) == full[1:2]
    assert [mail.id for mail in await storage.mail.evict(KEY, now=NOW)][-1] == local[0].id
    items = await unpublished(storage)
    assert [(item.notice, item.mail.id, item.reason) for item in items[:4]] == [
        (NoticeState.EVICTED, full[0].id, "too many unread messages"),
        (NoticeState.REFUSED, refused.mail.id, "not accepted"),
        (NoticeState.REFUSED, lost.id, f"no live goal `{lost.goal_id}`"),
        (NoticeState.EVICTED, full[1].id, "too many unread messages"),
    ]
    assert {item.goal_id for item in items} == {BOB}
    assert items[0].id == make_notice_id(full[0].id, NoticeState.EVICTED)
    assert len(items) == 3 + INBOX_CAPACITY
    # What was handled before is not given back again, though it may be gone by now.
    await storage.outbox.settle(THERE, Position("s1", 0))
    again = await storage.outbox.receive(receipt, now=NOW)
    assert (list(again.stored), list(again.refused)) == ([], [])


@with_storage
async def test_unread_mail_from_elsewhere_goes_back_when_its_conversation_is_deleted(storage: Storage) -> None:
    goal = await talk(storage)
    read = incoming(goal, 2)
    await receive(storage, 1, incoming(goal, 1), read)
    await show(storage, read)
    await storage.store.delete(KEY, now=1000.0)
    (item,) = await unpublished(storage)
    assert (item.notice, item.mail, item.reason) == (
        NoticeState.EVICTED,
        incoming(goal, 1),
        "its conversation was deleted",
    )


@with_storage
async def test_unread_mail_of_the_same_store_goes_back_when_its_conversation_is_deleted(storage: Storage) -> None:
    goal, sender = await talk(storage), await talk(storage, OTHER_KEY, "run-2")
    sent = replace(outgoing(1, goal.id, sender.id), to_agent=KEY.agent)
    by_person, read = outgoing(2, goal.id, ""), outgoing(3, goal.id, sender.id)
    await storage.mail.send([sent, by_person, read], now=NOW)
    await show(storage, read)
    returned = ReturnedMail(mail=sent, state=NoticeState.EVICTED, reason="its conversation was deleted")
    assert list((await storage.store.delete(KEY, now=NOW)).returned) == [returned]
    (lost,) = await storage.mail.list_untold(OTHER_KEY)
    assert (lost.mail_id, lost.reason, lost.lost_at) == (sent.id, "its conversation was deleted", NOW)
    (dead,) = await storage.outbox.list_failed(limit=10)
    assert (dead.mail, dead.reason) == (sent, "its conversation was deleted")
    assert await unpublished(storage) == []
    with pytest.raises(Conflict, match="was deleted"):
        await storage.outbox.resend(sent.id, now=NOW)
    # Nobody is left to be told.
    assert list((await storage.store.delete(OTHER_KEY, now=NOW)).returned) == []
    assert await storage.outbox.list_failed(limit=10) == []


@with_storage
async def test_mail_that_was_given_back_is_kept_and_can_be_sent_again(storage: Storage) -> None:
    goal = await talk(storage)
    outbox = storage.outbox
    waiting, gone = outgoing(1, from_goal=goal.id), outgoing(2, from_goal=goal.id)
    await outbox.add([waiting], most=10)
    returned = [
        ReturnedMail(mail=waiting, state=NoticeState.REFUSED, reason="not accepted"),
        ReturnedMail(mail=gone, state=NoticeState.EVICTED, reason="too many"),
    ]
    receipt = Receipt(position=Position("s1", 1), returned=returned)
    assert list((await outbox.receive(receipt, now=NOW)).returned) == returned
    assert list((await outbox.receive(replace(receipt, position=Position("s1", 2)), now=NOW)).returned) == []
    dead = await outbox.list_failed(limit=10)
    assert [(each.mail, each.evicted_at, each.reason) for each in dead] == [
        (gone, NOW, "too many"),
        (waiting, NOW, "not accepted"),
    ]
    assert (await unpublished(storage), await outbox.count_waiting()) == ([], 0)
    again = await outbox.resend(gone.id, now=NOW + 5)
    assert again == replace(gone, id=make_resent_id(gone), sent_at=NOW + 5)
    assert [item.mail for item in await unpublished(storage)] == [again]
    with pytest.raises(NotFound):
        await outbox.resend(gone.id, now=NOW + 5)
    # What was given back goes with the conversation it came from; what is on its way does not.
    await storage.store.delete(KEY, now=1000.0)
    assert await outbox.list_failed(limit=10) == []
    assert [item.mail for item in await unpublished(storage)] == [again]


@with_storage
async def test_the_key_of_a_known_daemon_is_not_replaced(storage: Storage) -> None:
    daemons = storage.daemons
    assert await daemons.save(DAEMON) == DAEMON
    assert await daemons.save(replace(DAEMON, first_seen=9.0, last_seen=9.0)) == replace(DAEMON, last_seen=9.0)
    assert await daemons.save(replace(DAEMON, key="b3RoZXI=", last_seen=10.0)) == replace(DAEMON, last_seen=9.0)
    other = await daemons.save(replace(DAEMON, name="desk"))
    assert await daemons.list_all() == [other, replace(DAEMON, last_seen=9.0)]
    assert [await daemons.forget("laptop"), await daemons.forget("laptop")] == [True, False]
    assert (await daemons.save(replace(DAEMON, key="b3RoZXI="))).key == "b3RoZXI="


@with_disk
async def test_mail_between_daemons_survives_a_restart(disk: Disk) -> None:
    first = await disk.open()
    goal = await talk(first)
    await first.outbox.add([outgoing(1)], most=10)
    await receive(first, 7, incoming(goal, 1))
    await first.daemons.save(DAEMON)
    await first.store.close()
    second = await disk.open()
    assert [item.mail for item in await unpublished(second)] == [outgoing(1)]
    assert await second.outbox.load_position() == Position("s1", 7)
    assert await second.daemons.list_all() == [DAEMON]
    assert (await goal_of(second)).unread == 1
    await second.store.close()


@with_storage
async def test_a_bridge_message_is_known_after_its_receiver_has_it_until_its_sender_is_deleted(
    storage: Storage,
) -> None:
    await talk(storage)
    goal = await goal_of(storage)
    body = '{"type": "shutdown_request", "request_id": "7a3b2f00-0000-4000-8000-000000000001"}'
    sent = replace(outgoing(1, from_goal=goal.id), body=body, correlation_id="c")
    other = replace(outgoing(2, from_goal=goal.id), correlation_id="c")
    nobody = replace(sent, id=make_mail_id("run", "3", BOB), from_goal=make_goal_id(1, 0))
    for _ in range(2):
        await storage.outbox.add([sent, other, nobody], most=10)
    await storage.outbox.set_positions({mail.id: Position("s1", 4) for mail in (sent, other, nobody)})
    assert await storage.outbox.settle(THERE, Position("s1", 4)) == 3
    assert await storage.mail.list_correlated("c") == [sent]
    await storage.store.delete(KEY, now=1000.0)
    assert await storage.mail.list_correlated("c") == []


@with_storage
async def test_what_is_received_again_gives_back_nothing_that_was_sent_again(storage: Storage) -> None:
    goal = await talk(storage)
    outbox = storage.outbox
    sent = outgoing(1, from_goal=goal.id)
    back = [ReturnedMail(mail=sent, state=NoticeState.EVICTED, reason="too many")]
    receipt = Receipt(position=Position("s1", 1), returned=back)
    assert list((await outbox.receive(receipt, now=NOW)).returned) == back
    await outbox.resend(sent.id, now=NOW + 1)
    assert list((await outbox.receive(receipt, now=NOW + 2)).returned) == []
    assert await outbox.list_failed(limit=9) == []


@with_storage
async def test_a_daemon_gives_back_only_what_was_for_it_and_what_was_sent_is_kept(storage: Storage) -> None:
    goal = await talk(storage)
    outbox = storage.outbox
    sent = outgoing(1, from_goal=goal.id)
    await outbox.add([sent], most=10)
    other = ReturnedMail(mail=replace(sent, goal_id=ANN, body="else"), state=NoticeState.REFUSED, reason="no")
    result = await outbox.receive(Receipt(position=Position("s1", 1), returned=[other]), now=NOW)
    assert (list(result.returned), await outbox.list_failed(limit=9)) == ([], [])
    assert [item.mail for item in await unpublished(storage)] == [sent]
    # What it says of the text does not matter as long as the mail is known here.
    changed = replace(other, mail=replace(sent, body="else"))
    result = await outbox.receive(Receipt(position=Position("s1", 2), returned=[changed]), now=NOW)
    assert list(result.returned) == [replace(changed, mail=sent)]
    assert [each.mail for each in await outbox.list_failed(limit=9)] == [sent]


@with_storage
async def test_mail_whose_id_another_sender_has_used_is_given_back(storage: Storage) -> None:
    goal = await talk(storage)
    first = incoming(goal, 1)
    second = replace(first, from_goal=ANN, from_agent="ann@laptop", body="mine")
    for sequence in (1, 2):
        # The same mail, which comes twice, is stored once.
        assert list(await receive(storage, sequence, first)) == ([first] if sequence == 1 else [])
    result = await storage.outbox.receive(Receipt(position=Position("s1", 3), mails=[second]), now=NOW)
    assert list(result.stored) == []
    assert [(each.mail, each.reason) for each in result.refused] == [(second, "another message has its id")]
    (notice,) = await unpublished(storage)
    assert (notice.notice, notice.mail) == (NoticeState.REFUSED, second)


@with_storage
async def test_dead_mail_is_deleted_after_its_time_the_oldest_first(storage: Storage) -> None:
    goal = await talk(storage)
    mail, outbox = storage.mail, storage.outbox
    for number in range(INBOX_CAPACITY + 3):
        await mail.send([replace(incoming(goal, number), from_goal=goal.id)], now=NOW + number)
    returned = [ReturnedMail(mail=outgoing(900), state=NoticeState.REFUSED, reason="no")]
    await outbox.receive(Receipt(position=Position("s1", 1), returned=returned), now=NOW + 66)
    await outbox.add([outgoing(901)], most=10)

    async def list_times() -> list[float]:
        found = [*await mail.list_dead(limit=99), *await outbox.list_failed(limit=99)]
        return sorted(each.evicted_at - NOW for each in found)

    assert await list_times() == [64, 65, 66, 66]
    assert await mail.expire_dead(before=NOW + 64, batch=9) == 0
    assert await mail.expire_dead(before=NOW + 70, batch=1) == 2
    assert await list_times() == [65, 66]
    assert await mail.expire_dead(before=NOW + 66, batch=9) == 1
    assert await mail.expire_dead(before=NOW + 70, batch=9) == 1
    assert await mail.expire_dead(before=NOW + 70, batch=9) == 0
    # What waits or can still be read stays.
    assert len(await mail.list_unread(KEY)) == INBOX_CAPACITY
    assert await outbox.count_waiting() == 1


@with_storage
async def test_mail_that_nobody_has_received_in_time_is_given_back_the_oldest_first(storage: Storage) -> None:
    goal = await talk(storage)
    outbox = storage.outbox
    sent = [outgoing(number, from_goal=goal.id) for number in range(4)]
    refused = [ReturnedMail(mail=incoming(goal, 0), state=NoticeState.REFUSED, reason="no")]
    await outbox.receive(Receipt(position=Position("s1", 1), refused=refused), now=NOW)
    await outbox.add(sent, most=10)

    async def expire(before: float, batch: int = 9) -> list[Mail]:
        found = await outbox.expire(before=before, reason="too old", now=NOW + 9, batch=batch)
        assert {each.reason for each in found} <= {"too old"}
        return [each.mail for each in found]

    assert await expire(NOW) == []
    assert len(await unpublished(storage)) == 5
    assert await expire(NOW + 3, batch=1) == sent[:1]
    assert await expire(NOW + 3, batch=1) == sent[1:2]
    # The notice is deleted: nobody has asked for it.
    assert [item.mail for item in await unpublished(storage)] == sent[2:]
    assert await expire(NOW + 3, batch=2) == sent[2:3]
    assert await expire(NOW + 3, batch=2) == []
    dead = await outbox.list_failed(limit=9)
    assert {(each.mail.id, each.reason, each.evicted_at) for each in dead} == {
        (mail.id, "too old", NOW + 9) for mail in sent[:3]
    }
    # What is sent again is new.
    again = await outbox.resend(sent[0].id, now=NOW + 9)
    assert await expire(NOW + 9) == sent[3:]
    assert [item.mail for item in await outbox.list_waiting(limit=9)] == [again]
