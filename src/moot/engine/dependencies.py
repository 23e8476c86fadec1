"""RunsDependencies: what engine/runs and engine/turns are built from, and how the names in a request are resolved."""

from collections.abc import Callable

from msgspec import Struct

from moot.domain.agent import Agent
from moot.domain.config import Config
from moot.domain.conversation import ConversationKey
from moot.domain.errors import NotFound
from moot.domain.ports.clock import Clock
from moot.domain.ports.model import Model
from moot.domain.ports.spawned_runs import SpawnedRuns
from moot.domain.ports.store import Store
from moot.domain.run import RunRequest
from moot.engine.asks import Asks
from moot.engine.budget import Budgets
from moot.engine.bus import Bus
from moot.engine.compaction import Compaction
from moot.engine.history import Histories
from moot.engine.loop import Loop
from moot.engine.supervisor import Supervisor


class RunsDependencies(Struct, frozen=True, kw_only=True):
    store: Store
    histories: Histories
    loop: Loop
    compaction: Compaction
    agents: Callable[[str], Agent | None]
    models: Callable[[str], Model]
    config: Callable[[], Config]
    workspace: Callable[[ConversationKey], str]
    clock: Clock
    asks: Asks
    supervisor: Supervisor
    bus: Bus
    budgets: Budgets
    spawned: SpawnedRuns
    # Wraps the model of a run so that its requests are observed; None if nothing observes them.
    observe_model: Callable[[Model, RunRequest], Model] | None = None

    def resolve_agent(self, name: str) -> Agent:
        agent = self.agents(name)
        if agent is None:
            raise no_agent(name)
        return agent

    def resolve(self, request: RunRequest) -> "Resolved":
        """Look up the agents and configuration of a turn once; later changes apply from the next turn."""
        speaker = self.agents(request.speaker)
        primary = self.agents(request.key.agent) if request.guest else speaker
        return Resolved(speaker, primary, self.config())

    def model(self, agent: Agent, config: Config | None = None) -> Model:
        return self.models(agent.model or (config or self.config()).default_model)


class Resolved(Struct, frozen=True):
    """The agents and configuration of a turn, resolved when it begins. The speaker may no longer exist by then."""

    speaker: Agent | None
    primary: Agent | None
    config: Config


def no_agent(name: str) -> NotFound:
    return NotFound(f"there is no agent {name!r}", fix="`moot agents` lists them.")
