"""Row: one line of the table that `./dev bench` prints."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line. `raw` is the floor of the same run and `ratio` the multiple of it.

    `goal` is in the row's unit, None where there is none to meet. Goals about time are multiples of the floor, so that
    they mean the same on every machine.
    """

    name: str
    what: str
    unit: str
    measured: float
    noise: float
    goal: float | None = None
    rule: str = ""
    raw: float | None = None
    more_is_better: bool = False

    @property
    def ratio(self) -> float | None:
        return self.measured / self.raw if self.raw else None

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        met = self.measured >= self.goal if self.more_is_better else self.measured <= self.goal
        return "pass" if met else "MISS"
