"""A result nobody waited for goes to its parent as one message; one that was waited for has been handed over."""

import logging
from random import Random
from typing import Protocol

import msgspec

from moot.domain.agent_run import AgentRun, Delivery
from moot.domain.conversation import ConversationKey
from moot.domain.errors import MootError
from moot.domain.ids import make_id
from moot.domain.message import Role
from moot.domain.ports import Clock, Store
from moot.domain.run import RunRequest
from moot.engine.runs import Runs
from moot.failpoint import reach
from moot.multiagent.report import told

logger = logging.getLogger(__name__)


class Shelf(Protocol):
    async def deliver(self, run_ids: list[str], delivery: Delivery) -> None: ...


class Deliveries:
    def __init__(self, *, runs: Runs, store: Store, shelf: Shelf, clock: Clock, rng: Random) -> None:
        self._runs = runs
        self._store = store
        self._shelf = shelf
        self._clock = clock
        self._rng = rng
        # Ended runs whose parent still goes on, and may yet wait for them.
        self._held: dict[str, list[AgentRun]] = {}

    def claimed(self, parent: str) -> list[AgentRun]:
        """The ended runs a parent left behind, which is over now."""
        return self._held.pop(parent, [])

    async def settle(self, run: AgentRun) -> None:
        """Hand on the result of a run that has ended, unless its parent still goes on or has it already."""
        assert run.parent_key is not None
        if self._goes_on(run.parent, run.parent_key):
            self._held.setdefault(run.parent, []).append(run)
            return
        if await self._was_waited_for(run):
            await self._shelf.deliver([run.id], Delivery.WAITED)
            return
        try:
            await self._send(run)
        except MootError as error:
            # It stays owed: the next start tries again.
            logger.warning("the result of %s could not be handed on: %s", run.id, error.message)
            return
        reach("teammate.delivered")
        await self._shelf.deliver([run.id], Delivery.SENT)

    def _goes_on(self, run_id: str, key: ConversationKey) -> bool:
        return self._runs.active(key) == run_id

    async def _was_waited_for(self, run: AgentRun) -> bool:
        """Whether the parent's history has the result: what a wait returned is there, or it was not returned."""
        assert run.parent_key is not None
        entries = await self._store.entries(run.parent_key, first=max(1, run.parent_seq))
        return any(
            run.id in told_ids(entry.message.content)
            for entry in entries
            if entry.message.role is Role.TOOL and entry.run_id == run.parent
        )

    async def _send(self, run: AgentRun) -> None:
        """One message, whatever happens: its id makes a second one the same message."""
        # A teammate that has ended cannot be told any more; whoever started it all can.
        key = run.root if run.depth > 1 else run.parent_key
        assert key is not None
        history = await self._runs.histories.load(run.key)
        request = RunRequest(
            id=make_id("run", now=self._clock.now(), rng=self._rng),
            key=key,
            speaker=key.agent,
            content=told(run),
            author=run.agent,
            taint=history.taint if history is not None else run.taint,
            client_message_id=f"result:{run.id}",
            # What comes of it is still of the turn that set it off, and spends from the same purse.
            origin=run.origin,
        )
        await self._runs.submit(request)


def told_ids(content: str) -> set[str]:
    """The runs whose end a wait's result tells."""
    try:
        said = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return set()
    views = said.get("runs", [said]) if isinstance(said, dict) else []
    return {
        str(view.get("agent_id"))
        for view in views
        if isinstance(view, dict) and view.get("status") in ("completed", "failed", "cancelled")
    }
