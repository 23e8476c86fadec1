"""StepRecord: what one model request was built from. Written by engine/step_records, stored by store/steps."""

from hashlib import blake2b

from msgspec import Struct

from moot.domain.conversation import LoadedConversation
from moot.domain.message import Message


class Part(Struct, frozen=True):
    """A part of a request that many requests may share, identified by its digest. A parent is a part it depends on."""

    digest: bytes
    content: bytes
    parent: "Part | None" = None


def make_part(content: bytes, parent: Part | None = None) -> Part:
    return Part(blake2b(content + (parent.digest if parent else b""), digest_size=16).digest(), content, parent)


class StepRecord(Struct, frozen=True, kw_only=True):
    """One request: a range of the history, and the parts that are not in it.

    `head` has the model's parameters and the instructions, its parent the tools. `extra` has what was added for this
    request only. `changes` has the messages that were sent differently from how they are stored.
    """

    run_id: str
    step: int
    last_seq: int
    archive: int
    head: Part
    extra: Part | None = None
    changes: Part | None = None
    max_tokens: int | None = None


class StoredStep(Struct, frozen=True, kw_only=True):
    """A record as read from the store: the history at that time, each part after its parents, and the answer."""

    run_id: str
    step: int
    loaded: LoadedConversation
    head: tuple[bytes, ...]
    extra: tuple[bytes, ...]
    changes: tuple[bytes, ...]
    max_tokens: int | None
    # None if the answer was not kept: the step failed, was stopped, or its text was discarded.
    reply: Message | None
