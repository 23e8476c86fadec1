"""A mode that all conversations have, for hooks that are tested without a daemon."""

from moot.domain.auto_approve import AutoApproveLevel
from moot.domain.conversation import ConversationKey
from moot.domain.mode import ConversationMode, Mode


class FixedMode:
    def __init__(
        self, mode: Mode = Mode.ASK, *, is_chosen: bool = False, level: AutoApproveLevel = AutoApproveLevel.NONE
    ) -> None:
        self.level = level
        self.mode = mode
        self._is_chosen = is_chosen

    async def find_auto_approve(self, _key: ConversationKey, _speaker: str) -> AutoApproveLevel:
        return self.level

    async def find(self, _key: ConversationKey) -> ConversationMode:
        return ConversationMode(mode=self.mode, is_chosen=self._is_chosen)
