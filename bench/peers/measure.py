"""Runs inside a peer's environment: python -m bench.peers.measure NAME BASE FOLDER, and prints its samples as JSON.

Nothing here may need more than the standard library, the peer and the mock's reply.
"""

import asyncio
import importlib
import json
import sys
import time
from typing import Any

from bench.mock import reply_text

SAY = "Please say something short and friendly about the weather of today."
CONCURRENT = 50


async def measure(peer: Any) -> dict[str, list[float]]:
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
    await peer.close()
    return samples


def _message(number: int) -> dict[str, str]:
    text = f"Message {number} of a conversation that has been going on for a while about many things."
    return {"role": ("user", "assistant")[number % 2], "content": text}


async def _turn(peer: Any, name: str) -> float:
    started = time.perf_counter()
    said = await peer.turn(name, SAY)
    if said != reply_text():
        raise RuntimeError(f"the answer came as {said[:80]!r}")
    return time.perf_counter() - started


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
    samples = asyncio.run(measure(module.Peer(base, folder)))
    print(json.dumps({**samples, "import": [took]}))


if __name__ == "__main__":
    main()
