"""The auto-approve dial: which calls are approved without asking a person. Used by hooks/approval.py. Pure.

It is set in the front matter of an agent, or for one conversation (engine/modes.py). It answers what a mode or the
policy `all` would ask, and nothing else: see docs/approvals.md.
"""

from enum import StrEnum

from moot.domain.errors import BadRequest
from moot.domain.mode import ConversationMode
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.safety import Reach

# Tools for secrets and keys, which no level covers.
_SECRET_GROUPS = ("secrets", "crypto")
_EDIT_GROUP = "fs"


class AutoApproveLevel(StrEnum):
    """From the strictest to the widest; each includes those before it. Text for a person is in LEVEL_MEANINGS."""

    NONE = "none"
    READS = "reads"
    EDITS = "edits"
    COMMANDS = "commands"

    @property
    def rank(self) -> int:
        return list(AutoApproveLevel).index(self)


LEVEL_MEANINGS = {
    AutoApproveLevel.NONE: "nothing is approved automatically",
    AutoApproveLevel.READS: "calls that only read, change the agent's own tasks and notes, or start other runs",
    AutoApproveLevel.EDITS: "reads, edits below the working directory that can be undone, and other moderate tools",
    AutoApproveLevel.COMMANDS: "edits, and ordinary sandboxed commands without network access",
}

# What `auto_approve: true` means: all that it approves can be undone.
LEVEL_OF_TRUE = AutoApproveLevel.EDITS


def parse_level(text: str) -> AutoApproveLevel:
    try:
        return AutoApproveLevel(text)
    except ValueError:
        raise BadRequest(f"{text!r} is not a level", fix=f"Use {', '.join(AutoApproveLevel)}.") from None


def resolve_level(
    own: str, mode: ConversationMode, *, of_agent: AutoApproveLevel | None, of_speaker: AutoApproveLevel | None
) -> AutoApproveLevel:
    """Return the level that applies to a call.

    `own` was set for the conversation. Otherwise that of its agent applies, unless a person has set the mode of the
    conversation. A teammate that states a level can only have a stricter one. An unknown stored word counts as none.
    """
    if own:
        level = AutoApproveLevel(own) if own in list(AutoApproveLevel) else AutoApproveLevel.NONE
    else:
        level = of_agent if of_agent is not None and mode.own is None else AutoApproveLevel.NONE
    return level if of_speaker is None else min(level, of_speaker, key=lambda each: each.rank)


def find_needed_level(spec: ToolSpec, reach: Reach | None) -> AutoApproveLevel | None:
    """Return the lowest level that covers a call; None if no level does.

    What the call reaches is known from its tool; a call of a dangerous tool that reaches anything else is not covered.
    """
    if spec.sinks or spec.group in _SECRET_GROUPS or (reach is not None and reach.destroys):
        return None
    if spec.safety is Safety.SAFE or spec.reads_only:
        return AutoApproveLevel.READS
    if spec.safety is Safety.MODERATE or (reach is not None and reach.is_undoable):
        return AutoApproveLevel.EDITS
    return AutoApproveLevel.COMMANDS if reach is not None and reach.is_sandboxed else None


def find_tool_level(spec: ToolSpec, *, reaches: bool) -> AutoApproveLevel | None:
    """Return the lowest level that can cover calls of a tool. `reaches` says whether it knows what a call reaches."""
    is_edit = spec.group == _EDIT_GROUP
    return find_needed_level(spec, Reach(is_undoable=is_edit, is_sandboxed=not is_edit) if reaches else None)
