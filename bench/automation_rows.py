"""The rows of the table about schedules and workflows, which bench/automation.py measures."""

from collections.abc import Callable

from bench.row import Row
from bench.work import Tally


def _start(tally: Tally) -> Row:
    raw = tally.median("automation.start_without") * 1e3
    return Row(
        name="schedules-start",
        what="CPU of a start with 10,000 schedules", unit="ms",
        measured=tally.median("automation.start_with") * 1e3, noise=tally.noise("automation.start_with"),
        goal=1.1 * raw, rule="1.1 x with none", raw=raw,
    )  # fmt: skip


def _idle(tally: Tally) -> Row:
    return Row(
        name="schedules-idle",
        what="CPU of an idle daemon with 10,000 schedules", unit="%",
        measured=tally.median("automation.idle_with") * 100, noise=tally.noise("automation.idle_with"),
        goal=0.2, rule="", raw=tally.median("automation.idle_without") * 100,
    )  # fmt: skip


def _late(tally: Tally) -> Row:
    return Row(
        name="schedules-late",
        what="from the time of a job to its run, 10,000 schedules", unit="ms",
        measured=tally.median("automation.late") * 1e3, noise=tally.noise("automation.late"),
        goal=1_000.0, rule="",
    )  # fmt: skip


def _step(tally: Tally) -> Row:
    """What a step takes more than a background run that a client starts, as many at once."""
    raw = tally.median("automation.run") * 1e3
    return Row(
        name="workflow-step",
        what="a step of a workflow of 1,000", unit="ms",
        measured=tally.median("automation.step") * 1e3, noise=tally.noise("automation.step"),
        goal=raw + 2.0, rule="a background run + 2 ms", raw=raw,
    )  # fmt: skip


def _fair(tally: Tally) -> Row:
    return Row(
        name="workflow-fair",
        what="100 workflows at once: first end / last end", unit="",
        measured=tally.median("automation.fairness"), noise=tally.noise("automation.fairness"),
        goal=0.6, rule="", more_is_better=True,
    )  # fmt: skip


ROWS: dict[str, Callable[[Tally], Row]] = {
    "schedules-start": _start,
    "schedules-idle": _idle,
    "schedules-late": _late,
    "workflow-step": _step,
    "workflow-fair": _fair,
}
