"""What every implementation promises of inquiries: none twice, each asked by one run, with a pause in between."""

from typing import Any

import pytest

from moot.domain.conversation import ConversationKey
from moot.domain.inquiry import Findings, Grade, Inquiry, InquiryProgress, InquiryStatus, KnowledgeGap, parse_findings
from moot.domain.ports.storage import Storage
from tests.contracts.store_kit import with_storage
from tests.unit.shelves import ADA, ADA_WITH_EVE, BOB, talk


def inquiry(number: int, topic: str, key: ConversationKey = ADA, **fields: Any) -> Inquiry:
    given = {"question": f"What is the {topic}?", "created_at": float(number), **fields}
    return Inquiry(id=f"inquiry-{number}", key=key, topic=topic, **given)


@with_storage
async def test_an_analysis_is_recorded_with_what_it_found_and_nothing_twice(storage: Storage) -> None:
    inquiries = storage.inquiries
    assert await inquiries.find_progress(ADA) == InquiryProgress()
    assert await inquiries.record(ADA, [inquiry(1, "tea")], analysed_seq=2, most=2) == 0
    for key in (ADA, BOB, ADA_WITH_EVE):
        await talk(storage.store, key, turns=2)
    assert await inquiries.find_progress(ADA) == InquiryProgress(4, 0, 0, 2)
    found = [inquiry(1, "tea"), inquiry(2, "Tea!"), inquiry(3, "x", question="what is the  TEA"), inquiry(4, "boat")]
    assert await inquiries.record(ADA, [*found, inquiry(5, "lamp")], analysed_seq=2, most=2) == 2
    assert await inquiries.find_progress(ADA) == InquiryProgress(4, 2, 0, 1)
    assert [each.topic for each in await inquiries.list_all("user", limit=9)] == ["tea", "boat"]
    # One that was answered or dismissed is not asked again, whichever agent would.
    await inquiries.close("user", "inquiry-1", InquiryStatus.DISMISSED, now=5.0)
    assert await inquiries.record(BOB, [inquiry(6, "tea", BOB), inquiry(7, "lamp", BOB)], analysed_seq=4, most=9) == 1
    # Another person is another person.
    assert await inquiries.record(ADA_WITH_EVE, [inquiry(8, "tea", ADA_WITH_EVE)], analysed_seq=4, most=9) == 1
    assert [each.id for each in await inquiries.list_all("user", agent="bob", limit=9)] == ["inquiry-7"]
    pending = await inquiries.list_all("user", status=InquiryStatus.PENDING, limit=9)
    assert {each.topic for each in pending} == {"boat", "lamp"}


@with_storage
async def test_each_inquiry_is_given_to_one_run_the_most_important_first_with_a_pause(storage: Storage) -> None:
    inquiries = storage.inquiries
    await talk(storage.store)
    assert await inquiries.take(ADA, "run-0", cooldown=2, now=1.0) is None
    found = [inquiry(1, "tea", priority=Grade.LOW), inquiry(2, "boat", priority=Grade.HIGH)]
    await inquiries.record(ADA, found, analysed_seq=2, most=9)
    first = await inquiries.take(ADA, "run-1", cooldown=2, now=7.0)
    assert first is not None
    assert (first.topic, first.asked_at, first.asked_run) == ("boat", 7.0, "run-1")
    # A run that goes on after a restart asks the same.
    assert await inquiries.take(ADA, "run-1", cooldown=2, now=8.0) == first
    assert await inquiries.take(ADA, "run-2", cooldown=2, now=8.0) is None
    await talk(storage.store)
    assert await inquiries.take(ADA, "run-3", cooldown=2, now=8.0) is None
    await talk(storage.store)
    second = await inquiries.take(ADA, "run-4", cooldown=2, now=9.0)
    assert second is not None
    assert second.topic == "tea"
    await talk(storage.store, turns=3)
    assert await inquiries.take(ADA, "run-5", cooldown=2, now=10.0) is None


@with_storage
async def test_only_a_pending_inquiry_of_the_same_person_is_closed_and_deleted_with_its_conversation(
    storage: Storage,
) -> None:
    inquiries = storage.inquiries
    await talk(storage.store)
    await inquiries.record(ADA, [inquiry(1, "tea"), inquiry(2, "boat")], analysed_seq=2, most=9)
    assert await inquiries.close("eve", "inquiry-1", InquiryStatus.DISMISSED, now=5.0) is None
    closed = await inquiries.close("user", "inquiry-1", InquiryStatus.RESOLVED, answer="green", now=5.0)
    assert closed is not None
    assert (closed.status, closed.answer, closed.closed_at) == (InquiryStatus.RESOLVED, "green", 5.0)
    assert await inquiries.close("user", "inquiry-1", InquiryStatus.DISMISSED, now=6.0) is None
    assert (await storage.store.delete(ADA, now=1000.0)).counts.lessons == 2
    assert await inquiries.list_all("user", limit=9) == []
    await talk(storage.store)
    assert await inquiries.find_progress(ADA) == InquiryProgress(2, 0, 0, 1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('Here: {"gaps": [{"topic": "t", "question": "q"}], "more": 1} done', Findings(gaps=(KnowledgeGap("t", "q"),))),
        ("{}", Findings()),
        ("nothing", None),
        ('{"gaps": [{"topic": 7}]}', None),
        ('{"gaps": ', None),
        ("}{", None),
        ("{" * 5_000 + "}" * 5_000, None),
    ],
)
def test_what_a_model_says_it_found_is_read_or_refused_whole(text: str, found: Findings | None) -> None:
    assert parse_findings(text) == found
