"""The table of rules: calls that need no approval. Decisions write them (store/asks.py)."""

from collections.abc import Sequence

import apsw
import msgspec

from moot.domain.approval import Rule
from moot.domain.call_pattern import CallPattern
from moot.domain.conversation import ConversationKey
from moot.domain.errors import NotFound
from moot.store import rows
from moot.store.transactions import Transactions

_COLUMNS = (
    "agent, sender, tool, pattern, bound, teammates, run, number, created_at, created_by, matcher, of_conversation"
)
# Rules of ended runs no longer apply.
_IS_OVER = "run IN (SELECT id FROM runs WHERE status = 'ended')"


class SqliteRules:
    def __init__(self, store: Transactions) -> None:
        self._store = store

    async def load(self) -> list[Rule]:
        return await self._store.read(
            lambda db: [
                _rule(row) for row in db.execute(f"SELECT {_COLUMNS} FROM rules WHERE NOT {_IS_OVER} ORDER BY number")
            ]
        )

    async def delete(self, number: int) -> None:
        await self._store.write(lambda db: _delete(db, number), "rule")


def write(db: apsw.Connection, rules: Sequence[Rule], by: str, now: float) -> None:
    """Add rules. An existing rule is not added twice, so that revoking it once is enough."""
    if rules:
        db.execute(f"DELETE FROM rules WHERE {_IS_OVER}")
    for rule in rules:
        bounds = (
            *(rule.agent, rule.sender, rule.tool, rule.bound, rule.run),
            *(int(rule.is_of_conversation), _encode_teammates(rule)),
        )
        if db.execute(
            "SELECT 1 FROM rules WHERE agent = ? AND sender = ? AND tool = ? AND bound = ? AND run = ?"
            " AND of_conversation = ? AND teammates IS NOT DISTINCT FROM ?",
            bounds,
        ).fetchone():
            continue
        db.execute(
            "INSERT INTO rules (agent, sender, tool, bound, run, of_conversation, teammates, pattern, created_at,"
            " created_by, matcher) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*bounds, rule.pattern, now, by, _encode_matcher(rule)),
        )


def delete_for_stretch(db: apsw.Connection, key: ConversationKey) -> None:
    """Delete the rules of this conversation, which last until a new stretch of it begins."""
    db.execute("DELETE FROM rules WHERE agent = ? AND sender = ? AND of_conversation", (key.agent, key.sender))


def _rule(row: rows.Row) -> Rule:
    agent, sender, tool, pattern, bound, teammates, run, number, created_at, created_by, matcher, of_one = row
    return Rule(
        agent=agent,
        sender=sender,
        tool=tool,
        pattern=pattern,
        bound=bound,
        teammates=None if teammates is None else tuple(msgspec.json.decode(teammates)),
        run=run,
        number=number,
        created_at=created_at,
        created_by=created_by,
        matcher=msgspec.json.decode(matcher, type=CallPattern) if matcher else None,
        is_of_conversation=bool(of_one),
    )


def _encode_matcher(rule: Rule) -> str:
    return "" if rule.matcher is None else msgspec.json.encode(rule.matcher).decode()


def _encode_teammates(rule: Rule) -> str | None:
    return None if rule.teammates is None else msgspec.json.encode(rule.teammates).decode()


def _delete(db: apsw.Connection, number: int) -> None:
    db.execute("DELETE FROM rules WHERE number = ?", (number,))
    if not db.changes():
        raise NotFound(f"there is no rule {number}", fix="`moot rules` lists them.")
