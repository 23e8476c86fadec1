"""What the gate costs: the same call through the whole hook chain of a real daemon, and straight to the tool."""

import asyncio
import time
from pathlib import Path

from bench.subject import make_home
from moot.daemon.app import running
from moot.daemon.clock import SystemClock
from moot.daemon.paths import Paths
from moot.domain.conversation import ConversationKey
from moot.domain.message import ToolCall
from moot.domain.ports.tool import RunContext
from moot.domain.scope import ALL_TOOLS
from moot.engine.deadline import Deadline
from moot.redaction.redactor import Redactor

_CALLS = 400


async def _nobody(_questions: object) -> str:
    raise RuntimeError("a tool that asks cannot be measured")


async def measure_gate(home: Path, base: str) -> tuple[list[float], list[float]]:
    """Seconds for each call through the gate, and for each without it."""
    context = RunContext(
        run_id="run-gate",
        key=ConversationKey("bench", "gate"),
        speaker="bench",
        cwd=str(home),
        emit=lambda _event: None,
        ask=_nobody,
    )
    async with running(Paths.under(make_home(home, base)), Redactor()) as daemon:
        box = daemon.runtime.gate.box(ALL_TOOLS)
        tool = daemon.toolset.registry.tools()["echo"]
        call = ToolCall(id="call_1", name="echo", arguments='{"text": "as it is"}')
        through, alone = [], []
        for _ in range(_CALLS):
            started = time.perf_counter()
            result = await box.execute(call, "", context, Deadline(SystemClock(), 60.0), asyncio.Semaphore(8))
            through.append(time.perf_counter() - started)
            started = time.perf_counter()
            await tool({"text": "as it is"}, context)
            alone.append(time.perf_counter() - started)
            if result.content != "as it is":
                raise RuntimeError(f"the gate let through {result.content!r}")
            await asyncio.sleep(0)
    return through[_CALLS // 4 :], alone[_CALLS // 4 :]
