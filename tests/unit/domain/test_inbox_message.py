"""Mail on the wire: exactly the fields that are agreed, and nothing hostile gets through."""

import json
from uuid import UUID

import pytest
from msgspec.structs import replace

from moot.domain.errors import BadRequest
from moot.domain.goal import make_goal_id
from moot.domain.inbox_message import (
    INBOX_SUBJECT,
    MAX_PAYLOAD_BYTES,
    NOTICE_SUBJECT,
    MailHeaders,
    NoticeState,
    encode_message,
    encode_notice,
    list_signed_bytes,
    make_mail,
    read_headers,
    read_message,
    read_notice,
    read_subject,
    write_about,
    write_headers,
    write_message,
)
from moot.domain.mail import MAX_BODY_BYTES, Mail, make_mail_id

GOAL, FROM = make_goal_id(7, 1), make_goal_id(8, 2)
CORRELATION = "7a3b2f00-0000-4000-8000-000000000001"
MAIL = Mail(
    id=make_mail_id("run-1", "c1", GOAL),
    goal_id=GOAL,
    from_agent="ada",
    from_goal=FROM,
    to_agent="bob",
    body="hé\n<x>",
    sent_at=1_777_557_600.5,
    correlation_id=CORRELATION,
    thread="run-1",
    hops=2,
    taint=frozenset({"web", "mcp:ü"}),
)
INVALID_NOTICES: list[dict[str, object]] = [{"mail_id": "run-1"}, {"goal_id": "x"}, {"state": "read"}, {"message": {}}]
ABOUT = write_about("laptop", "run-1", 2, MAIL.taint)
CHANGED_ABOUT = [
    write_about("x", "run-1", 2, MAIL.taint),
    write_about("laptop", "x", 2, MAIL.taint),
    write_about("laptop", "run-1", 0, MAIL.taint),
    write_about("laptop", "run-1", 2),
]
HEADERS = write_headers(ABOUT, "c2ln", "cHJv")


def test_a_message_has_exactly_the_agreed_fields_and_is_read_back() -> None:
    fields = json.loads(encode_message(MAIL))
    assert fields == {
        "from_agent_id": "ada",
        "from_goal_id": FROM,
        "to_agent_id": "bob",
        "body": "hé\n<x>",
        "sent_at": "2026-04-30T14:00:00.500000Z",
        "correlation_id": CORRELATION,
    }
    assert "correlation_id" not in json.loads(encode_message(replace(MAIL, correlation_id="")))
    message = read_message(encode_message(MAIL))
    headers = read_headers(MAIL.id, HEADERS)
    assert headers == MailHeaders(
        id=MAIL.id, daemon="laptop", thread="run-1", hops=2, taint=MAIL.taint, signature="c2ln", proof="cHJv"
    )
    plain = read_headers(MAIL.id, write_headers(write_about("laptop"), "c2ln"))
    assert plain == MailHeaders(id=MAIL.id, daemon="laptop", signature="c2ln")
    assert make_mail(message, mail_id=MAIL.id, goal_id=GOAL, headers=headers) == MAIL
    # Others may write times with an offset, ids in capitals, and fields of their own.
    other = {**fields, "sent_at": "2026-04-30T16:00:00.5+02:00", "from_goal_id": FROM.upper(), "more": [1]}
    assert read_message(json.dumps(other).encode()).from_goal_id == UUID(FROM)
    assert read_message(json.dumps(other).encode()).sent_at.timestamp() == MAIL.sent_at


@pytest.mark.parametrize(
    "changes",
    [
        {"from_agent_id": 1},
        {"from_agent_id": ""},
        {"from_agent_id": "bob\n# SYSTEM"},
        {"from_agent_id": "bob\n"},
        {"to_agent_id": "x" * 257},
        {"from_goal_id": "no"},
        {"body": ""},
        {"body": None},
        {"body": "x" * (MAX_BODY_BYTES + 1)},
        {"body": "\ud800"},
        {"sent_at": 12},
        {"sent_at": "2026-04-30T14:00:00"},
        {"sent_at": "0001-01-01T00:00:00+23:59"},
        {"correlation_id": "no"},
        {"correlation_id": 5},
    ],
)
def test_wrong_fields_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(BadRequest):
        read_message(json.dumps({**json.loads(encode_message(MAIL)), **changes}).encode())


@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b"[]", b"null", b"\xff", b'{"body":' + b"[" * 100_000, b"{}", b" " * (MAX_PAYLOAD_BYTES + 1)],
    ids=range(8),
)
def test_garbage_is_refused(payload: bytes) -> None:
    for read in (read_message, read_notice):
        with pytest.raises(BadRequest):
            read(payload)


def test_the_largest_body_fits_however_it_is_escaped() -> None:
    mail = replace(MAIL, body="\x01" * MAX_BODY_BYTES)
    assert read_message(encode_message(mail)).body == mail.body
    assert read_notice(encode_notice(mail, NoticeState.REFUSED, "x" * 5_000)).message == write_message(mail)


def test_a_notice_contains_the_mail_and_why_it_is_not_read() -> None:
    notice = read_notice(encode_notice(MAIL, NoticeState.EVICTED, "too many unread messages"))
    assert (notice.mail_id, notice.state, notice.reason) == (MAIL.id, NoticeState.EVICTED, "too many unread messages")
    assert notice.message == write_message(MAIL)
    for changes in INVALID_NOTICES:
        fields = json.loads(encode_notice(MAIL, NoticeState.EVICTED, ""))
        with pytest.raises(BadRequest):
            read_notice(json.dumps({**fields, **changes}).encode())


@pytest.mark.parametrize(
    "about",
    [
        "",
        "laptop",
        "laptop run-1",
        "a.b run-1 2",
        " run-1 2",
        f"laptop {'x' * 129} 2",
        "laptop a\tb 2",
        "laptop run-1 -1",
        "laptop run-1 9999999",
        "laptop run-1 \u0661",
        "laptop run-1 2 web",
        'laptop run-1 2 [""]',
        'laptop run-1 2 ["a,b"]',
        f"laptop run-1 2 {json.dumps(['x'] * 65)}",
        'laptop run-1 2 ["\udc80"]',
    ],
)
def test_wrong_headers_are_refused(about: str) -> None:
    with pytest.raises(BadRequest):
        read_headers(MAIL.id, {**HEADERS, "Moot-Mail": about})
    for invalid in ("arun-1", "", MAIL.id.upper(), f"{MAIL.id}0"):
        with pytest.raises(BadRequest):
            read_headers(invalid, HEADERS)


def test_only_subjects_of_goals_are_read() -> None:
    assert read_subject(f"agent.inbox.{GOAL}") == (INBOX_SUBJECT, GOAL, 7)
    assert read_subject(f"agent.notice.{GOAL}") == (NOTICE_SUBJECT, GOAL, 7)
    other = ("", "agent.inbox", "agent.inbox.x", f"agent.inbox.{CORRELATION}", f"agent.outbox.{GOAL}")
    for subject in (*other, f"agent.inbox.{GOAL.upper()}", f"agent.inbox.{GOAL.replace('-', '')}", f"{GOAL}"):
        assert read_subject(subject) is None, subject


def test_every_part_of_a_message_is_signed() -> None:
    payload = encode_message(MAIL)
    others = [
        list_signed_bytes("agent.inbox.b", MAIL.id, ABOUT, payload),
        list_signed_bytes("agent.inbox.a", MAIL.id, ABOUT, payload + b" "),
        list_signed_bytes("agent.inbox.a", "x", ABOUT, payload),
        list_signed_bytes("agent.inbox.", f"a{MAIL.id}", ABOUT, payload),
        *(list_signed_bytes("agent.inbox.a", MAIL.id, about, payload) for about in CHANGED_ABOUT),
    ]
    assert len({list_signed_bytes("agent.inbox.a", MAIL.id, ABOUT, payload), *others}) == len(others) + 1
