"""The port for the vocabularies of agents. Implemented in store/vocabularies.py and store/memory/vocabularies.py."""

from typing import Protocol

from moot.domain.vocabulary import Vocabulary


class VocabularyStore(Protocol):
    """The vocabularies of agents, one for each name. They belong to the daemon."""

    async def list_all(self) -> list[Vocabulary]:
        """Return all by agent. One that cannot be decoded is left out: it can be written again."""
        ...

    async def save(self, vocabulary: Vocabulary) -> None:
        """Store a vocabulary in place of the agent's earlier one."""
        ...

    async def remove(self, agent: str) -> bool:
        """Remove the agent's vocabulary; return whether there was one."""
        ...
