"""Mail between agents in memory, and the goals that receive it. Mirrors store/mail.py."""

from collections.abc import Awaitable, Sequence

from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.errors import NotFound
from moot.domain.goal import Goal, GoalState, MailTarget, make_goal_id, read_goal_id
from moot.domain.inbox_message import NoticeState
from moot.domain.lost_mail import LostMail
from moot.domain.mail import INBOX_CAPACITY, DeadMail, Mail
from moot.domain.outbox import make_repeated_error, name_again
from moot.domain.run import RunKind, RunStatus
from moot.domain.senders import is_reserved
from moot.domain.token import Token
from moot.store.memory import accounts, lost_mail, notices
from moot.store.memory.database import ConversationRow, Database, MailRow, RunRow, check_text
from moot.store.memory.transactions import Transactions


class MemoryMail:
    def __init__(self, transactions: Transactions) -> None:
        self._read, self._write = transactions.post_read, transactions.post

    def send(self, mails: Sequence[Mail], *, now: float) -> Awaitable[list[Mail]]:
        return self._write(lambda db: _send(db, mails, now))

    async def list_unread(self, key: ConversationKey) -> list[Mail]:
        return await self._read(lambda db: list_unread(db, db.conversation(key)))

    async def list_untold(self, key: ConversationKey) -> list[LostMail]:
        return await self._read(lambda db: lost_mail.list_untold(db, db.conversation(key)))

    async def list_shown_by(self, run_id: str) -> list[Mail]:
        return await self._read(lambda db: _list_shown_by(db, run_id))

    async def list_correlated(self, correlation_id: str) -> list[Mail]:
        def find(db: Database) -> list[Mail]:
            rows = [row for row in db.mail if correlation_id and row.mail.correlation_id == correlation_id]
            received = [row.mail for row in sorted(rows, key=lambda row: row.number)]
            return received + sorted(db.sent_bridges.find("correlation", correlation_id), key=lambda mail: mail.id)

        return await self._read(find)

    async def count_unread(self) -> dict[ConversationKey, int]:
        return await self._read(
            lambda db: {row.key: len(unread) for row in db.conversations if (unread := list_unread(db, row))}
        )

    async def list_wakes(self, thread: str) -> frozenset[str]:
        return await self._read(lambda db: _list_wakes(db, thread))

    def find_targets(self, goal_ids: Sequence[str]) -> Awaitable[tuple[dict[str, MailTarget], list[Token]]]:
        return self._read(lambda db: (find_targets(db, goal_ids), accounts.list_tokens(db)))

    async def find_goal_of(self, key: ConversationKey) -> Goal | None:
        return await self._read(lambda db: _read_goal(db, db.conversation(key)))

    async def list_goals(self, *, agent: str = "", since: float, limit: int) -> list[Goal]:
        return await self._read(lambda db: _list_goals(db, agent, since, limit))

    async def evict(self, key: ConversationKey, *, now: float) -> list[Mail]:
        return await self._write(lambda db: _evict_all(db, key, now))

    async def set_muted(self, agent: str, *, muted: bool, now: float) -> None:
        await self._write(lambda db: db.muted_agents.put(agent, now) if muted else db.muted_agents.remove(agent))

    async def list_muted(self) -> list[str]:
        return await self._read(lambda db: sorted(agent for agent, _ in db.muted_agents.pairs()))

    async def list_dead(self, *, limit: int, skip: int = 0) -> list[DeadMail]:
        return await self._read(lambda db: _list_dead(db, limit, skip))

    async def find_dead(self, mail_id: str) -> Mail | None:
        return await self._read(lambda db: _find_dead(db, mail_id))

    async def find_dead_among(self, mail_ids: Sequence[str]) -> frozenset[str]:
        return await self._read(lambda db: frozenset(each for each in mail_ids if _find_dead(db, each) is not None))

    async def expire_dead(self, *, before: float, batch: int) -> int:
        return await self._write(lambda db: _expire_dead(db, before, batch))

    async def resend(self, mail_id: str, *, now: float) -> tuple[Mail, list[Mail]]:
        return await self._write(lambda db: _resend(db, mail_id, now))


def _send(db: Database, mails: Sequence[Mail], now: float) -> list[Mail]:
    evicted: list[Mail] = []
    for mail in mails:
        conversation = find_conversation(db, mail.goal_id)
        if conversation is None:
            raise NotFound(f"there is no goal {mail.goal_id}", fix="List the goals with `moot goals`.")
        if insert(db, conversation, mail):
            evicted += evict_oldest(db, conversation, now)
    return evicted


def insert(db: Database, conversation: ConversationRow, mail: Mail) -> bool:
    """Write a mail, unless it is there already; return whether it was not."""
    check_text(mail.body, mail.from_agent)
    if db.mail.get(mail.id) is not None:
        return False
    db.mail.put(mail.id, MailRow(number=db.count_up("mail"), conversation=conversation.id, mail=mail))
    return True


def has_other_sender(db: Database, mail: Mail) -> bool:
    """Whether the mail that is stored under this id was sent by another goal."""
    row = db.mail.get(mail.id)
    return row is not None and row.mail.from_goal != mail.from_goal


def evict_oldest(db: Database, conversation: ConversationRow, now: float) -> list[Mail]:
    if db.mail.count("conversation", conversation.id) <= INBOX_CAPACITY:
        return []
    unread = list_unread(db, conversation)
    return _mark_evicted(db, unread[: max(0, len(unread) - INBOX_CAPACITY)], now, "too many unread messages")


def _evict_all(db: Database, key: ConversationKey, now: float) -> list[Mail]:
    conversation = db.conversation(key)
    if conversation is None or any(row.conversation == conversation.id for row in db.runs.find("unfinished", True)):
        return []
    return _mark_evicted(db, list_unread(db, conversation), now, "its run has ended")


def _mark_evicted(db: Database, mails: list[Mail], now: float, reason: str) -> list[Mail]:
    notices.add(db, mails, NoticeState.EVICTED, reason)
    for mail in mails:
        db.mail.put(mail.id, replace(db.mail[mail.id], evicted_at=now))
    return mails


def find_conversation(db: Database, goal_id: str) -> ConversationRow | None:
    numbers = read_goal_id(goal_id)
    return db.conversations.get(numbers[1]) if numbers is not None and numbers[0] == db.identity else None


def list_unread(db: Database, conversation: ConversationRow | None) -> list[Mail]:
    if conversation is None:
        return []
    rows = sorted(db.mail.find("conversation", conversation.id), key=lambda row: row.number)
    return [row.mail for row in rows if not row.evicted_at and db.deliveries.get(row.mail.id) is None]


def _list_shown_by(db: Database, run_id: str) -> list[Mail]:
    shown = [db.mail.get(delivery.item_id) for delivery in db.deliveries.find("run", run_id)]
    return [row.mail for row in sorted((each for each in shown if each is not None), key=lambda row: row.number)]


def _list_wakes(db: Database, thread: str) -> frozenset[str]:
    runs: set[str] = set()
    for row in db.mail.find("thread", thread):
        delivery = db.deliveries.get(row.mail.id)
        run = db.runs.get(delivery.run_id) if delivery is not None else None
        if run is not None and run.request.author:
            runs.add(run.id)
    return frozenset(runs)


def _list_goals(db: Database, agent: str, since: float, limit: int) -> list[Goal]:
    busy = {row.conversation for row in db.runs.find("unfinished", True)}
    found = [
        row
        for row in db.conversations
        if agent in ("", row.key.agent)
        and (row.id in busy or (row.updated_at > since and not is_reserved(row.key.sender)))
    ]
    found.sort(key=lambda row: (row.updated_at, row.id), reverse=True)
    return [_goal(db, row) for row in found[:limit]]


def find_targets(db: Database, goal_ids: Sequence[str]) -> dict[str, MailTarget]:
    found: dict[str, MailTarget] = {}
    for goal_id in goal_ids:
        row = find_conversation(db, goal_id)
        if row is not None:
            state, own = _find_state(db, row)
            root = own.request.root if own is not None else None
            found[goal_id] = MailTarget(
                id=make_goal_id(db.identity, row.id), key=row.key, root=root or row.key, state=state
            )
    return found


def _find_state(db: Database, row: ConversationRow) -> tuple[GoalState, RunRow | None]:
    """Return the state of a goal, and the run whose own conversation it is, if there is one."""
    state, own = GoalState.IDLE, None
    for run in db.runs.find("conversation", row.id):
        if not run.is_ended:
            is_running = run.status is RunStatus.RUNNING or state is GoalState.RUNNING
            state = GoalState.RUNNING if is_running else GoalState.QUEUED
        if run.spawn.kind is not RunKind.TURN and (own is None or run.number < own.number):
            own = run
    return state, own


def _read_goal(db: Database, row: ConversationRow | None) -> Goal | None:
    return None if row is None else _goal(db, row)


def _goal(db: Database, row: ConversationRow) -> Goal:
    state, own = _find_state(db, row)
    root = own.request.root if own is not None else None
    return Goal(
        id=make_goal_id(db.identity, row.id),
        key=row.key,
        root=root or row.key,
        state=state,
        label=row.title or (_task(db, own) if own is not None else ""),
        unread=len(list_unread(db, row)),
        active_at=row.updated_at,
    )


def _task(db: Database, run: RunRow) -> str:
    content = db.messages[run.conversation, run.user_seq].message.content if run.user_seq else run.request.content
    return content[:200].partition("\n")[0]


def _find_dead(db: Database, mail_id: str) -> Mail | None:
    row = db.mail.get(mail_id)
    return row.mail if row is not None and lost_mail.is_dead(db, row) else None


def _list_dead(db: Database, limit: int, skip: int) -> list[DeadMail]:
    rows = [row for row in db.mail if lost_mail.is_dead(db, row)]
    rows.sort(key=lambda row: (row.evicted_at, row.number), reverse=True)
    return [DeadMail(mail=row.mail, evicted_at=row.evicted_at) for row in rows[skip : skip + limit]]


def _expire_dead(db: Database, before: float, batch: int) -> int:
    dead = [row for row in db.mail if lost_mail.is_dead(db, row) and row.evicted_at < before]
    oldest = sorted(dead, key=lambda row: row.evicted_at)[:batch]
    lost_mail.forget_told(db, [row.mail.id for row in oldest])
    for row in oldest:
        db.mail.remove(row.mail.id)
    failed = sorted((row for row in db.outbox if 0 < row.failed_at < before), key=lambda row: row.failed_at)[:batch]
    lost_mail.forget_told(db, [item.item.id for item in failed])
    for item in failed:
        db.outbox.remove(item.item.id)
    return len(oldest) + len(failed)


def _resend(db: Database, mail_id: str, now: float) -> tuple[Mail, list[Mail]]:
    mail = _find_dead(db, mail_id)
    if mail is None:
        raise NotFound(f"there is no evicted mail {mail_id}", fix="List it with `moot peers dead`.")
    again = name_again(mail, db.identity)
    if again.id != mail_id and db.mail.get(again.id) is not None:
        raise make_repeated_error(mail_id)
    lost_mail.forget_told(db, [mail_id])
    db.mail.remove(mail_id)
    return again, _send(db, [again], now)
