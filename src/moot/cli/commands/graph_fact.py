"""`moot graph add` and `moot graph retract`: state one fact, or end it. Commands of graph.py."""

from typing import Any

import click

from moot.cli import output
from moot.cli.connect import require_utf8, send_request
from moot.cli.options import sender_option
from moot.cli.render import graph_lines, sanitize
from moot.cli.render.numbers import format_plural
from moot.wire import moot_pb2 as pb


@click.command()
@click.argument("subject")
@click.argument("predicate")
@click.argument("target", metavar="OBJECT")
@click.option("--subject-type", default="", metavar="TYPE", help="The type of SUBJECT.")
@click.option("--object-type", default="", metavar="TYPE", help="The type of OBJECT.")
@click.option("--from", "valid_from", default="", metavar="DATE", help="Since when it is true. Default: now.")
@click.option("--to", "valid_to", default="", metavar="DATE", help="Until when it is true, that day included.")
@click.option("--confidence", type=float, default=None, metavar="NUMBER", help="From 0 to 1. Default: 0.8.")
@click.option("--source", default="", metavar="TEXT", help="How you know it.")
@click.option("--propose", is_flag=True, help="Propose PREDICATE if it is unknown.")
@sender_option
@output.json_option
def add(subject: str, predicate: str, target: str, confidence: float | None, sender: str, **more: Any) -> None:
    """State that SUBJECT PREDICATE OBJECT is true."""
    request = pb.ChangeGraphMsg(
        change="state",
        subject=require_utf8(subject),
        predicate=require_utf8(predicate),
        object=require_utf8(target),
        confidence=confidence,
        propose=more.pop("propose"),
        sender=sender,
    )
    for name, text in more.items():
        setattr(request, name, require_utf8(text))
    done = send_request(pb.ClientMessage(change_graph=request)).graph_changed
    data = graph_lines.dump_fact(done.fact) | {
        "is_new": done.is_new,
        "proposed": list(done.proposed),
        "conflicts": [graph_lines.dump_conflict(each) for each in done.conflicts],
    }
    output.emit(data, render=lambda _: "\n".join(_render_stated(done)))


def _render_stated(done: pb.GraphChanged) -> list[str]:
    fact = " ".join(sanitize.line(each) for each in (done.fact.subject, done.fact.predicate, done.fact.object))
    lines = [f"{'Stored' if done.is_new else 'Known already'}: {fact}"]
    if done.proposed:
        lines.append(f"Proposed: {', '.join(map(sanitize.line, done.proposed))}")
    if done.conflicts:
        lines += ["This makes a conflict:", *map(graph_lines.render_conflict, done.conflicts)]
    return lines


@click.command()
@click.argument("subject")
@click.argument("predicate")
@click.argument("target", metavar="OBJECT")
@click.option("--reason", required=True, metavar="TEXT", help="Why; it is kept.")
@click.option("--wrong", is_flag=True, help="It was never true. Without this it was true until now.")
@sender_option
@output.json_option
def retract(subject: str, predicate: str, target: str, reason: str, wrong: bool, sender: str) -> None:
    """Retract a fact. It is kept, with the reason."""
    request = pb.ChangeGraphMsg(
        change="retract",
        subject=require_utf8(subject),
        predicate=predicate,
        object=require_utf8(target),
        reason=require_utf8(reason),
        wrong=wrong,
        sender=sender,
    )
    done = send_request(pb.ClientMessage(change_graph=request)).graph_changed
    output.emit({"count": done.count}, render=lambda _: f"Retracted {format_plural(done.count, 'fact')}.")
