"""Usage of runs: by conversation and model, by tree of runs, and of a run in progress."""

import apsw

from moot.domain.conversation import ConversationKey
from moot.domain.run import Limits
from moot.domain.senders import CHILD_SENDER
from moot.domain.usage import RunUsage, Usage, UsageRow
from moot.store import dialect, rows

# Recorded usage never decreases: smaller values in the end of a run are ignored.
_USED = ("prompt", "completion", "cache_hit", "cache_miss", "reasoning", "cost", "steps", "seconds", "tool_uses")
RECORD = ", ".join(f"{column} = {dialect.greatest(column, '?')}" for column in _USED)


def values(spent: RunUsage) -> rows.Row:
    used = spent.usage
    return (
        used.prompt,
        used.completion,
        used.cache_hit,
        used.cache_miss,
        used.reasoning,
        spent.cost,
        spent.steps,
        spent.seconds,
        spent.tool_uses,
    )


def record(db: apsw.Connection, run_id: str, spent: RunUsage) -> None:
    """Store the usage of a run so far."""
    db.execute(f"UPDATE runs SET {RECORD} WHERE id = ?", (*values(spent), run_id))


def budget(db: apsw.Connection, root_id: str) -> tuple[Limits, RunUsage]:
    """Return the limits of the root run, and the usage of all runs of its tree and of their calls outside steps.

    Those calls are summaries, which have their usage in the archive, and all others.

    Runs of a tree run concurrently, so the time of the tree is that of the longest run.
    """
    allowed = db.execute(
        "SELECT max_steps, max_seconds, max_tokens, max_spend FROM runs WHERE id = ?", (root_id,)
    ).fetchone() or (None, None, None, None)
    *usage, cost, steps, seconds = rows.one(
        db.execute(
            "SELECT coalesce(sum(prompt), 0), coalesce(sum(completion), 0), coalesce(sum(cache_hit), 0),"
            " coalesce(sum(cache_miss), 0), coalesce(sum(reasoning), 0), coalesce(sum(cost), 0.0),"
            " coalesce(sum(steps), 0), coalesce(max(seconds), 0.0) FROM ("
            f"SELECT {rows.USAGE_COLUMNS}, cost, steps, seconds FROM runs"
            " WHERE id = ?1 OR (root_id = ?1 AND root_id <> id)"
            f" UNION ALL SELECT {rows.USAGE_COLUMNS}, cost, 0, 0.0 FROM other_spend"
            " WHERE root_id = ?1 AND root_id <> ''"
            f" UNION ALL SELECT {rows.USAGE_COLUMNS}, cost, 0, 0.0 FROM archives"
            " WHERE root_id = ?1 AND root_id <> '') AS spent",
            (root_id,),
        )
    )
    limits = Limits(steps=allowed[0], seconds=allowed[1], tokens=allowed[2], spend=allowed[3])
    return limits, RunUsage(usage=rows.usage(tuple(usage)), cost=cost, steps=steps, seconds=seconds)


# Adds a row to the one with its key.
_ADD_UP = (
    " ON CONFLICT DO UPDATE SET prompt = prompt + excluded.prompt, completion = completion + excluded.completion,"
    " cache_hit = cache_hit + excluded.cache_hit, cache_miss = cache_miss + excluded.cache_miss,"
    " reasoning = reasoning + excluded.reasoning, cost = cost + excluded.cost"
)


def add(db: apsw.Connection, key: ConversationKey, model: str, usage: Usage, cost: float, root_id: str) -> None:
    """Count a model call outside steps. One in the conversation of a teammate is listed for its root conversation."""
    if key.sender.startswith(CHILD_SENDER) and rows.conversation_id(db, key) is None:
        # The conversation was removed in the meantime, and what it used with it.
        return
    db.execute(
        f"INSERT INTO other_spend (agent, sender, model, root_id, {rows.USAGE_COLUMNS}, cost)"
        f" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?){_ADD_UP}",
        (*key, model, root_id, *rows.usage_values(usage), cost),
    )


def spend(db: apsw.Connection, agent: str, sender: str) -> list[UsageRow]:
    """Return the usage of runs that began and ended, archives and calls outside runs; teammates where they ran."""
    found = db.execute(
        "SELECT agent, sender, model, sum(runs), sum(prompt), sum(completion), sum(cache_hit), sum(cache_miss),"
        " sum(reasoning), sum(cost) FROM ("
        f"SELECT agent, sender, model, runs, {rows.USAGE_COLUMNS}, cost FROM ("
        f"SELECT conversation, model, 1 AS runs, {rows.USAGE_COLUMNS}, cost FROM runs"
        " WHERE status = 'ended' AND started_at > 0"
        f" UNION ALL SELECT conversation, model, 0, {rows.USAGE_COLUMNS}, cost FROM archives WHERE model <> ''"
        ") AS spent JOIN conversations ON conversations.id = spent.conversation"
        f" UNION ALL SELECT agent, sender, model, 0, {rows.USAGE_COLUMNS}, cost FROM other_spend) AS counted"
        " WHERE (?1 = '' OR agent = ?1) AND (?2 = '' OR sender = ?2) AND substr(sender, 1, length(?3)) <> ?3"
        " GROUP BY agent, sender, model ORDER BY agent, sender, model",
        (agent, sender, CHILD_SENDER),
    )
    return [
        UsageRow(agent=row[0], sender=row[1], model=row[2], runs=row[3], usage=rows.usage(row[4:9]), cost=row[9])
        for row in found
    ]


# The calls outside steps in the conversations of teammates, each with its root conversation.
_OF_TEAMMATES = (
    f"SELECT agent, sender, model, {rows.USAGE_COLUMNS}, cost, root_agent, root_sender FROM ("
    f"SELECT agent, sender, model, {rows.USAGE_COLUMNS}, cost FROM other_spend"
    f" UNION ALL SELECT agent, sender, model, {rows.USAGE_COLUMNS}, cost FROM archives"
    " JOIN conversations ON conversations.id = archives.conversation WHERE model <> '') AS outside"
    " JOIN (SELECT DISTINCT agent AS of_agent, sender AS of_sender, root_agent, root_sender FROM runs"
    " JOIN conversations ON conversations.id = runs.conversation WHERE root_sender <> ''"
    f" AND substr(sender, 1, {len(CHILD_SENDER)}) = '{CHILD_SENDER}') AS roots"
    " ON agent = of_agent AND sender = of_sender"
)


def teammate_spend(db: apsw.Connection, agent: str, sender: str) -> list[UsageRow]:
    """Return the usage of spawned runs, including those that were removed, by root conversation."""
    found = db.execute(
        "SELECT agent, root_sender, model, sum(runs), sum(prompt), sum(completion), sum(cache_hit), sum(cache_miss),"
        " sum(reasoning), sum(cost), root_agent FROM ("
        f"SELECT speaker AS agent, root_agent, root_sender, model, 1 AS runs, {rows.USAGE_COLUMNS}, cost FROM runs"
        " WHERE kind = 'teammate' AND status = 'ended'"
        f" UNION ALL SELECT agent, root_agent, root_sender, model, 0, {rows.USAGE_COLUMNS}, cost FROM ({_OF_TEAMMATES})"
        f" UNION ALL SELECT agent, root_agent, root_sender, model, runs, {rows.USAGE_COLUMNS}, cost FROM past_spend)"
        " WHERE (?1 = '' OR root_agent = ?1) AND (?2 = '' OR root_sender = ?2)"
        " GROUP BY root_agent, root_sender, agent, model ORDER BY root_agent, root_sender, agent, model",
        (agent, sender),
    )
    return [
        UsageRow(
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


def keep_past(db: apsw.Connection, key: ConversationKey) -> None:
    """Move the usage of a conversation to the totals of its root conversation, before its removal."""
    root = db.execute(
        "SELECT root_agent, root_sender FROM runs JOIN conversations ON conversations.id = runs.conversation"
        " WHERE agent = ? AND sender = ? AND root_sender <> '' LIMIT 1",
        key,
    ).fetchone()
    found = db.execute(
        f"SELECT speaker, model, 1, {rows.USAGE_COLUMNS}, cost FROM runs"
        " JOIN conversations ON conversations.id = runs.conversation WHERE agent = ?1 AND sender = ?2"
        f" UNION ALL SELECT agent, model, 0, {rows.USAGE_COLUMNS}, cost FROM archives"
        " JOIN conversations ON conversations.id = archives.conversation"
        " WHERE agent = ?1 AND sender = ?2 AND model <> ''"
        f" UNION ALL SELECT agent, model, 0, {rows.USAGE_COLUMNS}, cost FROM other_spend"
        " WHERE agent = ?1 AND sender = ?2",
        key,
    ).fetchall()
    db.executemany(
        f"INSERT INTO past_spend (root_agent, root_sender, agent, model, runs, {rows.USAGE_COLUMNS}, cost)"
        f" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?){_ADD_UP}, runs = runs + excluded.runs",
        [(*(root or key), *row) for row in found],
    )
    db.execute("DELETE FROM other_spend WHERE agent = ? AND sender = ?", key)
