"""The rows of knowledge, learnings and inquiries in memory. Used by database.py, knowledge.py and inquiries.py."""

from msgspec import Struct

from moot.domain.inquiry import Inquiry
from moot.domain.knowledge import Knowledge
from moot.domain.learning import CallRecord, Learning


class KnowledgeRow(Struct, frozen=True, kw_only=True):
    number: int
    item: Knowledge
    # Whether search finds it.
    is_current: bool = True


class LearningRow(Struct, frozen=True, kw_only=True):
    number: int
    learning: Learning


class InquiryRow(Struct, frozen=True, kw_only=True):
    inquiry: Inquiry
    # The newest message when it was asked.
    asked_seq: int = 0


class AuditRow(Struct, frozen=True, kw_only=True):
    owner: str
    record: CallRecord
