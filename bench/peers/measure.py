"""Runs inside a peer's environment: python -m bench.peers.measure NAME BASE FOLDER, and prints its samples as JSON.

Nothing here may need more than the standard library, the peer and the mock's reply.
"""

import asyncio
import importlib
import json
import sys
import time
import urllib.request
from collections.abc import Awaitable
from typing import Any

from bench.mock import reply_text

SAY = "Please say something short and friendly about the weather of today."
CONCURRENT = 50
TEAM = 100


async def measure(peer: Any, base: str) -> dict[str, list[float]]:
    await peer.open()
    samples: dict[str, list[float]] = {}
    await _turn(peer, "warm")
    for count, turns in ((10, 8), (100, 4), (1000, 2)):
        name = f"history{count}"
        await peer.seed(name, [_message(number) for number in range(count)])
        await _turn(peer, name)
        samples[f"turn.{count}"] = [await _turn(peer, name) for _ in range(turns)]
    samples["rate"] = [await _rate(peer, 4)]
    await _stream(peer)
    samples["token.fast"] = [await _stream(peer)]
    # A conversation of its own for each, so that what came before is not measured along.
    _, *samples["tool"] = [await _timed(peer.tool_turn(f"tool{number}", SAY)) for number in range(9)]
    for name, options in (("team", f"/d{TEAM}"), ("team.slow", f"/l50/d{TEAM}")):
        _, *samples[name] = [await _team(peer, f"{name}{number}", options) for number in range(4)]
    _, *samples["spawn"] = [await _spawn(peer, f"spawn{number}", base) for number in range(6)]
    await peer.close()
    return samples


def _message(number: int) -> dict[str, str]:
    text = f"Message {number} of a conversation that has been going on for a while about many things."
    return {"role": ("user", "assistant")[number % 2], "content": text}


async def _turn(peer: Any, name: str) -> float:
    return await _timed(peer.turn(name, SAY))


async def _timed(turn: Awaitable[str]) -> float:
    started = time.perf_counter()
    said = await turn
    took = time.perf_counter() - started
    _check(said)
    return took


def _check(said: str) -> None:
    if said != reply_text():
        raise RuntimeError(f"the answer came as {said[:80]!r}")


async def _team(peer: Any, name: str, options: str, size: int = TEAM) -> float:
    """A turn of an agent that calls so many others at once; each of them has to have answered."""
    started = time.perf_counter()
    said, parts = await peer.team(name, "Begin.", options)
    took = time.perf_counter() - started
    if len(parts) != size:
        raise RuntimeError(f"{len(parts)} of {size} answered")
    for one in (said, *parts):
        _check(one)
    return took


async def _spawn(peer: Any, name: str, base: str) -> float:
    """From the answer that asked for another agent to that agent's own first request, as the server saw it."""
    await _team(peer, name, "/d1", 1)
    return await asyncio.to_thread(_since_spawn, base)


def _since_spawn(base: str) -> float:
    with urllib.request.urlopen(f"{base}/spawned", timeout=30) as response:
        return float(json.load(response)["seconds"])


async def _rate(peer: Any, each: int) -> float:
    async def talk(name: str) -> None:
        for _ in range(each):
            await _turn(peer, name)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(CONCURRENT):
            group.create_task(talk(f"concurrent{number}"))
    return each * CONCURRENT / (time.perf_counter() - started)


async def _stream(peer: Any) -> float:
    """Processor seconds per token of a stream of five hundred."""
    used = time.process_time()
    said = "".join([piece async for piece in peer.stream(SAY, "/n500")])
    if said != reply_text(500):
        raise RuntimeError(f"the stream came as {said[:80]!r}")
    return (time.process_time() - used) / 500


def main() -> None:
    name, base, folder = sys.argv[1:]
    started = time.perf_counter()
    module = importlib.import_module(f"bench.peers.{name}")
    took = time.perf_counter() - started
    try:
        import uvloop  # noqa: PLC0415 — not there on every system

        factory = uvloop.new_event_loop
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        samples = runner.run(measure(module.Peer(base, folder), base))
    print(json.dumps({**samples, "import": [took]}))


if __name__ == "__main__":
    main()
