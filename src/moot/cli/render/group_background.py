"""Groups the conversations of background runs by agent for lists. Pure."""

from collections.abc import Iterable

from moot.cli.render import numbers
from moot.domain.senders import OWNED_SENDERS, owner_of
from moot.wire import moot_pb2 as pb

_BESIDE = " (background)"


def group_conversations(found: Iterable[pb.ConversationInfo]) -> list[pb.ConversationInfo]:
    """Merge the conversations of background runs to one per agent and owner, dated by the newest."""
    folded: dict[tuple[str, str], pb.ConversationInfo] = {}
    counts: dict[tuple[str, str], int] = {}
    for info in found:
        key = info.agent, _group_key(info.sender)
        counts[key] = counts.get(key, 0) + 1
        if key not in folded:
            folded[key] = pb.ConversationInfo()
            folded[key].CopyFrom(info)
            folded[key].sender = key[1]
            continue
        into = folded[key]
        into.message_count += info.message_count
        into.archives += info.archives
        into.running = into.running or info.running
        into.updated_at = max(into.updated_at, info.updated_at)
        into.taint = ", ".join(sorted({*_taint_reasons(into.taint), *_taint_reasons(info.taint)}))
    for (_, sender), info in folded.items():
        if sender.endswith(_BESIDE):
            info.title = numbers.format_plural(counts[info.agent, sender], "run")
    return list(folded.values())


def group_usage(found: Iterable[pb.UsageInfo]) -> list[pb.UsageInfo]:
    """Merge the usage of background runs to one sum per agent, owner and model."""
    folded: dict[tuple[str, str, str, str], pb.UsageInfo] = {}
    for info in found:
        key = info.agent, info.root_agent, _group_key(info.sender), info.model
        if key not in folded:
            folded[key] = pb.UsageInfo(agent=info.agent, root_agent=info.root_agent, sender=key[2], model=info.model)
        into = folded[key]
        for name in ("runs", "prompt", "completion", "cache_hit", "reasoning", "cost"):
            setattr(into, name, getattr(into, name) + getattr(info, name))
    return list(folded.values())


def _group_key(sender: str) -> str:
    return f"{owner_of(sender)}{_BESIDE}" if sender.startswith(OWNED_SENDERS) else sender


def _taint_reasons(taint: str) -> list[str]:
    return [each for each in taint.split(", ") if each]
