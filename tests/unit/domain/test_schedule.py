"""When schedules are due, also where the clock is changed, and what is no schedule."""

from datetime import datetime

import pytest

from moot.domain.errors import BadRequest
from moot.domain.schedule import find_zone, format_instant, parse_duration, parse_schedule

NOW = 1_800_000_000.0


def times(expression: str, zone: str, start: str, count: int) -> list[str]:
    """The next times of a cron expression, in local time with its offset."""
    instant = datetime.fromisoformat(start).replace(tzinfo=find_zone(zone)).timestamp()
    schedule = parse_schedule("cron", expression, zone, now=instant)
    found: list[str] = []
    for _ in range(count):
        following = schedule.find_next(instant, anchor=instant)
        assert following is not None
        assert following > instant
        found.append(format_instant(following, zone)[5:])
        instant = following
    return found


BERLIN, FORWARD, BACK = "Europe/Berlin", "2027-03-28T00:15:00", "2027-10-31T00:15:00"


@pytest.mark.parametrize(
    ("expression", "zone", "start", "expected"),
    [
        # The hour from 2 to 3 does not exist: a fixed time in it is due at its end, once.
        ("30 2 * * *", BERLIN, FORWARD, ["03-28T03:00:00+02:00", "03-29T02:30:00+02:00"]),
        ("30 1-3 * * *", BERLIN, FORWARD, ["03-28T01:30:00+01:00", "03-28T03:00:00+02:00", "03-28T03:30:00+02:00"]),
        ("0 * * * *", BERLIN, FORWARD, ["03-28T01:00:00+01:00", "03-28T03:00:00+02:00", "03-28T04:00:00+02:00"]),
        ("15 2 * * *", "America/New_York", "2027-03-14T00:00:00", ["03-14T03:00:00-04:00", "03-15T02:15:00-04:00"]),
        # Half an hour is left out.
        ("15 2 * * *", "Australia/Lord_Howe", "2027-10-03T00:00:00", ["10-03T02:30:00+11:00", "10-04T02:15:00+11:00"]),
        # The hour from 2 to 3 is there twice: a fixed time in it is due in the first.
        ("30 2 * * *", BERLIN, BACK, ["10-31T02:30:00+02:00", "11-01T02:30:00+01:00"]),
        ("0 3 * * *", BERLIN, BACK, ["10-31T03:00:00+01:00", "11-01T03:00:00+01:00"]),
        ("0 * * * *", BERLIN, BACK, ["10-31T01:00:00+02:00", "10-31T02:00:00+02:00", "10-31T02:00:00+01:00"]),
        ("0 12 * * *", "UTC", BACK, ["10-31T12:00:00+00:00", "11-01T12:00:00+00:00"]),
        ("@monthly", BERLIN, BACK, ["11-01T00:00:00+01:00", "12-01T00:00:00+01:00"]),
        ("0 8 L * *", "Asia/Kolkata", "2028-02-01T00:00:00", ["02-29T08:00:00+05:30", "03-31T08:00:00+05:30"]),
    ],
)
def test_a_cron_expression_is_due_in_its_time_zone(expression: str, zone: str, start: str, expected: list[str]) -> None:
    assert times(expression, zone, start, len(expected)) == expected


def test_in_the_second_of_two_equal_hours_the_first_is_past() -> None:
    second = datetime.fromisoformat("2027-10-31T02:10:00+01:00").timestamp()
    schedule = parse_schedule("cron", "30 2 * * *", BERLIN, now=second)
    following = schedule.find_next(second, anchor=second)
    assert following is not None
    assert format_instant(following, BERLIN) == "2027-11-01T02:30:00+01:00"


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2027-03-28T02:30:00", BERLIN, "2027-03-28T03:30:00+02:00"),
        ("2027-10-31T02:30:00", BERLIN, "2027-10-31T02:30:00+02:00"),
        ("2027-10-31T02:30:00+01:00", BERLIN, "2027-10-31T02:30:00+01:00"),
        ("2027-10-31T02:30:00Z", BERLIN, "2027-10-31T03:30:00+01:00"),
    ],
)
def test_a_time_without_an_offset_is_local(text: str, zone: str, expected: str) -> None:
    instant = parse_schedule("at", text, zone, now=NOW).find_next(NOW, anchor=NOW)
    assert instant is not None
    assert format_instant(instant, zone) == expected
    assert parse_schedule("at", text, zone, now=NOW).find_next(instant, anchor=NOW) is None


def test_an_interval_keeps_its_phase() -> None:
    schedule = parse_schedule("every", "1h30m", "UTC", now=NOW)
    assert schedule.find_next(NOW, anchor=NOW) == NOW + 5_400
    assert schedule.find_next(NOW + 5_400, anchor=NOW) == NOW + 10_800
    # However late it is looked at.
    assert schedule.find_next(NOW + 20_000, anchor=NOW + 5_400) == NOW + 21_600


@pytest.mark.parametrize(
    ("text", "seconds"), [("1h30m", 5400), ("45s", 45), ("1.5h", 5400), ("2d", 172_800), ("500ms", 0.5)]
)
def test_a_duration_is_written_with_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("kind", "text", "zone", "problem"),
    [
        ("at", "2020-01-01T00:00:00Z", "UTC", "is in the past"),
        ("at", "9999-12-31T23:59:59-23:59", "UTC", "is too far away"),
        ("at", "tomorrow", "UTC", "is not a date and time"),
        ("at", "2027-01-01", "UTC", "is not a date and time"),
        ("every", "5s", "UTC", "is too short"),
        ("every", "99999999h", "UTC", "is too long"),
        ("every", "1e9h", "UTC", "is not a duration"),
        ("every", "", "UTC", "is not a duration"),
        ("cron", "0 0 31 2 *", "UTC", "day-of-month .* does not exist"),
        ("cron", "* * */20 * 1L", "UTC", "never fires"),
        ("cron", "61 * * * *", "UTC", "minute .* does not exist"),
        ("cron", "* * * * * *", "UTC", "does not have 5 fields"),
        ("cron", "@nope", "UTC", "does not have 5 fields"),
        ("cron", "* " * 200, "UTC", "characters"),
        ("cron", "0 0 * * *", "Europe/Berln", "no time zone 'Europe/Berln'"),
        ("cron", "0 0 * * *", "../etc/passwd", "no time zone"),
        ("cron", "0 0 * * *", "Europe", "no time zone"),
        ("weekly", "x", "UTC", "is not a type of schedule"),
    ],
)
def test_what_is_never_due_is_refused(kind: str, text: str, zone: str, problem: str) -> None:
    with pytest.raises(BadRequest, match=problem):
        parse_schedule(kind, text, zone, now=NOW)
