"""KnowledgeSaver hook: stores the results of reading tools for later search."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec.structs import replace

from moot.domain.knowledge import Knowledge, KnowledgeCategory, make_result_key
from moot.domain.knowledge_config import READING_STORES, KnowledgeConfig
from moot.domain.output import is_binary, shorten
from moot.domain.ports.clock import Clock
from moot.domain.ports.hook import GateCall, Proceed
from moot.domain.ports.knowledge import KnowledgeStore
from moot.domain.ports.tool import ToolResult
from moot.domain.prompt import Sink, ToolSpec
from moot.domain.secret import LONGEST_SECRET
from moot.domain.senders import owner_of
from moot.hooks.backlog import Backlog, Later

# Room for the note that says what was left out.
_NOTICE = 100
# Redaction takes time, so batches are small.
_BATCH = 8

logger = logging.getLogger(__name__)


class KnowledgeSaver:
    """Stores successful results of tools that only read: shortened, redacted, and with their taint."""

    name = "KnowledgeSaver"
    phase = "post-execute"

    def __init__(
        self,
        *,
        knowledge: KnowledgeStore,
        config: Callable[[], KnowledgeConfig],
        later: Later,
        clock: Clock,
        redact: Callable[[str], str],
    ) -> None:
        self._config = config
        self._clock = clock
        writer = _KnowledgeWriter(knowledge, config, redact)
        self._backlog: Backlog[Knowledge] = Backlog("knowledge", writer.write, later, batch=_BATCH)
        self._counts: Counter[str] = Counter()

    def counts(self) -> dict[str, int]:
        return {**self._counts, **self._backlog.counts()}

    async def __call__(self, call: GateCall, proceed: Proceed) -> ToolResult:
        result = await proceed(call)
        try:
            if _is_worth_keeping(call.tool.spec, result, self._config()):
                self._counts["saved"] += 1
                self._backlog.put(self._build_knowledge(call, result))
        except Exception:
            logger.exception("a result of %s was not stored", call.tool.spec.name)
        return result

    def _build_knowledge(self, call: GateCall, result: ToolResult) -> Knowledge:
        tool, context = call.tool.spec.name, call.context
        own = frozenset({call.tool.spec.taint} if call.tool.spec.taint else ())
        # The results of a teammate are kept for the person that its run works for.
        owner = owner_of(context.asks_in.sender)
        return Knowledge(
            owner=owner,
            agent=context.speaker,
            key=make_result_key(context.speaker, owner, tool),
            category=KnowledgeCategory.FACT,
            # Far more than is kept, so that a secret that is cut in two here is in the part that is dropped.
            content=shorten(result.content, 2 * self._config().max_characters + 6 * LONGEST_SECRET)[0],
            tags=("tool_result", tool),
            source=f"tool:{tool}",
            taint=result.taint | own,
            created_at=self._clock.now(),
            origin=context.asks_in,
        )


class _KnowledgeWriter:
    """Redacts, shortens and writes results."""

    def __init__(
        self, knowledge: KnowledgeStore, config: Callable[[], KnowledgeConfig], redact: Callable[[str], str]
    ) -> None:
        self._knowledge = knowledge
        self._config = config
        self._redact = redact

    async def write(self, items: Sequence[Knowledge]) -> None:
        config = self._config()
        most = config.max_characters
        kept = [
            replace(item, content=shorten(redacted, max(1, most - _NOTICE))[0][:most])
            for item in items
            # Redacting a long list of addresses takes time, so it runs on another thread.
            for redacted in [await asyncio.to_thread(self._redact, item.content)]
        ]
        await self._knowledge.keep_results(kept, versions=config.versions)


def _is_worth_keeping(spec: ToolSpec, result: ToolResult, config: KnowledgeConfig) -> bool:
    if result.is_error or not result.content.strip() or Sink.SECRETS in spec.sinks:
        return False
    if _matches_any(spec.name, READING_STORES):
        return False
    return _matches_any(spec.name, config.reading_tools) and not is_binary(result.content)


@lru_cache(maxsize=512)
def _matches_any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
