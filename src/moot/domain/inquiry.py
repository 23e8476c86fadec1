"""Inquiries: questions of the librarian about what it does not know of a person, and what an analysis finds. Pure."""

import re
from enum import StrEnum

import msgspec
from msgspec import Struct

from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, NotFound
from moot.domain.knowledge import KnowledgeCategory
from moot.domain.near_names import suggest_name
from moot.domain.text import clean

TOPIC_LENGTH = 120
QUESTION_LENGTH = 300
CONTEXT_LENGTH = 600
ANSWER_LENGTH = 4_000
# What is taken of one analysis.
_MOST_FOUND = 8
_WORD = re.compile(r"\w+")


class InquiryStatus(StrEnum):
    PENDING = "pending"
    RESOLVED = "resolved"
    DISMISSED = "dismissed"


class Grade(StrEnum):
    """How important an inquiry is, and how sure an analysis is of what it has found."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @property
    def rank(self) -> int:
        return ("low", "medium", "high").index(self)


class Inquiry(Struct, frozen=True, kw_only=True):
    """A question for the person of a conversation. It is asked in one run at most, and never again."""

    id: str
    key: ConversationKey
    topic: str
    question: str
    context: str = ""
    priority: Grade = Grade.MEDIUM
    status: InquiryStatus = InquiryStatus.PENDING
    taint: frozenset[str] = frozenset()
    created_at: float = 0.0
    # When it was given to an agent to ask, and in which run; 0 and empty if it was not.
    asked_at: float = 0.0
    asked_run: str = ""
    answer: str = ""
    closed_at: float = 0.0


class InquiryProgress(Struct, frozen=True):
    """How far a conversation was analysed, and how many messages the person has written since."""

    last_seq: int = 0
    analysed_seq: int = 0
    trusted_seq: int = 0
    turns: int = 0


class Extraction(Struct, frozen=True):
    """Knowledge that was found in a conversation."""

    key: str
    content: str
    category: str = "fact"
    confidence: str = "low"


class KnowledgeGap(Struct, frozen=True):
    """Something that is not known and would help."""

    topic: str
    question: str
    context: str = ""
    priority: str = "medium"


class FoundAnswer(Struct, frozen=True):
    """An answer to an inquiry that the person has given in the conversation."""

    inquiry_id: str
    answer: str
    confidence: str = "low"


class Findings(Struct, frozen=True):
    """What an analysis of a conversation has found."""

    knowledge: tuple[Extraction, ...] = ()
    gaps: tuple[KnowledgeGap, ...] = ()
    answers: tuple[FoundAnswer, ...] = ()


_decode = msgspec.json.Decoder(Findings).decode


def parse_findings(text: str) -> Findings | None:
    """Return what a model has found, bounded; None if it is not the JSON that was asked for."""
    begin, end = text.find("{"), text.rfind("}")
    try:
        found = _decode(clean(text[begin : end + 1]).encode())
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    # Of more than are taken, and of more than may be open, the most important are kept.
    gaps = sorted(found.gaps, key=lambda gap: -parse_grade(gap.priority, Grade.MEDIUM).rank)
    return Findings(found.knowledge[:_MOST_FOUND], tuple(gaps[:_MOST_FOUND]), found.answers[:_MOST_FOUND])


def parse_grade(name: str, default: Grade = Grade.LOW) -> Grade:
    try:
        return Grade(name.strip().lower())
    except ValueError:
        return default


def parse_found_category(name: str) -> KnowledgeCategory:
    try:
        return KnowledgeCategory(name.strip().lower())
    except ValueError:
        return KnowledgeCategory.FACT


def make_fingerprint(text: str) -> str:
    """Return the words of a text, so that the same question in another spelling is recognised."""
    return " ".join(_WORD.findall(text.casefold()))[:QUESTION_LENGTH]


def check_answer(text: str) -> str:
    answer = clean(text).strip()
    if not answer:
        raise BadRequest("the answer is empty", fix="Give the answer, or dismiss the inquiry.")
    if len(answer) > ANSWER_LENGTH:
        raise BadRequest(f"the answer has {len(answer)} characters", fix=f"Say it in {ANSWER_LENGTH} or fewer.")
    return answer


def make_unknown_error(inquiry_id: str, known: list[str]) -> NotFound:
    near = suggest_name(inquiry_id, known)
    return NotFound(
        f"invalid inquiry_id: there is no pending inquiry {inquiry_id[:60]!r}",
        fix=near + "List them with librarian_pending_inquiries or `moot knowledge inquiries`.",
    )
