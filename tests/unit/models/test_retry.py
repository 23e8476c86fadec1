"""How long a retry waits, and when there is none."""

from random import Random

import pytest

from moot.daemon.clock import ManualClock, SystemClock
from moot.domain.errors import ModelError
from moot.models.refusals import parse_retry_after
from moot.models.retry import LONGEST_WAIT, RetryPolicy


def test_waits_are_random_below_a_doubling_limit() -> None:
    patience = RetryPolicy(retries=99, rng=Random(5), clock=SystemClock())
    error = ModelError("x", retryable=True)

    for attempt in range(1, 12):
        waits = [patience.wait(attempt, error) for _ in range(200)]
        limit = min(LONGEST_WAIT, 0.5 * 2**attempt)
        assert max(waits) <= limit
        assert min(waits) < limit * 0.1
        assert max(waits) > limit * 0.9


def test_a_lasting_failure_is_raised_at_once() -> None:
    error = ModelError("x")

    with pytest.raises(ModelError) as raised:
        RetryPolicy(retries=3, rng=Random(5), clock=SystemClock()).wait(1, error)

    assert raised.value is error


def test_a_wish_beyond_a_minute_fails_and_names_the_moment() -> None:
    patience = RetryPolicy(retries=3, rng=Random(5), clock=ManualClock(0.0))

    with pytest.raises(ModelError) as raised:
        patience.wait(1, ModelError("Busy.", retryable=True, after=120.0))

    assert raised.value.fix == "Try again after 1970-01-01 00:02:00 UTC."


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:50 GMT"}, 40.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:50 GMT", "date": "Thu, 01 Jan 1970 00:00:45 GMT"}, 5.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:05 GMT"}, 0.0),
        ({"retry-after": "1e400"}, 1e9),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Thu, 99 Foo 1970"}, None),
        ({}, None),
    ],
)
def test_the_wish_of_a_server_is_read_in_either_form(headers: dict[str, str], seconds: float | None) -> None:
    assert parse_retry_after(headers, now=10.0) == seconds
