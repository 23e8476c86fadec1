"""`moot graph`: the knowledge graph: show, list, resolve, merge and export.

Single facts are in graph_fact.py, import is in graph_file.py.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import click

from moot.cli import output, prompts
from moot.cli.command_group import CommandGroup
from moot.cli.commands.graph_fact import add, retract
from moot.cli.commands.graph_file import import_graph
from moot.cli.connect import require_utf8, run_connected, send_request
from moot.cli.options import sender_option
from moot.cli.render import graph_lines, sanitize, terminal
from moot.cli.render.numbers import format_plural
from moot.client.connection import Connection
from moot.domain.errors import BadRequest
from moot.domain.ontology import TARGETS, TermKind
from moot.wire import moot_pb2 as pb

_at_option = click.option(
    "--at", default="", metavar="DATE", help="What was true then: a day, or a time. Default: now."
)
_predicate_option = click.option("--predicate", default="", metavar="NAME", help="Only facts with this predicate.")
_reason_option = click.option("--reason", required=True, metavar="TEXT", help="Why; it is kept.")
_kind_argument = click.argument("kind", type=click.Choice([kind.value for kind in TermKind]))


@click.group(cls=CommandGroup, invoke_without_command=True)
@output.json_option
@click.pass_context
def graph(context: click.Context) -> None:
    """The knowledge graph: facts that you and your agents have stated. Without a command: facts."""
    if context.invoked_subcommand is None:
        context.invoke(facts)


# ---- looking --------------------------------------------------------------------------------------


@graph.command()
@click.argument("node")
@click.option("--depth", type=click.IntRange(1, 6), default=2, show_default=True, help="How far to look.")
@_predicate_option
@_at_option
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters only.")
@sender_option
@output.json_option
def show(node: str, depth: int, predicate: str, at: str, ascii_only: bool, sender: str) -> None:
    """Draw the facts around NODE, in both directions."""
    request = pb.ReadGraphMsg(
        view="walk", node=require_utf8(node), depth=depth, predicate=predicate, at=at, sender=sender
    )
    page = _read(request)
    (entity,) = page.entities
    page.conflicts.extend(_read(pb.ReadGraphMsg(view="conflicts", sender=sender)).conflicts)
    data = graph_lines.entity_data(entity) | {
        "facts": [graph_lines.dump_fact(fact) for fact in page.facts],
        "truncated": page.truncated,
    }
    plain = ascii_only or not _can_draw()
    width = max(0, terminal.terminal_width() - 1)
    output.emit(data, render=lambda _: "\n".join(graph_lines.render_tree(page, width, ascii_only=plain)))


def _can_draw() -> bool:
    try:
        "├└│→←↑…".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


@graph.command()
@click.argument("node", default="")
@click.option("--object", "target", default="", metavar="NODE", help="Only facts with this object.")
@_predicate_option
@_at_option
@click.option("--all", "everything", is_flag=True, help="Include retracted facts, and facts that are not true now.")
@sender_option
@output.json_option
def facts(node: str, target: str, predicate: str, at: str, everything: bool, sender: str) -> None:
    """List facts, or those with NODE as subject or object."""
    request = pb.ReadGraphMsg(
        view="facts",
        node=require_utf8(node),
        object=require_utf8(target),
        predicate=predicate,
        at=at,
        all=everything,
        sender=sender,
    )
    found = _read(request).facts

    def render(_: Any) -> str:
        rows = [
            [
                fact.subject,
                fact.predicate,
                fact.object,
                f"{fact.confidence:.0%}",
                _render_since(fact),
                _render_end(fact),
            ]
            for fact in found
        ]
        headers = ["SUBJECT", "PREDICATE", "OBJECT", "CONFIDENCE", "SINCE", "UNTIL"]
        return terminal.render_table(headers, rows) or "No facts."

    output.emit([graph_lines.dump_fact(fact) for fact in found], render=render)


def _render_since(fact: pb.GraphFact) -> str:
    return graph_lines.render_day(fact.valid_from) if fact.HasField("valid_from") else ""


def _render_end(fact: pb.GraphFact) -> str:
    if fact.wrong:
        return f"wrong: {fact.reason}"
    last = graph_lines.render_last_day(fact.valid_to) if fact.HasField("valid_to") else ""
    if not fact.retracted_at:
        return last
    was_over = last and fact.valid_to <= fact.retracted_at
    return f"{last if was_over else graph_lines.render_day(fact.retracted_at)}, retracted: {fact.reason}"


@graph.command()
@sender_option
@output.json_option
def types(sender: str) -> None:
    """List types and predicates, with the status of each."""
    found = _read(pb.ReadGraphMsg(view="terms", sender=sender)).terms

    def render(_: Any) -> str:
        rows = [
            [term.kind, term.name, term.status, "one at a time" if term.exclusive else "", term.reason]
            for term in found
        ]
        return terminal.render_table(["KIND", "NAME", "STATUS", "OBJECTS", "REASON"], rows)

    output.emit([graph_lines.term_data(term) for term in found], render=render)


@graph.command()
@sender_option
@output.json_option
def conflicts(sender: str) -> None:
    """List facts that contradict each other."""
    found = _read(pb.ReadGraphMsg(view="conflicts", sender=sender)).conflicts
    output.emit(
        [graph_lines.dump_conflict(each) for each in found],
        render=lambda _: "\n".join(map(graph_lines.render_conflict, found)) or "No conflicts.",
    )


@graph.command()
@click.option(
    "--format", "form", type=click.Choice(["json", "dot"]), default="json", show_default=True, help="Output format."
)
@sender_option
@output.json_option
def export(form: str, sender: str) -> None:
    """Print the graph: as JSON that `moot graph import` reads, or in the DOT language of Graphviz."""
    entities = _read(pb.ReadGraphMsg(view="entities", sender=sender)).entities
    everything = _read(pb.ReadGraphMsg(view="facts", all=True, sender=sender)).facts
    if form == "dot":
        text = graph_lines.render_dot(entities, [fact for fact in everything if not fact.retracted_at])
        output.emit({"format": form, "text": text}, render=lambda _: text)
        return
    terms = [graph_lines.term_data(term) for term in _read(pb.ReadGraphMsg(view="terms", sender=sender)).terms]
    document = {
        "types": [term for term in terms if term["kind"] == TermKind.TYPE],
        "predicates": [term for term in terms if term["kind"] == TermKind.PREDICATE],
        "entities": [graph_lines.entity_data(entity) for entity in entities],
        "facts": [graph_lines.exported_fact(fact) for fact in everything if graph_lines.was_true(fact)],
    }
    output.emit(document, render=lambda data: json.dumps(data, ensure_ascii=True, indent=2))


# ---- changing -------------------------------------------------------------------------------------


@graph.command()
@click.argument("conflict")
@click.argument("winner")
@_reason_option
@sender_option
@output.json_option
def resolve(conflict: str, winner: str, reason: str, sender: str) -> None:
    """Resolve CONFLICT: the fact with the object WINNER is right, the others are retracted."""
    request = pb.ChangeGraphMsg(
        change="resolve", conflict_id=conflict, object=require_utf8(winner), reason=require_utf8(reason), sender=sender
    )
    _change(request, lambda done: f"Resolved; {format_plural(done.count, 'fact')} retracted.")


@graph.command()
@click.argument("canonical")
@click.argument("duplicate")
@click.option("--reason", default="", metavar="TEXT", help="How you know that they are the same.")
@sender_option
@output.json_option
def merge(canonical: str, duplicate: str, reason: str, sender: str) -> None:
    """Merge the entity DUPLICATE into CANONICAL. `moot graph unmerge` undoes it."""
    request = pb.ChangeGraphMsg(
        change="merge",
        subject=require_utf8(canonical),
        object=require_utf8(duplicate),
        reason=require_utf8(reason),
        sender=sender,
    )

    def render(done: pb.GraphChanged) -> str:
        text = (
            f"{sanitize.line(done.alias)} is now an alias of {sanitize.line(done.entity)};"
            f" it brings {format_plural(done.count, 'fact')}."
        )
        found = [graph_lines.render_conflict(each) for each in done.conflicts]
        return "\n".join([text, *(["This makes a conflict:", *found] if found else [])])

    _change(request, render)


def _render_restored(fact: pb.GraphFact) -> str:
    text = sanitize.line(f"{fact.subject} {fact.predicate} {fact.object}")
    return f"{text} (ended {graph_lines.render_day(fact.retracted_at)})" if fact.retracted_at else text


@graph.command()
@click.argument("alias")
@sender_option
@output.json_option
def unmerge(alias: str, sender: str) -> None:
    """Undo the merge of ALIAS into another entity."""

    def render(done: pb.GraphChanged) -> str:
        text = (
            f"{sanitize.line(done.alias)} is separate from {sanitize.line(done.entity)} again;"
            f" it has {format_plural(done.count, 'fact')}."
        )
        restored = [_render_restored(fact) for fact in done.restored]
        if restored:
            text += f"\nRestored, because only the merge contradicted it: {'; '.join(restored)}."
        return text

    _change(pb.ChangeGraphMsg(change="unmerge", subject=require_utf8(alias), sender=sender), render)


@graph.command()
@_kind_argument
@click.argument("name")
@click.option("--exclusive", is_flag=True, help="A subject has one object at a time.")
@click.option("--reason", default="", metavar="TEXT", help="What it is for.")
@sender_option
@output.json_option
def define(kind: str, name: str, exclusive: bool, reason: str, sender: str) -> None:
    """Add a type or a predicate, also one whose name is close to another."""
    request = pb.ChangeGraphMsg(
        change="add", kind=kind, name=require_utf8(name), reason=require_utf8(reason), sender=sender
    )
    request.exclusive = exclusive
    _change_term(request)


@graph.command()
@_kind_argument
@click.argument("name")
@click.argument("status", default="", metavar=f"[{'|'.join(TARGETS)}]")
@_reason_option
@click.option("--exclusive/--not-exclusive", default=None, help="Whether a subject has one object at a time.")
@sender_option
@output.json_option
def promote(kind: str, name: str, status: str, reason: str, exclusive: bool | None, sender: str) -> None:
    """Change the status of a type or predicate, and whether it allows one object at a time."""
    if not status and exclusive is None:
        raise BadRequest("nothing to change", fix="Give a status, --exclusive or --not-exclusive.")
    request = pb.ChangeGraphMsg(
        change="promote",
        kind=kind,
        name=require_utf8(name),
        status=status,
        reason=require_utf8(reason),
        sender=sender,
    )
    if exclusive is not None:
        request.exclusive = exclusive
    _change_term(request)


@graph.command()
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@sender_option
@output.json_option
def clear(sender: str, yes: bool) -> None:
    """Delete the whole graph: entities, facts, types and predicates. This cannot be undone."""
    if not yes:
        if not sys.stdin.isatty():
            raise BadRequest("nothing was deleted: there is no terminal to confirm on", fix="Add --yes.")
        output.print_prose("This deletes the whole graph. This cannot be undone; `moot graph export` saves a copy.")
        prompts.require_confirmation("Delete it?")
    request = pb.ChangeGraphMsg(change="clear", sender=sender)
    _change(request, lambda done: f"Deleted {format_plural(done.count, 'fact')}.")


graph.add_command(import_graph)
graph.add_command(add)
graph.add_command(retract)


# ---- requests -------------------------------------------------------------------------------------


def _read(request: pb.ReadGraphMsg) -> pb.GraphPage:
    """Return all pages of an answer as one."""

    async def fetch(connection: Connection) -> pb.GraphPage:
        whole = pb.GraphPage()
        while True:
            page = (await connection.request(pb.ClientMessage(read_graph=request))).graph_page
            whole.MergeFrom(page)
            if not page.next_after:
                return whole
            request.after = page.next_after

    return run_connected(fetch)


def _change(request: pb.ChangeGraphMsg, render: Callable[[pb.GraphChanged], str]) -> None:
    done = send_request(pb.ClientMessage(change_graph=request)).graph_changed
    data: dict[str, Any] = {"count": done.count}
    data |= {name: getattr(done, name) for name in ("entity", "alias") if getattr(done, name)}
    if done.conflicts:
        data["conflicts"] = [graph_lines.dump_conflict(each) for each in done.conflicts]
    if done.restored:
        data["restored"] = [graph_lines.dump_fact(each) for each in done.restored]
    output.emit(data, render=lambda _: render(done))


def _change_term(request: pb.ChangeGraphMsg) -> None:
    term = send_request(pb.ClientMessage(change_graph=request)).graph_changed.term
    one = ", one object at a time" if term.exclusive else ""
    output.emit(graph_lines.term_data(term), render=lambda _: f"The {term.kind} {term.name} is {term.status}{one}.")
