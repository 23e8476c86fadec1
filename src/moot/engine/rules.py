"""Rules: calls that need no approval, cached from the store. Written by decisions (engine/asks.py)."""

from moot.domain.approval import Rule
from moot.domain.ask import Ask
from moot.domain.ports.store import RuleStore


class Rules:
    """The only cache of the stored rules: they are few and checked before many calls.

    Whoever changes a rule in the store calls `invalidate`; so does whoever learns that another daemon has changed one.
    """

    def __init__(self, store: RuleStore) -> None:
        self._store = store
        self._cached: list[Rule] | None = None
        # The number of invalidations: what was read before the last one is not kept.
        self._version = 0

    def invalidate(self) -> None:
        """Drop the cached rules. The next check reads them from the store."""
        self._version += 1
        self._cached = None

    async def read(self) -> list[Rule]:
        """Return the rules as they are stored now."""
        self.invalidate()
        return list(await self._load())

    async def find(self, ask: Ask, *, exactly: bool = False) -> Rule | None:
        """Return a rule that approves the call; with `exactly`, only rules for exactly this call count."""
        return next((rule for rule in await self._load() if rule.allows(ask, exactly=exactly)), None)

    async def grant(self, ask: Ask) -> bool:
        """Whether a rule grants the requested tool."""
        return any(rule.grants(ask) for rule in await self._load())

    async def delete(self, number: int) -> None:
        await self._store.delete(number)
        self.invalidate()

    async def _load(self) -> list[Rule]:
        while (rules := self._cached) is None:
            version = self._version
            loaded = await self._store.load()
            if version == self._version:
                self._cached = loaded
        return rules
