"""Mail between agents: stored once, shown once, evicted when there is too much, and gone with its conversation."""

import asyncio
from uuid import UUID

import pytest
from msgspec.structs import replace

from moot.domain.ask import Ask, AskKind
from moot.domain.conversation import Conversation, ConversationKey
from moot.domain.digest import Visit
from moot.domain.errors import Conflict, NotFound
from moot.domain.goal import Goal, GoalKind, GoalState, MailTarget, make_goal_id, read_goal_id
from moot.domain.mail import INBOX_CAPACITY, MAIL_AUTHOR, Mail
from moot.domain.message import user
from moot.domain.outbox import make_resent_id
from moot.domain.ports.storage import Storage
from moot.domain.run import Run, RunKind, RunStatus, Spawn
from moot.domain.token import Token
from tests.contracts.store_kit import DONE, KEY, OTHER, Disk, request, with_disk, with_storage

NOW = 1000.0


async def talk(storage: Storage, key: ConversationKey = KEY, run_id: str = "run-1", *, now: float = NOW) -> Goal:
    """Have a conversation with one ended turn, and return its goal."""
    await storage.store.begin(request(run_id, "hi", key), now=now)
    await storage.store.end(key, run_id, DONE, [], now=now)
    return await goal_of(storage, key)


async def goal_of(storage: Storage, key: ConversationKey = KEY) -> Goal:
    goal = await storage.mail.find_goal_of(key)
    assert goal is not None
    return goal


async def find_target(storage: Storage, goal_id: str) -> MailTarget | None:
    return (await storage.mail.find_targets([goal_id]))[0].get(goal_id)


def target_of(goal: Goal) -> MailTarget:
    return MailTarget(id=goal.id, key=goal.key, root=goal.root, state=goal.state)


def mail(goal: Goal, number: int = 1, **fields: object) -> Mail:
    given = {
        "id": f"mail-{number}",
        "goal_id": goal.id,
        "from_agent": "bob",
        "from_goal": make_goal_id(7, 7),
        "to_agent": goal.agent,
        "body": f"message {number}",
        "sent_at": NOW + number,
        **fields,
    }
    return Mail(**given)  # type: ignore[arg-type]


@with_storage
async def test_mail_is_read_back_as_it_was_sent(storage: Storage) -> None:
    goal = await talk(storage)
    correlated = mail(goal, 2, correlation_id="c", thread="run-9", hops=3, taint=frozenset({"web", "mcp"}), body="é<&>")
    assert await storage.mail.send([mail(goal), correlated], now=NOW) == []
    assert await storage.mail.list_unread(KEY) == [mail(goal), correlated]
    assert await storage.mail.count_unread() == {KEY: 2}
    assert (await goal_of(storage)).unread == 2
    assert await storage.mail.list_unread(OTHER) == []
    assert await storage.mail.list_correlated("c") == [correlated]
    assert await storage.mail.list_correlated("") == []


@with_storage
async def test_a_visit_is_stored_with_its_conversation(storage: Storage) -> None:
    await storage.store.set_visit(KEY, Visit(at=NOW))
    assert await storage.store.find_visit(KEY) is None
    await talk(storage)
    assert await storage.store.find_visit(KEY) == Visit()
    await storage.store.set_visit(KEY, Visit(at=NOW, away_since=3.0))
    assert await storage.store.find_visit(KEY) == Visit(at=NOW, away_since=3.0)
    await storage.store.delete(KEY, now=1000.0)
    assert await storage.store.find_visit(KEY) is None


@with_storage
async def test_mail_that_arrives_twice_is_stored_once(storage: Storage) -> None:
    goal = await talk(storage)
    await storage.mail.send([mail(goal)], now=NOW)
    await storage.mail.send([mail(goal, body="again")], now=NOW)
    assert [each.body for each in await storage.mail.list_unread(KEY)] == ["message 1"]
    await storage.store.begin(request("run-2", "x", KEY), now=NOW)
    await storage.store.append(KEY, "run-2", [user("mail", author=MAIL_AUTHOR)], now=NOW, delivers=["mail-1"])
    await storage.mail.send([mail(goal)], now=NOW)
    assert await storage.mail.list_unread(KEY) == []


@with_storage
async def test_mail_is_read_with_the_message_that_shows_it(storage: Storage) -> None:
    goal = await talk(storage)
    await storage.mail.send([mail(goal), mail(goal, 2)], now=NOW)
    await storage.store.begin(request("run-2", "x", KEY), now=NOW)
    await storage.store.append(KEY, "run-2", [user("mail", author=MAIL_AUTHOR)], now=NOW, delivers=["mail-1"])
    assert await storage.mail.list_unread(KEY) == [mail(goal, 2)]
    assert await storage.mail.list_shown_by("run-2") == [mail(goal)]
    assert await storage.mail.list_shown_by("run-1") == []


@with_storage
async def test_mail_that_is_read_out_of_order_hides_no_older_mail(storage: Storage) -> None:
    goal = await talk(storage)
    older = [mail(goal, 1), mail(goal, 2)]
    await storage.mail.send(older, now=NOW)
    await storage.store.begin(request("run-2", "x", KEY), now=NOW)
    for number in range(3, 3 * INBOX_CAPACITY):
        assert await storage.mail.send([mail(goal, number)], now=NOW) == []
        await storage.store.append(
            KEY, "run-2", [user("mail", author=MAIL_AUTHOR)], now=NOW, delivers=[f"mail-{number}"]
        )
        assert await storage.mail.list_unread(KEY) == older
    newest = mail(goal, 3 * INBOX_CAPACITY)
    await storage.mail.send([newest], now=NOW)
    assert await storage.mail.list_unread(KEY) == [*older, newest]
    assert (await goal_of(storage)).unread == len([*older, newest])


@with_storage
async def test_a_run_that_mail_started_shows_it_and_counts_as_a_wake(storage: Storage) -> None:
    goal = await talk(storage)
    for number in (1, 2):
        await storage.mail.send([mail(goal, number, thread="run-9")], now=NOW)
        assert len(await storage.mail.list_wakes("run-9")) == number - 1
        woken = request(f"run-w{number}", "mail", KEY, author=MAIL_AUTHOR, delivers=(f"mail-{number}",))
        await storage.store.begin(woken, now=NOW)
        await storage.store.end(KEY, woken.id, DONE, [], now=NOW)
    assert await storage.mail.list_unread(KEY) == []
    assert [len(await storage.mail.list_wakes(thread)) for thread in ("run-9", "other")] == [2, 0]


@with_storage
async def test_queued_mail_is_not_shown_by_another_run(storage: Storage) -> None:
    goal = await talk(storage)
    await storage.mail.send([mail(goal)], now=NOW)
    await storage.store.enqueue(request("run-w", "mail", KEY, author=MAIL_AUTHOR, delivers=("mail-1",)), now=NOW)
    assert await storage.mail.list_unread(KEY) == []
    await storage.store.unqueue("run-w", DONE, now=NOW)
    assert await storage.mail.list_unread(KEY) == [mail(goal)]


@with_storage
async def test_one_message_too_many_evicts_the_oldest(storage: Storage) -> None:
    goal = await talk(storage)
    full = [mail(goal, number) for number in range(1, INBOX_CAPACITY + 1)]
    assert await storage.mail.send(full, now=NOW) == []
    assert await storage.mail.send([mail(goal, 65), mail(goal, 66)], now=NOW + 1) == full[:2]
    unread = await storage.mail.list_unread(KEY)
    assert [each.id for each in unread] == [f"mail-{number}" for number in range(3, 67)]
    dead = await storage.mail.list_dead(limit=10)
    assert [(each.mail.id, each.evicted_at) for each in dead] == [("mail-2", NOW + 1), ("mail-1", NOW + 1)]
    assert await storage.mail.list_dead(limit=10, skip=1) == dead[1:]
    found = [await storage.mail.find_dead(each) for each in ("mail-1", "mail-3", "mail-x")]
    assert found == [full[0], None, None]
    # Sent again, it is the newest, and evicts another.
    again = replace(full[0], id=make_resent_id(full[0]))
    assert await storage.mail.resend("mail-1", now=NOW + 2) == (again, [full[2]])
    assert (await storage.mail.list_unread(KEY))[-1] == again
    for unknown in ("mail-1", "mail-x"):
        with pytest.raises(NotFound):
            await storage.mail.resend(unknown, now=NOW)


@with_storage
async def test_mail_that_its_sender_has_sent_again_is_not_delivered_twice(storage: Storage) -> None:
    goal = await talk(storage)
    await storage.mail.send([mail(goal)], now=NOW)
    await storage.mail.evict(KEY, now=NOW)
    await storage.mail.send([replace(mail(goal), id=make_resent_id(mail(goal)))], now=NOW)
    with pytest.raises(Conflict):
        await storage.mail.resend("mail-1", now=NOW)
    assert len(await storage.mail.list_unread(KEY)) == 1


@with_storage
async def test_mail_of_this_store_keeps_its_id_when_it_is_delivered_again(storage: Storage) -> None:
    goal = await talk(storage)
    own = mail(goal, from_goal=goal.id)
    await storage.mail.send([own], now=NOW)
    await storage.mail.evict(KEY, now=NOW)
    assert await storage.mail.resend("mail-1", now=NOW) == (own, [])


@with_storage
async def test_mail_that_was_evicted_while_a_run_showed_it_is_not_dead(storage: Storage) -> None:
    goal = await talk(storage)
    await storage.mail.send([mail(goal)], now=NOW)
    await storage.mail.evict(KEY, now=NOW)
    assert [each.mail.id for each in await storage.mail.list_dead(limit=10)] == ["mail-1"]
    await storage.store.begin(replace(request("run-2", "hi"), delivers=("mail-1",)), now=NOW)
    assert await storage.mail.list_dead(limit=10) == []
    assert await storage.mail.find_dead("mail-1") is None


@with_storage
async def test_goals_are_live_while_they_have_a_run_or_were_used_lately(storage: Storage) -> None:
    mine = await talk(storage)
    assert (mine.kind, mine.state, mine.owner) == (GoalKind.INTERACTIVE, GoalState.IDLE, "user")
    child = ConversationKey("operator", "run:arun-1")
    spawned = request("arun-1", "count the lines\nof it", child, root=KEY, root_id="run-1", parent_id="run-1")
    await storage.store.spawn(
        Run(
            request=spawned,
            status=RunStatus.QUEUED,
            created_at=NOW,
            spawn=Spawn(parent_call="c1", chain=("ada",)),
        )
    )
    below = await goal_of(storage, child)
    assert (below.kind, below.state, below.owner, below.label) == (
        GoalKind.BACKGROUND,
        GoalState.QUEUED,
        "user",
        "count the lines",
    )
    everyone = await storage.mail.list_goals(since=NOW - 1, limit=10)
    assert {goal.id for goal in everyone} == {mine.id, below.id}
    assert await storage.mail.list_goals(agent="ada", since=NOW - 1, limit=10) == [mine]
    assert await storage.mail.list_goals(agent="ada", since=NOW, limit=10) == []
    assert [goal.id for goal in await storage.mail.list_goals(since=NOW, limit=10)] == [below.id]
    await storage.store.unqueue("arun-1", DONE, now=NOW)
    assert await storage.mail.list_goals(since=NOW, limit=10) == []
    assert await find_target(storage, mine.id) == target_of(mine)


@with_storage
async def test_goals_are_found_by_any_form_of_their_ids_with_the_tokens(storage: Storage) -> None:
    """By the given text, so that a caller finds what it looked for; the id is in the usual form."""
    mine, other = await talk(storage), await talk(storage, OTHER, "run-2")
    token = await storage.store.add_token(Token(name="phone", senders=("tg:*",), created_at=NOW), "digest")
    given = [mine.id.upper(), other.id.replace("-", ""), make_goal_id(1 << 40, 1), "x"]
    found, tokens = await storage.mail.find_targets(given)
    assert found == {given[0]: target_of(mine), given[1]: target_of(other)}
    assert tokens == [token]


@with_storage
async def test_a_goal_of_nobody_takes_no_mail(storage: Storage) -> None:
    goal = await talk(storage)
    store, number = read_goal_id(goal.id) or (0, 0)
    for unknown in (make_goal_id(store, number + 1), make_goal_id(store + 1, number), str(UUID(int=4 << 76)), "x"):
        assert await find_target(storage, unknown) is None
        with pytest.raises(NotFound):
            await storage.mail.send([mail(goal), mail(goal, 2, goal_id=unknown)], now=NOW)
    # Nothing of a refused call is stored.
    assert await storage.mail.list_unread(KEY) == []


@with_storage
async def test_mail_is_deleted_with_its_conversation(storage: Storage) -> None:
    goal = await talk(storage)
    await storage.mail.send([mail(goal), mail(goal, 2)], now=NOW)
    await storage.store.begin(request("run-2", "x", KEY), now=NOW)
    await storage.store.append(KEY, "run-2", [user("mail", author=MAIL_AUTHOR)], now=NOW, delivers=["mail-1"])
    await storage.store.end(KEY, "run-2", DONE, [], now=NOW)
    assert (await storage.store.delete(KEY, now=1000.0)).counts.mail == 2
    assert await storage.mail.list_shown_by("run-2") == []
    again = await talk(storage)
    # A new conversation of the same name is another goal, and its mail is not confused with that of the old one.
    assert again.id != goal.id
    await storage.mail.send([mail(again)], now=NOW)
    assert await storage.mail.list_unread(KEY) == [mail(again)]


@with_disk
async def test_mail_survives_a_restart(disk: Disk) -> None:
    first = await disk.open()
    goal = await talk(first)
    await first.mail.send([mail(goal)], now=NOW)
    await first.store.close()
    second = await disk.open()
    assert await second.mail.list_unread(KEY) == [mail(goal)]
    assert (await goal_of(second)).id == goal.id
    await second.store.close()


@with_storage
async def test_what_arrives_during_an_import_belongs_to_the_imported_conversation(storage: Storage) -> None:
    """The mail, the asks of background runs, what is queued with the results that it delivers, and the settings."""
    store = storage.store
    for number in (1, 2):
        run = Run(
            request=request(f"arun-{number}", "do", ConversationKey("ada", f"bg:arun-{number}"), root=KEY),
            status=RunStatus.QUEUED,
            created_at=NOW,
            spawn=Spawn(kind=RunKind.BACKGROUND),
        )
        await store.spawn(run)
        await store.begin(run.request, now=NOW)
    await store.end(ConversationKey("ada", "bg:arun-1"), "arun-1", DONE, [], now=NOW)
    past = [(user(f"message {number} " + "x" * 600), NOW) for number in range(3_000)]
    importing = asyncio.ensure_future(store.restore_conversation(Conversation(key=KEY, title="Old"), past, []))
    await asyncio.sleep(0)

    await store.set_mode(KEY, "plan", now=NOW)

    async def send() -> None:
        await storage.mail.send([mail(await goal_of(storage))], now=NOW)

    # Together, so that all of it is written between two parts of the import, however fast these are.
    asked, *_ = await asyncio.gather(
        storage.asks.open(
            Ask(id="a", kind=AskKind.QUESTION, key=KEY, run_id="arun-2", call_id="c", speaker="ada", tool="ask_user")
        ),
        store.set_auto_approve(KEY, "reads", now=NOW),
        store.set_model(KEY, "big", now=NOW),
        store.set_cwd(KEY, "/there", now=NOW),
        store.set_project_files(KEY, used=False, now=NOW),
        store.set_visit(KEY, Visit(at=NOW, away_since=3.0)),
        send(),
        store.enqueue(request("late", "it is done", delivers=("arun-1",)), now=NOW),
    )
    assert not importing.done()
    await importing

    loaded = await store.load(KEY)
    assert loaded is not None
    assert len(loaded.entries) == len(past)
    found = loaded.conversation
    assert (found.mode, found.model, found.cwd, found.uses_project_files) == ("plan", "big", "/there", False)
    assert (found.title, await store.find_auto_approve(KEY)) == ("Old", "reads")
    assert await store.find_visit(KEY) == Visit(at=NOW, away_since=3.0)
    assert [each.body for each in await storage.mail.list_unread(KEY)] == ["message 1"]
    assert await storage.asks.list_open() == [asked]
    begun = await store.begin(request("late", "it is done", delivers=("arun-1",)), now=NOW)
    ended = await store.get_run("arun-1")
    assert ended is not None
    assert (ended.delivered_by, ended.delivered_seq) == ("late", begun.entry.seq)
