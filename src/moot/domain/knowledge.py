"""Knowledge: what agents and people save to be found again, in versions, each entry owned by a sender. Pure."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest
from moot.domain.near_names import suggest_name
from moot.domain.text import normalize_name

KEY_LENGTH = 200
CONTENT_LENGTH = 16_384
SOURCE_LENGTH = 500
TAG_LENGTH = 64
MOST_TAGS = 16
# Saved entries of one owner, and kept versions of each.
MOST_ENTRIES = 20_000
MOST_VERSIONS = 100
RESULT_KEY = "tool_result:"


class KnowledgeCategory(StrEnum):
    RULE = "rule"
    DEFINITION = "definition"
    PREFERENCE = "preference"
    FACT = "fact"
    PATTERN = "pattern"
    CORRECTION = "correction"


class SourceClass(StrEnum):
    """Whether an entry may be given to others."""

    PUBLIC = "public"
    USER_EXPORTABLE = "user-exportable"
    PRIVATE_CONFIDENTIAL = "private-confidential"


class TemporalTag(StrEnum):
    """Whether an entry stays true, or is about how things are now. Every saved entry has one of these tags."""

    EVERGREEN = "evergreen"
    CURRENT_STATE = "current_state"


class KnowledgeReader(Struct, frozen=True):
    """Who reads: the owner, and the agent that reads for it; a person reads without one and sees every agent's."""

    owner: str
    agent: str | None = None


class Knowledge(Struct, frozen=True, kw_only=True):
    """One version of a piece of knowledge. Versions of a key count from 1."""

    # The sender it belongs to.
    owner: str
    key: str
    category: KnowledgeCategory
    content: str
    tags: tuple[str, ...] = ()
    source: str = ""
    source_class: SourceClass = SourceClass.PRIVATE_CONFIDENTIAL
    asset_label: str = ""
    taint: frozenset[str] = frozenset()
    version: int = 0
    created_at: float = 0.0
    # The only agent that finds it, for the results of its tools; empty for what was saved.
    agent: str = ""
    # The conversation that a result comes from; it is deleted with that conversation.
    origin: ConversationKey | None = None

    def is_visible_to(self, reader: KnowledgeReader) -> bool:
        return self.owner == reader.owner and (reader.agent is None or self.agent in ("", reader.agent))


class SavedKnowledge(Struct, frozen=True):
    """The version under which an entry is stored, and whether that version is new."""

    version: int
    is_new: bool


def make_result_key(agent: str, sender: str, tool: str) -> str:
    """Return the key of a result. Names of agents and tools have no colon, so no two owners share a key."""
    return f"{RESULT_KEY}{agent}:{sender}:{tool}"


def is_result(key: str) -> bool:
    return key.startswith(RESULT_KEY)


def normalize_key(value: str) -> str:
    """Return a key as it is stored. That of a result names its owner exactly."""
    if is_result(value):
        return value
    key = normalize_name(value)
    if not key:
        raise BadRequest("the key is empty", fix="Give the entry a short name.")
    if len(key) > KEY_LENGTH:
        raise BadRequest(f"the key has {len(key)} characters", fix=f"At most {KEY_LENGTH} are kept.")
    return key


def parse_category(name: str) -> KnowledgeCategory:
    try:
        return KnowledgeCategory(name.strip().lower())
    except ValueError:
        raise _unknown(name, "a category of knowledge", KnowledgeCategory) from None


def parse_source_class(name: str) -> SourceClass:
    try:
        return SourceClass(name.strip().lower()) if name else SourceClass.PRIVATE_CONFIDENTIAL
    except ValueError:
        raise _unknown(name, "a source class", SourceClass) from None


def _unknown(name: str, what: str, values: Iterable[StrEnum]) -> BadRequest:
    known = [each.value for each in values]
    return BadRequest(f"{name[:40]!r} is not {what}", fix=f"{suggest_name(name, known)}Use {', '.join(known)}.")


def check_entry(item: Knowledge) -> Knowledge:
    """Return an entry that may be saved, with its temporal tag. Raises BadRequest if it is too large."""
    if is_result(item.key):
        raise BadRequest(f"keys that begin with {RESULT_KEY} are for results of tools", fix="Choose another key.")
    if not item.content.strip():
        raise BadRequest("the content is empty", fix="Give the text to save.")
    if len(item.content) > CONTENT_LENGTH:
        raise BadRequest(f"the content has {len(item.content)} characters", fix=f"Say it in {CONTENT_LENGTH} or fewer.")
    if len(item.source) > SOURCE_LENGTH or len(item.asset_label) > KEY_LENGTH:
        raise BadRequest("the source or the label is too long", fix=f"At most {SOURCE_LENGTH} characters.")
    if len(item.tags) > MOST_TAGS or any(len(tag) > TAG_LENGTH for tag in item.tags):
        raise BadRequest("there are too many tags, or one is too long", fix=f"At most {MOST_TAGS} of {TAG_LENGTH}.")
    return item


def add_temporal_tag(tags: Sequence[str], category: KnowledgeCategory) -> tuple[str, ...]:
    """Return the tags with one that says how long it is true: facts are about now, everything else stays."""
    own = tuple(dict.fromkeys(tag for tag in tags if tag))
    if any(tag in tuple(TemporalTag) for tag in own):
        return own
    return (*own, TemporalTag.CURRENT_STATE if category is KnowledgeCategory.FACT else TemporalTag.EVERGREEN)


def make_full_error(count: int) -> BadRequest:
    return BadRequest(f"there are {count} entries already", fix="Forget some with `moot knowledge forget`.")
