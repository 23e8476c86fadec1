"""What is learned from tool calls: a record of each, failure patterns, fixes, and which fix to offer. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from enum import StrEnum
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest
from moot.domain.near_names import suggest_name
from moot.domain.senders import owner_of

PATTERN_LENGTH = 200
TEXT_LENGTH = 2_000
_READ = 2_000
FIRST_CONFIDENCE = 0.5
# Of a fix that an agent or a person has written down.
SAVED_CONFIDENCE = 0.8
# A fix with less is not offered.
LEAST_CONFIDENCE = 0.4
# Learnings of one owner; the least sure make room.
MOST_LEARNINGS = 5_000
# A pattern shorter than this is in too many errors to be looked for within them.
_SHORTEST_PART = 4
_ARGUMENT_LENGTH = 200
_FIX_LENGTH = 500
_ALIKE = 0.6
# An argument of this length shows what a call is about.
_TELLING = 8


class LearningCategory(StrEnum):
    TOOL_ERROR = "tool_error"
    PROVIDER_ERROR = "provider_error"
    USER_CORRECTION = "user_correction"
    TIMEOUT = "timeout"
    PERMISSION = "permission"
    GENERAL = "general"


class CallRecord(Struct, frozen=True, kw_only=True):
    """One finished call, as it is stored in the audit and published."""

    agent: str
    sender: str
    run_id: str
    call_id: str
    tool: str
    ok: bool
    seconds: float
    at: float


class Failure(Struct, frozen=True, kw_only=True):
    """How a tool failed, without details of the call, so that the same failure is recognised again."""

    tool: str
    pattern: str
    diagnosis: str
    category: LearningCategory
    taint: frozenset[str] = frozenset()
    # The sources of untrusted text in the run. An error repeats arguments of its call, so they count for a pattern that
    # is new; the text of one that is known stays the same.
    run_taint: frozenset[str] = frozenset()


class FixedFailure(Struct, frozen=True, kw_only=True):
    """A failure that a run got over: what was different in the call that worked; empty if that is not known."""

    pattern: str
    fix: str = ""
    taint: frozenset[str] = frozenset()


class CallLearning(Struct, frozen=True, kw_only=True):
    """What is learned from one call: its record, how it failed, or which earlier failures of its run it fixed."""

    record: CallRecord
    # The conversation that the run works for; what is learned belongs to its sender and is deleted with it.
    root: ConversationKey
    failure: Failure | None = None
    fixed: tuple[FixedFailure, ...] = ()
    # The learnings whose fixes were offered to the run before it succeeded, beside those it fixed.
    helpful: tuple[str, ...] = ()
    # The learning whose fix was offered to the run before it failed in the same way again.
    unhelpful: str = ""

    @property
    def owner(self) -> str:
        return owner_of(self.root.sender)


class Learning(Struct, frozen=True, kw_only=True):
    """A failure that is known, and its fix if one is."""

    id: str
    # The sender it belongs to.
    owner: str
    trigger: str
    pattern: str
    diagnosis: str = ""
    fix: str = ""
    category: LearningCategory = LearningCategory.GENERAL
    confidence: float = FIRST_CONFIDENCE
    occurrences: int = 0
    taint: frozenset[str] = frozenset()
    created_at: float = 0.0
    updated_at: float = 0.0
    # The conversation it was observed in; it is deleted with that one. None for what was saved.
    origin: ConversationKey | None = None


class LearningFilter(Struct, frozen=True, kw_only=True):
    """Which learnings to delete; all conditions that are given must hold."""

    id: str = ""
    category: LearningCategory | None = None
    max_confidence: float | None = None
    # Last updated before this time.
    before: float | None = None

    @property
    def is_empty(self) -> bool:
        return self == LearningFilter()

    def matches(self, learning: Learning) -> bool:
        return (
            self.id in ("", learning.id)
            and self.category in (None, learning.category)
            and (self.max_confidence is None or learning.confidence <= self.max_confidence)
            and (self.before is None or learning.updated_at < self.before)
        )


class ToolCount(Struct, frozen=True):
    """The calls of one tool that were recorded, and how many of them failed."""

    tool: str
    calls: int
    failures: int


class LearningStats(Struct, frozen=True, kw_only=True):
    """A summary of the learnings of an owner and of the calls they come from."""

    total: int = 0
    with_fix: int = 0
    by_category: Mapping[str, int] = {}
    average_confidence: float = 0.0
    oldest: float = 0.0
    newest: float = 0.0
    # The tools with the most failures.
    tools: tuple[ToolCount, ...] = ()


def dump_stats(stats: LearningStats) -> dict[str, Any]:
    """Return the summary as JSON data; times are in seconds since 1970, 0 if there are none."""
    return {
        "total": stats.total,
        "with_fix": stats.with_fix,
        "by_category": dict(stats.by_category),
        "average_confidence": round(stats.average_confidence, 3),
        "oldest": stats.oldest,
        "newest": stats.newest,
        "tools": [{"tool": each.tool, "calls": each.calls, "failures": each.failures} for each in stats.tools],
    }


def make_trigger(tool: str) -> str:
    return f"tool:{tool}"


def make_id(owner: str, trigger: str, pattern: str) -> str:
    """Return the id of a learning, derived from its subject, so that concurrent writers update the same row."""
    return "learning-" + sha256(f"{owner}\x00{trigger}\x00{pattern}".encode()).hexdigest()[:16]


def parse_category(name: str) -> LearningCategory:
    try:
        return LearningCategory(name.strip().lower())
    except ValueError:
        known = [category.value for category in LearningCategory]
        raise BadRequest(
            f"{name[:40]!r} is not a category of learnings", fix=f"{suggest_name(name, known)}Use {', '.join(known)}."
        ) from None


def raise_confidence(confidence: float) -> float:
    """Return the confidence after one more success: a tenth closer to 1."""
    return confidence + (1.0 - confidence) * 0.1


def lower_confidence(confidence: float) -> float:
    """Return the confidence after the fix was offered and did not help: a fifth less."""
    return confidence * 0.8


# Details of a single call, in the order they are replaced. All patterns run in bounded time.
_PARTICULARS = (
    (re.compile(r"\bhttps?://\S+"), "<url>"),
    (re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,64}"), "<address>"),
    (re.compile(r"\"[^\"\n]{0,400}\"|'[^'\n]{0,400}'|`[^`\n]{0,400}`|«[^»\n]{0,400}»|“[^”\n]{0,400}”"), "<text>"),
    (re.compile(r"(?<![\w/<])~?(?:/[^\s/:,;]+)+/?"), "<path>"),
    (re.compile(r"\b[\w-]{1,64}(?:\.[\w-]{1,64}){0,4}\.[A-Za-z]{2,6}\b"), "<name>"),
    (re.compile(r"\b(?=\w*\d)\w{4,}\b"), "<id>"),
    (re.compile(r"\d+"), "<n>"),
)
# The category of a failure, its description for people, and the words that identify it.
_SIGNS = tuple(
    (category, diagnosis, re.compile(words, re.IGNORECASE))
    for category, diagnosis, words in (
        (LearningCategory.TIMEOUT, "It took too long.", r"\btime[ds]?[ -]?out\b|\btook too long\b|\bdeadline\b"),
        (
            LearningCategory.PERMISSION,
            "It was not allowed.",
            r"\bdenied\b|\bforbidden\b|\bnot allowed\b|\bpermission\b",
        ),
        (
            LearningCategory.TOOL_ERROR,
            "What it was about is not there.",
            r"\bnot found\b|\bno such\b|\bnot exist\b|\bthere is no\b",
        ),
        (
            LearningCategory.TOOL_ERROR,
            "Something could not be reached.",
            r"\bconnect|\bnetwork\b|\bunreachable\b|\bdns\b|\bhost\b",
        ),
        (
            LearningCategory.TOOL_ERROR,
            "It was called wrongly.",
            r"\binvalid\b|\bmissing\b|\bmust be\b|\bparameter\b|\bexpected\b",
        ),
        (LearningCategory.TOOL_ERROR, "Why is not known.", ""),
    )
)


def generalise_failure(tool: str, error: str, taint: frozenset[str] = frozenset()) -> Failure:
    """Return the general pattern of an error: similar failures have the same pattern.

    Only the first line is used, without details of the call.
    """
    text = error[:_READ].strip()
    category, diagnosis = next((name, diagnosis) for name, diagnosis, sign in _SIGNS if sign.search(text))
    return Failure(
        tool=tool,
        pattern=generalise(text.partition("\n")[0])[:PATTERN_LENGTH].rstrip() or "<nothing was said>",
        diagnosis=diagnosis,
        category=category,
        taint=taint,
    )


def generalise(line: str) -> str:
    """Return a line without paths, addresses, quotations, numbers and ids."""
    for particular, mark in _PARTICULARS:
        line = particular.sub(mark, line)
    return " ".join(line.split())


# ---- fixes ----------------------------------------------------------------------------------------


def choose_fix(known: Iterable[Learning], failed: Failure) -> Learning | None:
    """Return the learning whose fix is to be offered: with the same pattern, or with the longest part of it."""
    error = failed.pattern.lower()
    best: tuple[int, float, str] | None = None
    chosen: Learning | None = None
    for learning in known:
        if not learning.fix or learning.confidence < LEAST_CONFIDENCE:
            continue
        part = generalise(learning.pattern).lower()
        if part != error and (len(part) < _SHORTEST_PART or part not in error):
            continue
        rank = (len(part), learning.confidence, learning.id)
        if best is None or rank > best:
            best, chosen = rank, learning
    return chosen


def summarise_arguments(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the beginning of each argument as text, to compare a failed call with one that worked."""
    return {
        name: value[:_ARGUMENT_LENGTH] if isinstance(value, str) else _to_json(value)[:_ARGUMENT_LENGTH]
        for name, value in arguments.items()
    }


def _to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def describe_correction(failed: Mapping[str, str], worked: Mapping[str, str]) -> str:
    """Return what was different in the call that worked; empty if the calls are not about the same thing."""
    names = list(dict.fromkeys((*worked, *failed)))
    changed = [name for name in names if failed.get(name) != worked.get(name)]
    if not changed or not _is_similar(failed, worked, changed):
        return ""
    new = [f"{name}={_to_json(worked[name])}" for name in changed if name in worked]
    old = [f"{name}={_to_json(failed[name])}" for name in changed if name in failed]
    text = f"It worked with {', '.join(new)}" if new else "It worked"
    text += f" instead of {', '.join(old)}." if new and old else f" without {', '.join(old)}." if old else "."
    return text[:_FIX_LENGTH]


def _is_similar(failed: Mapping[str, str], worked: Mapping[str, str], changed: Sequence[str]) -> bool:
    """Whether an argument that says something is the same, or each changed one resembles what it was."""
    if any(len(failed[name]) >= _TELLING for name in failed if name not in changed):
        return True
    both = [(failed[name], worked[name]) for name in changed if name in failed and name in worked]
    return bool(both) and all(SequenceMatcher(None, old, new).ratio() >= _ALIKE for old, new in both)


def render_offer(learning: Learning) -> str:
    """Return what is added to the result of a call that failed in a known way. The fix is quoted: it is data."""
    return (
        "(A failure like this is known. What helped then, as it was recorded: "
        f"{_to_json(' '.join(learning.fix.split())[:_FIX_LENGTH])})"
    )
