"""Teammates: an orchestrator that spawns many and waits for all, through a daemon that has a team."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp

from bench.line import connect
from bench.mock import reply_text
from bench.raw import RawClient
from bench.subject import MODEL, Daemon, make_home

TEAM = 100
_CONFIG = "\n[agent]\nmultiAgent = true\nmaxRunning = 128\nmaxDelegationRounds = 1000\n"


class Spawned:
    """What one repeat measured, in seconds."""

    def __init__(self) -> None:
        self.together: list[float] = []
        self.with_latency: list[float] = []
        self.raw: list[float] = []
        self.raw_with_latency: list[float] = []
        self.first_call: list[float] = []


async def measure_team(folder: Path, base: str, *, times: int) -> Spawned:
    """A hundred teammates at once, without and with a model that takes 50 ms, and one alone for its first call."""
    home = make_home(folder, base)
    config = (home / "config.toml").read_text(encoding="utf-8")
    models = "".join(
        MODEL.format(name=name, base=base, options=options)
        for name, options in (("team", f"/s{TEAM}"), ("slow", f"/l50/s{TEAM}"), ("one", "/s1"))
    )
    spawned = Spawned()
    for model, into in (("team", spawned.together), ("slow", spawned.with_latency), ("one", [])):
        chosen = config.replace('default_model = "bench"', f'default_model = "{model}"') + models + _CONFIG
        (home / "config.toml").write_text(chosen, encoding="utf-8")
        daemon = await Daemon.start(home)
        try:
            async with connect(daemon.socket) as line:
                await line.turn("moot", f"warm-{model}", "Begin.")
                for number in range(times):
                    timed = await line.turn("moot", f"{model}-{number}", "Begin.")
                    if timed.text != reply_text():
                        raise RuntimeError(f"the orchestrator said {timed.text[:80]!r}")
                    into.append(timed.total)
                    if model == "one":
                        spawned.first_call.append(await _first_call(base))
        finally:
            await daemon.stop()
    spawned.raw = [await _raw(base, f"/s{TEAM}") for _ in range(times)]
    spawned.raw_with_latency = [await _raw(base, f"/l50/s{TEAM}") for _ in range(times)]
    return spawned


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
