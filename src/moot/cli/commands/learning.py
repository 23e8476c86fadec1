"""`moot learning`: what was learned from failures of tools: list, search, stats, cleanup."""

import json
from collections.abc import Sequence
from typing import Any

import click

from moot.cli import output, prompts
from moot.cli.command_group import CommandGroup
from moot.cli.commands.knowledge import fetch
from moot.cli.connect import require_utf8, send_request
from moot.cli.options import sender_option
from moot.cli.render import numbers, sanitize, terminal
from moot.cli.render.numbers import format_plural
from moot.domain.learning import LearningCategory
from moot.wire import moot_pb2 as pb

_CATEGORIES = [category.value for category in LearningCategory]
_category_option = click.option(
    "--category",
    type=click.Choice(_CATEGORIES),
    metavar="CATEGORY",
    help=f"Only this category: {', '.join(_CATEGORIES)}.",
)


@click.group(cls=CommandGroup, invoke_without_command=True)
@_category_option
@sender_option
@output.json_option
@click.pass_context
def learning(context: click.Context, category: str | None, sender: str) -> None:
    """List learnings from failures of tools, with the fixes that agents get."""
    if context.invoked_subcommand is None:
        _print_list(fetch(pb.ReadKnowledgeMsg(view="learnings", category=category, sender=sender)).learnings)


@learning.command("list")
@_category_option
@sender_option
@output.json_option
def list_learnings(category: str | None, sender: str) -> None:
    """List the learnings."""
    _print_list(fetch(pb.ReadKnowledgeMsg(view="learnings", category=category, sender=sender)).learnings)


@learning.command()
@click.argument("words")
@_category_option
@sender_option
@output.json_option
def search(words: str, category: str | None, sender: str) -> None:
    """Search learnings for WORDS, best match first."""
    request = pb.ReadKnowledgeMsg(view="learnings", query=require_utf8(words), category=category, sender=sender)
    _print_list(fetch(request).learnings, "Nothing found.")


@learning.command()
@sender_option
@output.json_option
def stats(sender: str) -> None:
    """Count learnings by category, and calls of tools with those that failed."""
    found = json.loads(fetch(pb.ReadKnowledgeMsg(view="stats", sender=sender)).stats)
    output.emit(found, render=_render_stats)


@learning.command()
@click.option("--id", "number", default="", metavar="ID", help="Only this one.")
@_category_option
@click.option("--max-confidence", type=click.FloatRange(0, 1), help="Only with at most this confidence.")
@click.option("--older-than-days", type=click.IntRange(0), help="Only if not updated for this many days.")
@click.option("--dry-run", is_flag=True, help="Only count them.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@sender_option
@output.json_option
def cleanup(dry_run: bool, yes: bool, sender: str, **wanted: Any) -> None:
    """Delete learnings that meet all given conditions. This cannot be undone."""
    request = pb.ChangeKnowledgeMsg(
        change="clean",
        learning_id=wanted["number"],
        category=wanted["category"],
        max_confidence=wanted["max_confidence"],
        older_than_days=wanted["older_than_days"],
        dry_run=True,
        sender=sender,
    )
    count = send_request(pb.ClientMessage(change_knowledge=request)).knowledge_changed.count
    if count and not dry_run:
        if not yes:
            prompts.require_confirmation(f"Delete {format_plural(count, 'learning')}?")
        request.dry_run = False
        count = send_request(pb.ClientMessage(change_knowledge=request)).knowledge_changed.count
    verb = "Would delete" if dry_run else "Deleted"
    data = {"would_delete" if dry_run else "deleted": count, "dry_run": dry_run}
    output.emit(data, render=lambda _: f"{verb} {format_plural(count, 'learning')}.")


def _print_list(found: Sequence[pb.LearningInfo], nothing: str = "No learnings yet.") -> None:
    def render(_: Any) -> str:
        rows = [
            [
                each.learning_id,
                each.trigger.removeprefix("tool:"),
                each.error_pattern,
                str(each.occurrences),
                f"{each.confidence:.0%}",
                each.fix,
            ]
            for each in found
        ]
        return terminal.render_table(["ID", "TOOL", "FAILURE", "TIMES", "SURE", "FIX"], rows) or nothing

    output.emit([dump_learning(each) for each in found], render=render)


def dump_learning(info: pb.LearningInfo) -> dict[str, Any]:
    shape = {
        "id": info.learning_id,
        "trigger": info.trigger,
        "error_pattern": info.error_pattern,
        "diagnosis": info.diagnosis,
        "fix": info.fix,
        "category": info.category,
        "confidence": info.confidence,
        "occurrences": info.occurrences,
        "created_at": info.created_at,
        "updated_at": info.updated_at,
    }
    return shape | ({"taint": info.taint} if info.taint else {})


def _render_stats(found: dict[str, Any]) -> str:
    kinds = ", ".join(f"{count} {name}" for name, count in found["by_category"].items())
    lines = [
        f"{format_plural(found['total'], 'learning')}, {found['with_fix']} with a fix"
        + (f" ({kinds})" if kinds else "")
    ]
    if found["total"]:
        lines.append(
            f"confidence {found['average_confidence']:.0%} on average;"
            f" from {numbers.format_time(found['oldest'])} to {numbers.format_time(found['newest'])}"
        )
    rows = [[sanitize.line(each["tool"]), str(each["calls"]), str(each["failures"])] for each in found["tools"]]
    table = terminal.render_table(["TOOL", "CALLS", "FAILED"], rows)
    return "\n".join([*lines, *(["", table] if table else [])])
