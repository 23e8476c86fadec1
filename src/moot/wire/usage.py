"""Token counts as protocol messages. Used by `events`. No I/O."""

from moot.domain.usage import Usage
from moot.wire import moot_pb2 as pb

_UINT32_MAX = 0xFFFF_FFFF


def token_usage(usage: Usage) -> pb.TokenUsage | None:
    """None where no model reported any."""
    if usage == Usage():
        return None
    prompt, completion, hit, miss, reasoning = [
        value if 0 <= value <= _UINT32_MAX else min(max(0, value), _UINT32_MAX)
        for value in (usage.prompt, usage.completion, usage.cache_hit, usage.cache_miss, usage.reasoning)
    ]
    return pb.TokenUsage(
        prompt=prompt,
        completion=completion,
        total=min(prompt + completion, _UINT32_MAX),
        cache_hit=hit or None,
        cache_miss=miss or None,
        reasoning=reasoning or None,
    )
