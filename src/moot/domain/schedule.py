"""Schedules: cron expressions, intervals and one-time instants with time zones, and when they are due. Pure.

Used by domain/cron_job.py and automation/scheduler.py. The rules at daylight saving time are in docs/schedules.md.
"""

import re
from datetime import UTC, datetime, tzinfo
from enum import StrEnum

from msgspec import Struct

from moot.domain.errors import BadRequest
from moot.domain.near_names import suggest_name

LONGEST_SCHEDULE = 200
# A job that is due more often would keep a model busy without a pause.
SHORTEST_INTERVAL = 10.0
LONGEST_INTERVAL = 10 * 366 * 86_400.0

# 2200-01-01.
_LAST_INSTANT = 7_258_118_400.0

_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[dhms]))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])")
_CRON_FIELDS = 5
_NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_CRON_FIX = 'Write minute, hour, day, month and weekday, such as "0 8 * * MON-FRI", or @daily.'


class ScheduleKind(StrEnum):
    CRON = "cron"
    EVERY = "every"
    AT = "at"


class Schedule(Struct, frozen=True, kw_only=True):
    """When a job is due: a cron expression, an interval, or an instant. Times of day are those of the zone."""

    kind: ScheduleKind
    text: str
    # The IANA name of a time zone.
    zone: str = "UTC"

    def find_next(self, after: float, *, anchor: float) -> float | None:
        """Return the first instant after `after` at which it is due; None if there is none.

        An interval is counted from `anchor`.
        """
        match self.kind:
            case ScheduleKind.AT:
                instant = _read_instant(self.text, find_zone(self.zone))
                return instant if instant > after else None
            case ScheduleKind.EVERY:
                interval = parse_duration(self.text)
                return anchor + interval * max(1, int((after - anchor) // interval) + 1)
            case ScheduleKind.CRON:
                return _find_next_match(self.text, after, find_zone(self.zone))

    def find_first(self, after: float, *, anchor: float) -> float | None:
        """Return the first instant after `after`, which may also be long before the anchor of an interval."""
        if self.kind is not ScheduleKind.EVERY:
            return self.find_next(after, anchor=anchor)
        interval = parse_duration(self.text)
        return anchor + interval * (int((after - anchor) // interval) + 1)


def parse_schedule(kind: str, text: str, zone: str, *, now: float) -> Schedule:
    """Return the schedule. Raise BadRequest if it is invalid, in the past, or never due."""
    if kind not in tuple(ScheduleKind):
        raise BadRequest(f"{kind!r} is not a type of schedule", fix=f"Types are: {', '.join(ScheduleKind)}.")
    if len(text) > LONGEST_SCHEDULE:
        raise BadRequest(f"the schedule has {len(text)} characters", fix=f"At most {LONGEST_SCHEDULE} are accepted.")
    find_zone(zone)
    schedule = Schedule(kind=ScheduleKind(kind), text=" ".join(text.split()), zone=zone)
    if schedule.kind is ScheduleKind.EVERY:
        check_interval(schedule.text)
    if schedule.find_next(now, anchor=now) is not None:
        return schedule
    if schedule.kind is ScheduleKind.AT:
        raise BadRequest(f"{schedule.text} is in the past", fix="Give a time in the future.")
    raise BadRequest(f"the cron expression {schedule.text!r} never fires", fix="No date matches it in 50 years.")


def check_interval(text: str) -> None:
    seconds = parse_duration(text)
    if seconds < SHORTEST_INTERVAL:
        raise BadRequest(f"the interval {text} is too short", fix=f"The shortest is {SHORTEST_INTERVAL:g}s.")
    if seconds > LONGEST_INTERVAL:
        raise BadRequest(f"the interval {text} is too long", fix="The longest is ten years.")


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as 1h30m, 45s or 1.5h."""
    if len(text) > LONGEST_SCHEDULE or not _DURATION.fullmatch(text):
        raise BadRequest(f"{text!r} is not a duration", fix="Write it as 1h30m, 45s or 2d.")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def find_zone(name: str) -> tzinfo:
    """Return a time zone by its IANA name."""
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones  # noqa: PLC0415 - only if one is used

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = sorted(available_timezones())
        fix = suggest_name(name, known) or "Use an IANA name such as Europe/Berlin."
        raise BadRequest(f"there is no time zone {name!r}", fix=fix.strip()) from None


def format_instant(instant: float, zone: str) -> str:
    """Return an instant as local time of the zone, with its offset."""
    return datetime.fromtimestamp(instant, find_zone(zone)).isoformat(timespec="seconds")


def _read_instant(text: str, zone: tzinfo) -> float:
    """Return the instant of an RFC 3339 time. Without an offset it is local time of the zone.

    Of a local time that occurs twice the first is meant; one that is skipped is moved by the length of the gap.
    """
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        read = None
    if read is None or "T" not in text.upper().replace(" ", "T"):
        raise BadRequest(
            f"{text!r} is not a date and time", fix="Write it as 2027-01-31T08:00:00+01:00 (RFC 3339)."
        ) from None
    if read.tzinfo is None:
        read = read.replace(tzinfo=zone, fold=0)
    instant = read.timestamp()
    if instant > _LAST_INSTANT:
        raise BadRequest(f"{text} is too far away", fix="Give a year before 2200.")
    return instant


def _find_next_match(text: str, after: float, zone: tzinfo) -> float | None:
    from cronsim import CronSim, CronSimError  # noqa: PLC0415 - only if there is such a schedule

    expression = _NAMED.get(text.lower(), text)
    if len(expression.split()) != _CRON_FIELDS:
        raise BadRequest(f"the cron expression {text!r} does not have {_CRON_FIELDS} fields", fix=_CRON_FIX)
    try:
        matches = CronSim(expression, datetime.fromtimestamp(after, zone))
    except CronSimError as error:
        field = str(error).removeprefix("Bad ")
        raise BadRequest(f"the {field} of the cron expression {text!r} does not exist", fix=_CRON_FIX) from None
    # In the second of two equal hours the first match may be one of the first hour.
    return next((instant for match in matches if (instant := match.timestamp()) > after), None)
