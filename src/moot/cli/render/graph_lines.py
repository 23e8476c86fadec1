"""Renders the knowledge graph: a neighbourhood as a tree, facts as lines, and everything as DOT. Pure."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from moot.cli.render import sanitize, terminal
from moot.domain.ontology import format_time
from moot.wire import moot_pb2 as pb

# Facts with a lower confidence are marked with it.
_CERTAIN = 0.5
_NARROWEST = 20


class _Signs(NamedTuple):
    branch: str
    last: str
    line: str
    outgoing: str
    incoming: str
    again: str
    more: str


_DRAWN = _Signs("├─ ", "└─ ", "│  ", "→", "←", "↑", "…")
_ASCII = _Signs("|- ", "`- ", "|  ", "->", "<-", "^", "...")


class _Canvas(NamedTuple):
    """What all lines of a drawing share."""

    width: int
    signs: _Signs
    # By the number of the fact.
    remarks: dict[int, str]


class _Edge(NamedTuple):
    fact: pb.GraphFact
    node: str
    type: str
    is_outgoing: bool
    # Whether the node is shown with its facts somewhere else.
    is_again: bool


def render_tree(page: pb.GraphPage, width: int, *, ascii_only: bool) -> list[str]:
    """Draw what was found around a node: each fact once, at the node through which it is nearest."""
    signs = _ASCII if ascii_only else _DRAWN
    contested = {fact.number: conflict.conflict_id for conflict in page.conflicts for fact in conflict.facts}
    (entity,) = page.entities
    edges = _arrange(entity.id, page.facts)
    rows = [terminal.paint(_clip(_render_node(entity.id, entity.type), width, signs), bold=True)]
    details = [f"also: {', '.join(entity.aliases)}"] if entity.aliases else []
    details += [f"{name}: {value}" for name, value in sorted(entity.properties.items())]
    under = signs.line if edges.get(entity.id) else "   "
    rows += [terminal.paint(_clip(f"{under}{sanitize.line(each)}", width, signs), dim=True) for each in details]
    remarks = {fact.number: _render_remarks(fact, contested.get(fact.number, "")) for fact in page.facts}
    rows += _draw(entity.id, edges, "", _Canvas(width, signs, remarks))
    if not page.facts:
        rows.append("No facts.")
    if page.truncated:
        rows.append(f"{signs.more} there is more; use a smaller --depth or a --predicate.")
    return rows


def _arrange(start: str, facts: Sequence[pb.GraphFact]) -> dict[str, list[_Edge]]:
    """Return the edges below each node, found breadth first."""
    touching: dict[str, list[pb.GraphFact]] = {}
    for fact in facts:
        for node in dict.fromkeys((fact.subject, fact.object)):
            touching.setdefault(node, []).append(fact)
    edges: dict[str, list[_Edge]] = {}
    drawn: set[int] = set()
    reached, waiting = {start}, deque([start])
    while waiting:
        node = waiting.popleft()
        for fact in touching.get(node, ()):
            if fact.number in drawn:
                continue
            drawn.add(fact.number)
            outgoing = fact.subject == node
            other, kind = (fact.object, fact.object_type) if outgoing else (fact.subject, fact.subject_type)
            edges.setdefault(node, []).append(_Edge(fact, other, kind, outgoing, other in reached))
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return edges


def _draw(node: str, edges: dict[str, list[_Edge]], under: str, canvas: _Canvas) -> list[str]:
    rows: list[str] = []
    width, signs = canvas.width, canvas.signs
    below = edges.get(node, [])
    for number, edge in enumerate(below, 1):
        is_last = number == len(below)
        arrow = signs.outgoing if edge.is_outgoing else signs.incoming
        text = f"{sanitize.line(edge.fact.predicate)} {arrow} {_render_node(edge.node, edge.type)}"
        text += f" {signs.again}" if edge.is_again and edge.node != node else ""
        # A long name is cut, not what is remarked about the fact.
        remarks = canvas.remarks[edge.fact.number]
        room = max(_NARROWEST, width - sanitize.columns(remarks)) if width else 0
        rows.append(_clip(f"{under}{signs.last if is_last else signs.branch}{text}", room, signs) + remarks)
        if not edge.is_again:
            rows += _draw(edge.node, edges, f"{under}{'   ' if is_last else signs.line}", canvas)
    return rows


def _render_node(name: str, kind: str) -> str:
    return f"{sanitize.line(name)} ({sanitize.line(kind)})" if kind else sanitize.line(name)


def _render_remarks(fact: pb.GraphFact, conflict_id: str) -> str:
    remarks = [conflict_id] if conflict_id else []
    remarks += [f"until {render_last_day(fact.valid_to)}"] if fact.HasField("valid_to") else []
    remarks += [f"{fact.confidence:.0%}"] if fact.confidence < _CERTAIN else []
    remarks += [f"from {sanitize.line(fact.taint)}"] if fact.taint else []
    return f" [{'; '.join(remarks)}]" if remarks else ""


def _clip(row: str, width: int, signs: _Signs) -> str:
    if not width or sanitize.columns(row) <= width:
        return row
    room = width - len(signs.more)
    kept = ""
    for character in row:
        if sanitize.columns(kept + character) > room:
            break
        kept += character
    return kept + signs.more


def render_dot(entities: Iterable[pb.GraphEntity], facts: Iterable[pb.GraphFact]) -> str:
    """Return the graph in the language of Graphviz."""
    rows = ["digraph knowledge {", "  rankdir=LR;", "  node [shape=box];"]
    for entity in entities:
        label = f'{_quote(entity.id)[:-1]}\\n({_quote(entity.type)[1:-1]})"' if entity.type else _quote(entity.id)
        rows.append(f"  {_quote(entity.id)} [label={label}];")
    rows += [f"  {_quote(fact.subject)} -> {_quote(fact.object)} [label={_quote(fact.predicate)}];" for fact in facts]
    return "\n".join([*rows, "}"])


def _quote(text: str) -> str:
    plain = sanitize.line(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'


def dump_fact(fact: pb.GraphFact) -> dict[str, Any]:
    data: dict[str, Any] = {
        "subject": fact.subject,
        "predicate": fact.predicate,
        "object": fact.object,
        "confidence": fact.confidence,
        "source": fact.source,
    }
    texts = ("subject_type", "object_type", "taint", "stated_subject", "stated_object")
    data |= {name: getattr(fact, name) for name in texts if getattr(fact, name)}
    data |= {
        "valid_from_at": fact.valid_from if fact.HasField("valid_from") else None,
        "valid_to_at": fact.valid_to if fact.HasField("valid_to") else None,
        "recorded_at": fact.recorded_at,
    }
    if fact.retracted_at:
        data |= {"retracted_at": fact.retracted_at, "reason": fact.reason, "wrong": fact.wrong}
    return data


def exported_fact(fact: pb.GraphFact) -> dict[str, Any]:
    """Return a fact in the form that an import reads. One that was retracted was true until then."""
    left_out = ("reason", "wrong", "stated_subject", "stated_object")
    data = {name: value for name, value in dump_fact(fact).items() if not name.endswith("_at") and name not in left_out}
    ends = [fact.valid_to] if fact.HasField("valid_to") else []
    ends += [fact.retracted_at] if fact.retracted_at else []
    data |= {"valid_from": format_time(fact.valid_from, is_exact=True)} if fact.HasField("valid_from") else {}
    return data | ({"valid_to": format_time(min(ends), is_exact=True)} if ends else {})


def was_true(fact: pb.GraphFact) -> bool:
    """Whether a fact was ever true, as far as is known now."""
    begins_later = fact.HasField("valid_from") and 0 < fact.retracted_at <= fact.valid_from
    return not fact.wrong and not begins_later


def render_day(at: float) -> str:
    return format_time(at).partition("T")[0]


def render_last_day(end: float) -> str:
    """Return the last day before an end: the end itself is not included."""
    return render_day(end - 1)


def entity_data(entity: pb.GraphEntity) -> dict[str, Any]:
    data: dict[str, Any] = {"id": entity.id, "type": entity.type, "properties": dict(sorted(entity.properties.items()))}
    return data | ({"aliases": list(entity.aliases)} if entity.aliases else {})


def term_data(term: pb.GraphTerm) -> dict[str, Any]:
    return {
        "kind": term.kind,
        "name": term.name,
        "status": term.status,
        "exclusive": term.exclusive,
        "reason": term.reason,
    }


def dump_conflict(conflict: pb.GraphConflict) -> dict[str, Any]:
    return {
        "id": conflict.conflict_id,
        "subject": conflict.subject,
        "predicate": conflict.predicate,
        "facts": [dump_fact(fact) for fact in conflict.facts],
    }


def render_conflict(conflict: pb.GraphConflict) -> str:
    """Return the facts that contradict each other, one a line."""
    title = f"{conflict.conflict_id}: {sanitize.line(conflict.subject)} {sanitize.line(conflict.predicate)}"
    rows = [
        f"  {sanitize.line(fact.object)}  ({fact.confidence:.0%}, {sanitize.line(fact.source)}"
        f"{', from ' + sanitize.line(fact.taint) if fact.taint else ''})"
        for fact in conflict.facts
    ]
    return "\n".join([terminal.paint(title, bold=True), *rows])
