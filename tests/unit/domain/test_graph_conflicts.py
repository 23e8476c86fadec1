"""The conflicts among facts, against a comparison of every fact with every other one."""

from hypothesis import given
from hypothesis import strategies as st

from moot.domain.graph import Fact, Period, excludes, find_conflicts

SPANS = st.tuples(st.integers(0, 8), st.integers(1, 6)).map(lambda span: Period(span[0], span[0] + span[1]))


@given(st.lists(st.tuples(st.sampled_from("abc"), SPANS, st.booleans()), max_size=12))
def test_a_fact_is_part_of_a_conflict_exactly_if_another_one_excludes_it(
    stated: list[tuple[str, Period, bool]],
) -> None:
    facts = [
        Fact(number=number, subject="s", predicate="p", object=name, valid=valid, is_wrong=is_wrong)
        for number, (name, valid, is_wrong) in enumerate(stated, 1)
    ]
    expected = {one.number for one in facts if any(excludes(one, other) for other in facts)}
    found = find_conflicts(facts)
    assert {fact.number for conflict in found for fact in conflict.facts} == expected
    assert sum(len(conflict.facts) for conflict in found) == len(expected)
    # Facts of different conflicts never exclude each other.
    for one in found:
        for other in found:
            if one is not other:
                assert not any(excludes(fact, rival) for fact in one.facts for rival in other.facts)
