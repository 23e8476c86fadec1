"""Types and predicates of the knowledge graph: life cycle, names, and points in time. Used with graph.py. Pure."""

import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from moot.domain.errors import BadRequest, Conflict, NotFound
from moot.domain.graph import Fact, Period
from moot.domain.near_names import suggest_name

NAME_LENGTH = 64
# Types and predicates of one owner.
MOST_TERMS = 1_000

_NAME = re.compile(r"[^\W\d_][\w.:-]*")
_SEPARATORS = re.compile(r"[\s_.:-]+")
# Shorter names often differ by one letter without being the same.
_SHORTEST_TYPO = 5


class TermKind(StrEnum):
    TYPE = "type"
    PREDICATE = "predicate"


class TermStatus(StrEnum):
    """The life cycle of a type or predicate.

    Facts of quarantined predicates are hidden. Quarantined and deprecated types and predicates take no new data.
    """

    PROPOSED = "proposed"
    SHADOW = "shadow"
    ACTIVE = "active"
    QUARANTINED = "quarantined"
    DEPRECATED = "deprecated"


_NEXT: dict[TermStatus, tuple[TermStatus, ...]] = {
    TermStatus.PROPOSED: (TermStatus.SHADOW, TermStatus.QUARANTINED),
    TermStatus.SHADOW: (TermStatus.ACTIVE, TermStatus.QUARANTINED, TermStatus.DEPRECATED),
    TermStatus.ACTIVE: (TermStatus.QUARANTINED, TermStatus.DEPRECATED),
    TermStatus.QUARANTINED: (TermStatus.SHADOW, TermStatus.DEPRECATED),
    TermStatus.DEPRECATED: (TermStatus.SHADOW,),
}
TARGETS = tuple(status for status in TermStatus if status is not TermStatus.PROPOSED)
_CLOSED = (TermStatus.QUARANTINED, TermStatus.DEPRECATED)


class Term(Struct, frozen=True, kw_only=True):
    """A type or a predicate, as its newest change has left it. An exclusive predicate has one object at a time."""

    kind: TermKind
    name: str
    status: TermStatus
    is_exclusive: bool = False
    # Why it has this status.
    reason: str = ""
    changed_at: float = 0.0
    taint: frozenset[str] = frozenset()

    @property
    def is_closed(self) -> bool:
        """Whether new data must not use it."""
        return self.status in _CLOSED


class TermUsage(Struct, frozen=True, kw_only=True):
    """How much a type is used."""

    entities: int
    facts: int
    # How many of the entities have each property, and how many facts each predicate.
    properties: dict[str, int]
    predicates: dict[str, int]
    # That of the names in it.
    taint: frozenset[str] = frozenset()


class GraphHealth(Struct, frozen=True, kw_only=True):
    """Counts of a graph."""

    types: dict[str, int]
    predicates: dict[str, int]
    entities: int
    merged: int
    facts: int
    retracted: int
    conflicts: int


STATUS_PREDICATE = "has_status"
_BUILT_IN = "built in"


def _built_in(kind: TermKind, names: Iterable[str], *, exclusive: Collection[str] = ()) -> list[Term]:
    return [
        Term(kind=kind, name=name, status=TermStatus.ACTIVE, is_exclusive=name in exclusive, reason=_BUILT_IN)
        for name in names
    ]


# What every graph begins with.
BUILT_IN_TERMS = {
    (term.kind, term.name): term
    for term in (
        *_built_in(TermKind.TYPE, ("person", "organization", "place", "event", "document", "project", "tool", "thing")),
        *_built_in(
            TermKind.PREDICATE,
            ("is_a", "part_of", "related_to", "located_in", "works_at", "knows", "made_by", "caused_by", "resolved_by",
             "born_on", "born_in", "died_on", STATUS_PREDICATE),
            exclusive=("born_on", "born_in", "died_on", STATUS_PREDICATE),
        ),
    )
}  # fmt: skip

Terms = dict[tuple[TermKind, str], Term]


# ---- life cycle -----------------------------------------------------------------------------------


def parse_status(name: str) -> TermStatus:
    for status in TARGETS:
        if status.value == name.strip().lower():
            return status
    near = suggest_name(name, [status.value for status in TARGETS])
    raise BadRequest(f"{name!r} is not a status to change to", fix=f"{near}Use one of: {', '.join(TARGETS)}.")


def check_transition(term: Term, target: TermStatus) -> None:
    allowed = _NEXT[term.status]
    if target not in allowed:
        raise Conflict(
            f"the {term.kind} {term.name!r} is {term.status} and cannot become {target}",
            fix=f"From {term.status} it can become: {', '.join(allowed)}.",
        )


def check_open(term: Term) -> None:
    """Raise if new data must not use the type or predicate."""
    if term.is_closed:
        raise Conflict(
            f"the {term.kind} {term.name!r} is {term.status}: {term.reason or 'no reason is recorded'}",
            fix=f"Use another {term.kind}, or change its status first.",
        ).with_taint(term.taint)


def list_hidden(terms: Terms) -> frozenset[str]:
    """Return the predicates whose facts are not shown."""
    return frozenset(
        name
        for (kind, name), term in terms.items()
        if kind is TermKind.PREDICATE and term.status is TermStatus.QUARANTINED
    )


def list_exclusive(terms: Terms) -> frozenset[str]:
    """Return the predicates that allow one object at a time and are shown."""
    return frozenset(
        name
        for (kind, name), term in terms.items()
        if kind is TermKind.PREDICATE and term.is_exclusive and term.status is not TermStatus.QUARANTINED
    )


# ---- names ----------------------------------------------------------------------------------------


def check_name(kind: TermKind, name: str) -> None:
    if len(name) > NAME_LENGTH or not _NAME.fullmatch(name):
        raise BadRequest(
            f"{name[:NAME_LENGTH]!r} cannot be the name of a {kind}",
            fix=f"Use a letter, then letters, digits, _ - . or :, at most {NAME_LENGTH} characters.",
        )


def require_term(terms: Terms, kind: TermKind, name: str) -> Term:
    found = terms.get((kind, name))
    if found is None:
        near = suggest_name(name, [term.name for term in terms.values() if term.kind is kind and not term.taint])
        raise NotFound(
            f"there is no {kind} {name[:NAME_LENGTH]!r}",
            fix=f"{near}List them with ontology_list_types or `moot graph types`.",
        )
    return found


def make_unknown_error(terms: Terms, kind: TermKind, name: str) -> NotFound:
    """Return the error for data that uses an unknown type or predicate: the nearest name, and how to add it."""
    near = suggest_name(name, [term.name for term in terms.values() if term.kind is kind and not term.taint])
    return NotFound(
        f"there is no {kind} {name[:NAME_LENGTH]!r}",
        fix=f"{near}An agent adds one with `propose`, an import with `{kind}s`, "
        f"a person with `moot graph define {kind}`.",
    )


def check_number(terms: Terms, kind: TermKind, name: str) -> None:
    count = sum(1 for each, _ in terms if each is kind)
    if count >= MOST_TERMS:
        raise BadRequest(f"there are {count} {kind}s already", fix=f"Use one of these instead of {name!r}.")


def check_proposal(terms: Terms, kind: TermKind, name: str) -> None:
    """Raise if an unknown name cannot be proposed: it is no name, one too many, or a known one misspelt.

    It counts as misspelt if it differs from a known name only in case and separators, or in one letter.
    """
    check_name(kind, name)
    for known in (each.name for each in terms.values() if each.kind is kind):
        if _is_typo(name, known):
            raise NotFound(
                f"there is no {kind} {name!r}",
                fix=f"Did you mean {known!r}? A person can add it as it is: `moot graph define {kind} {name}`.",
            ).with_taint(terms[kind, known].taint)
    check_number(terms, kind, name)


def _is_typo(name: str, known: str) -> bool:
    one, other = (_SEPARATORS.sub("", each.casefold()) for each in (name, known))
    return one == other or (min(len(one), len(other)) >= _SHORTEST_TYPO and _differ_by_one(one, other))


def _differ_by_one(one: str, other: str) -> bool:
    """Whether one letter was added, left out or changed, or two neighbours were swapped."""
    if abs(len(one) - len(other)) > 1:
        return False
    first = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    if first is None:
        return True
    rest, others = one[first:], other[first:]
    swapped = rest[:2] == others[:2][::-1] and rest[2:] == others[2:]
    return swapped or rest[1:] == others[1:] or rest[1:] == others or rest == others[1:]


# ---- points in time -------------------------------------------------------------------------------

_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")
_COMPACT_DATE = re.compile(r"(\d{4})(\d{2})(\d{2})")
# Python reads a week as the first instant of its Monday.
_WEEK = re.compile(r"\d{4}-?W", re.IGNORECASE)


def parse_period(text: str, what: str) -> Period:
    """Return the time that a text names: an instant, or all of a day, a month or a year in UTC."""
    plain = text.strip()
    try:
        if found := _DATE.fullmatch(plain) or _COMPACT_DATE.fullmatch(plain):
            return _parse_date(*found.groups())
        if _WEEK.match(plain):
            raise ValueError(plain)
        instant = datetime.fromisoformat(plain)
        if instant.tzinfo is None:
            instant = instant.replace(tzinfo=UTC)
        at = instant.timestamp()
        return Period(at, at)
    except (ValueError, OverflowError):
        raise BadRequest(
            f"{what} {text[:40]!r} is not a time", fix="Write it like 2026-03-30T12:00:00Z, or a day like 2026-03-30."
        ) from None


def _parse_date(year: str, month: str | None, day: str | None) -> Period:
    start = datetime(int(year), int(month or 1), int(day or 1), tzinfo=UTC)
    try:
        if day:
            end = start + timedelta(days=1)
        elif month:
            end = (start + timedelta(days=32)).replace(day=1)
        else:
            end = start.replace(year=start.year + 1)
    except (ValueError, OverflowError):
        # Many tables write the last day of the calendar for "without an end".
        return Period(start.timestamp())
    return Period(start.timestamp(), end.timestamp())


def parse_validity(since: str, until: str) -> Period | None:
    """Return the validity of a fact; None if nothing is said. An end that is a day includes that day."""
    if not since and not until:
        return None
    start = parse_period(since, "valid_from").start if since else Period().start
    end = parse_period(until, "valid_to").end if until else Period().end
    if end <= start:
        raise BadRequest(f"valid_to {until!r} is not after valid_from", fix="Exchange them, or leave one out.")
    return Period(start, end)


def format_time(at: float, *, is_exact: bool = False) -> str:
    """Return a time in UTC, in seconds or exactly; "" for none."""
    try:
        found = datetime.fromtimestamp(at, UTC).isoformat(timespec="auto" if is_exact else "seconds")
        return found.replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return ""


def dump_fact(fact: Fact) -> dict[str, object]:
    """Return what is known about a fact besides its triple."""
    data: dict[str, object] = {
        "confidence": fact.confidence,
        "source": fact.source,
        "valid_from": format_time(fact.valid.start),
        "valid_to": format_time(fact.effective_period.end if fact.effective_period else fact.valid.end),
        "recorded_at": format_time(fact.recorded_at),
    }
    if fact.is_retracted:
        data |= {"retracted_at": format_time(fact.retracted_at), "reason": fact.reason, "wrong": fact.is_wrong}
    if fact.stated_subject and fact.stated_subject != fact.subject:
        data["stated_subject"] = fact.stated_subject
    if fact.stated_object and fact.stated_object != fact.object:
        data["stated_object"] = fact.stated_object
    return {name: value for name, value in data.items() if value != ""}
