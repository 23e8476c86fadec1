"""Draws the steps of a workflow as a graph: one row each, with lanes from a step to those that depend on it. Pure.

Used by workflow_lines.py. A lane begins at a step and ends at the last step that depends on it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class _Signs(NamedTuple):
    line: str
    across: str
    # A lane that goes on: at the left end, at the right end and in the middle of a connection.
    go_on: tuple[str, str, str]
    # A lane that ends.
    end: tuple[str, str, str]


_DRAWN = _Signs("│", "─", ("├", "┤", "┼"), ("╰", "╯", "┴"))
_ASCII = _Signs("|", "-", ("|", "|", "+"), ("`", "'", "^"))


def draw_lanes(
    steps: Sequence[tuple[str, Sequence[str]]], symbols: Mapping[str, str], *, most: int, ascii_only: bool = False
) -> list[str] | None:
    """Return the lanes of each row, for steps with what they depend on, each behind those. None above `most` lanes."""
    drawing = _Drawing(steps, _ASCII if ascii_only else _DRAWN)
    rows: list[str] = []
    for name, depends_on in steps:
        row = drawing.draw(name, depends_on, symbols[name])
        if drawing.width > most:
            return None
        rows.append(row)
    return rows


class _Drawing:
    def __init__(self, steps: Sequence[tuple[str, Sequence[str]]], signs: _Signs) -> None:
        self._signs = signs
        self._left = {name: 0 for name, _ in steps}
        for _, depends_on in steps:
            for other in depends_on:
                self._left[other] += 1
        # The step that each lane comes from; empty for a free one.
        self._lanes: list[str] = []
        # Where the row above ended: a step below that would look as if it depended on it.
        self._ended: int | None = None
        self.width = 0

    def draw(self, name: str, depends_on: Sequence[str], symbol: str) -> str:
        joined: dict[int, bool] = {}
        for other in depends_on:
            self._left[other] -= 1
            joined[self._lanes.index(other)] = not self._left[other]
        ending = [lane for lane, ends in joined.items() if ends]
        place = min(ending) if ending else self._find_free()
        joined.pop(place, None)
        row = self._draw_row(place, joined, symbol)
        for lane in ending:
            self._lanes[lane] = ""
        self._lanes[place] = name if self._left[name] else ""
        self._ended = None if self._left[name] else place
        return row

    def _find_free(self) -> int:
        free = [lane for lane, name in enumerate(self._lanes) if not name and lane != self._ended]
        if free:
            return free[0]
        self._lanes.append("")
        return len(self._lanes) - 1 if self._ended != len(self._lanes) - 1 else self._find_free()

    def _draw_row(self, place: int, joined: Mapping[int, bool], symbol: str) -> str:
        first, last = min([place, *joined]), max([place, *joined])
        used = [lane for lane, name in enumerate(self._lanes) if name]
        count = max([last, *used]) + 1
        self.width = max(self.width, count)
        signs, row = self._signs, ""
        for lane in range(count):
            is_inside = first < lane < last
            if lane == place:
                row += symbol
            elif lane in joined:
                end = 0 if lane == first else 1 if lane == last else 2
                row += (signs.end if joined[lane] else signs.go_on)[end]
            elif self._lanes[lane]:
                row += signs.line
            else:
                row += signs.across if is_inside else " "
            row += signs.across if first <= lane < last else " "
        return row.rstrip()
