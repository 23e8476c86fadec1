"""The graph of a workflow's steps: what a step depends on, and circles. Used by workflow_file.py. Pure."""

from collections.abc import Mapping

from moot.domain.workflow import WorkflowStep


class Ancestors:
    """Which steps a step depends on, directly or not. The steps have no circle."""

    def __init__(self, steps: Mapping[str, WorkflowStep]) -> None:
        self._steps = steps
        # A set of steps is a number with one bit for each: two thousand sets of two thousand names would be large.
        self._bits = {name: 1 << index for index, name in enumerate(steps)}
        self._known: dict[str, int] = {}

    def includes(self, name: str, other: str) -> bool:
        return bool(self._find(name) & self._bits[other])

    def _find(self, name: str) -> int:
        stack = [name]
        while stack:
            current = stack[-1]
            above = [other for other in self._steps[current].depends_on if other in self._steps]
            missing = [other for other in above if other not in self._known]
            if missing:
                stack += missing
                continue
            stack.pop()
            found = 0
            for other in above:
                found |= self._bits[other] | self._known[other]
            self._known[current] = found
        return self._known[name]


def find_cycle(steps: Mapping[str, WorkflowStep]) -> list[str]:
    """Return the ids of steps that depend on each other in a circle, each on the next; empty if there is none."""
    done: set[str] = set()
    for start in steps:
        path: dict[str, None] = {}
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            name, is_left = stack.pop()
            if is_left:
                path.pop(name, None)
                done.add(name)
            elif name in path:
                names = list(path)
                return names[names.index(name) :]
            elif name not in done and name in steps:
                path[name] = None
                stack.append((name, True))
                stack += [(other, False) for other in reversed(steps[name].depends_on)]
    return []
