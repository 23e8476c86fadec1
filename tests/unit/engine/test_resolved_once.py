"""A turn looks its agent and the configuration up once, however many steps and calls it takes."""

from collections import Counter
from pathlib import Path

from moot.domain.agent import Agent
from moot.domain.config import Config
from moot.domain.run import RunEnd
from tests.unit.engine.engine_kit import engine


async def test_a_turn_with_two_steps_and_a_call_looks_each_up_once(tmp_path: Path) -> None:
    looked_up: Counter[str] = Counter()

    def agents(name: str) -> Agent:
        looked_up[f"agent {name}"] += 1
        return Agent(name=name, description="", instruction="You act.")

    def config() -> Config:
        looked_up["config"] += 1
        return Config(default_model="m", models={})

    async with engine(tmp_path, agents=agents, config=config) as e:
        end = await e.say("act", "run-1")
    assert isinstance(end, RunEnd)
    assert end.steps == 2
    assert looked_up == {"agent ada": 1, "config": 1}
