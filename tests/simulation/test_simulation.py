"""A few seeds of the simulation, that a seed plays the same way twice, and that deliberate defects are found."""

import gc
import logging
import sys
import warnings
from collections.abc import Iterator

import pytest

from tests.simulation.__main__ import find_first, find_violation
from tests.simulation.mutants import MUTANTS
from tests.simulation.scenario import Scenario


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A daemon that crashes leaves tasks that nobody waits for, and logs what nobody reads."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _unraisable: None)
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield
        gc.collect()
    logging.disable(logging.NOTSET)


# Those that have found something once, and a few more.
@pytest.mark.parametrize("seed", [166, 400, 993, 1312, 1508, *range(20)])
def test_whatever_happens_what_clients_were_told_is_true_and_everything_comes_to_an_end(seed: int) -> None:
    assert find_violation(seed)[1] == ""


def test_a_seed_plays_the_same_way_again() -> None:
    traces = []
    for _ in range(2):
        scenario = Scenario(3)
        scenario.run()
        traces.append(scenario.world.trace)
    assert traces[0] == traces[1]
    assert len(traces[0]) > 10


@pytest.mark.parametrize("name", MUTANTS)
def test_a_deliberate_defect_is_found(name: str) -> None:
    found, problem = find_first(name, range(100))
    assert found is not None
    assert problem
