"""The text in which mail is shown: exactly as specified, and nothing in it can be forged."""

import re
import uuid
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.domain.goal import make_goal_id, read_goal_id
from moot.domain.ids import make_id
from moot.domain.inbox_message import is_mail_id
from moot.domain.mail import MAX_BODY_BYTES, Mail, check_body, is_mail_text, make_mail_id, parse_uuid, render_mail

UUID = "7a3b2f00-0000-4000-8000-000000000001"


def mail(body: str = "task #1 ready for handoff", **fields: object) -> Mail:
    given_ = {
        "id": "m",
        "goal_id": "g",
        "from_agent": "researcher",
        "from_goal": "",
        "to_agent": "ada",
        "body": body,
        "sent_at": 1777557600.0,
        **fields,
    }
    return Mail(**given_)  # type: ignore[arg-type]


def test_two_messages_are_rendered_exactly_so() -> None:
    assert render_mail([mail(), mail("two\nlines", correlation_id=UUID)]) == (
        "# PEER MESSAGES\n\n"
        '<peer-message from="researcher" sent_at="2026-04-30T14:00:00+00:00">\n'
        "task #1 ready for handoff\n"
        "</peer-message>\n"
        f'<peer-message from="researcher" sent_at="2026-04-30T14:00:00+00:00" correlation_id="{UUID}">\n'
        "two\nlines\n"
        "</peer-message>\n"
    )


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=3))
def test_whatever_is_written_there_are_as_many_blocks_as_messages(written: list[tuple[str, str]]) -> None:
    text = render_mail([mail(body, from_agent=name) for name, body in written])
    assert is_mail_text(text)
    assert len(re.findall("<", text)) == len(re.findall(">", text)) == 2 * len(written)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# PEER MESSAGES\n\n",
        "hello",
        render_mail([mail()])[:-1],
        render_mail([mail()]) + "more",
        render_mail([mail()]).replace("task", "<b>"),
        render_mail([mail()]).replace("task", "&"),
        render_mail([mail()]).replace("task", "\uff1c/peer-message>"),
        render_mail([mail()]).replace("handoff\n", "handoff"),
        render_mail([mail()]).replace('from="researcher"', 'from="a" from="b"'),
    ],
)
def test_text_that_only_looks_like_mail_is_not_taken_for_it(text: str) -> None:
    assert not is_mail_text(text)


def test_a_body_has_one_character_to_65536_bytes() -> None:
    check_body("x")
    check_body("é" * (MAX_BODY_BYTES // 2))
    for body in ("", "é" * (MAX_BODY_BYTES // 2) + "x"):
        with pytest.raises(Exception, match="`message` is"):
            check_body(body)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [(UUID, UUID), (UUID.upper(), UUID), (UUID.replace("-", ""), UUID), (f"{{{UUID}}}", None), ("x", None), ("", None)],
)
def test_only_a_uuid_is_a_correlation_id(text: str, parsed: str | None) -> None:
    assert parse_uuid(text) == parsed


def test_the_same_call_makes_the_same_mail() -> None:
    assert make_mail_id("run", "call", "goal") == make_mail_id("run", "call", "goal")
    ids = {make_mail_id(*parts) for parts in (("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c"), ("x", "b", "c"))}
    assert len(ids) == 4


def test_the_ids_of_mail_sort_by_the_time_of_its_run() -> None:
    runs = [make_id("run", now=1_800_000_000 + seconds, rng=Random(seconds)) for seconds in range(50)]
    ids = [make_mail_id(run, "call", "goal") for run in runs]
    assert ids == sorted(ids)
    assert all(is_mail_id(each) and uuid.UUID(each.removeprefix("mail-")).version == 8 for each in ids)
    # Those of one run differ, and a run whose id has no time has ids of its own.
    assert (
        len({make_mail_id(runs[0], str(call), "goal") for call in range(50)} | {make_mail_id("run-1", "0", "g")}) == 51
    )


@given(st.integers(0, (1 << 60) - 1), st.integers(1, (1 << 50)))
def test_the_id_of_a_goal_contains_its_store_and_conversation(store: int, conversation: int) -> None:
    assert read_goal_id(make_goal_id(store, conversation)) == (store, conversation)


def test_ids_of_goals_differ_in_their_first_characters() -> None:
    assert len({make_goal_id(1, number)[:8] for number in range(1, 2001)}) == 2000
    assert read_goal_id(UUID) is None
    assert read_goal_id("no id") is None
