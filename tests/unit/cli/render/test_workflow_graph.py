"""The graph of a workflow: lanes from each step to those that depend on it."""

import pytest

from moot.cli.render.workflow_graph import draw_lanes


def draw(*steps: str, ascii_only: bool = False, most: int = 9) -> list[str] | None:
    """Draw steps that are written as `name<other,other`."""
    read = [(each.partition("<")[0], [name for name in each.partition("<")[2].split(",") if name]) for each in steps]
    return draw_lanes(read, {name: name for name, _ in read}, most=most, ascii_only=ascii_only)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (["a"], ["a"]),
        # Steps that need nothing of each other do not stand below each other.
        (["a", "b", "c"], ["a", "  b", "c"]),
        (["a", "b<a", "c<b"], ["a", "b", "c"]),
        (["a", "b<a", "c<a", "d<b,c"], ["a", "├─b", "c │", "d─╯"]),
        (["a", "b", "c<a,b", "d<c", "e<c,d"], ["a", "│ b", "c─╯", "├─d", "e─╯"]),
        # A lane that is not meant is crossed.
        (["a", "b", "c", "d<a,c", "e<b", "f<d,e,a"], ["a", "│ b", "│ │ c", "├─│─d", "│ e │", "f─┴─╯"]),
    ],
)
def test_lanes_lead_from_a_step_to_those_that_depend_on_it(steps: list[str], expected: list[str]) -> None:
    assert draw(*steps) == expected


def test_what_needs_too_many_lanes_is_not_drawn_and_ascii_is_enough() -> None:
    many = [f"s{number}" for number in range(20)]
    assert draw(*many, f"end<{','.join(many)}") is None
    assert draw("a", "b<a", "c<a", "d<b,c", ascii_only=True) == ["a", "|-b", "c |", "d-'"]
