"""What is learned from tool calls: a record of each, failure patterns, and results worth storing. Pure."""

import re

from msgspec import Struct

from moot.domain.conversation import ConversationKey

PATTERN_LENGTH = 200
_READ = 2_000
FIRST_CONFIDENCE = 0.5


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
    """How a tool failed, without details of the call, because it is shared between conversations."""

    tool: str
    pattern: str
    diagnosis: str
    category: str
    taint: frozenset[str] = frozenset()


class Lesson(Struct, frozen=True, kw_only=True):
    """What is learned from one call: its record, how it failed, or which earlier failures of its run it overcame."""

    record: CallRecord
    failure: Failure | None = None
    overcome: tuple[str, ...] = ()


class Knowledge(Struct, frozen=True, kw_only=True):
    """One version of a piece of knowledge. Versions of a key count from 1."""

    key: str
    category: str
    content: str
    tags: tuple[str, ...] = ()
    source: str = ""
    taint: frozenset[str] = frozenset()
    version: int = 0
    created_at: float = 0.0
    # The conversation it comes from; it is deleted with that conversation.
    owner: ConversationKey | None = None


def trigger(tool: str) -> str:
    return f"tool:{tool}"


def result_key(agent: str, sender: str, tool: str) -> str:
    """Return the key of a result. Names of agents and tools have no colon, so no two owners share a key."""
    return f"tool_result:{agent}:{sender}:{tool}"


def confidence_after_success(confidence: float) -> float:
    """Return the confidence after one more success: a tenth closer to 1."""
    return confidence + (1.0 - confidence) * 0.1


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
    """Return the general pattern of an error: similar failures have the same pattern.

    Only the first line is used, without details of the call: learnings are shared between conversations.
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
