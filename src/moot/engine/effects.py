"""Which tools of a run change something. Used by the toolbox and by the end of a run. Pure."""

from collections.abc import Mapping

from moot.domain.approval import COMMANDS
from moot.domain.ports.tool import Tool
from moot.domain.prompt import Safety
from moot.domain.scope import ASSISTANT, CONTINUE, CONTROL, OWN_MEMORY, SHARED, SPAWN, TEAMMATE, only

# The tools of a run that are not for the task itself: for the conversation, the team and what the agent remembers.
_HELPING = only(*SHARED, *CONTROL, *TEAMMATE, *ASSISTANT, *OWN_MEMORY)
# Those of them that give a task to a teammate.
_DELEGATING = frozenset({SPAWN, CONTINUE})


class Effects:
    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools

    def may_change(self, name: str) -> bool:
        """Whether a successful call of the tool may change something besides the team."""
        tool = self._tools.get(name)
        if tool is None or name in CONTROL:
            return False
        return tool.spec.safety is not Safety.SAFE and not tool.spec.reads_only

    def is_missed(self, name: str) -> bool:
        """Whether a call of the tool that was not executed leaves something undone: a change, what was to be read, or
        a task that was to be given to a teammate.

        Not a call that only helps with an answer, such as one of `recall`: without it the answer may be complete.
        """
        return name not in self._tools or name in _DELEGATING or self.may_change(name) or not _HELPING.allows(name)

    def always_changes(self, name: str) -> bool:
        """Whether every successful call of the tool changes something. Commands and added tools may only read."""
        return self.may_change(name) and name not in COMMANDS and not self._tools[name].spec.added


NO_EFFECTS = Effects({})
