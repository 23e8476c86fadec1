"""Mail between agents, and the goals that receive it. A mail is read once the table of deliveries has its id."""

import json
from collections.abc import Awaitable, Sequence
from functools import lru_cache

import apsw

from moot.domain.conversation import ConversationKey
from moot.domain.errors import NotFound
from moot.domain.goal import Goal, GoalState, MailTarget, make_goal_id
from moot.domain.lost_mail import LostMail
from moot.domain.mail import DeadMail, Mail
from moot.domain.outbox import make_repeated_error, name_again
from moot.domain.senders import RESERVED_SENDERS
from moot.domain.token import Token
from moot.store import dialect, lost_mail, mail_rows, rows, sent_bridges
from moot.store.mail_rows import COLUMNS, FROM, IS_DEAD, IS_UNREAD, NEWEST
from moot.store.notices import load_store_number
from moot.store.sqlite import SqliteStore
from moot.store.target_lookups import TargetLookups

_NEWEST = NEWEST.format(conversation="conversations.id")
_UNREAD_COUNT = f"(SELECT count(*) FROM mail WHERE number IN ({_NEWEST}) AND {IS_UNREAD})"
_STATE = (
    "(SELECT CASE WHEN count(*) FILTER (WHERE live.status = 'running') > 0 THEN 'running'"
    " WHEN count(*) > 0 THEN 'queued' ELSE 'idle' END FROM runs AS live"
    " WHERE live.status IN ('queued', 'running') AND live.conversation = conversations.id AND live.status <> 'ended')"
)
# The run whose own conversation it is, if there is one.
_OWN_RUN = "(SELECT {column} FROM runs WHERE runs.conversation = conversations.id AND kind <> 'turn' LIMIT 1)"
_GOAL = (
    f"conversations.id, agent, sender, title, updated_at, {_UNREAD_COUNT}, {_STATE},"
    f" {_OWN_RUN.format(column='root_agent')}, {_OWN_RUN.format(column='root_sender')}, "
    + _OWN_RUN.format(
        column="(SELECT substr(coalesce(messages.content, runs.content, ''), 1, 200) FROM (SELECT 1)"
        " LEFT JOIN messages ON messages.id = (runs.conversation << 32) + runs.user_seq)"
    )
)
_TARGET = (
    f"SELECT id, agent, sender, {_STATE}, {_OWN_RUN.format(column='root_agent')},"
    f" {_OWN_RUN.format(column='root_sender')} FROM conversations WHERE id IN {dialect.among()} AND agent <> ''"
)
_STATES = {state.value: state for state in GoalState}
_IS_INTERACTIVE = " AND ".join(f"substr(sender, 1, {len(each)}) <> '{each}'" for each in RESERVED_SENDERS)


class SqliteMail:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._lookups = TargetLookups(store, find_targets)

    def send(self, mails: Sequence[Mail], *, now: float) -> Awaitable[list[Mail]]:
        # Many agents may send at once; these share one transaction.
        return self._store.post_soon(lambda db: _send(db, mails, now), "mail")

    async def list_unread(self, key: ConversationKey) -> list[Mail]:
        return await self._store.read(lambda db: mail_rows.list_unread(db, key))

    async def list_untold(self, key: ConversationKey) -> list[LostMail]:
        return await self._store.read(lambda db: lost_mail.list_untold(db, key))

    async def list_shown_by(self, run_id: str) -> list[Mail]:
        return await self._store.read(
            lambda db: mail_rows.read(
                db, f"{FROM} JOIN deliveries ON item_id = mail.id WHERE deliveries.run_id = ? ORDER BY number", run_id
            )
        )

    async def count_unread(self) -> dict[ConversationKey, int]:
        return await self._store.read(_count_unread)

    async def list_wakes(self, thread: str) -> frozenset[str]:
        return await self._store.read(lambda db: _list_wakes(db, thread))

    def find_targets(self, goal_ids: Sequence[str]) -> Awaitable[tuple[dict[str, MailTarget], list[Token]]]:
        return self._lookups.find(goal_ids)

    async def find_goal_of(self, key: ConversationKey) -> Goal | None:
        return await self._store.read(lambda db: _one_goal(db, "agent = ? AND sender = ?", key))

    async def list_goals(self, *, agent: str = "", since: float, limit: int) -> list[Goal]:
        return await self._store.read(lambda db: _list_goals(db, agent, since, limit))

    async def evict(self, key: ConversationKey, *, now: float) -> list[Mail]:
        return await self._store.write(lambda db: mail_rows.evict_all(db, key, now), "mail")

    async def list_correlated(self, correlation_id: str) -> list[Mail]:
        return await self._store.read(lambda db: _list_correlated(db, correlation_id))

    async def set_muted(self, agent: str, *, muted: bool, now: float) -> None:
        await self._store.write(
            lambda db: _set_muted(db, agent, muted, now),
        )

    async def list_muted(self) -> list[str]:
        return await self._store.read(
            lambda db: [agent for (agent,) in db.execute("SELECT agent FROM muted_agents ORDER BY agent")]
        )

    async def list_dead(self, *, limit: int, skip: int = 0) -> list[DeadMail]:
        return await self._store.read(lambda db: _list_dead(db, limit, skip))

    async def find_dead(self, mail_id: str) -> Mail | None:
        return await self._store.read(lambda db: _find_dead(db, mail_id))

    async def find_dead_among(self, mail_ids: Sequence[str]) -> frozenset[str]:
        return await self._store.read(lambda db: _find_dead_among(db, mail_ids))

    async def expire_dead(self, *, before: float, batch: int) -> int:
        if not await self._store.read(lambda db: _count_expired(db, before)):
            return 0
        return await self._store.write(lambda db: _expire_dead(db, before, batch), "retention")

    async def resend(self, mail_id: str, *, now: float) -> tuple[Mail, list[Mail]]:
        return await self._store.write(lambda db: _resend(db, mail_id, now), "mail")


def _list_correlated(db: apsw.Connection, correlation_id: str) -> list[Mail]:
    rest = f"{FROM} WHERE correlation_id = ? AND correlation_id <> '' ORDER BY number"
    return mail_rows.read(db, rest, correlation_id) + sent_bridges.list_correlated(db, correlation_id)


def _send(db: apsw.Connection, mails: Sequence[Mail], now: float) -> list[Mail]:
    evicted: list[Mail] = []
    for mail in mails:
        conversation = mail_rows.find_conversation(db, mail.goal_id)
        if conversation is None:
            raise NotFound(f"there is no goal {mail.goal_id}", fix="List the goals with `moot goals`.")
        if mail_rows.insert(db, conversation, mail):
            evicted += mail_rows.evict_oldest(db, conversation, now)
    return evicted


def _set_muted(db: apsw.Connection, agent: str, muted: bool, now: float) -> None:
    if muted:
        db.execute("INSERT INTO muted_agents VALUES (?, ?) ON CONFLICT DO NOTHING", (agent, now))
    else:
        db.execute("DELETE FROM muted_agents WHERE agent = ?", (agent,))


def _count_unread(db: apsw.Connection) -> dict[ConversationKey, int]:
    found = db.execute(f"SELECT agent, sender, count(*) {FROM} WHERE {IS_UNREAD} GROUP BY conversations.id")
    return {ConversationKey(agent, sender): count for agent, sender, count in found}


def _list_wakes(db: apsw.Connection, thread: str) -> frozenset[str]:
    found = db.execute(
        "SELECT DISTINCT runs.id FROM mail JOIN deliveries ON item_id = mail.id"
        " JOIN runs ON runs.id = deliveries.run_id AND runs.author <> '' WHERE mail.thread = ?",
        (thread,),
    )
    return frozenset(run_id for (run_id,) in found)


def find_targets(db: apsw.Connection, goal_ids: Sequence[str]) -> dict[str, MailTarget]:
    store = load_store_number(db)
    numbers = mail_rows.list_conversation_numbers(store, goal_ids)
    # One statement for all: many goals may be written to at once.
    found = {row[0]: _make_target(store, row) for row in db.execute(_TARGET, (rows.encode_numbers(numbers.values()),))}
    return {goal_id: found[number] for goal_id, number in numbers.items() if number in found}


@lru_cache(maxsize=4096)
def _make_target(store: int, row: rows.Row) -> MailTarget:
    # Most goals are written to more than once, and the same row is the same goal.
    number, agent, sender, state, root_agent, root_sender = row
    key = ConversationKey(agent, sender)
    root = key if root_agent is None else ConversationKey(root_agent or agent, root_sender or sender)
    return MailTarget(id=make_goal_id(store, number), key=key, root=root, state=_STATES[state])


def _one_goal(db: apsw.Connection, where: str, values: tuple[object, ...]) -> Goal | None:
    row = db.execute(f"SELECT {_GOAL} FROM conversations WHERE {where}", values).fetchone()
    return None if row is None else _goal(load_store_number(db), row)


def _list_goals(db: apsw.Connection, agent: str, since: float, limit: int) -> list[Goal]:
    whose = "agent = ?1" if agent else "agent <> '' AND ?1 = ''"
    found = db.execute(
        f"SELECT {_GOAL} FROM conversations WHERE id IN ("
        f"SELECT id FROM conversations WHERE {whose} AND updated_at > ?2 AND {_IS_INTERACTIVE}"
        " UNION SELECT conversation FROM runs WHERE status <> 'ended')"
        f" AND {whose} ORDER BY updated_at DESC, id DESC LIMIT ?3",
        (agent, since, limit),
    )
    store = load_store_number(db)
    return [_goal(store, row) for row in found]


def _goal(store: int, row: rows.Row) -> Goal:
    number, agent, sender, title, updated_at, unread, state, root_agent, root_sender, task = row
    return Goal(
        id=make_goal_id(store, number),
        key=ConversationKey(agent, sender),
        root=ConversationKey(root_agent or agent, root_sender or sender),
        state=GoalState(state),
        label=title or (task or "").partition("\n")[0],
        unread=unread,
        active_at=updated_at,
    )


def _find_dead(db: apsw.Connection, mail_id: str) -> Mail | None:
    found = mail_rows.read(db, f"{FROM} WHERE mail.id = ? AND {IS_DEAD}", mail_id)
    return found[0] if found else None


def _find_dead_among(db: apsw.Connection, mail_ids: Sequence[str]) -> frozenset[str]:
    found = db.execute(f"SELECT id FROM mail WHERE id IN {dialect.among()} AND {IS_DEAD}", (json.dumps(mail_ids),))
    return frozenset(mail_id for (mail_id,) in found)


def _list_dead(db: apsw.Connection, limit: int, skip: int) -> list[DeadMail]:
    store = load_store_number(db)
    found = db.execute(
        f"SELECT {COLUMNS}, evicted_at {FROM} WHERE {IS_DEAD} ORDER BY evicted_at DESC, number DESC LIMIT ? OFFSET ?",
        (limit, skip),
    )
    return [DeadMail(mail=mail_rows.make_mail(store, row), evicted_at=row[-1]) for row in found]


# Mail that was evicted, and mail that other daemons gave back, with the time since when it is dead.
_EXPIRED = tuple(
    f"{table} WHERE number IN (SELECT number FROM {table} WHERE {is_dead} AND {since} < ?1 ORDER BY {since} LIMIT ?2)"
    for table, is_dead, since in (("mail", IS_DEAD, "evicted_at"), ("outbox", "failed_at > 0", "failed_at"))
)


def _count_expired(db: apsw.Connection, before: float) -> int:
    return sum(int(db.execute(f"SELECT count(*) FROM {found}", (before, 1)).get) for found in _EXPIRED)


def _expire_dead(db: apsw.Connection, before: float, batch: int) -> int:
    count = 0
    for found in _EXPIRED:
        lost_mail.forget_told(db, found, before, batch)
        db.execute(f"DELETE FROM {found}", (before, batch))
        count += db.changes()
    return count


def _resend(db: apsw.Connection, mail_id: str, now: float) -> tuple[Mail, list[Mail]]:
    mail = _find_dead(db, mail_id)
    if mail is None:
        raise NotFound(f"there is no evicted mail {mail_id}", fix="List it with `moot peers dead`.")
    again = name_again(mail, load_store_number(db))
    if again.id != mail_id and db.execute("SELECT 1 FROM mail WHERE id = ?", (again.id,)).get is not None:
        raise make_repeated_error(mail_id)
    # Stored again as the newest. It keeps its id, so that it is shown once; if it is evicted again, that is told again.
    lost_mail.forget_told(db, "mail WHERE id = ?", mail_id)
    db.execute("DELETE FROM mail WHERE id = ?", (mail_id,))
    return again, _send(db, [again], now)
