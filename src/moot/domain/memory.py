"""Memories of an agent about one sender, and how useful each is. Pure."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from math import log2

from msgspec import Struct

from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest
from moot.domain.senders import RUN_SENDERS, owner_of

KEY_LENGTH = 200
CONTENT_LENGTH = 16_384
TAG_LENGTH = 64
MOST_TAGS = 16
HALF_LIFE_DAYS = 30.0
# Preferences that are shown whatever a message is about.
_STANDING = 3
# A match is shown if it is at least this good, compared with the best one.
_WORTH_SHOWING = 0.3
_DAY = 86_400.0


class MemoryKind(StrEnum):
    PATTERN = "pattern"
    PREFERENCE = "preference"
    FACT = "fact"
    SKILL = "skill"


class Memory(Struct, frozen=True, kw_only=True):
    """One memory of an agent. `taint` names the sources of untrusted text it may contain."""

    key: str
    content: str
    kind: MemoryKind = MemoryKind.FACT
    tags: tuple[str, ...] = ()
    confidence: float = 0.5
    taint: frozenset[str] = frozenset()
    uses: int = 0
    created_at: float = 0.0
    updated_at: float = 0.0
    used_at: float = 0.0


def find_memory_owner(
    speaker: str, key: ConversationKey, asks_in: ConversationKey, *, is_lasting: bool
) -> ConversationKey:
    """Return the owner of a run's memories: its agent, together with the sender it talks to.

    The sender of a teammate is a run. Its memories are deleted with that run's conversation, or, if they are lasting,
    belong to the person the run works for.
    """
    is_run = key.sender.startswith(RUN_SENDERS)
    return ConversationKey(speaker, owner_of(asks_in.sender) if is_run and is_lasting else key.sender)


def clamp(confidence: float) -> float:
    return min(1.0, max(0.0, float(confidence)))


def kind_of(name: str) -> MemoryKind:
    try:
        return MemoryKind(name)
    except ValueError:
        raise BadRequest(f"{name!r} is not a kind of memory", fix=f"Kinds are: {', '.join(MemoryKind)}.") from None


def check_sizes(key: str, content: str, tags: Sequence[str]) -> None:
    if len(key) > KEY_LENGTH:
        raise BadRequest(f"the key has {len(key)} characters", fix=f"At most {KEY_LENGTH} are kept.")
    if len(content) > CONTENT_LENGTH:
        raise BadRequest(f"the memory has {len(content)} characters", fix=f"Say it in {CONTENT_LENGTH} or fewer.")
    if len(tags) > MOST_TAGS or any(len(tag) > TAG_LENGTH for tag in tags):
        raise BadRequest("there are too many tags, or one is too long", fix=f"At most {MOST_TAGS} of {TAG_LENGTH}.")


def usefulness(memory: Memory, now: float) -> float:
    """Return the weight of a memory, from 0.25 to 2, by confidence, recency and use.

    Each factor varies by at most two, so that none of them hides a memory whose text matches well.
    """
    age = max(0.0, now - max(memory.updated_at, memory.used_at)) / _DAY
    recency = 0.5 + 0.5 * 0.5 ** (age / HALF_LIFE_DAYS)
    frequency = 1.0 + min(1.0, log2(1 + memory.uses) / 6)
    return float((0.5 + 0.5 * memory.confidence) * recency * frequency)


def choose_helpful(
    matches: Iterable[tuple[float, Memory]], preferences: Iterable[Memory], *, limit: int, now: float
) -> list[Memory]:
    """Return the memories to show for a message: a few preferences, which hold always, and what matches its words.

    A preference from untrusted text is shown only if it matches, since its taint comes with it.
    """
    trusted = (memory for memory in preferences if not memory.taint)
    standing = sorted(trusted, key=lambda memory: (-usefulness(memory, now), memory.key))[: min(_STANDING, limit)]
    ranked = sorted(
        ((score * usefulness(memory, now), memory) for score, memory in matches),
        key=lambda match: (-match[0], match[1].key),
    )
    least = _WORTH_SHOWING * ranked[0][0] if ranked else 0.0
    found = {memory.key: memory for memory in standing}
    for score, memory in ranked:
        if score >= least and len(found) < limit:
            found.setdefault(memory.key, memory)
    return list(found.values())
