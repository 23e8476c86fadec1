"""Spawned and background runs. What is asked for often, those not ended and those owed, has an index of its own."""

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import apsw

from moot.domain.agent_run import AgentRun, AgentRunStatus, Delivery, status_of
from moot.domain.conversation import ConversationKey
from moot.domain.run import Limits, Outcome, RunEnd
from moot.domain.usage import Spend, Usage
from moot.store import rows

if TYPE_CHECKING:
    from moot.store.sqlite import SqliteStore

_GIVEN = (
    "id, agent, sender, root_agent, root_sender, parent, parent_agent, parent_sender, parent_seq, call, origin, step,"
    " chain, instruction, spawn_reason, allowed_tools, cwd, max_steps, max_seconds, max_tokens, max_spend, taint,"
    " status, delivery, created_at"
)
_COLUMNS = (
    f"{_GIVEN}, granted_tools, outcome, result, error, hit_limit, tokens, cost, steps, started_at, ended_at, outlives"
)
_SELECT = f"SELECT {_COLUMNS} FROM agent_runs"


class SqliteAgentRuns:
    def __init__(self, store: "SqliteStore") -> None:
        self._store = store

    async def create(self, run: AgentRun) -> AgentRun:
        """Keep a new run. The same call of the same parent, or the same start of a client's, gives the one it made."""
        return await self._store.write(lambda db: _create(db, run), "spawn")

    async def end(self, run: AgentRun) -> None:
        """Record how a run ended and where its result goes. What has ended stays as it is."""
        await self._store.write(lambda db: _end(db, run), "finish")

    async def deliver(self, run_ids: Sequence[str], delivery: Delivery) -> None:
        """Say where results that were owed have gone."""
        await self._store.write(lambda db: delivered(db, run_ids, delivery), "deliver")

    async def grant(self, run_id: str, tools: Sequence[str]) -> None:
        await self._store.write(
            lambda db: db.execute("UPDATE agent_runs SET granted_tools = ? WHERE id = ?", (json.dumps(tools), run_id)),
            "grant",
        )

    async def spare(self, parent: str) -> None:
        """Let what a run spawned go on when it is stopped."""
        await self._store.write(
            lambda db: db.execute(
                "UPDATE agent_runs SET outlives = 1 WHERE parent = ? AND status = 'spawned'", (parent,)
            ),
            "spare",
        )

    async def get(self, run_id: str) -> AgentRun | None:
        return await self._store.read(lambda db: find(db, run_id))

    async def not_ended(self) -> list[AgentRun]:
        return await self._store.read(
            lambda db: _all(db.execute(f"{_SELECT} WHERE status = 'spawned' ORDER BY number"))
        )

    async def owed(self) -> list[AgentRun]:
        """Runs that have ended and whose result nobody has yet."""
        return await self._store.read(
            lambda db: _all(db.execute(f"{_SELECT} WHERE delivery = 'owed' AND status <> 'spawned' ORDER BY number"))
        )

    async def of_origin(self, origin: str) -> list[AgentRun]:
        """All that one turn of a person's has set off."""
        return await self._store.read(
            lambda db: _all(db.execute(f"{_SELECT} WHERE origin = ? ORDER BY number", (origin,)))
        )

    async def ended(self, owns: Callable[[str], bool], *, limit: int) -> list[AgentRun]:
        """Those that ended last, the newest first, set off by senders that `owns` says yes to."""
        return await self._store.read(lambda db: ended(db, owns, limit))

    async def roots(self, run_ids: Sequence[str]) -> dict[str, ConversationKey]:
        """The conversations that runs were spawned for, by the runs' ids."""
        found = "SELECT id, root_agent, root_sender FROM agent_runs WHERE id IN (SELECT value FROM json_each(?))"
        return await self._store.read(
            lambda db: {row[0]: ConversationKey(row[1], row[2]) for row in db.execute(found, (json.dumps(run_ids),))}
        )

    async def spend(self, *, agent: str = "", sender: str = "") -> list[Spend]:
        """What teammates took, by the conversation they worked for; empty names match all."""
        return await self._store.read(lambda db: _spend(db, agent, sender))


def _spend(db: apsw.Connection, agent: str, sender: str) -> list[Spend]:
    # A run that is not kept any more has left its sums here.
    found = db.execute(
        "SELECT agent, root_sender, coalesce(runs.model, ''), count(*), sum(coalesce(prompt, 0)),"
        " sum(coalesce(completion, tokens)), sum(coalesce(cache_hit, 0)), sum(coalesce(cache_miss, 0)),"
        " sum(coalesce(reasoning, 0)), sum(coalesce(runs.cost, agent_runs.cost)), root_agent"
        " FROM agent_runs LEFT JOIN runs ON runs.id = agent_runs.id"
        " WHERE (parent <> '' OR is_kept = 0) AND agent_runs.status <> 'spawned'"
        " AND (?1 = '' OR root_agent = ?1) AND (?2 = '' OR root_sender = ?2)"
        " GROUP BY root_agent, root_sender, agent, runs.model ORDER BY root_agent, root_sender, agent, runs.model",
        (agent, sender),
    )
    return [
        Spend(
            agent=row[0],
            sender=row[1],
            model=row[2],
            runs=row[3],
            usage=rows.usage(row[4:9]),
            cost=row[9],
            root=row[10],
        )
        for row in found
    ]


def ended(db: apsw.Connection, owns: Callable[[str], bool], limit: int) -> list[AgentRun]:
    # Worded as the index that keeps them in this order; of one that is not kept any more there is nothing to show.
    found = db.execute(
        "SELECT number, root_sender FROM agent_runs WHERE status <> 'spawned' AND is_kept = 1"
        " ORDER BY ended_at DESC, number DESC"
    )
    numbers = list(islice((number for number, sender in found if owns(sender)), limit))
    chosen = f"{_SELECT} WHERE number IN (SELECT value FROM json_each(?)) ORDER BY ended_at DESC, number DESC"
    return _all(db.execute(chosen, (json.dumps(numbers),)))


def _create(db: apsw.Connection, run: AgentRun) -> AgentRun:
    if (known := _made_before(db, run)) is not None:
        return known
    parent = run.parent_key or ConversationKey("", "")
    values = (
        run.id,
        *run.key,
        *run.root,
        run.parent,
        *parent,
        run.parent_seq,
        run.call,
        run.origin,
        run.step,
        json.dumps(run.chain),
        run.instruction,
        run.spawn_reason,
        json.dumps(run.allowed_tools),
        run.cwd,
        run.limits.steps,
        run.limits.seconds,
        run.limits.tokens,
        run.limits.spend,
        rows.tainted(run.taint),
        AgentRunStatus.SPAWNED.value,
        run.delivery.value,
        run.created_at,
        run.client_key,
    )
    db.execute(f"INSERT INTO agent_runs ({_GIVEN}, client_key) VALUES ({', '.join('?' * len(values))})", values)
    return run


def _made_before(db: apsw.Connection, run: AgentRun) -> AgentRun | None:
    if run.call:
        return _one(db.execute(f"{_SELECT} WHERE parent = ? AND call = ? AND call <> ''", (run.parent, run.call)))
    if run.client_key:
        return _one(db.execute(f"{_SELECT} WHERE client_key = ? AND client_key <> ''", (run.client_key,)))
    return None


def _end(db: apsw.Connection, run: AgentRun) -> None:
    assert run.end is not None
    end = run.end
    db.execute(
        "UPDATE agent_runs SET status = ?, outcome = ?, result = ?, error = ?, hit_limit = ?, tokens = ?, cost = ?,"
        " steps = ?, delivery = ?, started_at = ?, ended_at = ? WHERE id = ? AND status = 'spawned'",
        (
            status_of(end.outcome).value,
            end.outcome.value,
            end.content,
            end.error,
            end.limit,
            end.usage.total,
            end.cost,
            end.steps,
            run.delivery.value,
            run.started_at,
            run.ended_at,
            run.id,
        ),
    )


def delivered(db: apsw.Connection, run_ids: Sequence[str], delivery: Delivery) -> None:
    for run_id in run_ids:
        db.execute("UPDATE agent_runs SET delivery = ? WHERE id = ? AND delivery = 'owed'", (delivery.value, run_id))


def find(db: apsw.Connection, run_id: str) -> AgentRun | None:
    return _one(db.execute(f"{_SELECT} WHERE id = ?", (run_id,)))


def of_parent(db: apsw.Connection, parent: str) -> list[AgentRun]:
    """Those a run spawned, in the order it did."""
    return _all(db.execute(f"{_SELECT} WHERE parent = ? ORDER BY number", (parent,)))


def _one(found: Iterable[Any]) -> AgentRun | None:
    return next(iter(_all(found)), None)


def _all(found: Iterable[Any]) -> list[AgentRun]:
    return [_run(row) for row in found]


def _run(row: rows.Row) -> AgentRun:
    status = AgentRunStatus(row[22])
    parent_key = ConversationKey(row[6], row[7]) if row[6] else None
    outcome, result, error, hit_limit, tokens, cost, steps, started_at, ended_at = row[26:35]
    end = None
    if status.is_terminal:
        end = RunEnd(
            outcome=Outcome(outcome),
            error=error,
            limit=hit_limit,
            content=result,
            # Only the sum is kept here; the run itself has the parts.
            usage=Usage(completion=tokens),
            cost=cost,
            steps=steps,
        )
    return AgentRun(
        id=row[0],
        agent=row[1],
        key=ConversationKey(row[1], row[2]),
        root=ConversationKey(row[3], row[4]),
        parent=row[5],
        parent_key=parent_key,
        parent_seq=row[8],
        call=row[9],
        origin=row[10],
        step=row[11],
        chain=tuple(json.loads(row[12])),
        instruction=row[13],
        spawn_reason=row[14],
        allowed_tools=tuple(json.loads(row[15])),
        cwd=row[16],
        limits=Limits(steps=row[17], seconds=row[18], tokens=row[19], spend=row[20]),
        taint=rows.untainted(row[21]),
        status=status,
        delivery=Delivery(row[23]),
        created_at=row[24],
        granted_tools=tuple(json.loads(row[25])),
        end=end,
        started_at=started_at,
        ended_at=ended_at,
        outlives=bool(row[35]),
    )
