"""`moot learning`: what was learned from failures of tools: list, search, stats, cleanup."""

import json
from typing import Any

import click

from moot.cli import output, prompts
from moot.cli.commands.knowledge_pages import fetch, make_category_option, make_group
from moot.cli.connect import send_request
from moot.cli.options import sender_option
from moot.cli.render import numbers, sanitize, terminal
from moot.cli.render.numbers import format_plural
from moot.domain.learning import LearningCategory
from moot.wire import moot_pb2 as pb


def _print_page(page: pb.KnowledgePage, is_search: bool) -> None:
    found, nothing = page.learnings, "Nothing found." if is_search else "No learnings yet."

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


learning = make_group(
    "learning",
    view="learnings",
    categories=LearningCategory,
    texts=(
        "List learnings from failures of tools, with the fixes that agents get.",
        "List the learnings.",
        "Search learnings for WORDS, best match first.",
    ),
    show=_print_page,
)


@learning.command()
@sender_option
@output.json_option
def stats(sender: str) -> None:
    """Count learnings by category, and calls of tools with those that failed."""
    found = json.loads(fetch(pb.ReadKnowledgeMsg(view="stats", sender=sender)).stats)
    output.emit(found, render=_render_stats)


@learning.command()
@click.option("--id", "number", default="", metavar="ID", help="Only this one.")
@make_category_option(LearningCategory)
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
