"""Token counts as protocol messages. Used by `events`. No I/O."""

from moot.domain.usage import Usage
from moot.wire import moot_pb2 as pb

_UINT32_MAX = 0xFFFF_FFFF
_NONE = Usage()


def token_usage(usage: Usage) -> pb.TokenUsage | None:
    """None where no model reported any."""
    if usage == _NONE:
        return None
    prompt, completion = min(max(0, usage.prompt), _UINT32_MAX), min(max(0, usage.completion), _UINT32_MAX)
    counted = pb.TokenUsage(prompt=prompt, completion=completion, total=min(prompt + completion, _UINT32_MAX))
    if usage.cache_hit > 0:
        counted.cache_hit = min(usage.cache_hit, _UINT32_MAX)
    if usage.cache_miss > 0:
        counted.cache_miss = min(usage.cache_miss, _UINT32_MAX)
    if usage.reasoning > 0:
        counted.reasoning = min(usage.reasoning, _UINT32_MAX)
    return counted
