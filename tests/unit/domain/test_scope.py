"""A scope only ever narrows."""

from hypothesis import given
from hypothesis import strategies as st

from moot.domain.scope import ALL_TOOLS, NO_TOOLS, Scope, only

NAMES = st.sampled_from(["exec", "exec_bg", "fs_read", "fs_write", "recall", "set_title"])
SCOPES = st.lists(st.sampled_from(["*", "exec", "exec*", "fs_*", "recall", ""]), max_size=3).map(lambda p: only(*p))


def test_all_allows_everything_and_none_nothing() -> None:
    assert ALL_TOOLS.allows("exec")
    assert not NO_TOOLS.allows("exec")
    assert not (ALL_TOOLS & NO_TOOLS).allows("exec")


def test_patterns_match_whole_names() -> None:
    assert only("fs_*").allows("fs_read")
    assert not only("fs").allows("fs_read")
    assert not only("FS_*").allows("fs_read")


@given(SCOPES, SCOPES, NAMES)
def test_an_intersection_allows_what_both_allow(first: Scope, second: Scope, name: str) -> None:
    assert (first & second).allows(name) == (first.allows(name) and second.allows(name))
