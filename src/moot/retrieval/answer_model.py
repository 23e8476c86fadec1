"""Completes a prompt with the model of an agent, for answers.py."""

from collections.abc import Callable

from moot.domain.agent import Agent
from moot.domain.conversation import ConversationKey
from moot.domain.ports.model import Model
from moot.domain.prompt import Prompt
from moot.domain.usage import NO_CHARGE, Charge
from moot.engine.completion import CountedCompletion


class AnswerModel:
    """`agents` finds an agent by its name, `models` a model by the name that an agent gives."""

    def __init__(
        self,
        agents: Callable[[str], Agent | None],
        models: Callable[[str], Model],
        complete: CountedCompletion,
    ) -> None:
        self._agents = agents
        self._models = models
        self._complete = complete

    async def __call__(self, owner: ConversationKey, prompt: Prompt, charge: Charge = NO_CHARGE) -> str:
        known = self._agents(owner.agent)
        model = self._models(known.model if known is not None else "")
        return await self._complete(owner, model, prompt, charge=charge)
