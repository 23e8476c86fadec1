"""The completion contract: how a step ends a run, or does not. Pure."""

from collections.abc import Sequence

from moot.domain.message import ToolCall
from moot.domain.run import Limits, Outcome
from moot.domain.usage import Usage

REPEATS = 5

# How a run ends that came to its end by itself.
SAID = (Outcome.COMPLETED, Outcome.EMPTY, Outcome.EMPTY_AFTER_TOOL_USE)


def judge(text: str, *, used_tools: bool) -> Outcome:
    """The outcome of a step without tool calls."""
    if text.strip():
        return Outcome.COMPLETED
    return Outcome.EMPTY_AFTER_TOOL_USE if used_tools else Outcome.EMPTY


def exceeded(limits: Limits, *, steps: int, usage: Usage, cost: float) -> str:
    """The name of the limit that leaves no room for another step, or nothing."""
    if limits.steps is not None and steps >= limits.steps:
        return "steps"
    if limits.tokens is not None and usage.total >= limits.tokens:
        return "tokens"
    if limits.spend is not None and cost >= limits.spend:
        return "spend"
    return ""


class Repetition:
    """Notices a run that makes the same calls again and again."""

    def __init__(self) -> None:
        self._last: tuple[tuple[str, str], ...] = ()
        self._times = 0

    def seen(self, calls: Sequence[ToolCall]) -> bool:
        signature = tuple((call.name, call.arguments) for call in calls)
        self._times = self._times + 1 if signature == self._last else 1
        self._last = signature
        return self._times >= REPEATS


def explain(outcome: Outcome, *, limit: str = "") -> str:
    """One sentence for a person on an outcome that is not its own explanation."""
    match outcome:
        case Outcome.EMPTY:
            return "The model had nothing to say."
        case Outcome.EMPTY_AFTER_TOOL_USE:
            return "The model used its tools and then said nothing."
        case Outcome.LOOP_DETECTED:
            return f"The same tool calls came {REPEATS} times in a row; the run was stopped."
        case Outcome.LIMIT | Outcome.TIMEOUT:
            return f"The run reached its limit on {limit}."
        case Outcome.DENIED:
            return "A tool call needed an approval and there was nobody to ask; it was not made."
        case Outcome.CANCELLED:
            return "The run was killed."
        case Outcome.INTERRUPTED:
            return "The daemon stopped while this run was going on."
        case _:
            return ""
