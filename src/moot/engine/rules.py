"""Rules: calls that need no approval, kept in memory beside the store. Written by decisions (engine/asks.py)."""

from moot.domain.approval import Rule
from moot.domain.ask import Ask
from moot.domain.ports.store import RuleStore


class Rules:
    """The stored rules. They are few and checked before every call, so they are kept in memory."""

    def __init__(self, store: RuleStore) -> None:
        self._store = store
        self._rules: list[Rule] = []

    async def load(self) -> None:
        self._rules = await self._store.load()

    def all(self) -> list[Rule]:
        return list(self._rules)

    def allow(self, ask: Ask, *, exactly: bool = False) -> bool:
        """Whether a rule approves the call; with `exactly`, only rules for exactly this call count."""
        return any(rule.allows(ask, exactly=exactly) for rule in self._rules)

    def grant(self, ask: Ask) -> bool:
        """Whether a rule grants the requested tool."""
        return any(rule.grants(ask) for rule in self._rules)

    async def delete(self, number: int) -> None:
        await self._store.delete(number)
        await self.load()
