"""Teammates: an orchestrator that spawns many and waits for all, through a daemon that has a team."""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import apsw

from bench.line import connect
from bench.mock import reply_text
from bench.raw import RawClient
from bench.subject import MODEL, Daemon, make_home

TEAM = 100
OLD = 100_000
_MARK = "\n# A team.\n"
_CONFIG = "\n[agent]\nmultiAgent = true\nmaxRunning = 128\nmaxDelegationRounds = 1000\n[traces]\nmost = 1000000\n"


class Spawned:
    """What one repeat measured, in seconds."""

    def __init__(self) -> None:
        self.together: list[float] = []
        self.with_latency: list[float] = []
        self.raw: list[float] = []
        self.raw_with_latency: list[float] = []
        self.first_call: list[float] = []
        self.alone: list[float] = []
        self.among_many: list[float] = []


async def measure_team(folder: Path, base: str, *, times: int, moot: Path) -> Spawned:
    """A hundred teammates at once, without and with a model that takes 50 ms, and one alone for its first call."""
    home = make_home(folder, base)
    spawned = Spawned()
    pieces = (
        ("team", spawned.together),
        ("slow", spawned.with_latency),
        ("one", spawned.alone),
        ("one", spawned.among_many),
    )
    for model, into in pieces:
        if into is spawned.among_many:
            await asyncio.to_thread(grow_old, home / "data" / "moot.db", OLD)
        lead_with(home, base, model)
        daemon = await Daemon.start(home, moot=moot)
        try:
            async with connect(daemon.socket) as line:
                await line.turn("moot", f"warm-{model}", "Begin.")
                for number in range(times):
                    timed = await line.turn("moot", f"{model}-{number}-{daemon.pid}", "Begin.")
                    if timed.text != reply_text():
                        raise RuntimeError(f"the orchestrator said {timed.text[:80]!r}")
                    into.append(timed.total)
                    if into is spawned.alone:
                        spawned.first_call.append(await _first_call(base))
        finally:
            await daemon.stop()
    spawned.raw = [await _raw(base, f"/s{TEAM}") for _ in range(times)]
    spawned.raw_with_latency = [await _raw(base, f"/l50/s{TEAM}") for _ in range(times)]
    return spawned


def lead_with(home: Path, base: str, model: str) -> None:
    """Let `moot` lead a team with that model: team, slow, or one for a single teammate."""
    file = home / "config.toml"
    config = file.read_text(encoding="utf-8").partition(_MARK)[0]
    config = re.sub(r'default_model = ".*"', f'default_model = "{model}"', config, count=1)
    models = "".join(
        MODEL.format(name=name, base=base, options=options)
        for name, options in (("team", f"/s{TEAM}"), ("slow", f"/l50/s{TEAM}"), ("one", "/s1"))
    )
    file.write_text(config + _MARK + models + _CONFIG, encoding="utf-8")


def grow_old(store: Path, count: int) -> None:
    """Put so many teammates that have long ended into a store, with their conversations and what was said in them."""
    db = apsw.Connection(str(store))
    numbers = f"WITH RECURSIVE old (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM old WHERE n < {count})"
    base = db.execute("SELECT coalesce(max(id), 0) FROM conversations").get
    with db:
        db.execute(
            "INSERT INTO conversations (id, agent, sender, created_at, updated_at, last_seq)"
            f" {numbers} SELECT {base} + n, 'planner', 'run:old-' || n, 1.0, 2.0, 2 FROM old"
        )
        db.execute(
            "INSERT INTO runs (id, conversation, speaker, status, cwd, client_message_id, created_at, started_at,"
            " ended_at, user_seq, reply_seq, outcome)"
            f" {numbers} SELECT 'old-' || n, {base} + n, 'planner', 'ended', '', '', 1.0, 1.0, 2.0, 1, 2, 'completed'"
            " FROM old"
        )
        db.execute(
            "INSERT INTO messages (id, role, content, agent, tool_call_id, is_error, run_id, created_at)"
            f" {numbers} SELECT (({base} + n) << 32) + 1, 'user', 'Part of old.', '', '', 0, 'old-' || n, 1.0 FROM old"
        )
        # As of now, so that none is old enough to be removed while others are measured.
        if db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'agent_runs'").get:
            _spawn_in_0_1_0(db, numbers)
        else:
            db.execute(
                "UPDATE runs SET kind = 'teammate', parent_id = 'gone-' || id, parent_call = 'call-' || id,"
                " parent_step = 1, parent_seq = 1, root_id = 'gone-' || id, root_agent = 'moot', root_sender = 'user',"
                " chain = '[\"moot\"]', ended_at = ? WHERE id LIKE 'old-%'",
                (time.time(),),
            )
            db.execute(
                "INSERT INTO deliveries (item_id, conversation, seq, run_id, at)"
                " SELECT id, conversation, 1, parent_id, ended_at FROM runs WHERE id LIKE 'old-%'"
            )
    db.close()


def _spawn_in_0_1_0(db: apsw.Connection, numbers: str) -> None:
    """The same for a store of 0.1.0, which kept spawned runs in a table of their own."""
    columns = [str(row[1]) for row in db.execute("PRAGMA table_info (agent_runs)") if row[3] and row[4] is None]
    given = {
        "id": "'old-' || n", "agent": "'planner'", "sender": "'run:old-' || n", "root_agent": "'moot'",
        "root_sender": "'user'", "parent": "'gone-' || n", "parent_agent": "'moot'", "parent_sender": "'user'",
        "chain": "'[\"moot\"]'", "allowed_tools": "'[]'", "status": "'completed'", "delivery": "'waited'",
        "created_at": "1.0", "parent_seq": "1", "step": "1", "call": "'call-' || n", "outcome": "'completed'",
    }  # fmt: skip
    named = [name for name in columns if name != "number"]
    values = ", ".join(given.get(name, "''") for name in named)
    db.execute(f"INSERT INTO agent_runs ({', '.join(named)}) {numbers} SELECT {values} FROM old")
    db.execute("UPDATE agent_runs SET outcome = 'completed', ended_at = ? WHERE id LIKE 'old-%'", (time.time(),))


async def _first_call(base: str) -> float:
    """From the answer that asked for a teammate to that teammate's own first request, as the server saw it."""
    async with aiohttp.ClientSession() as http, http.get(f"{base}/spawned") as response:
        return float(json.loads(await response.read())["seconds"])


async def _raw(base: str, options: str) -> float:
    """The same requests without a daemon: two of the orchestrator, the team at once beside the second, and the last."""
    client = RawClient(base)
    lead = b'{"stream":true,"messages":[{"content":"You lead a team","role":"user"}]}'
    mate = b'{"stream":true,"messages":[{"content":"You work as a teammate","role":"user"}]}'
    try:
        await client.turn(mate, options)
        started = time.perf_counter()
        await client.turn(lead, options)
        await _all([lambda: client.turn(lead, options), *([lambda: client.turn(mate, options)] * TEAM)])
        await client.turn(lead, options)
        return time.perf_counter() - started
    finally:
        await client.close()


async def _all(calls: list[Callable[[], Awaitable[object]]]) -> None:
    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(call())  # type: ignore[arg-type]
