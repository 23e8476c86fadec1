"""Messages per second through autogen-core's runtime. Runs in its own environment and prints its samples as JSON.

Nothing is stored there: it is beside the row of mail in memory.
"""

import asyncio
import json
import time
from dataclasses import dataclass

from autogen_core import AgentId, MessageContext, RoutedAgent, SingleThreadedAgentRuntime, message_handler

_MESSAGES = 5_000
_AGENTS = 1_000
_SENDERS = 64


@dataclass
class Note:
    text: str


class Reader(RoutedAgent):  # type: ignore[misc]  # known only in its own environment
    def __init__(self) -> None:
        super().__init__("Reads what it is sent.")

    @message_handler
    async def read(self, message: Note, ctx: MessageContext) -> None:
        pass


async def measure() -> dict[str, list[float]]:
    runtime = SingleThreadedAgentRuntime()
    await Reader.register(runtime, "reader", Reader)
    runtime.start()
    numbers = iter(range(_MESSAGES))

    async def send_some() -> None:
        for number in numbers:
            await runtime.send_message(
                Note("Task 1 is ready for handoff."), AgentId("reader", f"agent-{number % _AGENTS}")
            )

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(_SENDERS):
            group.create_task(send_some())
    rate = _MESSAGES / (time.perf_counter() - started)
    await runtime.stop()
    return {"mail": [rate]}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure())))
