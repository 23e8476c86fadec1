"""A mode that all conversations have, for hooks that are tested without a daemon."""

from moot.domain.auto_approve import AutoApproveLevel
from moot.domain.mode import ConversationMode, Mode
from moot.domain.ports.tool import RunContext


class FixedMode:
    def __init__(
        self, mode: Mode = Mode.ASK, *, is_chosen: bool = False, level: AutoApproveLevel = AutoApproveLevel.NONE
    ) -> None:
        self.level = level
        self.mode = mode
        self._is_chosen = is_chosen

    async def find_level_of_run(self, _context: RunContext) -> AutoApproveLevel:
        return self.level

    async def find_of_run(self, _context: RunContext) -> ConversationMode:
        return ConversationMode(mode=self.mode, is_chosen=self._is_chosen)
