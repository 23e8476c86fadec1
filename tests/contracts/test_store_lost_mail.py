"""Lost mail: senders and receivers are told of it once, whatever it was lost to, and nothing of that is left behind."""

from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.goal import Goal, make_goal_id
from moot.domain.inbox_message import NoticeState
from moot.domain.lost_mail import MOST_LOST, LostMail
from moot.domain.mail import INBOX_CAPACITY, MAIL_AUTHOR, Mail
from moot.domain.message import user
from moot.domain.outbox import Position, Receipt, ReturnedMail, make_resent_id
from moot.domain.ports.storage import Storage
from tests.contracts.store_kit import KEY, OTHER, request, with_storage
from tests.contracts.test_store_mail import NOW, mail, talk

TAINT = frozenset({"web"})


async def tell(storage: Storage, key: ConversationKey, run_id: str) -> list[LostMail]:
    """Have a run tell of all lost mail; return it."""
    lost = await storage.mail.list_untold(key)
    await storage.store.begin(request(run_id, "x", key), now=NOW)
    told = [each.told_id for each in lost]
    await storage.store.append(key, run_id, [user("lost", author=MAIL_AUTHOR)], now=NOW, delivers=told)
    return lost


async def fill(storage: Storage, goal: Goal, sender: Goal, count: int, first: int = 1) -> list[Mail]:
    """Send so many messages one after the other."""
    sent = [
        mail(goal, number, from_goal=sender.id, body="é" * 300, taint=TAINT) for number in range(first, first + count)
    ]
    for each in sent:
        await storage.mail.send([each], now=NOW + 1)
    return sent


def describe(lost: list[LostMail]) -> list[tuple[str, bool, str]]:
    return [(each.mail_id, each.is_sent, each.agent) for each in lost]


@with_storage
async def test_sender_and_receiver_are_told_once_of_an_eviction(storage: Storage) -> None:
    goal, sender = await talk(storage), await talk(storage, OTHER, "run-2")
    sent = await fill(storage, goal, sender, INBOX_CAPACITY + 2)
    assert describe(await storage.mail.list_untold(KEY)) == [("mail-1", False, "bob"), ("mail-2", False, "bob")]
    (first, _) = await storage.mail.list_untold(OTHER)
    assert first == LostMail(
        mail_id="mail-1",
        is_sent=True,
        agent=goal.agent,
        goal_id=goal.id,
        sent_at=sent[0].sent_at,
        lost_at=NOW + 1,
        reason="it had too many unread messages",
        excerpt="é" * 200,
        taint=TAINT,
    )
    assert len(await tell(storage, OTHER, "run-3")) == 2
    assert await storage.mail.list_untold(OTHER) == []
    # What one was told says nothing about the other, and is no mail.
    assert len(await tell(storage, KEY, "run-4")) == 2
    assert await storage.mail.list_untold(KEY) == []
    assert await storage.mail.list_shown_by("run-3") == []
    assert len(await storage.mail.list_dead(limit=9)) == 2
    await fill(storage, goal, sender, 1, first=100)
    for key in (KEY, OTHER):
        assert [each.mail_id for each in await storage.mail.list_untold(key)] == ["mail-3"]


@with_storage
async def test_mail_that_is_sent_again_and_lost_again_is_told_of_again(storage: Storage) -> None:
    goal, sender = await talk(storage), await talk(storage, OTHER, "run-2")
    await fill(storage, goal, sender, INBOX_CAPACITY + 1)
    for key, run_id in ((KEY, "run-3"), (OTHER, "run-4")):
        assert [each.mail_id for each in await tell(storage, key, run_id)] == ["mail-1"]
    await storage.mail.resend("mail-1", now=NOW)
    assert [each.mail_id for each in await storage.mail.list_untold(OTHER)] == ["mail-2"]
    await fill(storage, goal, sender, INBOX_CAPACITY, first=100)
    assert "mail-1" in [each.mail_id for each in await storage.mail.list_untold(OTHER)]


@with_storage
async def test_mail_that_was_evicted_and_shown_all_the_same_is_read_and_its_sender_not_told(storage: Storage) -> None:
    goal, own = await talk(storage), await talk(storage, OTHER, "run-2")
    there = make_goal_id(8, 1)
    arrived = [
        *(mail(goal, number, from_goal=there) for number in (1, 2, 3)),
        mail(goal, 4, from_goal=own.id),
        *(mail(goal, number, from_goal=there) for number in range(5, INBOX_CAPACITY + 5)),
    ]
    await storage.outbox.receive(Receipt(position=Position("s1", 1), mails=arrived), now=NOW)
    ids = [f"mail-{number}" for number in range(1, 6)]
    assert await storage.mail.find_dead_among(ids) == {"mail-1", "mail-2", "mail-3", "mail-4"}
    assert [item.mail.id for item in await storage.outbox.list_unpublished("s1", after=0, limit=9)] == ids[:3]
    # A run had been given three of them before they were evicted.
    await storage.store.begin(replace(request("run-3", "mail", KEY), delivers=("mail-1",)), now=NOW)
    delivers = ["mail-2", "mail-4"]
    await storage.store.append(KEY, "run-3", [user("mail", author=MAIL_AUTHOR)], now=NOW, delivers=delivers)
    (notice,) = await storage.outbox.list_unpublished("s1", after=0, limit=9)
    assert (notice.mail.id, notice.notice) == ("mail-3", NoticeState.EVICTED)
    assert await storage.mail.find_dead_among(ids) == {"mail-3"}
    assert [dead.mail.id for dead in await storage.mail.list_dead(limit=9)] == ["mail-3"]
    assert [each.mail_id for each in await storage.mail.list_untold(KEY)] == ["mail-3"]
    assert await storage.mail.list_untold(OTHER) == []
    assert [each.id for each in await storage.mail.list_shown_by("run-3")] == ["mail-1", "mail-2", "mail-4"]
    # It is known if it arrives again.
    again = await storage.outbox.receive(Receipt(position=Position("s1", 2), mails=arrived[:3]), now=NOW)
    assert again.stored == []


@with_storage
async def test_mail_that_was_evicted_and_shown_all_the_same_is_shown_once_if_its_sender_sends_it_again(
    storage: Storage,
) -> None:
    goal = await talk(storage)
    there = make_goal_id(8, 1)
    arrived = [mail(goal, number, from_goal=there) for number in range(1, INBOX_CAPACITY + 3)]
    await storage.outbox.receive(Receipt(position=Position("s1", 1), mails=arrived), now=NOW)
    assert [dead.mail.id for dead in await storage.mail.list_dead(limit=9)] == ["mail-2", "mail-1"]
    # A run of another daemon on this store had been given them before they were evicted, and their sender was told.
    told = await storage.outbox.list_unpublished("s1", after=0, limit=9)
    await storage.outbox.set_positions({item.id: Position("s1", 7) for item in told})
    await storage.store.begin(replace(request("run-3", "mail", KEY), delivers=("mail-1",)), now=NOW)
    await storage.store.append(KEY, "run-3", [user("mail", author=MAIL_AUTHOR)], now=NOW, delivers=["mail-2"])
    again = [replace(each, id=make_resent_id(each), sent_at=NOW + 5) for each in arrived[:2]]
    await storage.outbox.receive(Receipt(position=Position("s1", 2), mails=again), now=NOW + 5)
    assert await storage.mail.list_unread(KEY) == arrived[2:]
    assert await storage.mail.list_dead(limit=9) == []


@with_storage
async def test_shown_and_deleted_mail_is_not_told_of(storage: Storage) -> None:
    goal, sender = await talk(storage), await talk(storage, OTHER, "run-2")
    await fill(storage, goal, sender, INBOX_CAPACITY + 2)
    await storage.store.begin(request("run-3", "x", KEY), now=NOW)
    await storage.store.append(KEY, "run-3", [user("mail", author=MAIL_AUTHOR)], now=NOW, delivers=["mail-1"])
    for key in (KEY, OTHER):
        assert [each.mail_id for each in await storage.mail.list_untold(key)] == ["mail-2"]
    await tell(storage, OTHER, "run-4")
    assert await storage.mail.expire_dead(before=NOW + 2, batch=9) == 1
    assert await storage.mail.list_untold(KEY) == []
    assert await storage.mail.list_untold(ConversationKey("ghost", "user")) == []


@with_storage
async def test_only_the_newest_are_looked_at(storage: Storage) -> None:
    goal, sender = await talk(storage), await talk(storage, OTHER, "run-2")
    many = [mail(goal, number, from_goal=sender.id) for number in range(INBOX_CAPACITY + MOST_LOST + 5)]
    await storage.mail.send(many, now=NOW)
    for key in (KEY, OTHER):
        lost = await storage.mail.list_untold(key)
        assert [lost[0].mail_id, lost[-1].mail_id] == ["mail-5", f"mail-{MOST_LOST + 4}"]


@with_storage
async def test_the_sender_is_told_of_mail_that_another_daemon_gave_back(storage: Storage) -> None:
    sender = await talk(storage)
    there = make_goal_id(8, 1)
    gone = mail(sender, 1, id="mail-r", goal_id=there, from_agent="ada", from_goal=sender.id, to_agent="bob@laptop")
    plan = replace(gone, id="mail-p", body='{"type": "shutdown_request"}')
    returned = [ReturnedMail(mail=each, state=NoticeState.REFUSED, reason="no live goal") for each in (gone, plan)]
    await storage.outbox.receive(Receipt(position=Position("s1", 1), returned=returned), now=NOW + 5)
    # Whoever sends a bridge message gets an answer instead.
    (lost,) = await tell(storage, KEY, "run-2")
    assert (lost.agent, lost.reason, lost.lost_at, lost.excerpt) == (
        "bob@laptop",
        "no live goal",
        NOW + 5,
        "message 1",
    )
    assert await storage.mail.list_untold(KEY) == []
    await storage.outbox.resend("mail-r", now=NOW)
    assert await storage.mail.list_untold(KEY) == []
