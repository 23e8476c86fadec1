"""WarmUp: lets a model on this machine read the beginning of a prompt before the first message. Used by the daemon.

The server keeps what it has read, so that the first answer only has to read the message. Nothing is stored or
published.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing

from msgspec import Struct

from moot.domain.agent import ROOT, Agent
from moot.domain.config import Config
from moot.domain.errors import MootError
from moot.domain.events import Event, RunStarted
from moot.domain.message import user
from moot.domain.ports.model import Model
from moot.domain.prompt import Prompt, Transcript
from moot.engine.bus import Bus
from moot.engine.gate import Gate
from moot.engine.supervisor import Supervisor
from moot.engine.turn import Briefing
from moot.engine.turn_state import list_standing_blocks

logger = logging.getLogger(__name__)


class WarmUpDependencies(Struct, frozen=True, kw_only=True):
    gate: Gate
    bus: Bus
    supervisor: Supervisor
    agents: Callable[[str], Agent | None]
    models: Callable[[str], Model]
    config: Callable[[], Config]
    # Returns the briefing of the root agent that is the same in every turn.
    brief: Callable[[Config, Model], Briefing]


class WarmUp:
    """One request of one token, of a model that costs nothing. The first run that starts cancels it."""

    def __init__(self, dependencies: WarmUpDependencies) -> None:
        self._d = dependencies
        self._task: asyncio.Task[None] | None = None
        self._leave: Callable[[], None] = _nothing

    def start(self) -> None:
        """Begin when the daemon is ready, and again when the models are new: after a change of the configuration."""
        self._stop()
        self._leave = self._d.bus.observe(self._on_run_started, RunStarted)
        self._task = self._d.supervisor.start("warm up", self._read_ahead())

    def _on_run_started(self, _: Event) -> None:
        # What was read so far stays in the server's memory.
        self._stop()

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._leave()

    async def _read_ahead(self) -> None:
        config, agent = self._d.config(), self._d.agents(ROOT)
        name = (agent.model if agent is not None else "") or config.default_model
        known = config.models.get(name)
        # Checked before the model is built, which takes time and memory.
        if agent is None or known is None or known.provider != "local" or not known.warm:
            return
        try:
            model = self._d.models(name)
            prompt = self._build_prompt(config, agent, model)
            async with aclosing(model.stream(prompt)) as events:
                async for _ in events:
                    pass
        except MootError as error:
            logger.info("the model was not prepared: %s", error.message)
            return
        logger.info("model '%s' has read the instructions of %s", model.name, ROOT)

    def _build_prompt(self, config: Config, agent: Agent, model: Model) -> Prompt:
        """Return a prompt that begins like every request of the agent."""
        briefing = self._d.brief(config, model)
        toolbox = self._d.gate.box(agent.scope & briefing.scope)
        specs = toolbox.choose_tools(model, agent.prefixes, briefing.offers & config.tools.not_blocked).specs
        blocks = list_standing_blocks(agent, model, briefing, has_tools=bool(specs))
        return Prompt(system=blocks, transcript=Transcript([user("Hello")]), tools=specs, max_tokens=1)


def _nothing() -> None:
    """Nothing is observed yet."""
