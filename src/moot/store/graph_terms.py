"""What may be done with the types and predicates of a knowledge graph. Works with graph_rules.py."""

from msgspec.structs import replace

from moot.domain.errors import BadRequest, Conflict
from moot.domain.graph import Statement
from moot.domain.ontology import (
    Term,
    TermKind,
    TermStatus,
    check_name,
    check_number,
    check_open,
    check_proposal,
    check_transition,
    make_unknown_error,
    require_term,
)
from moot.store.graph_rows import GraphRows

# Changes of one type or predicate, all of which are kept.
MOST_CHANGES = 500


def check_term(
    rows: GraphRows, kind: TermKind, name: str, statement: Statement, *, proposes: bool = True
) -> Term | None:
    """Return a type or predicate that data may use; None if it is unknown and whoever `proposes` may add it."""
    terms = rows.load_terms()
    known = terms.get((kind, name))
    if known is not None:
        if (kind, name) not in statement.closed_terms:
            check_open(known)
    elif proposes:
        check_proposal(terms, kind, name)
    else:
        raise make_unknown_error(terms, kind, name)
    return known


def use_term(rows: GraphRows, kind: TermKind, name: str, statement: Statement, *, proposes: bool = True) -> list[str]:
    """Check that data may use a type or predicate; propose it if it is unknown. Return what was proposed."""
    if check_term(rows, kind, name, statement, proposes=proposes) is not None:
        return []
    reason = "used for the first time"
    status = TermStatus.PROPOSED
    rows.add_term(
        Term(kind=kind, name=name, status=status, reason=reason, changed_at=statement.now, taint=statement.taint)
    )
    return [f"{kind} {name}"]


def add_term(rows: GraphRows, term: Term) -> Term:
    check_name(term.kind, term.name)
    known = rows.load_terms().get((term.kind, term.name))
    if known is not None:
        raise Conflict(f"there is a {known.kind} {known.name!r} already: {known.status}", fix="Promote it instead.")
    check_number(rows.load_terms(), term.kind, term.name)
    rows.add_term(term)
    return term


def promote(  # noqa: PLR0913 — what one transaction writes
    rows: GraphRows,
    kind: TermKind,
    name: str,
    target: TermStatus | None,
    reason: str,
    statement: Statement,
    *,
    is_exclusive: bool | None,
) -> Term:
    term = require_term(rows.load_terms(), kind, name)
    if len(rows.list_changes(kind, name)) >= MOST_CHANGES:
        raise BadRequest(f"the {kind} {name!r} was changed {MOST_CHANGES} times", fix="Use another one.")
    if target is not None and (target is not term.status or is_exclusive is None):
        check_transition(term, target)
    changed = replace(
        term,
        status=target or term.status,
        is_exclusive=term.is_exclusive if is_exclusive is None else is_exclusive,
        reason=reason,
        changed_at=statement.now,
        taint=term.taint | statement.taint,
    )
    rows.add_term(changed)
    return changed
