"""Usage and cost of model calls."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from msgspec import Struct

# More than any request has. Sums of millions of such counts still fit into a number of the store.
MOST_TOKENS = 2**40


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


def read_counts(*reported: int | None) -> list[int]:
    """Return numbers of tokens as a provider reported them, which may be any numbers, within bounds."""
    return [min(max(0, count or 0), MOST_TOKENS) for count in reported]


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


class Need(Struct, frozen=True, kw_only=True):
    """The most one model call may use: estimated prompt tokens, maximum reply tokens, and the price function."""

    prompt: int = 0
    reply: int = 0
    price: Callable[[Usage], float] = lambda _usage: 0.0


class Reservation(Protocol):
    """What is reserved for one model call outside steps."""

    @property
    def reply(self) -> int:
        """The maximum number of reply tokens; at most those that were asked for."""
        ...

    def settle(self, usage: Usage, cost: float) -> None:
        """Count what the call used; `cost` is in US dollars."""
        ...


class _Unlimited(Struct, frozen=True):
    reply: int

    def settle(self, usage: Usage, cost: float) -> None:
        """Do nothing: there is no budget."""


@asynccontextmanager
async def _reserve_unlimited(need: Need) -> AsyncIterator[Reservation]:
    yield _Unlimited(need.reply)


class Charge(Struct, frozen=True, kw_only=True):
    """The budget that a model call outside steps counts against: that of a tree of runs, or none."""

    # The root run of the tree; empty if the call belongs to no run.
    root_id: str = ""
    # Whether money is limited, so that a call needs a known price.
    limits_spend: bool = False
    # Waits while other calls hold what this one needs. What is not settled is released at the end of the context.
    # Raises ModelError if the limits leave no room.
    reserve: Callable[[Need], AbstractAsyncContextManager[Reservation]] = _reserve_unlimited


NO_CHARGE = Charge()
