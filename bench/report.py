"""The rows of the table: what was measured, what the raw client took, what was aimed for, and whether it was met."""

import json
import os
import platform
import sqlite3
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.automation_rows import ROWS as AUTOMATION
from bench.row import Row
from bench.work import Tally

# How much slower a row may be than at an earlier commit.
MOST_SLOWER = 1.03


def _commit(tally: Tally) -> Row:
    return Row(
        name="commit", what="one commit (WAL, synchronous=FULL)", unit="ms",
        measured=tally.median("commit") * 1e3, noise=tally.noise("commit"),
    )  # fmt: skip


def _turn(name: str, what: str, series: str, *, times: float | None, floor: str = "durable") -> Callable[[Tally], Row]:
    """A turn beside the same work of a raw client in the same run: by default the one with its own commits."""
    floors = {"durable": "raw with its commits", "keeping": "raw that keeps its history"}

    def make_row(tally: Tally) -> Row:
        raw = tally.median(f"{floor}.{series}") * 1e3
        return Row(
            name=name, what=what, unit="ms",
            measured=tally.median(f"moot.{series}") * 1e3, noise=tally.noise(f"moot.{series}"),
            goal=times and times * raw, rule=f"{times:g} x {floors[floor]}" if times else "", raw=raw,
        )  # fmt: skip

    return make_row


def _first(tally: Tally) -> Row:
    raw = tally.median("raw.first.10") * 1e3
    return Row(
        name="first-token", what="first token, added over raw", unit="ms",
        measured=tally.median("moot.first.10") * 1e3 - raw, noise=tally.noise("moot.first.10"),
    )  # fmt: skip


def _concurrent(tally: Tally) -> Row:
    return Row(
        name="concurrent", what="turns/s, 50 conversations at once", unit="/s",
        measured=tally.median("moot.rate"), noise=tally.noise("moot.rate"),
        goal=tally.median("durable.rate"), rule="1 x raw with its commits", raw=tally.median("durable.rate"),
        more_is_better=True,
    )  # fmt: skip


def _gate(tally: Tally) -> Row:
    return Row(
        name="gate", what="gate overhead without its commit", unit="µs",
        measured=(tally.median("gate.through") - tally.median("gate.alone")) * 1e6, noise=tally.noise("gate.through"),
        goal=200, rule="200 µs",
    )  # fmt: skip


def _documents_search(tally: Tally) -> Row:
    values = sorted(value for values in tally.series["documents.search"] for value in values)
    return Row(
        name="documents", what="p95 of a search in 100,000 passages", unit="ms",
        measured=values[len(values) * 95 // 100] * 1e3, noise=tally.noise("documents.search"), goal=50, rule="50 ms",
    )  # fmt: skip


def _documents_indexed(tally: Tally) -> Row:
    return Row(
        name="documents-indexed", what="passages/s that are read, analysed and stored", unit="/s",
        measured=tally.median("documents.indexed"), noise=tally.noise("documents.indexed"),
        goal=300, rule="300/s", more_is_better=True,
    )  # fmt: skip


def _documents_memory(tally: Tally) -> Row:
    return Row(
        name="documents-memory", what="memory of a passage that can be searched", unit="B",
        measured=tally.median("documents.bytes"), noise=tally.noise("documents.bytes"),
    )  # fmt: skip


def _search(name: str, beside: str) -> Callable[[Tally], Row]:
    def row(tally: Tally) -> Row:
        raw = tally.median(f"{beside}.search") * 1e3
        return Row(
            name=name, what=f"fs_search in 10,000 files, beside {beside}", unit="ms",
            measured=tally.median("moot.search") * 1e3, noise=tally.noise("moot.search"),
            goal=2 * raw if beside == "rg" else None, rule="2 x rg" if beside == "rg" else "", raw=raw,
        )  # fmt: skip

    return row


def _team(tally: Tally) -> Row:
    return Row(
        name="team", what="spawn and finish 100 teammates", unit="ms",
        measured=tally.median("moot.team") * 1e3, noise=tally.noise("moot.team"),
        goal=2.5 * tally.median("raw.team") * 1e3, rule="2.5 x the requests alone", raw=tally.median("raw.team") * 1e3,
    )  # fmt: skip


def _team_slow(tally: Tally) -> Row:
    raw = tally.median("raw.team.slow") * 1e3
    return Row(
        name="team-slow", what="the same with a model that takes 50 ms", unit="ms",
        measured=tally.median("moot.team.slow") * 1e3, noise=tally.noise("moot.team.slow"),
        goal=1.5 * raw, rule="1.5 x the requests alone", raw=raw,
    )  # fmt: skip


def _spawn(tally: Tally) -> Row:
    peers = [tally.median(name) * 1e3 for name in ("openai_agents.spawn", "langgraph.spawn") if name in tally.series]
    return Row(
        name="spawn", what="spawn to the teammate's first model call", unit="ms",
        measured=tally.median("moot.spawn") * 1e3, noise=tally.noise("moot.spawn"),
        goal=min(peers, default=None), rule="the faster peer" if peers else "",
    )  # fmt: skip


def _cpu(tally: Tally) -> Row:
    return Row(
        name="cpu", what="daemon CPU per turn, history 10", unit="ms",
        measured=tally.median("moot.cpu.10") * 1e3, noise=tally.noise("moot.cpu.10"),
    )  # fmt: skip


def _old(tally: Tally) -> Row:
    young = tally.median("moot.one") * 1e3
    return Row(
        name="spawn-old", what="a turn with a teammate, 100,000 ended runs", unit="ms",
        measured=tally.median("moot.one.old") * 1e3, noise=tally.noise("moot.one.old"),
        goal=1.25 * young, rule="1.25 x with ten", raw=young,
    )  # fmt: skip


def _token(name: str, what: str) -> Callable[[Tally], Row]:
    def row(tally: Tally) -> Row:
        return Row(
            name=f"token-{name}", what=what, unit="µs",
            measured=tally.median(f"moot.token.{name}") * 1e6, noise=tally.noise(f"moot.token.{name}"),
            raw=tally.median(f"raw.token.{name}") * 1e6,
        )  # fmt: skip

    return row


def _crowd(tally: Tally) -> Row:
    return Row(
        name="crowd", what="200 streams at once: not whole", unit="",
        measured=max(value for values in tally.series["crowd.incomplete"] for value in values), noise=0.0,
        goal=0, rule="none",
    )  # fmt: skip


def _crowd_memory(tally: Tally) -> Row:
    return Row(
        name="crowd-memory", what="200 streams at once: memory they take", unit="MB",
        measured=max(value for values in tally.series["crowd.grew"] for value in values), noise=0.0,
    )  # fmt: skip


def _largest(tally: Tally) -> Row:
    return Row(
        name="ping-largest", what="ping beside requests of the largest size, p99", unit="ms",
        measured=tally.median("moot.ping.largest") * 1e3, noise=tally.noise("moot.ping.largest"),
        goal=50, rule="50 ms",
    )  # fmt: skip


def _start(tally: Tally) -> Row:
    return Row(
        name="start", what="daemon start to first answer", unit="s",
        measured=tally.median("start.again"), noise=tally.noise("start.again"),
    )  # fmt: skip


def _rss(tally: Tally) -> Row:
    return Row(
        name="rss", what="idle RSS, after an answer", unit="MB",
        measured=tally.median("idle.rss"), noise=tally.noise("idle.rss"), goal=70, rule="70 MB",
    )  # fmt: skip


def _command(name: str, what: str, times: float | None, rule: str) -> Callable[[Tally], Row]:
    def row(tally: Tally) -> Row:
        empty = tally.median("command.python") * 1e3
        return Row(
            name=name, what=what, unit="ms", measured=tally.median(f"command.{name}") * 1e3,
            noise=tally.noise(f"command.{name}"), goal=times and times * empty, rule=rule, raw=empty,
        )  # fmt: skip

    return row


def _mail(name: str, what: str, kind: str, goal: float) -> Callable[[Tally], Row]:
    def row(tally: Tally) -> Row:
        beside = tally.median("autogen_core.mail") if "autogen_core.mail" in tally.series else None
        return Row(
            name=name, what=what, unit="/s",
            measured=tally.median(f"mail.rate.{kind}"), noise=tally.noise(f"mail.rate.{kind}"),
            goal=goal, rule=f"{goal:,.0f}/s", raw=beside, more_is_better=True,
        )  # fmt: skip

    return row


def _mail_many(tally: Tally) -> Row:
    few = tally.median("mail.few") * 1e3
    return Row(
        name="mail-many", what="a message to one of 10,000 goals", unit="ms",
        measured=tally.median("mail.many") * 1e3, noise=tally.noise("mail.many"),
        goal=1.1 * few, rule="1.1 x one of ten", raw=few,
    )  # fmt: skip


def _mail_bytes(tally: Tally) -> Row:
    return Row(
        name="mail-bytes", what="memory of a goal that is idle", unit="bytes",
        measured=tally.median("mail.bytes"), noise=tally.noise("mail.bytes"), goal=1024, rule="1 KB",
    )  # fmt: skip


def _mail_idle(tally: Tally) -> Row:
    return Row(
        name="mail-idle", what="CPU of a daemon with 10,000 idle goals", unit="%",
        measured=tally.median("mail.idle") * 100, noise=tally.noise("mail.idle"), goal=1, rule="1 % of a core",
    )  # fmt: skip


def _mail_nats(tally: Tally) -> Row:
    raw = tally.median("raw.mail.nats")
    return Row(
        name="mail-nats", what="mail/s between two daemons, stored", unit="/s",
        measured=tally.median("mail.nats"), noise=tally.noise("mail.nats"),
        goal=0.7 * raw, rule="0.7 x nats-py", raw=raw, more_is_better=True,
    )  # fmt: skip


def _mail_nats_latency(tally: Tally) -> Row:
    return Row(
        name="mail-nats-latency", what="a mail from sending to stored there", unit="ms",
        measured=tally.median("mail.nats.latency") * 1e3, noise=tally.noise("mail.nats.latency"),
        goal=3, rule="3 ms",
    )  # fmt: skip


def _broker(tally: Tally) -> Row:
    raw = tally.median("raw.broker")
    return Row(
        name="broker", what="messages/s accepted by JetStream", unit="/s",
        measured=tally.median("moot.broker"), noise=tally.noise("moot.broker"),
        goal=0.7 * raw, rule="0.7 x nats-py", raw=raw, more_is_better=True,
    )  # fmt: skip


def _broker_latency(tally: Tally) -> Row:
    return Row(
        name="broker-latency", what="a message from publisher to handler", unit="ms",
        measured=tally.median("moot.broker.latency") * 1e3, noise=tally.noise("moot.broker.latency"),
        goal=3, rule="3 ms",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """A row and the piece of work that feeds it."""

    piece: str
    row: Callable[[Tally], Row]


PLANS: dict[str, Plan] = {
    "commit": Plan("history.10", _commit),
    "chat": Plan("history.10", _turn("chat", "chat turn, persisted, history 10", "turn.10", times=1.6)),
    "cpu": Plan("history.10", _cpu),
    "first-token": Plan("history.10", _first),
    "history-100": Plan("history.100", _turn("history-100", "persisted turn at 100 messages", "turn.100", times=None)),
    "history-1000": Plan(
        "history.1000", _turn("history-1000", "persisted turn at 1,000 messages", "turn.1000", times=1.6)
    ),
    "history-10000": Plan(
        "history.10000",
        _turn("history-10000", "persisted turn at 10,000 messages", "turn.10000", times=1.6, floor="keeping"),
    ),
    "concurrent": Plan("concurrent", _concurrent),
    "tool": Plan("tools", _turn("tool", "tool round trip through the gate, persisted", "tool", times=1.8)),
    "gate": Plan("gate", _gate),
    "search": Plan("search", _search("search", "rg")),
    "search-grep": Plan("search", _search("search-grep", "grep")),
    "documents": Plan("documents", _documents_search),
    "documents-indexed": Plan("documents", _documents_indexed),
    "documents-memory": Plan("documents", _documents_memory),
    "team": Plan("team", _team),
    "team-slow": Plan("team", _team_slow),
    "spawn": Plan("team", _spawn),
    "spawn-old": Plan("team", _old),
    **{name: Plan("automation", row) for name, row in AUTOMATION.items()},
    "mail": Plan("mail", _mail("mail", "mail/s between agents, in memory", "memory", 20_000)),
    "mail-durable": Plan("mail", _mail("mail-durable", "mail/s between agents, durable", "sqlite", 5_000)),
    "mail-many": Plan("mail", _mail_many),
    "mail-bytes": Plan("mail", _mail_bytes),
    "mail-idle": Plan("mail", _mail_idle),
    "mail-nats": Plan("mail.nats", _mail_nats),
    "mail-nats-latency": Plan("mail.nats", _mail_nats_latency),
    "broker": Plan("broker", _broker),
    "broker-latency": Plan("broker", _broker_latency),
    "token-fast": Plan("tokens", _token("fast", "CPU per token, 500 at full speed")),
    "token-paced": Plan("tokens", _token("paced", "CPU per token, one every 2 ms")),
    "crowd": Plan("crowd", _crowd),
    "crowd-memory": Plan("crowd", _crowd_memory),
    "ping-largest": Plan("largest", _largest),
    "start": Plan("start", _start),
    "rss": Plan("start", _rss),
    "help": Plan("commands", _command("help", "moot --help", 5, "5 x an empty Python")),
    "ask": Plan("commands", _command("ask", "moot ask, daemon running", None, "")),
}


def number(value: float | None, unit: str = "") -> str:
    if value is None:
        return "-"
    digits = 0 if abs(value) >= 100 or value == 0 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}".strip()


def table(rows: list[Row]) -> str:
    head = ("", "measured", "±", "goal", "", "raw", "x raw", "")
    lines: list[tuple[str, ...]] = [head]
    for row in rows:
        sign = "≥" if row.more_is_better else "≤"
        ratio = row.ratio
        lines.append(
            (
                row.what,
                number(row.measured, row.unit),
                f"{row.noise:.0%}",
                f"{sign} {number(row.goal, row.unit)}" if row.goal is not None else "-",
                row.rule,
                number(row.raw, row.unit),
                "-" if ratio is None else number(ratio),
                row.verdict,
            )
        )
    return _align(lines, left={0, 4, 7})


def _align(lines: list[tuple[str, ...]], *, left: set[int]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def compare(rows: list[Row], earlier: list[Row], ref: str) -> str:
    """Each row now and at an earlier commit, measured in turns. A row that got slower by more than 3 % is marked."""
    lines: list[tuple[str, ...]] = [("", "now", ref, "now / then", "±", "")]
    for now, then in zip(rows, earlier, strict=True):
        change = now.measured / then.measured if then.measured else 1.0
        worse = 1 / change if now.more_is_better and change else change
        noise = max(now.noise, then.noise)
        mark = "SLOWER" if worse > MOST_SLOWER and worse - 1 > noise else "slower?" if worse > MOST_SLOWER else ""
        lines.append(
            (
                now.what,
                number(now.measured, now.unit),
                number(then.measured, then.unit),
                number(change),
                f"{noise:.0%}",
                mark,
            )
        )
    return _align(lines, left={0, 5})


_MAIL_PROCESSES = ("sender", "receiver", "server")


def asides(tally: Tally) -> list[str]:
    """What explains the rows: where the time went, and what the raw client takes with commits of its own."""
    have, median = tally.series, tally.median
    said = [
        f"history {count:,}: body {number(median(f'body.{count}') / 1e3)} kB;"
        f" raw with its own two commits {number(median(f'durable.turn.{count}') * 1e3)} ms;"
        f" daemon CPU per turn {number(median(f'moot.cpu.{count}') * 1e3)} ms;"
        f" first turn, before the history is in memory, {number(median(f'cold.{count}') * 1e3)} ms"
        for count in (10, 100, 1000, 10000)
        if f"moot.turn.{count}" in have
    ]
    if "moot.rate" in have:
        said.append(
            f"50 at once: daemon CPU per turn {number(median('moot.rate.cpu') * 1e6)} µs, our client's"
            f" {number(median('driver.rate.cpu') * 1e6)} µs; a turn takes {number(median('moot.rate.p50') * 1e3)} ms;"
            f" raw with its own two commits {number(median('durable.rate'))}/s"
        )
    if "mail.nats" in have:
        cpu, raw = (
            {name: number(median(f"mail.nats.cpu.{kind}{name}") * 1e6) for name in _MAIL_PROCESSES}
            for kind in ("", "raw.")
        )
        said.append(
            f"mail over NATS: CPU for a message {cpu['sender']} µs in the sender, {cpu['receiver']} µs in the receiver,"
            f" {cpu['server']} µs in NATS; nats-py {raw['sender']}, {raw['receiver']} and {raw['server']} µs;"
            f" nats-py that only publishes {number(median('raw.mail.nats.published'))}/s,"
            f" with a server that syncs as the stores do {number(median('raw.mail.nats.synced'))}/s"
        )
    if "moot.token.fast" in have:
        said.append(
            f"streams: 500 tokens at full speed reach the client as {number(median('moot.events.fast'))} events,"
            f" 100 paced ones as {number(median('moot.events.paced'))}"
        )
    if "crowd.seconds" in have:
        said.append(
            f"200 streams of 60 tokens, ideal 1.26 s: {number(median('crowd.seconds'))} s, daemon CPU"
            f" {number(median('crowd.cpu'))} s, {number(median('crowd.events'))} text events,"
            f" peak RSS {number(median('crowd.peak'))} MB"
        )
    if "start.first" in have:
        said.append(
            f"start: ready after {number(median('start.again.ready'))} s, its first turn"
            f" {number(median('start.again.turn') * 1e3)} ms; on a home never used {number(median('start.first'))} s"
        )
    return said


def machine() -> dict[str, str | int]:
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        "sqlite": sqlite3.sqlite_version,
    }


def write_json(path: Path, rows: list[Row], tally: Tally, facts: dict[str, object]) -> None:
    value = {
        **facts,
        "machine": machine(),
        "rows": [{**asdict(row), "ratio": row.ratio, "verdict": row.verdict} for row in rows],
        "medians": {name: tally.median(name) for name in sorted(tally.series)},
        "repeats": tally.series,
    }
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
