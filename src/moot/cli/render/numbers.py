"""Formats costs, counts, times and durations, and reads numbers that were typed. Used by every renderer."""

from datetime import datetime

from moot.cli.render import sanitize

# The largest number that every field of a request can hold.
_LARGEST = 2**31 - 1


def format_cost(amount: float) -> str:
    """US dollars with enough decimal places to show small amounts."""
    if amount <= 0:
        return "$0"
    return f"${amount:.2f}" if amount >= 1 else f"${amount:.4f}"


def format_count(number: int) -> str:
    """A short number: 950, 1.2k, 3.4M."""
    if number < 1_000:
        return str(number)
    return f"{number / 1_000:.1f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"


def format_size(size: int) -> str:
    """A size in bytes: 950 B, 1.2 KB, 3.4 MB, 77.2 GB."""
    if size < 1_000:
        return f"{size} B"
    if size < 1_000_000_000:
        return f"{size / 1_000:.1f} KB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"
    return f"{size / 1_000_000_000:.1f} GB"


def format_plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_span(seconds: int) -> str:
    """A rounded duration: 90 s, 20 min, 3 h."""
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7_200 else f"{seconds // 3_600} h"


def format_milliseconds(duration: int) -> str:
    """How long a call took: 12 ms, 1.5 s."""
    return f"{duration / 1000:.1f} s" if duration >= 1000 else f"{duration} ms"


def format_time(timestamp: float) -> str:
    """A time in the local time zone; empty for none."""
    return datetime.fromtimestamp(timestamp).astimezone().strftime("%Y-%m-%d %H:%M") if timestamp else ""


def format_moment(text: str) -> str:
    """A time in ISO 8601, of an event or a log, to the second in the local time zone."""
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return sanitize.line(text)


def read_number(typed: str) -> int | None:
    """The whole number that was typed, or None. A larger one than any list has is the largest that can be sent."""
    if not (typed.isascii() and typed.isdecimal()):
        return None
    digits = typed.lstrip("0") or "0"
    return min(int(digits[:10]), _LARGEST) if len(digits) <= 10 else _LARGEST
