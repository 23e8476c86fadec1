"""What the writer keeps while vocabularies of agents that are gone are removed."""

from types import MappingProxyType
from typing import Any

import pytest

from moot.daemon.clock import ManualClock
from moot.domain.agent import Agent
from moot.domain.config import Config, ModelConfig
from moot.domain.vocabulary import Phrases, Vocabulary, digest_definition
from moot.engine.supervisor import Supervisor
from moot.multiagent.routing.vocabulary_writer import VocabularyWriter, VocabularyWriterDependencies

FALCONER = Agent(name="falconer", description="Trains birds.", instruction="Help.")
VET = Agent(name="vet", description="Heals animals.", instruction="Help.")


def make_vocabulary(agent: Agent) -> Vocabulary:
    phrases = (Phrases(language="en", words=("jesses",)),)
    return Vocabulary(agent=agent.name, digest=digest_definition(agent), model="m", written_at=1.0, phrases=phrases)


class Store:
    """Holds two vocabularies, and looks at the writer while it removes one."""

    def __init__(self) -> None:
        self.writer: VocabularyWriter | None = None
        self.removed: list[str] = []
        self.seen: list[tuple[Vocabulary | None, int]] = []
        self.present: set[str] = set()

    async def list_all(self) -> list[Vocabulary]:
        return [make_vocabulary(FALCONER), make_vocabulary(VET)]

    async def save(self, vocabulary: Vocabulary) -> None:
        raise AssertionError(vocabulary)

    async def remove(self, agent: str) -> bool:
        assert self.writer is not None
        self.removed.append(agent)
        self.seen.append((self.writer.find(FALCONER), self.writer.edition))
        # The file of the other is back.
        self.present = {"vet"}
        return True


def make_writer(store: Store) -> VocabularyWriter:
    async def complete(*_: Any, **__: Any) -> str:
        raise AssertionError("no model is asked")

    clock = ManualClock()
    model = ModelConfig(name="m", provider="openai", model="m")
    config = Config(default_model="m", models=MappingProxyType({"m": model}))
    store.writer = VocabularyWriter(
        VocabularyWriterDependencies(
            store=store,
            agents={"falconer": FALCONER, "vet": VET}.get,
            is_gone=lambda name: name not in store.present,
            models=pytest.fail,
            config=lambda: config,
            complete=complete,  # type: ignore[arg-type]
            supervisor=Supervisor(clock),
            clock=clock,
        )
    )
    return store.writer


async def test_one_that_is_removed_is_not_used_meanwhile_and_one_that_is_back_is_kept() -> None:
    store = Store()
    writer = make_writer(store)
    await writer.start()

    assert store.removed == ["falconer"]
    # It can be written again at once, and an index that was made before is made anew.
    assert store.seen == [(None, writer.edition)]
    assert writer.edition == 2
    assert writer.find(VET) == make_vocabulary(VET)
