"""Token counts as protocol messages. Used by `events`. No I/O."""

from moot.domain.usage import Usage
from moot.wire import moot_pb2 as pb

_UINT32_MAX = 0xFFFF_FFFF
_NONE = Usage()


def token_usage(usage: Usage) -> pb.TokenUsage | None:
    """None where no model reported any."""
    if usage == _NONE:
        return None
    prompt, completion = _fit(usage.prompt), _fit(usage.completion)
    counted = pb.TokenUsage(prompt=prompt, completion=completion, total=min(prompt + completion, _UINT32_MAX))
    if usage.cache_hit > 0:
        counted.cache_hit = _fit(usage.cache_hit)
    if usage.cache_miss > 0:
        counted.cache_miss = _fit(usage.cache_miss)
    if usage.reasoning > 0:
        counted.reasoning = _fit(usage.reasoning)
    return counted


def _fit(count: int) -> int:
    return min(max(0, count), _UINT32_MAX)
