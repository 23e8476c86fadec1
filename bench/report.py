"""The rows of the table: what was measured, what the raw client took, what was aimed for, and whether it was met."""

import json
import os
import platform
import sqlite3
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.work import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line. The goal is in the row's unit, None where there is none to meet; the ratio is to the raw client."""

    name: str
    what: str
    unit: str
    measured: float
    noise: float
    goal: float | None = None
    rule: str = ""
    raw: float | None = None
    more_is_better: bool = False

    @property
    def ratio(self) -> float | None:
        return self.measured / self.raw if self.raw else None

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        met = self.measured >= self.goal if self.more_is_better else self.measured <= self.goal
        return "pass" if met else "MISS"


def _commit(tally: Tally) -> Row:
    return Row(
        name="commit", what="one commit (WAL, synchronous=FULL)", unit="ms",
        measured=tally.median("commit") * 1e3, noise=tally.noise("commit"),
    )  # fmt: skip


def _chat(tally: Tally) -> Row:
    raw, commit = tally.median("raw.turn.10") * 1e3, tally.median("commit.10") * 1e3
    return Row(
        name="chat", what="chat turn, persisted, history 10", unit="ms",
        measured=tally.median("moot.turn.10") * 1e3, noise=tally.noise("moot.turn.10"),
        goal=raw + 2 * commit + 1, rule="raw + 2 commits + 1 ms", raw=raw,
    )  # fmt: skip


def _first(tally: Tally) -> Row:
    raw, commit = tally.median("raw.first.10") * 1e3, tally.median("commit.10") * 1e3
    return Row(
        name="first-token", what="first token, added over raw", unit="ms",
        measured=tally.median("moot.first.10") * 1e3 - raw, noise=tally.noise("moot.first.10"),
        goal=1.5 + commit, rule="1.5 ms + 1 commit",
    )  # fmt: skip


def _history(count: int, *, against: str = "") -> Callable[[Tally], Row]:
    """A turn at this length. `against` names the raw client that sets the goal."""

    def row(tally: Tally) -> Row:
        raw = tally.median(f"{against or 'raw'}.turn.{count}") * 1e3
        commit = tally.median(f"commit.{count}") * 1e3
        strict = against == "raw"
        return Row(
            name=f"history-{count}{'-strict' if strict else ''}", unit="ms",
            what="  the same beside a body that is ready" if strict else f"persisted turn at {count:,} messages",
            measured=tally.median(f"moot.turn.{count}") * 1e3, noise=tally.noise(f"moot.turn.{count}"),
            goal=1.5 * raw + 2 * commit if against else None, rule="1.5 x raw + 2 commits" if against else "", raw=raw,
        )  # fmt: skip

    return row


def _concurrent(tally: Tally) -> Row:
    return Row(
        name="concurrent", what="turns/s, 50 conversations at once", unit="/s",
        measured=tally.median("moot.rate"), noise=tally.noise("moot.rate"),
        goal=1200, rule="1,200", raw=tally.median("raw.rate"), more_is_better=True,
    )  # fmt: skip


def _tool(tally: Tally) -> Row:
    raw, commit = tally.median("raw.tool") * 1e3, tally.median("commit.tool") * 1e3
    return Row(
        name="tool", what="tool round trip through the gate, persisted", unit="ms",
        measured=tally.median("moot.tool") * 1e3, noise=tally.noise("moot.tool"),
        goal=raw + 3 * commit + 1, rule="raw + 3 commits + 1 ms", raw=raw,
    )  # fmt: skip


def _gate(tally: Tally) -> Row:
    return Row(
        name="gate", what="gate overhead without its commit", unit="µs",
        measured=(tally.median("gate.through") - tally.median("gate.alone")) * 1e6, noise=tally.noise("gate.through"),
        goal=200, rule="200 µs",
    )  # fmt: skip


def _team(tally: Tally) -> Row:
    return Row(
        name="team", what="spawn and finish 100 teammates", unit="ms",
        measured=tally.median("moot.team") * 1e3, noise=tally.noise("moot.team"),
        goal=250, rule="250 ms", raw=tally.median("raw.team") * 1e3,
    )  # fmt: skip


def _team_slow(tally: Tally) -> Row:
    raw = tally.median("raw.team.slow") * 1e3
    return Row(
        name="team-slow", what="the same with a model that takes 50 ms", unit="ms",
        measured=tally.median("moot.team.slow") * 1e3, noise=tally.noise("moot.team.slow"),
        goal=1.5 * raw, rule="1.5 x the requests alone", raw=raw,
    )  # fmt: skip


def _spawn(tally: Tally) -> Row:
    return Row(
        name="spawn", what="spawn to the teammate's first model call", unit="ms",
        measured=tally.median("moot.spawn") * 1e3, noise=tally.noise("moot.spawn"), goal=5, rule="5 ms",
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


def _start(tally: Tally) -> Row:
    return Row(
        name="start", what="daemon start to first answer", unit="s",
        measured=tally.median("start.again"), noise=tally.noise("start.again"), goal=0.6, rule="0.6 s",
    )  # fmt: skip


def _rss(tally: Tally) -> Row:
    return Row(
        name="rss", what="idle RSS, after an answer", unit="MB",
        measured=tally.median("idle.rss"), noise=tally.noise("idle.rss"), goal=70, rule="70 MB",
    )  # fmt: skip


def _command(name: str, what: str, goal: float | None, rule: str) -> Callable[[Tally], Row]:
    def row(tally: Tally) -> Row:
        return Row(
            name=name, what=what, unit="ms", measured=tally.median(f"command.{name}") * 1e3,
            noise=tally.noise(f"command.{name}"), goal=goal, rule=rule, raw=tally.median("command.python") * 1e3,
        )  # fmt: skip

    return row


@dataclass(frozen=True, slots=True)
class Plan:
    """A row and the piece of work that feeds it."""

    piece: str
    row: Callable[[Tally], Row]


PLANS: dict[str, Plan] = {
    "commit": Plan("history.10", _commit),
    "chat": Plan("history.10", _chat),
    "first-token": Plan("history.10", _first),
    "history-100": Plan("history.100", _history(100)),
    "history-1000": Plan("history.1000", _history(1000, against="keeping")),
    "history-1000-strict": Plan("history.1000", _history(1000, against="raw")),
    "history-10000": Plan("history.10000", _history(10000, against="keeping")),
    "history-10000-strict": Plan("history.10000", _history(10000, against="raw")),
    "concurrent": Plan("concurrent", _concurrent),
    "tool": Plan("tools", _tool),
    "gate": Plan("gate", _gate),
    "team": Plan("team", _team),
    "team-slow": Plan("team", _team_slow),
    "spawn": Plan("team", _spawn),
    "spawn-old": Plan("team", _old),
    "token-fast": Plan("tokens", _token("fast", "CPU per token, 500 at full speed")),
    "token-paced": Plan("tokens", _token("paced", "CPU per token, one every 2 ms")),
    "crowd": Plan("crowd", _crowd),
    "crowd-memory": Plan("crowd", _crowd_memory),
    "start": Plan("start", _start),
    "rss": Plan("start", _rss),
    "help": Plan("commands", _command("help", "moot --help", 200, "200 ms")),
    "ask": Plan("commands", _command("ask", "moot ask, daemon running", None, "")),
}


def number(value: float | None, unit: str = "") -> str:
    if value is None:
        return "-"
    digits = 0 if abs(value) >= 100 or value == 0 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}".strip()


def table(rows: list[Row]) -> str:
    head = ("", "measured", "±", "goal", "", "raw", "x raw", "")
    lines = [head]
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
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    left = {0, 4, 7}
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


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
