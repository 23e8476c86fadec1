"""Decides whether and how a step ends a run. Pure."""

from collections import deque
from collections.abc import Sequence

from moot.domain.message import ToolCall
from moot.domain.mode import PLAN_REFUSED
from moot.domain.run import Outcome
from moot.domain.text import clean

REPEATS = 5
_LONGEST_CIRCLE = 3
_NAME = 64

# The calls of one step, by name and arguments.
Calls = tuple[tuple[str, str], ...]

# Outcomes of runs that ended by themselves.
SAID = (Outcome.COMPLETED, Outcome.EMPTY, Outcome.EMPTY_AFTER_TOOL_USE)


def judge(
    text: str, *, used_tools: bool, all_failed: bool = False, out_of_place: bool = False, has_messaged: bool = False
) -> Outcome:
    """Return the outcome of a step without tool calls.

    `all_failed`: all calls of the last step failed. `out_of_place`: the speaker may escalate its task, and every call
    it tried was of a tool of another agent. `has_messaged`: it has sent a message to the person, and need not say more.
    """
    if text.strip():
        return Outcome.ESCALATED if out_of_place else Outcome.COMPLETED
    if all_failed:
        return Outcome.TOOL_ERROR
    if has_messaged:
        return Outcome.COMPLETED
    return Outcome.EMPTY_AFTER_TOOL_USE if used_tools else Outcome.EMPTY


class Repetition:
    """Detects a run that repeats the same calls, or alternates between a few of them with the same results."""

    def __init__(self) -> None:
        self._steps: deque[tuple[Calls, Sequence[str]]] = deque(maxlen=REPEATS * _LONGEST_CIRCLE)

    def begin_anew(self) -> None:
        """Forget the earlier steps: time has passed, so the same calls may have different results."""
        self._steps.clear()

    def add_step(self, calls: Sequence[ToolCall], results: Sequence[str] = ()) -> bool:
        self._steps.append((tuple((call.name, call.arguments) for call in calls), tuple(results)))
        steps = list(self._steps)
        last = [made for made, _ in steps[-REPEATS:]]
        if len(last) == REPEATS and last.count(last[0]) == REPEATS:
            return True
        # Alternating between two calls is not a loop while their results change.
        return any(_is_circle(steps, length) for length in range(2, _LONGEST_CIRCLE + 1))


def _is_circle(steps: Sequence[tuple[Calls, Sequence[str]]], length: int) -> bool:
    last = steps[-REPEATS * length :]
    return len(last) == REPEATS * length and last[length:] == last[:-length]


_SENTENCES = {
    Outcome.EMPTY: "The model returned no text.",
    Outcome.EMPTY_AFTER_TOOL_USE: "The model used its tools and then returned no text.",
    Outcome.TOOL_ERROR: "The last tool calls failed, and the model returned no text.",
    Outcome.LOOP_DETECTED: f"The model made the same tool calls {REPEATS} times in a row; the run was stopped.",
    Outcome.CANCELLED: "The run was killed.",
    Outcome.INTERRUPTED: "The daemon stopped during this run.",
}


def explain_denial(denied: Sequence[str]) -> str:
    """Return one sentence about a run in which these calls were denied; empty if nobody could be asked."""
    if not denied:
        return "A tool call needed an approval and there was nobody to ask; it was not made."
    return f"Denied: {', '.join(denied)}. Nothing was changed."


def explain_failure(failed: Sequence[str]) -> str:
    """Return one sentence about a run that changed nothing, because these calls failed."""
    return f"Failed: {', '.join(failed)}. No other call changed anything."


def explain_unexecuted(called: Sequence[str]) -> str:
    """Return one sentence about a run whose only calls were not executed. Unknown names are the model's own text."""
    return f"Not executed: {', '.join(clean(name)[:_NAME] for name in called)}. Nothing was done."


def explain_mode(refused: Sequence[str]) -> str:
    """Return one sentence about a run in which mode plan refused these calls and no other call was made."""
    return f"{PLAN_REFUSED}: {', '.join(refused)}. Nothing was changed."


def explain(outcome: Outcome, *, limit: str = "") -> str:
    """Return one sentence for the user about an outcome that needs an explanation, else ""."""
    if limit == "idle_seconds":
        return "Nothing happened for as long as idle_seconds allows; the run was stopped."
    return f"The run reached its limit on {limit}." if limit else _SENTENCES.get(outcome, "")
