"""What teammates are built from, what is asked of one, and one that has not ended."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from moot.domain.agent_run import AgentRun, Delivery
from moot.domain.config import AgentConfig
from moot.domain.conversation import ConversationKey
from moot.domain.ports import Clock, Store
from moot.domain.run import Limits
from moot.domain.trace import Notes
from moot.engine.asks import Asks
from moot.engine.bus import Bus
from moot.engine.runs import Runs
from moot.engine.supervisor import Supervisor
from moot.multiagent.partition import Partition
from moot.multiagent.teammates.blocked import Waits

# How long a teammate may work, and a wait for it lasts, unless said.
DEFAULT_SECONDS = 300


class AgentRuns(Protocol):
    """Where spawned and background runs are kept."""

    async def create(self, run: AgentRun) -> AgentRun: ...
    async def end(self, run: AgentRun) -> None: ...
    async def deliver(self, run_ids: Sequence[str], delivery: Delivery) -> None: ...
    async def grant(self, run_id: str, tools: Sequence[str]) -> None: ...
    async def spare(self, parent: str) -> None: ...
    async def get(self, run_id: str) -> AgentRun | None: ...
    async def not_ended(self) -> list[AgentRun]: ...
    async def owed(self) -> list[AgentRun]: ...
    async def of_origin(self, origin: str) -> list[AgentRun]: ...
    async def ended(self, owns: Callable[[str], bool], *, limit: int) -> list[AgentRun]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """What teammates are built from."""

    runs: Runs
    store: Store
    shelf: AgentRuns
    asks: Asks
    partition: Callable[[], Partition]
    config: Callable[[], AgentConfig]
    # Whether making a call twice does no harm, by the tool's name.
    repeatable: Callable[[str], bool]
    clock: Clock
    rng: Random
    supervisor: Supervisor
    traces: Notes
    bus: Bus
    # Ends what a conversation has left running in the background.
    stop: Callable[[ConversationKey], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is asked of a teammate."""

    agent: str
    instruction: str
    reason: str = ""
    allowed_tools: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)


@dataclass(slots=True, eq=False)
class Live:
    """A run that has not ended."""

    run: AgentRun
    taken_up: bool = False
    # Whoever stopped it need not be told how it ended.
    is_moot: bool = False
    # Stopped before it was in its lane.
    is_halted: bool = False
    # Its end was published with its turn.
    is_end_published: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)
    waits: Waits = field(default_factory=Waits)
