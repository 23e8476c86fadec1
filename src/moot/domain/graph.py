"""The knowledge graph: entities, facts about them, and what was true when. Rules of names are in ontology.py. Pure."""

from collections.abc import Callable, Collection, Iterable, Sequence
from math import inf

from msgspec import Struct

from moot.domain.errors import BadRequest
from moot.domain.mail import UNVERIFIED_TAINT
from moot.domain.text import clean, normalize_name

ID_LENGTH = 200
VALUE_LENGTH = 4_096
SOURCE_LENGTH = 200
REASON_LENGTH = 1_000
MOST_PROPERTIES = 64
MOST_FACTS = 500_000
DEFAULT_CONFIDENCE = 0.8
DEFAULT_DEPTH = 2
MOST_DEPTH = 6
# Triples of one answer.
MOST_TRIPLES = 500


class Period(Struct, frozen=True):
    """A time span: from `start` up to but not including `end`."""

    start: float = -inf
    end: float = inf

    def overlaps(self, other: "Period") -> bool:
        """Whether there is an instant in both. A span without length counts as its one instant."""
        if self.start == self.end:
            return other.start <= self.start < other.end or self == other
        if other.start == other.end:
            return self.start <= other.start < self.end
        return self.start < other.end and other.start < self.end


class Entity(Struct, frozen=True, kw_only=True):
    """A thing that facts are about. `aliases` are the entities that were merged into it."""

    id: str
    type: str = ""
    properties: dict[str, str] = {}
    aliases: tuple[str, ...] = ()
    taint: frozenset[str] = frozenset()
    number: int = 0
    created_at: float = 0.0


class Fact(Struct, frozen=True, kw_only=True):
    """A triple. Subject and object are the names after merges; `stated_…` are those it was asserted with.

    `valid` is when it is true as far as it was stated; a retraction ends it, and says why. What was `wrong` was never
    true.
    """

    subject: str
    predicate: str
    object: str
    subject_type: str = ""
    object_type: str = ""
    confidence: float = DEFAULT_CONFIDENCE
    source: str = "manual"
    valid: Period = Period()
    recorded_at: float = 0.0
    retracted_at: float = 0.0
    is_wrong: bool = False
    reason: str = ""
    # The run that asserted it; empty for a person.
    run_id: str = ""
    taint: frozenset[str] = frozenset()
    number: int = 0
    stated_subject: str = ""
    stated_object: str = ""
    # The number of the fact that it lost a conflict to, or that replaced it under another name of a merged entity.
    lost_to: int = 0

    @property
    def effective_period(self) -> Period | None:
        """Return when it was true, as far as is known now; None if it never was."""
        if self.is_wrong:
            return None
        end = min(self.valid.end, self.retracted_at) if self.retracted_at else self.valid.end
        return Period(self.valid.start, end) if end > self.valid.start else None

    @property
    def is_retracted(self) -> bool:
        return self.retracted_at > 0

    @property
    def is_unverified(self) -> bool:
        """Whether it may come from mail of a sender that nobody has confirmed."""
        return UNVERIFIED_TAINT in self.taint

    def is_true_in(self, period: Period) -> bool:
        return self.effective_period is not None and self.effective_period.overlaps(period)


class NewFact(Struct, frozen=True, kw_only=True):
    """A fact to assert."""

    subject: str
    predicate: str
    object: str
    subject_type: str = ""
    object_type: str = ""
    confidence: float = DEFAULT_CONFIDENCE
    source: str = "manual"
    # None: from the moment it is recorded, without an end.
    valid: Period | None = None


class NewEntity(Struct, frozen=True, kw_only=True):
    """An entity to import, and the facts that it is the subject of."""

    id: str
    type: str = ""
    properties: dict[str, str] = {}
    facts: tuple[NewFact, ...] = ()
    # Other names of it.
    aliases: tuple[str, ...] = ()
    # Where it is in the imported text: `line 3`.
    place: str = ""


class Statement(Struct, frozen=True, kw_only=True):
    """Who changes the graph, when, and with what untrusted text in mind."""

    now: float
    run_id: str = ""
    taint: frozenset[str] = frozenset()
    # Kind and name of types and predicates that are closed to new data, but not to what is imported with them.
    closed_terms: frozenset[tuple[str, str]] = frozenset()


class FactConflict(Struct, frozen=True, kw_only=True):
    """Facts about one subject of which at most one can be true at a time. Derived from the facts."""

    id: str
    subject: str
    predicate: str
    facts: tuple[Fact, ...]


class AssertedFact(Struct, frozen=True, kw_only=True):
    """A fact that was asserted: whether it was new, and what it contradicts."""

    fact: Fact
    is_new: bool
    conflict: FactConflict | None = None
    # Types and predicates that did not exist before.
    proposed: tuple[str, ...] = ()


class MergedEntity(Struct, frozen=True, kw_only=True):
    """A merge or its undoing: the names of the entity now, and the conflicts this has made.

    `facts` is how many facts are true of the merged or separated name, as subject or as object.

    `restored` are facts that were retracted only because of the merge that is undone.
    """

    canonical: str
    duplicate: str
    facts: int
    aliases: tuple[str, ...]
    conflicts: tuple[FactConflict, ...] = ()
    restored: tuple[Fact, ...] = ()


class Refusal(Struct, frozen=True, kw_only=True):
    """A row or entity that was not imported."""

    place: str
    reason: str


class Imported(Struct, frozen=True, kw_only=True):
    """What an import has changed."""

    entities: int
    facts: int
    refusals: tuple[Refusal, ...] = ()
    # New facts that contradict others.
    conflicts: int = 0
    proposed: tuple[str, ...] = ()
    # That of the reasons of refusals.
    taint: frozenset[str] = frozenset()


class FactFilter(Struct, frozen=True, kw_only=True):
    """Which facts are wanted. Empty fields filter nothing."""

    # The subject or the object.
    about: str = ""
    subject: str = ""
    object: str = ""
    predicate: str = ""
    subject_type: str = ""
    object_type: str = ""
    # True at some time in it; None also finds what is retracted.
    during: Period | None = None
    includes_unverified: bool = True
    # Also those of quarantined predicates.
    includes_hidden: bool = False
    # Facts with a greater number only.
    after: int = 0
    limit: int = MOST_TRIPLES

    def accepts(self, fact: Fact) -> bool:
        """Whether the parts of the filter that no index answers match."""
        return (
            self.subject_type in ("", fact.subject_type)
            and self.object_type in ("", fact.object_type)
            and (self.during is None or fact.is_true_in(self.during))
            and (self.includes_unverified or not fact.is_unverified)
        )


def normalize_id(value: str, what: str) -> str:
    """Return the id of an entity as it is stored. Raises if it is empty or too long."""
    found = normalize_name(value)
    if not found:
        raise BadRequest(f"missing {what} parameter", fix="Name an entity.")
    if len(found) > ID_LENGTH:
        raise BadRequest(f"the {what} has {len(found)} characters", fix=f"At most {ID_LENGTH} are kept.")
    return found


def check_confidence(value: float) -> float:
    if not 0.0 <= value <= 1.0:
        raise BadRequest(f"the confidence {value:g} is not between 0 and 1", fix="1 is certain.")
    return float(value)


def check_reason(value: str) -> str:
    reason = clean(value).strip()
    if not reason:
        raise BadRequest("missing reason parameter", fix="Say why.")
    if len(reason) > REASON_LENGTH:
        raise BadRequest(f"the reason has {len(reason)} characters", fix=f"Say it in {REASON_LENGTH} or fewer.")
    return reason


def check_source(value: str) -> str:
    source = " ".join(clean(value).split())
    if len(source) > SOURCE_LENGTH:
        raise BadRequest(f"the source has {len(source)} characters", fix=f"At most {SOURCE_LENGTH} are kept.")
    return source or "manual"


def check_properties(properties: dict[str, str]) -> None:
    if len(properties) > MOST_PROPERTIES:
        raise BadRequest(f"there are {len(properties)} properties", fix=f"An entity has at most {MOST_PROPERTIES}.")
    for name, value in properties.items():
        if not name.strip() or len(name) > ID_LENGTH:
            raise BadRequest("a property has no name, or a very long one", fix=f"At most {ID_LENGTH} characters.")
        if len(value) > VALUE_LENGTH:
            fix = f"At most {VALUE_LENGTH} are kept."
            raise BadRequest(f"the property {name!r} has {len(value)} characters", fix=fix)


# ---- conflicts ------------------------------------------------------------------------------------


def find_conflicts(facts: Iterable[Fact]) -> list[FactConflict]:
    """Return the conflicts among facts of predicates that allow one object at a time.

    Facts of one subject and predicate conflict if they name different objects and are true at the same time. Those that
    are true at other times are a conflict of their own.
    """
    groups: dict[tuple[str, str], list[tuple[Period, Fact]]] = {}
    for fact in facts:
        if fact.effective_period is not None:
            groups.setdefault((fact.subject, fact.predicate), []).append((fact.effective_period, fact))
    found = []
    for (subject, predicate), group in groups.items():
        for parties in _split_by_time(_find_parties(group)):
            conflict_id = f"conflict-{parties[0].number}"
            found.append(FactConflict(id=conflict_id, subject=subject, predicate=predicate, facts=tuple(parties)))
    return sorted(found, key=lambda conflict: conflict.facts[0].number)


def _find_parties(group: list[tuple[Period, Fact]]) -> list[tuple[Period, Fact]]:
    """Return the facts that another one excludes, by the start of their periods. In n log n: a group can be large."""
    group.sort(key=lambda each: (each[0].start, each[1].number))
    # Of what begins earlier: the latest end, and the latest end of any other object.
    latest, other_latest, latest_object = -inf, -inf, ""
    # The next fact with another object begins first among those.
    following = [inf] * len(group)
    for at in range(len(group) - 2, -1, -1):
        is_same = group[at][1].object == group[at + 1][1].object
        following[at] = following[at + 1] if is_same else group[at + 1][0].start
    parties = []
    for (period, fact), next_start in zip(group, following, strict=True):
        earlier = other_latest if fact.object == latest_object else latest
        if period.start < earlier or next_start < period.end:
            parties.append((period, fact))
        if fact.object == latest_object:
            latest = max(latest, period.end)
        elif period.end > latest:
            latest, other_latest, latest_object = period.end, latest, fact.object
        else:
            other_latest = max(other_latest, period.end)
    return parties


def _split_by_time(parties: Iterable[tuple[Period, Fact]]) -> list[list[Fact]]:
    """Return the facts in groups between which there is no common time, each in the order they were recorded."""
    groups: list[list[Fact]] = []
    end = -inf
    for period, fact in parties:
        if not groups or period.start >= end:
            groups.append([])
        groups[-1].append(fact)
        end = max(end, period.end)
    return [sorted(group, key=lambda fact: fact.number) for group in groups]


def excludes(one: Fact, other: Fact) -> bool:
    """Whether two facts of one subject and an exclusive predicate cannot both be true."""
    if one.object == other.object or one.effective_period is None or other.effective_period is None:
        return False
    return one.effective_period.overlaps(other.effective_period)


# ---- walking --------------------------------------------------------------------------------------


class Traversal(Struct, frozen=True, kw_only=True):
    """A traversal: where it begins, how far it goes, and which facts it follows."""

    start: str
    depth: int = DEFAULT_DEPTH
    predicates: frozenset[str] = frozenset()
    subject_type: str = ""
    during: Period | None = None
    limit: int = MOST_TRIPLES

    def follows(self, fact: Fact) -> bool:
        """Whether the traversal goes along a fact, whether or not it lists it."""
        is_wanted = not self.predicates or fact.predicate in self.predicates
        return is_wanted and (self.during is None or fact.is_true_in(self.during))


class TraversalResult(Struct, frozen=True, kw_only=True):
    """The facts that a traversal has found, nearest first; `is_cut` if there are more."""

    facts: tuple[Fact, ...]
    is_cut: bool = False


# Returns the facts to follow that have one of the entities as subject or object, at most this many.
Neighbours = Callable[[Collection[str], int], Sequence[Fact]]


def walk_graph(walk: Traversal, neighbours: Neighbours) -> TraversalResult:
    """Search breadth first along facts in both directions: one call of `neighbours` per level."""
    found: dict[int, Fact] = {}
    seen: set[int] = set()
    reached, level = {walk.start}, {walk.start}
    for _ in range(walk.depth):
        following: set[str] = set()
        # A fact that is known already comes again from its other end.
        most = walk.limit + len(seen) + 1
        step = neighbours(sorted(level), most)
        for fact in step:
            if fact.number in seen:
                continue
            if len(found) == walk.limit:
                return TraversalResult(facts=tuple(found.values()), is_cut=True)
            seen.add(fact.number)
            following |= {fact.subject, fact.object}
            if walk.subject_type in ("", fact.subject_type):
                found[fact.number] = fact
        if len(step) == most:
            return TraversalResult(facts=tuple(found.values()), is_cut=True)
        level = following - reached
        reached |= following
        if not level:
            break
    return TraversalResult(facts=tuple(found.values()))


# ---- properties -----------------------------------------------------------------------------------

PROPERTY_TESTS = ("eq", "neq", "contains")


def matches(properties: dict[str, str], name: str, op: str, value: str) -> bool:
    """Whether a property passes a test. One that is not there equals nothing and contains nothing."""
    found = properties.get(name)
    if op == "contains":
        return found is not None and value.casefold() in found.casefold()
    return (found == value) is (op == "eq")
