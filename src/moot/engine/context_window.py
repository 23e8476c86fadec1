"""Keeps model requests within the context window: compacts the primary's history, or shortens what one run sees.

Called by `loop` before each step, and after a model refused a request as too long. Works with `compaction`, `history`
and `sitting`.
"""

import logging
from collections.abc import Callable

from moot.domain.config import Config
from moot.domain.errors import Conflict, ModelError
from moot.domain.events import Compacted
from moot.domain.trace import Notes, TraceKind
from moot.engine.compaction import Compaction
from moot.engine.sitting import Sitting
from moot.engine.turn import Turn

logger = logging.getLogger(__name__)

# The smallest part of a window that is left to the conversation, however long instructions and tools are.
_LEAST_SHARE = 8


class ContextWindow:
    def __init__(self, *, compaction: Compaction, config: Callable[[], Config], notes: Notes) -> None:
        self._compaction = compaction
        self._config = config
        self._notes = notes

    async def fit(self, sitting: Sitting) -> None:
        """Make the next request fit. The history is archived by and for its primary alone; others see less of it."""
        turn, sitting.view = sitting.turn, None
        limit = self._limit(sitting)
        if not limit or sitting.estimate_tokens() < limit:
            return
        if not turn.request.guest:
            if not self._config().compaction.auto:
                return
            if await self._compact(turn) and sitting.estimate_tokens() < limit:
                return
        self._shorten(sitting, limit)

    async def fit_after_refusal(self, sitting: Sitting, error: ModelError) -> bool:
        """Whether the request should be made once more because it was too long; it is made shorter then."""
        turn, config = sitting.turn, self._config().compaction
        if not error.is_too_long or sitting.refused_tokens or not (config.auto or turn.request.guest):
            return False
        sitting.refused_tokens = sitting.estimate_tokens()
        self._note(sitting, action="refused", tokens=sitting.refused_tokens, window=turn.model.window)
        if not turn.request.guest:
            await self._compact(turn)
        return True

    def _limit(self, sitting: Sitting) -> int:
        """The tokens a request may take so that there is room for a reply; 0 where that is not known."""
        limit = int(sitting.turn.model.window * self._config().compaction.threshold)
        refused = sitting.refused_tokens
        if refused and (not limit or limit >= refused):
            # The model has less room than was thought, or counts differently.
            limit = max(1, refused // 2)
        return limit

    async def _compact(self, turn: Turn) -> bool:
        """Archive what came before the message of this turn."""
        history = turn.history
        last_seq = history.last_user_seq() - 1
        if not history.entries or history.entries[0].seq > last_seq:
            return False
        try:
            archive = await self._compaction.compact(history, turn.primary, turn.model, last_seq=last_seq)
        except (ModelError, Conflict) as error:
            logger.warning("automatic compaction of %s failed: %s", history.key, error)
            return False
        turn.purse.count(archive.usage, archive.cost)
        turn.emit(Compacted(archive.number, archive.title))
        return True

    def _shorten(self, sitting: Sitting, limit: int) -> None:
        turn = sitting.turn
        estimated, fixed = sitting.estimate_text_tokens(), sitting.estimate_fixed_tokens()
        # Where a provider counted more tokens than were estimated, the room is smaller by as much.
        scale = min(1.0, estimated / max(1, sitting.estimate_tokens()))
        room = max(limit // _LEAST_SHARE, int(limit * scale) - fixed)
        sitting.view = turn.history.shorten(with_tools=bool(sitting.specs), room=room, redact=self._compaction.redact)
        sitting.was_shortened = True
        self._note(sitting, action="shortened", tokens=sitting.estimate_tokens(), window=turn.model.window)

    def _note(self, sitting: Sitting, **what: object) -> None:
        request = sitting.turn.request
        self._notes.note(request.id, TraceKind.CONTEXT, request.speaker, **what)
