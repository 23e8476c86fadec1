"""Usage and cost of model calls."""

from msgspec import Struct


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
