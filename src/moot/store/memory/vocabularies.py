"""Vocabularies of agents, in memory. Built by storage.py."""

from moot.domain.vocabulary import Vocabulary
from moot.store.memory.database import Database, check_text
from moot.store.memory.transactions import Transactions


class MemoryVocabularies:
    def __init__(self, transactions: Transactions) -> None:
        self._read, self._write = transactions.read, transactions.write

    async def list_all(self) -> list[Vocabulary]:
        return await self._read(lambda db: sorted(db.vocabularies, key=lambda vocabulary: vocabulary.agent))

    async def save(self, vocabulary: Vocabulary) -> None:
        await self._write(lambda db: _save(db, vocabulary))

    async def remove(self, agent: str) -> bool:
        return await self._write(lambda db: db.vocabularies.remove(agent))


def _save(db: Database, vocabulary: Vocabulary) -> None:
    check_text(vocabulary.agent, vocabulary.digest, vocabulary.model)
    for each in vocabulary.phrases:
        check_text(each.language, *each.words, *each.requests)
    db.vocabularies.put(vocabulary.agent, vocabulary)
