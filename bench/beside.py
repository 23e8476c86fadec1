"""Peers beside Moot in the same run: each repeat starts each peer once, in its own environment."""

import asyncio
import json
import os
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from bench.report import number
from bench.work import Bench, Tally

PEERS = {"openai_agents": "OpenAI Agents", "langgraph": "LangGraph"}
# Only messages between agents are measured with this one.
MAIL_PEER = "autogen_core"
_ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Beside:
    """A row: the series of the peers, those of ours and of the raw client that answer to it, and its unit."""

    series: str
    ours: str
    raw: str
    what: str
    factor: float
    unit: str


_ROWS = (
    Beside("turn.10", "moot.turn.10", "raw.turn.10", "turn, history 10", 1e3, "ms"),
    Beside("turn.100", "moot.turn.100", "raw.turn.100", "turn, history 100", 1e3, "ms"),
    Beside("turn.1000", "moot.turn.1000", "raw.turn.1000", "turn, history 1,000", 1e3, "ms"),
    Beside("rate", "moot.rate", "raw.rate", "turns/s, 50 at once", 1, "/s"),
    Beside("tool", "moot.tool", "raw.tool", "tool round trip", 1e3, "ms"),
    Beside("team", "moot.team", "raw.team", "spawn and finish 100", 1e3, "ms"),
    Beside("team.slow", "moot.team.slow", "raw.team.slow", "100, model of 50 ms", 1e3, "ms"),
    Beside("spawn", "moot.spawn", "", "spawn to first call", 1e3, "ms"),
    Beside("token.fast", "moot.token.fast", "raw.token.fast", "CPU per token", 1e6, "µs"),
    Beside("import", "start.again", "", "import / our start", 1, "s"),
)
# Whose version the numbers depend on most; the last two are the faster loop and transport, where they are installed.
_PACKAGES = (
    "openai-agents",
    "langgraph",
    "langchain",
    "langchain-openai",
    "openai",
    "autogen-core",
    "uvloop",
    "aiohttp",
)


def interpreters() -> dict[str, Path]:
    """The peers that are installed under $PEERS_VENVS, one environment each."""
    folder = Path(os.environ.get("PEERS_VENVS", Path.home() / ".cache" / "moot-peers" / "venvs"))
    found = {name: folder / name / "bin" / "python" for name in (*PEERS, MAIL_PEER)}
    return {name: python for name, python in found.items() if python.exists()}


def versions() -> dict[str, dict[str, str]]:
    """What each peer's environment has of the packages that matter here."""
    found = {}
    for name, python in interpreters().items():
        places = [str(place) for place in python.parent.parent.glob("lib/python*/site-packages")]
        installed = {one.name.lower().replace("_", "-"): one.version for one in distributions(path=places)}
        found[name] = {package: installed[package] for package in _PACKAGES if package in installed}
    return found


async def measure(bench: Bench) -> None:
    for name, python in interpreters().items():
        folder = bench.home / bench.fresh(name)
        folder.mkdir()
        process = await asyncio.create_subprocess_exec(
            *(str(python), "-m", *_module(name), bench.base, str(folder)),
            cwd=_ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"{name} failed: {err.decode()[-800:]}")
        for series, values in json.loads(out).items():
            bench.tally.add(f"{name}.{series}", *values)


def _module(name: str) -> tuple[str, ...]:
    return (f"bench.peers.{name}",) if name == MAIL_PEER else ("bench.peers.measure", name)


def rows(tally: Tally) -> list[dict[str, object]]:
    """For whoever reads the JSON: every row in its unit, and as a multiple of the raw client of the same run."""
    found: list[dict[str, object]] = []
    for row in _ROWS:
        measured = {name: _value(tally, series, row.factor) for name, series in _columns(row).items()}
        ratios = {name: _ratio(value, measured["raw"]) for name, value in measured.items() if name != "raw"}
        found.append(
            {"name": row.series, "what": row.what, "unit": row.unit, "measured": measured, "times_raw": ratios}
        )
    return found


def table(tally: Tally) -> str:
    """Moot through its daemon, with an fsync; the peers in process, as their own stores do it."""
    names = ["moot", *(name for name in PEERS if f"{name}.rate" in tally.series)]
    titles = {"moot": "Moot", **PEERS}
    lines = [f"{'':22}{'raw':>12}" + "".join(f"{titles[name]:>16}{'x raw':>8}" for name in names)]
    for row in _ROWS:
        columns = {name: _value(tally, series, row.factor) for name, series in _columns(row).items()}
        line = f"{row.what:22}{number(columns['raw'], row.unit):>12}"
        for name in names:
            line += f"{number(columns[name], row.unit):>16}{number(_ratio(columns[name], columns['raw'])):>8}"
        lines.append(line)
    return "\n".join(lines)


def _columns(row: Beside) -> dict[str, str]:
    return {"raw": row.raw, "moot": row.ours, **{name: f"{name}.{row.series}" for name in PEERS}}


def _value(tally: Tally, series: str, factor: float) -> float | None:
    return tally.median(series) * factor if series in tally.series else None


def _ratio(value: float | None, raw: float | None) -> float | None:
    return value / raw if value is not None and raw else None
