"""The result of a call that was left without one when its run stopped. Used by engine, store and recovery. Pure."""

from moot.domain.message import Message, tool_result

UNKNOWN = "This call was interrupted; it is not known whether it took effect. It was not run again."
NOT_EXECUTED = "This call was not executed: the run stopped before it was approved and begun."
HARMLESS = "This call was interrupted before it had a result; making it again does no harm."


def is_interrupted(content: str) -> bool:
    """Whether this is the result of a call that was left without one."""
    return content in (UNKNOWN, NOT_EXECUTED, HARMLESS)


def close_call(call_id: str, *, is_begun: bool = True, is_harmless: bool = False) -> Message:
    """Return a result for a call that has none. `is_begun` is whether it may have been executed."""
    text = UNKNOWN if is_begun else NOT_EXECUTED
    return tool_result(call_id, HARMLESS if is_harmless else text, is_error=True)
