"""What became a secret after it was said is taken out before a summary or a recollection cuts it in two."""

from collections.abc import AsyncGenerator

from moot.daemon.clock import SystemClock
from moot.domain.agent import Agent
from moot.domain.config import ModelConfig
from moot.domain.message import Message, Role
from moot.domain.ports.model import ModelEvent
from moot.domain.prompt import Prompt
from moot.domain.run import RunRequest
from moot.engine.compaction import Compaction
from moot.engine.history import History
from moot.models.scripted import Rule, ScriptedModel
from moot.store.memories import SqliteMemories
from moot.store.sqlite import SqliteStore
from moot.tools.memory import Owner
from moot.tools.recall import Recall
from tests.unit.shelves import ADA, SetClock, answered, stored

KEY = "Wx81_short_secret_55_and_more"


def without_key(text: str) -> str:
    return text.replace(KEY, "[SECRET:KEY]")


class Listening(ScriptedModel):
    """Keeps what it was told."""

    def __init__(self) -> None:
        config = ModelConfig(name="scripted", provider="scripted", window=8_000)
        super().__init__(config, clock=SystemClock(), rules=(Rule(reply="Zebras were discussed."),))
        self.told: list[str] = []

    async def stream(self, prompt: Prompt) -> AsyncGenerator[ModelEvent, None]:
        self.told += [message.content for message in prompt.transcript.messages]
        async for event in super().stream(prompt):
            yield event


def in_part(text: str) -> bool:
    return any(KEY[at : at + 6] in text for at in range(len(KEY) - 6))


@stored
async def test_a_message_longer_than_a_window_and_a_recollection_are_cut_only_after_secrets_are_taken_out(
    store: SqliteStore,
) -> None:
    await store.begin(RunRequest(id="r", key=ADA, speaker="ada", content="zebras?"), now=1.0)
    # Wherever this is cut, it is in the middle of one.
    await store.append(ADA, "r", [Message(role=Role.USER, content="zebra " + f"{KEY} " * 3_000)], now=1.0)
    loaded = await store.load(ADA)
    assert loaded is not None
    history, model = History(loaded), Listening()
    compaction = Compaction(store=store, clock=SetClock(), redact=without_key)
    agent = Agent(name="ada", description="d", instruction="i")
    await compaction.compact(history, agent, model, last_seq=history.last_seq)
    assert len(model.told) > 3
    assert not any(in_part(text) for text in model.told)
    recall = Recall(store, SetClock(), without_key, memories=SqliteMemories(store), owner=Owner(lambda: False))
    for arguments in ({"query": "zebra"}, {"message": 2}, {"message": 2, "offset": 777}):
        found = await answered(recall, arguments)
        assert "To read on: recall with message 2 and offset" in found.content
        assert not in_part(found.content)
