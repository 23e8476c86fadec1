"""Peers beside Moot in the same run: each repeat starts each peer once, in its own environment."""

import asyncio
import json
import os
from pathlib import Path

from bench.report import number
from bench.work import Bench, Tally

PEERS = {"openai_agents": "OpenAI Agents", "langgraph": "LangGraph"}
_ROOT = Path(__file__).parent.parent
# Their rows, the series of ours that answers to each, the factor to the unit, and the unit.
_ROWS = (
    ("turn.10", "moot.turn.10", "turn, history 10", 1e3, "ms"),
    ("turn.100", "moot.turn.100", "turn, history 100", 1e3, "ms"),
    ("turn.1000", "moot.turn.1000", "turn, history 1,000", 1e3, "ms"),
    ("rate", "moot.rate", "turns/s, 50 at once", 1, "/s"),
    ("token.fast", "moot.token.fast", "CPU per token", 1e6, "µs"),
    ("import", "start.again", "import / our start", 1, "s"),
)


def interpreters() -> dict[str, Path]:
    """The peers that are installed under $PEERS_VENVS, one environment each."""
    folder = Path(os.environ.get("PEERS_VENVS", Path.home() / ".cache" / "moot-peers" / "venvs"))
    found = {name: folder / name / "bin" / "python" for name in PEERS}
    return {name: python for name, python in found.items() if python.exists()}


async def measure(bench: Bench) -> None:
    for name, python in interpreters().items():
        folder = bench.home / bench.fresh(name)
        folder.mkdir()
        process = await asyncio.create_subprocess_exec(
            *(str(python), "-m", "bench.peers.measure", name, bench.base, str(folder)),
            cwd=_ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"{name} failed: {err.decode()[-800:]}")
        for series, values in json.loads(out).items():
            bench.tally.add(f"{name}.{series}", *values)


def table(tally: Tally) -> str:
    """Moot through its daemon, with an fsync; the peers in process, as their own stores do it."""
    names = [name for name in PEERS if f"{name}.rate" in tally.series]
    lines = [f"{'':22}{'Moot':>12}" + "".join(f"{PEERS[name]:>16}" for name in names)]
    for series, ours, what, factor, unit in _ROWS:
        own = number(tally.median(ours) * factor, unit) if ours in tally.series else "-"
        theirs = (number(tally.median(f"{name}.{series}") * factor, unit) for name in names)
        lines.append(f"{what:22}{own:>12}" + "".join(f"{value:>16}" for value in theirs))
    return "\n".join(lines)
