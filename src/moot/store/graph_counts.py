"""Counts what a knowledge graph contains, over the rows of either store. Called inside one transaction each."""

from moot.domain.ontology import GraphHealth, TermKind, TermStatus, TermUsage, require_term
from moot.store.graph_rows import GraphRows
from moot.store.graph_rules import list_conflicts


def measure_type(rows: GraphRows, name: str) -> TermUsage:
    terms = rows.load_terms()
    term = require_term(terms, TermKind.TYPE, name)
    entities, properties, predicates = rows.measure_type(name)
    # The names of properties and predicates may come from untrusted text.
    named = (terms[TermKind.PREDICATE, each].taint for each in predicates)
    return TermUsage(
        entities=entities,
        facts=sum(predicates.values()),
        properties=properties,
        predicates=predicates,
        taint=term.taint.union(rows.find_type_taint(name), *named),
    )


def measure(rows: GraphRows) -> GraphHealth:
    counts: dict[TermKind, dict[str, int]] = {kind: dict.fromkeys(TermStatus, 0) for kind in TermKind}
    for term in rows.load_terms().values():
        counts[term.kind][term.status.value] += 1
    entities, merged, facts, retracted = rows.measure()
    return GraphHealth(
        types=counts[TermKind.TYPE],
        predicates=counts[TermKind.PREDICATE],
        entities=entities,
        merged=merged,
        facts=facts,
        retracted=retracted,
        conflicts=len(list_conflicts(rows)),
    )
