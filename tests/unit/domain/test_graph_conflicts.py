"""Conflicts among facts: found in one pass, the same as by comparing each with each."""

from hypothesis import given
from hypothesis import strategies as st

from moot.domain.graph import Fact, Period, find_conflicts


def _make(number: int, target: str, start: int, length: int) -> Fact:
    return Fact(
        number=number,
        subject="ada",
        predicate="born_in",
        object=target,
        confidence=1.0,
        source="x",
        valid=Period(start, start + length),
        recorded_at=0.0,
    )


_FACTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 12), st.integers(1, 5)), max_size=9)


@given(_FACTS)
def test_a_conflict_has_all_facts_that_another_one_excludes_and_no_other(
    given_facts: list[tuple[str, int, int]],
) -> None:
    facts = [_make(number, *each) for number, each in enumerate(given_facts, 1)]
    expected = {
        one.number for one in facts for other in facts if one.object != other.object and one.valid.overlaps(other.valid)
    }
    found = find_conflicts(facts)
    assert {fact.number for conflict in found for fact in conflict.facts} == expected
    assert len(found) == bool(expected)
