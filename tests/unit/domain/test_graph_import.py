"""Reading CSV and JSON for the knowledge graph: every row is read or refused, whatever it contains."""

import csv
import io
from contextlib import suppress
from math import inf

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.domain.errors import BadRequest, MootError
from moot.domain.graph_import import parse_csv, parse_json, parse_jsonl
from moot.domain.ontology import parse_period, parse_validity

FIELDS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["id", "type", "properties", "relations", "aliases", "predicate", "object", "valid_to", "x"])


@given(st.lists(st.lists(FIELDS, min_size=1, max_size=4), max_size=6), st.sampled_from([",", ";", "\t"]))
def test_every_row_of_a_table_is_an_entity_or_a_refusal(table: list[list[str]], delimiter: str) -> None:
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter).writerows([["name", "height", "note"], *table])
    parsed = parse_csv(f"\ufeff{written.getvalue()}", "tree")
    assert parsed.total == sum(1 for row in table if len(row) > 1 or row[0].strip())


@pytest.mark.parametrize(
    ("text", "names", "refused"),
    [
        ("name,note\noak,a\nfir\nelm,b,c\nyew,d", ["oak", "yew"], ["line 3", "line 4"]),
        ('\ufeffname;"a, b, c"\r\noak;1\r\n', ["oak"], []),
        ('name,note\noak,"a\nfir,b\n', [], ["line 2"]),
        ('name,note\noak,"a"b\nfir,c\n', ["fir"], ["line 2"]),
        ('name,note\n"o\nak",a\nfir\n', ["o ak"], ["line 4"]),
        ("name\tnote\roak\ta\r", ["oak"], []),
    ],
)
def test_a_row_that_does_not_fit_is_refused_with_its_line(text: str, names: list[str], refused: list[str]) -> None:
    parsed = parse_csv(text, "tree")
    assert [entity.id for entity in parsed.entities] == names
    assert [refusal.place for refusal in parsed.refusals] == refused


@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=5) | VALUES, max_size=4))
def test_every_item_of_a_document_is_an_entity_or_a_refusal(items: list[object]) -> None:
    plain = msgspec.json.encode(items).decode()
    assert parse_json(plain).total == len(items)
    lines = "\n".join(msgspec.json.encode(item).decode() for item in items)
    assert parse_jsonl(lines).total == len(items)


@given(st.text())
def test_any_text_is_read_or_refused_in_one_sentence(text: str) -> None:
    for parse in (parse_json, parse_jsonl, lambda data: parse_csv(data, "tree")):
        with suppress(MootError):
            parse(text)


def test_the_last_day_of_the_calendar_is_no_end() -> None:
    document = '{"facts": [{"subject": "ada", "predicate": "knows", "object": "bob", "valid_to": "9999-12-31"}]}'
    (entity,) = parse_json(document).entities
    assert entity.facts[0].valid is not None
    assert entity.facts[0].valid.end == inf


def test_a_day_is_a_whole_day_however_it_is_written_and_a_week_is_refused() -> None:
    assert parse_period("20211231", "at") == parse_period("2021-12-31", "at")
    ended = parse_validity("20210101", "20211231")
    assert ended == parse_validity("2021", "2021")
    for week in ("2021-W52", "2021W525", "2021-W52-5T10:00"):
        with pytest.raises(BadRequest, match="is not a time"):
            parse_period(week, "at")


def test_empty_rows_and_repeated_ids_of_a_table_are_refused() -> None:
    parsed = parse_csv("id,height\noak,12\n,\n\noak,9\n", "tree")
    assert [(entity.id, entity.properties) for entity in parsed.entities] == [("oak", {"height": "12"})]
    assert [(each.place, each.reason) for each in parsed.refusals] == [
        ("line 3", "all fields of the row are empty"),
        ("line 5", "the id 'oak' is already in line 2"),
    ]
