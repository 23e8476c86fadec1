"""TeammateDependencies: what teammates, recovery and delivery are built from."""

from collections.abc import Callable
from random import Random

from msgspec import Struct

from moot.domain.config import AgentConfig
from moot.domain.conversation import ConversationKey
from moot.domain.ports.clock import Clock
from moot.domain.ports.store import Store
from moot.domain.ports.traces import TraceNotes
from moot.engine.asks import Asks
from moot.engine.bus import Bus
from moot.engine.runs import Runs
from moot.engine.supervisor import Supervisor
from moot.multiagent.partition import Partition
from moot.multiagent.teammates.live_runs import LiveRuns


class TeammateDependencies(Struct, frozen=True, kw_only=True):
    runs: Runs
    live: LiveRuns
    store: Store
    asks: Asks
    partition: Callable[[], Partition]
    # Whether an agent, given by name, is a coordinator.
    is_coordinator: Callable[[str], bool]
    config: Callable[[], AgentConfig]
    # Whether calls of a tool, given by name, can be repeated without harm.
    is_repeatable: Callable[[str], bool]
    clock: Clock
    rng: Random
    supervisor: Supervisor
    traces: TraceNotes
    bus: Bus
    # Stops the background commands of a conversation.
    stop: Callable[[ConversationKey], None]
