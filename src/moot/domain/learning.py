"""What tool calls teach: a record of each, the pattern of what went wrong, and results worth keeping. Pure."""

import re

from msgspec import Struct

from moot.domain.conversation import ConversationKey

PATTERN_LENGTH = 200
_READ = 2_000
FIRST_CONFIDENCE = 0.5


class CallRecord(Struct, frozen=True, kw_only=True):
    """One finished call, as the audit keeps it and as it is published."""

    agent: str
    sender: str
    run_id: str
    call_id: str
    tool: str
    ok: bool
    seconds: float
    at: float


class Failure(Struct, frozen=True, kw_only=True):
    """How a tool failed, without what was particular to the call: it is shared between conversations."""

    tool: str
    pattern: str
    diagnosis: str
    category: str
    taint: frozenset[str] = frozenset()


class Lesson(Struct, frozen=True, kw_only=True):
    """What one call teaches: that it happened, how it failed, or which earlier failures of its run it got over."""

    record: CallRecord
    failure: Failure | None = None
    overcome: tuple[str, ...] = ()


class Knowledge(Struct, frozen=True, kw_only=True):
    """One version of something known. Versions of a key count from 1."""

    key: str
    category: str
    content: str
    tags: tuple[str, ...] = ()
    source: str = ""
    taint: frozenset[str] = frozenset()
    version: int = 0
    created_at: float = 0.0
    # The conversation it comes from; it is not kept once that one is deleted.
    owner: ConversationKey | None = None


def trigger(tool: str) -> str:
    return f"tool:{tool}"


def result_key(agent: str, sender: str, tool: str) -> str:
    """Neither an agent's nor a tool's name has a colon in it, so no two owners share a key."""
    return f"tool_result:{agent}:{sender}:{tool}"


def confidence_after_success(confidence: float) -> float:
    """A tenth of the way to certainty for each time."""
    return confidence + (1.0 - confidence) * 0.1


# What is particular to one call, in the order it is taken out. None of these can take long on any text.
_PARTICULARS = (
    (re.compile(r"\bhttps?://\S+"), "<url>"),
    (re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,64}"), "<address>"),
    (re.compile(r"\"[^\"\n]{0,400}\"|'[^'\n]{0,400}'|`[^`\n]{0,400}`|«[^»\n]{0,400}»|“[^”\n]{0,400}”"), "<text>"),
    (re.compile(r"(?<![\w/<])~?(?:/[^\s/:,;]+)+/?"), "<path>"),
    (re.compile(r"\b[\w-]{1,64}(?:\.[\w-]{1,64}){0,4}\.[A-Za-z]{2,6}\b"), "<name>"),
    (re.compile(r"\b(?=\w*\d)\w{4,}\b"), "<id>"),
    (re.compile(r"\d+"), "<n>"),
)
# The kind of failure, what it is called for people, and the words it is known by.
_CATEGORIES = (
    ("timeout", "It took too long.", r"\btime[ds]?[ -]?out\b|\btook too long\b|\bdeadline\b"),
    ("permission", "It was not allowed.", r"\bdenied\b|\bforbidden\b|\bnot allowed\b|\bpermission\b"),
    ("not_found", "What it was about is not there.", r"\bnot found\b|\bno such\b|\bnot exist\b|\bthere is no\b"),
    ("network", "Something could not be reached.", r"\bconnect|\bnetwork\b|\bunreachable\b|\bdns\b|\bhost\b"),
    ("arguments", "It was called wrongly.", r"\binvalid\b|\bmissing\b|\bmust be\b|\bparameter\b|\bexpected\b"),
    ("other", "Why is not known.", ""),
)
_SIGNS = tuple((name, diagnosis, re.compile(words, re.IGNORECASE)) for name, diagnosis, words in _CATEGORIES)


def failure(tool: str, error: str, taint: frozenset[str] = frozenset()) -> Failure:
    """What is general about an error: two calls that failed alike have one pattern.

    Only the first line goes into it, and nothing particular to the call: learnings are shared between conversations.
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
    """A line without paths, addresses, quotations, numbers and ids."""
    for particular, mark in _PARTICULARS:
        line = particular.sub(mark, line)
    return " ".join(line.split())
