"""Handlers for the knowledge graph: read, change, import. Each sender of the principal has a graph of its own."""

from collections.abc import Awaitable, Callable
from math import inf
from typing import Any

from moot.daemon.principal import Principal
from moot.daemon.requests.choices import choose, fill_page
from moot.daemon.requests.masking import Redact, mask_fields
from moot.daemon.requests.reply import Reply
from moot.domain.graph import (
    DEFAULT_DEPTH,
    MOST_DEPTH,
    Entity,
    Fact,
    FactConflict,
    FactFilter,
    MergedEntity,
    Period,
    Statement,
    Traversal,
    check_reason,
    normalize_id,
)
from moot.domain.graph_import import MOST_ROWS, check_rows, parse_json
from moot.domain.ontology import Term, TermKind, TermStatus, parse_period, parse_status
from moot.domain.ports.clock import Clock
from moot.domain.ports.graph import Graph
from moot.domain.text import normalize_name
from moot.tools.graph.graph_tool import read_fact
from moot.tools.threads import run_in_thread
from moot.wire import moot_pb2 as pb

_PAGE = 1_000
_IMPORTED = frozenset({"import"})
# The source of a fact that a person states without one.
_PERSON = "stated by a person"
# What may contain a secret: ids of entities are text of people.
_READ_TEXTS = ("node", "object")
_CHANGED_TEXTS = ("subject", "object", "reason", "source")
_OF_FACT = ("subject", "predicate", "object", "subject_type", "object_type", "valid_from", "valid_to")

_View = Callable[[pb.ReadGraphMsg, str], Awaitable[pb.GraphPage]]
_Change = Callable[[pb.ChangeGraphMsg, str], Awaitable[pb.GraphChanged]]


class GraphRequests:
    def __init__(self, *, graph: Graph, clock: Clock, redact: Redact) -> None:
        self._graph = graph
        self._clock = clock
        self._redact = redact
        self._views: dict[str, _View] = {
            "walk": self._walk,
            "facts": self._list_facts,
            "entities": self._list_entities,
            "terms": self._list_terms,
            "conflicts": self._list_conflicts,
        }
        self._changes: dict[str, _Change] = {
            "state": self._state_fact,
            "retract": self._retract,
            "resolve": self._resolve,
            "merge": self._merge,
            "unmerge": self._unmerge,
            "add": self._add,
            "promote": self._promote,
            "clear": self._clear,
        }

    async def read_graph(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.read_graph
        mask_fields(request, _READ_TEXTS, self._redact)
        view = choose(self._views, request.view, "view")
        reply.send(pb.ServerMessage(graph_page=await view(request, principal.sender(request.sender))))

    async def change_graph(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.change_graph
        mask_fields(request, _CHANGED_TEXTS, self._redact)
        change = choose(self._changes, request.change, "change")
        reply.send(pb.ServerMessage(graph_changed=await change(request, principal.sender(request.sender))))

    async def import_graph(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.import_graph
        if request.trust:
            principal.require_owner("trust what is imported")
        content = await run_in_thread(self._redact, request.content)
        parsed = await run_in_thread(parse_json, content, source="import", most_rows=MOST_ROWS)
        check_rows(parsed)
        statement = Statement(now=self._clock.now(), taint=frozenset() if request.trust else _IMPORTED)
        owner = principal.sender(request.sender)
        done = await self._graph.import_entities(owner, parsed.entities, parsed.declared, statement)
        refusals = [
            pb.GraphRefusal(place=each.place, reason=each.reason) for each in (*parsed.refusals, *done.refusals)
        ]
        answer = pb.GraphImported(
            entities=done.entities,
            facts=done.facts,
            conflicts=done.conflicts,
            refusals=refusals,
            proposed=done.proposed,
        )
        reply.send(pb.ServerMessage(graph_imported=answer))

    # ---- reading ----

    async def _walk(self, request: pb.ReadGraphMsg, owner: str) -> pb.GraphPage:
        entity = await self._graph.get_entity(owner, normalize_id(request.node, "node"))
        walk = Traversal(
            start=entity.id,
            depth=min(request.depth or DEFAULT_DEPTH, MOST_DEPTH),
            predicates=frozenset([request.predicate] if request.predicate else []),
            during=self._find_period(request),
        )
        walked = await self._graph.walk(owner, walk)
        facts = [_fact_info(fact) for fact in walked.facts]
        return pb.GraphPage(facts=facts, entities=[_entity_info(entity)], truncated=walked.is_cut)

    async def _list_facts(self, request: pb.ReadGraphMsg, owner: str) -> pb.GraphPage:
        node = normalize_name(request.node)
        if node:
            # An unknown name is an error with the nearest one.
            await self._graph.get_entity(owner, node)
        wanted = FactFilter(
            about=node,
            object=normalize_name(request.object),
            predicate=request.predicate,
            subject_type=request.type,
            during=None if request.all and not request.at else self._find_period(request),
            includes_hidden=request.all,
            after=request.after,
            limit=_PAGE,
        )
        page, found = pb.GraphPage(), await self._graph.list_facts(owner, wanted)
        if (last := fill_page(page.facts, found, _fact_info, most=_PAGE)) is not None:
            page.next_after = last.number
        return page

    async def _list_entities(self, request: pb.ReadGraphMsg, owner: str) -> pb.GraphPage:
        found = await self._graph.list_entities(owner, type_name=request.type, after=request.after, limit=_PAGE)
        page = pb.GraphPage()
        if (last := fill_page(page.entities, found, _entity_info, most=_PAGE)) is not None:
            page.next_after = last.number
        return page

    async def _list_terms(self, request: pb.ReadGraphMsg, owner: str) -> pb.GraphPage:
        return pb.GraphPage(terms=[_term_info(term) for term in await self._graph.list_terms(owner)])

    async def _list_conflicts(self, request: pb.ReadGraphMsg, owner: str) -> pb.GraphPage:
        return pb.GraphPage(conflicts=map(_conflict_info, await self._graph.list_conflicts(owner)))

    def _find_period(self, request: pb.ReadGraphMsg) -> Period:
        if request.at:
            return parse_period(request.at, "at")
        now = self._clock.now()
        return Period(now, now)

    # ---- changing ----

    async def _state_fact(self, request: pb.ChangeGraphMsg, owner: str) -> pb.GraphChanged:
        """Store a fact with the checks that the tool has."""
        stated: dict[str, Any] = {name: getattr(request, name) for name in _OF_FACT}
        if request.HasField("confidence"):
            stated["confidence"] = request.confidence
        stated["source"] = request.source or _PERSON
        asserted = await self._graph.assert_fact(owner, read_fact(stated), self._state(), proposes=request.propose)
        return pb.GraphChanged(
            count=int(asserted.is_new),
            fact=_fact_info(asserted.fact),
            is_new=asserted.is_new,
            proposed=asserted.proposed,
            conflicts=[_conflict_info(asserted.conflict)] if asserted.conflict is not None else [],
        )

    async def _retract(self, request: pb.ChangeGraphMsg, owner: str) -> pb.GraphChanged:
        triple = (
            normalize_id(request.subject, "subject"),
            request.predicate,
            normalize_id(request.object, "object"),
        )
        reason = check_reason(request.reason)
        found = await self._graph.retract(owner, triple, reason, self._state(), is_wrong=request.wrong)
        return pb.GraphChanged(count=len(found))

    async def _resolve(self, request: pb.ChangeGraphMsg, owner: str) -> pb.GraphChanged:
        winner, reason = normalize_id(request.object, "object"), check_reason(request.reason)
        losers = await self._graph.resolve(owner, request.conflict_id, winner, reason, self._state())
        return pb.GraphChanged(count=len(losers))

    async def _merge(self, request: pb.ChangeGraphMsg, owner: str) -> pb.GraphChanged:
        names = (normalize_id(request.subject, "subject"), normalize_id(request.object, "object"))
        reason = check_reason(request.reason or "merged by a person")
        return _merged_info(await self._graph.merge(owner, *names, reason, self._state()))

    async def _unmerge(self, request: pb.ChangeGraphMsg, owner: str) -> pb.GraphChanged:
        alias = normalize_id(request.subject, "subject")
        return _merged_info(await self._graph.unmerge(owner, alias, now=self._clock.now()))

    async def _add(self, request: pb.ChangeGraphMsg, owner: str) -> pb.GraphChanged:
        term = Term(
            kind=_find_kind(request),
            name=request.name,
            status=TermStatus.ACTIVE,
            is_exclusive=request.exclusive,
            reason=check_reason(request.reason or "added by a person"),
            changed_at=self._clock.now(),
        )
        return pb.GraphChanged(term=_term_info(await self._graph.add_term(owner, term)))

    async def _promote(self, request: pb.ChangeGraphMsg, owner: str) -> pb.GraphChanged:
        term = await self._graph.promote(
            owner,
            _find_kind(request),
            request.name,
            parse_status(request.status) if request.status else None,
            check_reason(request.reason),
            self._state(),
            is_exclusive=request.exclusive if request.HasField("exclusive") else None,
        )
        return pb.GraphChanged(term=_term_info(term))

    async def _clear(self, request: pb.ChangeGraphMsg, owner: str) -> pb.GraphChanged:
        return pb.GraphChanged(count=await self._graph.clear(owner))

    def _state(self) -> Statement:
        return Statement(now=self._clock.now())


def _find_kind(request: pb.ChangeGraphMsg) -> TermKind:
    kind: TermKind = choose({each.value: each for each in TermKind}, request.kind, "kind")
    return kind


def _join(taint: frozenset[str]) -> str:
    return ",".join(sorted(taint))


def _fact_info(fact: Fact) -> pb.GraphFact:
    return pb.GraphFact(
        number=fact.number,
        subject=fact.subject,
        predicate=fact.predicate,
        object=fact.object,
        subject_type=fact.subject_type,
        object_type=fact.object_type,
        confidence=fact.confidence,
        source=fact.source,
        valid_from=fact.valid.start if fact.valid.start > -inf else None,
        valid_to=fact.valid.end if fact.valid.end < inf else None,
        recorded_at=fact.recorded_at,
        retracted_at=fact.retracted_at,
        reason=fact.reason,
        wrong=fact.is_wrong,
        taint=_join(fact.taint),
        stated_subject=fact.stated_subject if fact.stated_subject != fact.subject else "",
        stated_object=fact.stated_object if fact.stated_object != fact.object else "",
    )


def _entity_info(entity: Entity) -> pb.GraphEntity:
    return pb.GraphEntity(
        id=entity.id,
        type=entity.type,
        properties=entity.properties,
        aliases=entity.aliases,
        taint=_join(entity.taint),
    )


def _term_info(term: Term) -> pb.GraphTerm:
    return pb.GraphTerm(
        kind=term.kind.value,
        name=term.name,
        status=term.status.value,
        exclusive=term.is_exclusive,
        reason=term.reason,
        changed_at=term.changed_at,
        taint=_join(term.taint),
    )


def _conflict_info(conflict: FactConflict) -> pb.GraphConflict:
    return pb.GraphConflict(
        conflict_id=conflict.id,
        subject=conflict.subject,
        predicate=conflict.predicate,
        facts=[_fact_info(fact) for fact in conflict.facts],
    )


def _merged_info(merged: MergedEntity) -> pb.GraphChanged:
    return pb.GraphChanged(
        count=merged.facts,
        entity=merged.canonical,
        alias=merged.duplicate,
        conflicts=[_conflict_info(each) for each in merged.conflicts],
        restored=[_fact_info(each) for each in merged.restored],
    )
