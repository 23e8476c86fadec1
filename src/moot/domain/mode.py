"""Modes: how much an agent may do before a person is asked. Used by the hooks and engine/modes.py. Pure."""

from enum import StrEnum

from msgspec import Struct

from moot.domain.errors import BadRequest

FREE_WARNING = (
    "In mode free, dangerous calls are made without asking. Untrusted text, secrets, payments and doubtful commands"
    " still ask."
)


class Mode(StrEnum):
    """From the strictest to the widest. Text for a person is in MEANINGS."""

    PLAN = "plan"
    ASK = "ask"
    WORK = "work"
    FREE = "free"


MEANINGS = {
    Mode.PLAN: "reads only; anything that writes or executes is refused",
    Mode.ASK: "asks before every dangerous call",
    Mode.WORK: "ordinary sandboxed commands and edits below the working directory need no approval",
    Mode.FREE: "dangerous calls need no approval",
}

# How the error of a run begins in which mode plan refused every call.
PLAN_REFUSED = "Not called in mode plan"
_PLANNING = (
    "{name} was not called: the conversation is in mode plan, in which nothing is written or executed. Read what you"
    " need and describe what you would do; the person switches the mode to let you do it."
)

# The modes that a key switches between: the widest one is chosen by name only.
_SWITCHED = (Mode.PLAN, Mode.ASK, Mode.WORK)


class ConversationMode(Struct, frozen=True, kw_only=True):
    """The mode of a conversation. `is_chosen` if a person has set it, here or in the configuration."""

    mode: Mode
    is_chosen: bool = False
    # The mode that was set for this conversation; None if the configured one applies.
    own: Mode | None = None


def explain_plan(tool: str) -> str:
    """Return what a model is told about a call that mode plan refuses."""
    return _PLANNING.format(name=tool)


def parse_mode(text: str) -> Mode:
    try:
        return Mode(text)
    except ValueError:
        raise BadRequest(f"{text!r} is not a mode", fix=f"Use {', '.join(Mode)}.") from None


def narrow_mode(one: ConversationMode, other: ConversationMode) -> ConversationMode:
    """Return the stricter of two modes."""
    return min(one, other, key=lambda each: list(Mode).index(each.mode))


def next_mode(mode: Mode) -> Mode:
    """Return the mode that the key of a chat switches to."""
    return _SWITCHED[(_SWITCHED.index(mode) + 1) % len(_SWITCHED)] if mode in _SWITCHED else Mode.PLAN


def resolve_mode(own: str, configured: str, *, has_sandbox: bool) -> ConversationMode:
    """Return the mode that applies: the conversation's own, else the configured one, else the default.

    An unknown stored word, such as one of a later version, counts as the strictest mode that can ask.
    """
    if own:
        mode = Mode(own) if own in list(Mode) else Mode.ASK
        return ConversationMode(mode=mode, is_chosen=True, own=mode)
    if configured:
        return ConversationMode(mode=Mode(configured), is_chosen=True)
    return ConversationMode(mode=Mode.WORK if has_sandbox else Mode.ASK)
