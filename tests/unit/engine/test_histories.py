"""Histories in memory: what is read from the disk while it changes is read again."""

import asyncio
from typing import cast

from moot.domain.conversation import Conversation, ConversationKey, LoadedConversation
from moot.domain.message import Entry, user
from moot.domain.ports.store import Store
from moot.engine.history import Histories

ADA = ConversationKey("ada", "user")


class Slow:
    """A disk whose answers wait until they are let go."""

    def __init__(self) -> None:
        self.trusted = 0
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()

    async def load(self, key: ConversationKey) -> LoadedConversation:
        said = Entry(seq=1, message=user("said on a page", taint=frozenset({"web"})), run_id="r", created_at=1.0)
        state = Conversation(key=key, created_at=1.0, updated_at=1.0, last_seq=1, trusted_seq=self.trusted)
        self.asked.set()
        await self.answer.wait()
        return LoadedConversation(conversation=state, archive=None, entries=(said,))


async def test_a_history_that_is_read_while_it_is_trusted_is_trusted() -> None:
    disk = Slow()
    histories = Histories(cast(Store, disk))
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        reading = group.create_task(histories.load(ADA))
        await disk.asked.wait()
        disk.trusted = 1
        histories.trust(ADA, 1)
        disk.answer.set()
    history = reading.result()
    assert history is not None
    assert history.taint == frozenset()


async def test_two_that_read_a_history_at_once_have_the_same_one() -> None:
    disk = Slow()
    histories = Histories(cast(Store, disk))
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        reading = [group.create_task(histories.load(ADA)) for _ in range(2)]
        await disk.asked.wait()
        disk.answer.set()
    one, other = (task.result() for task in reading)
    assert one is other


async def test_trust_reaches_no_further_than_it_was_asked_for_and_is_never_taken_back() -> None:
    disk = Slow()
    disk.answer.set()
    histories = Histories(cast(Store, disk))
    history = await histories.load(ADA)
    assert history is not None
    later = Entry(seq=2, message=user("later", taint=frozenset({"mcp"})), run_id="r", created_at=1.0)
    history.extend([later])
    histories.trust(ADA, 1)
    assert history.taint == {"mcp"}
    histories.trust(ADA, 2)
    histories.trust(ADA, 1)
    assert history.taint == frozenset()
