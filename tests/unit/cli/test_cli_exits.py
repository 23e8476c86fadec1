"""Every error and every outcome has its exit code, in one table."""

import pytest

from moot.cli import exits
from moot.cli.exits import Exit
from moot.client.errors import TimedOut, Unreachable
from moot.domain import errors
from moot.domain.run import Outcome


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.BadRequest("x"), 2),
        (errors.TooLarge("x"), 2),
        (errors.Unauthorized("x"), 4),
        (errors.Forbidden("x"), 4),
        (errors.NotFound("x"), 6),
        (Unreachable("x"), 69),
        (errors.Unavailable("x"), 69),
        (errors.Busy("x"), 75),
        (errors.ConfigError("x"), 78),
        (TimedOut("x"), 124),
        (errors.Conflict("x"), 1),
        (errors.ModelError("x"), 1),
        (errors.StoreError("x"), 1),
        (errors.MootError("x"), 1),
    ],
)
def test_an_error_asks_for_its_exit_code(error: errors.MootError, code: int) -> None:
    assert exits.exit_for_error(error) == code


@pytest.mark.parametrize("outcome", list(Outcome))
def test_only_a_completed_run_exits_with_success(outcome: Outcome) -> None:
    expected = {Outcome.COMPLETED: 0, Outcome.DENIED: 4, Outcome.LIMIT: 5}

    assert exits.exit_for_outcome(outcome) == expected.get(outcome, 1)


def test_every_exit_code_says_what_it_means() -> None:
    assert set(exits.MEANINGS) == set(Exit)
