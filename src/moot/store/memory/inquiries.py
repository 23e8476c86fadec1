"""Inquiries of the librarian in memory. Built by storage.py."""

from collections.abc import Sequence

from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.inquiry import Inquiry, InquiryProgress, InquiryStatus, make_fingerprint
from moot.domain.message import Role
from moot.store.memory.database import ConversationRow, Database
from moot.store.memory.knowledge_tables import InquiryRow
from moot.store.memory.transactions import Transactions


class MemoryInquiries:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def find_progress(self, key: ConversationKey) -> InquiryProgress:
        return await self._transactions.read(lambda db: _find_progress(db, key))

    async def record(self, key: ConversationKey, found: Sequence[Inquiry], *, analysed_seq: int, most: int) -> int:
        return await self._transactions.write(lambda db: _record(db, key, found, analysed_seq, most))

    async def take(self, key: ConversationKey, run_id: str, *, cooldown: int, now: float) -> Inquiry | None:
        if not await self._transactions.read(lambda db: bool(_list_pending(db, key))):
            return None
        return await self._transactions.write(lambda db: _take(db, key, run_id, cooldown, now))

    async def list_all(
        self, sender: str, *, agent: str = "", status: InquiryStatus | None = None, limit: int
    ) -> list[Inquiry]:
        def read(db: Database) -> list[Inquiry]:
            found = (row.inquiry for row in db.inquiries.find("sender", sender))
            wanted = [each for each in found if agent in ("", each.key.agent) and status in (None, each.status)]
            return sorted(wanted, key=_order)[:limit]

        return await self._transactions.read(read)

    async def find(self, sender: str, inquiry_id: str) -> Inquiry | None:
        row = await self._transactions.read(lambda db: db.inquiries.get(inquiry_id))
        return row.inquiry if row is not None and row.inquiry.key.sender == sender else None

    async def close(
        self, sender: str, inquiry_id: str, status: InquiryStatus, *, answer: str = "", now: float
    ) -> Inquiry | None:
        def change(db: Database) -> Inquiry | None:
            row = db.inquiries.get(inquiry_id)
            if row is None or row.inquiry.key.sender != sender or row.inquiry.status is not InquiryStatus.PENDING:
                return None
            closed = replace(row.inquiry, status=status, answer=answer, closed_at=now)
            return db.inquiries.put(inquiry_id, replace(row, inquiry=closed)).inquiry

        return await self._transactions.write(change)


def _order(inquiry: Inquiry) -> tuple[int, float, str]:
    return -inquiry.priority.rank, inquiry.created_at, inquiry.id


def _list_pending(db: Database, key: ConversationKey) -> list[Inquiry]:
    found = (row.inquiry for row in db.inquiries.find("conversation", key))
    return sorted((each for each in found if each.status is InquiryStatus.PENDING), key=_order)


def _count_messages(db: Database, row: ConversationRow, after: int) -> int:
    entries = db.entries(row.id, after + 1, row.last_seq)
    return sum(entry.message.role is Role.USER and not entry.message.agent for entry in entries)


def _find_progress(db: Database, key: ConversationKey) -> InquiryProgress:
    row = db.conversation(key)
    if row is None:
        return InquiryProgress()
    analysed = db.librarian_progress.get(row.id) or 0
    return InquiryProgress(row.last_seq, analysed, row.trusted_seq, _count_messages(db, row, analysed))


def _record(db: Database, key: ConversationKey, found: Sequence[Inquiry], analysed_seq: int, most: int) -> int:
    row = db.conversation(key)
    if row is None:
        return 0
    db.librarian_progress.put(row.id, analysed_seq)
    added = 0
    for inquiry in found:
        if len(_list_pending(db, key)) >= most:
            break
        subject, fingerprint = make_fingerprint(inquiry.topic), make_fingerprint(inquiry.question)
        known = [each.inquiry for each in db.inquiries.find("sender", key.sender)]
        if (
            not subject
            or not fingerprint
            or any(
                make_fingerprint(each.topic) == subject or make_fingerprint(each.question) == fingerprint
                for each in known
            )
        ):
            continue
        db.inquiries.put(inquiry.id, InquiryRow(inquiry=replace(inquiry, key=key)))
        added += 1
    return added


def _take(db: Database, key: ConversationKey, run_id: str, cooldown: int, now: float) -> Inquiry | None:
    mine = db.inquiries.find("conversation", key)
    for each in mine:
        if each.inquiry.asked_run == run_id:
            # The run goes on after a restart.
            return each.inquiry
    row = db.conversation(key)
    before = max((each.asked_seq for each in mine), default=0)
    if row is None or (before and _count_messages(db, row, before) < cooldown):
        return None
    chosen = next((each for each in _list_pending(db, key) if not each.asked_run), None)
    if chosen is None:
        return None
    inquiry = replace(chosen, asked_at=now, asked_run=run_id)
    return db.inquiries.put(inquiry.id, InquiryRow(inquiry=inquiry, asked_seq=row.last_seq)).inquiry
