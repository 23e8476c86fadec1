"""Completes a text with the model of an agent, for answers.py."""

from collections.abc import Callable

from moot.domain.agent import Agent
from moot.domain.message import user
from moot.domain.ports.model import Model
from moot.domain.prompt import Prompt, Transcript
from moot.engine.completion import complete

_ANSWER_TOKENS = 600


class AnswerModel:
    """`agents` finds an agent by its name, `models` a model by the name that an agent gives."""

    def __init__(self, agents: Callable[[str], Agent | None], models: Callable[[str], Model]) -> None:
        self._agents = agents
        self._models = models

    async def __call__(self, agent: str, instructions: str, text: str) -> str:
        known = self._agents(agent)
        model = self._models(known.model if known is not None else "")
        prompt = Prompt(system=(instructions,), transcript=Transcript([user(text)]), max_tokens=_ANSWER_TOKENS)
        return (await complete(model, prompt))[0]
