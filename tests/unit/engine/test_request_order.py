"""A long message is redacted beside the event loop, and messages of one conversation keep their order meanwhile."""

import asyncio
import threading
from random import Random

from moot.daemon.clock import SystemClock
from moot.domain.agent import Agent
from moot.domain.config import Config
from moot.domain.conversation import ConversationKey
from moot.engine.request_factory import RequestFactory

ADA, BOB = ConversationKey("ada", "user"), ConversationKey("bob", "user")


async def test_a_long_message_holds_up_its_own_conversation_alone() -> None:
    begun, go_on, threads = threading.Event(), threading.Event(), set[str]()

    def redact(text: str) -> str:
        if len(text) > 100_000:
            threads.add(threading.current_thread().name)
            begun.set()
            go_on.wait(30)
        return text[:5]

    factory = RequestFactory(
        agents=lambda name: Agent(name=name, description="", instruction=""),
        names=lambda: ("ada", "bob"),
        flaw=lambda _name: "",
        hidden=lambda _name: None,
        config=lambda: Config(models={}, default_model=""),
        clock=SystemClock(),
        rng=Random(1),
        redact=redact,
    )
    done: list[str] = []

    async def send(key: ConversationKey, content: str) -> None:
        done.append((await factory.turn(key, content)).content)

    async with asyncio.TaskGroup() as group:
        group.create_task(send(ADA, "first" * 100_000))
        await asyncio.to_thread(begun.wait, 30)
        group.create_task(send(ADA, "second"))
        await group.create_task(send(BOB, "other"))
        assert done == ["other"]
        go_on.set()
    assert done == ["other", "first", "secon"]
    assert threading.main_thread().name not in threads
