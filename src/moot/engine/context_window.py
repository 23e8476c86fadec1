"""Keeps model requests within the context window: compacts the primary's history, or shortens what one run sees.

Called by `loop` before each step, and after a model refused a request as too long. Works with `compaction`, `history`
and `turn_state`.
"""

import logging

from moot.domain.errors import Conflict, ModelError
from moot.domain.events import Compacted, CompactionStarted
from moot.domain.ports.traces import TraceNotes
from moot.domain.trace import TraceKind
from moot.engine.compaction import Compaction
from moot.engine.turn_state import TurnState

logger = logging.getLogger(__name__)

# The minimum share of a window for the conversation (one eighth), regardless of the length of instructions and tools.
_LEAST_SHARE = 8


class ContextWindow:
    def __init__(self, *, compaction: Compaction, notes: TraceNotes) -> None:
        self._compaction = compaction
        self._notes = notes

    async def fit(self, state: TurnState) -> None:
        """Prepare the history for the next request, and make the request fit.

        Only the primary's own turns compact the history; a guest gets a shortened view.
        """
        turn, state.view = state.turn, None
        await turn.history.prepare_large_texts()
        limit = self._limit(state)
        if not limit or state.estimate_tokens() < limit:
            return
        if not turn.request.guest:
            if not turn.config.compaction.auto:
                return
            if await self._compact(state) and state.estimate_tokens() < limit:
                return
        self._shorten(state, limit)

    async def fit_after_refusal(self, state: TurnState, error: ModelError) -> bool:
        """Whether to retry a request that was refused as too long; the retry is then shortened."""
        turn, config = state.turn, state.turn.config.compaction
        if not error.is_too_long or state.refused_tokens or not (config.auto or turn.request.guest):
            return False
        state.refused_tokens = state.estimate_tokens()
        self._note(state, action="refused", tokens=state.refused_tokens, window=turn.model.window)
        return True

    def _limit(self, state: TurnState) -> int:
        """Return the maximum tokens of a request that leave room for a reply; 0 if unknown."""
        limit = int(state.turn.model.window * state.turn.config.compaction.threshold)
        refused = state.refused_tokens
        if refused and (not limit or limit >= refused):
            # The window is smaller than assumed, or the model counts tokens differently.
            limit = max(1, refused // 2)
        return limit

    async def _compact(self, state: TurnState) -> bool:
        """Archive everything before the message of this turn. After a failure it is not tried again in this turn."""
        turn, history = state.turn, state.turn.history
        last_seq = history.last_user_seq() - 1
        if state.cannot_compact or last_seq <= history.archived_seq:
            return False
        turn.emit(CompactionStarted())
        try:
            archive = await self._compaction.compact(
                history, turn.primary, turn.model, last_seq=last_seq, charge=turn.charge
            )
        except (ModelError, Conflict) as error:
            logger.warning("automatic compaction of %s failed: %s", history.key, error)
            state.cannot_compact = True
            return False
        turn.emit(Compacted(archive.number, archive.title))
        return True

    def _shorten(self, state: TurnState, limit: int) -> None:
        turn = state.turn
        estimated, fixed = state.estimate_text_tokens(), state.estimate_fixed_tokens()
        # If the provider counted more tokens than were estimated, reduce the room in proportion.
        scale = min(1.0, estimated / max(1, state.estimate_tokens()))
        room = max(limit // _LEAST_SHARE, int(limit * scale) - fixed)
        state.view = turn.history.shorten(with_tools=bool(state.specs), room=room, redact=self._compaction.redact)
        if state.view is None:
            return
        state.was_shortened = True
        self._note(state, action="shortened", tokens=state.estimate_tokens(), window=turn.model.window)

    def _note(self, state: TurnState, **what: object) -> None:
        request = state.turn.request
        self._notes.note(request.id, TraceKind.CONTEXT, request.speaker, **what)
