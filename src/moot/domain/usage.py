"""Usage and cost of model calls."""

from collections.abc import Callable

from msgspec import Struct

from moot.domain.errors import ModelError


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one or more model calls; the last three are parts of the first two."""

    prompt: int = 0
    completion: int = 0
    cache_hit: int = 0
    cache_miss: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        return self.prompt + self.completion

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            prompt=self.prompt + other.prompt,
            completion=self.completion + other.completion,
            cache_hit=self.cache_hit + other.cache_hit,
            cache_miss=self.cache_miss + other.cache_miss,
            reasoning=self.reasoning + other.reasoning,
        )


class RunUsage(Struct, frozen=True, kw_only=True):
    """What a run, or a tree of runs, has used. `seconds` excludes the time spent waiting for people."""

    steps: int = 0
    usage: Usage = Usage()
    cost: float = 0.0
    seconds: float = 0.0
    # The tool calls that were really made, without those that were refused or denied.
    tool_uses: int = 0


class UsageRow(Struct, frozen=True, kw_only=True):
    """The total usage of one conversation, or of one (agent, model) in it."""

    agent: str
    sender: str
    model: str
    runs: int
    usage: Usage
    cost: float
    # If used as a teammate: the agent of the conversation (with the same sender) that it worked for.
    root: str = ""


def _count_nothing(_usage: Usage, _cost: float) -> None:
    pass


class Charge(Struct, frozen=True, kw_only=True):
    """The budget that a model call outside steps counts against: that of a tree of runs, or none."""

    # The root run of the tree; empty if the call belongs to no run.
    root_id: str = ""
    # Told the tokens and the cost in US dollars.
    count: Callable[[Usage, float], object] = _count_nothing
    # Whether the limits leave room for another call.
    has_room: Callable[[], bool] = lambda: True

    def require_room(self) -> None:
        if not self.has_room():
            raise ModelError(
                "the limits of this turn leave no room for another model call",
                fix="Raise `tokens` or `spend` in [budget], or do it in another turn.",
            )


NO_CHARGE = Charge()
