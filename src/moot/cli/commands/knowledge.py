"""`moot knowledge`: what is stored as knowledge: list, search, show, save, forget, and inquiries."""

from collections.abc import Sequence
from typing import Any

import click

from moot.cli import output, prompts
from moot.cli.commands.knowledge_pages import fetch, make_group
from moot.cli.connect import require_utf8, send_request
from moot.cli.options import sender_option
from moot.cli.render import numbers, sanitize, terminal
from moot.cli.render.numbers import format_plural
from moot.domain.knowledge import KnowledgeCategory, SourceClass
from moot.wire import moot_pb2 as pb


def _print_page(page: pb.KnowledgePage, is_search: bool) -> None:
    found, nothing = page.entries, "Nothing found." if is_search else "No knowledge yet."

    def render(_: Any) -> str:
        rows = [
            [each.key, each.category, str(each.version), numbers.format_time(each.created_at), each.content]
            for each in found
        ]
        return terminal.render_table(["KEY", "CATEGORY", "VERSION", "SAVED", "CONTENT"], rows) or nothing

    output.emit([dump_entry(each) for each in found], render=render)


knowledge = make_group(
    "knowledge",
    view="entries",
    categories=KnowledgeCategory,
    texts=(
        "List what is stored as knowledge: by you, by your agents, and results of their tools.",
        "List what is stored as knowledge.",
        "Search knowledge for WORDS, best match first.",
    ),
    show=_print_page,
)


@knowledge.command()
@click.argument("key")
@sender_option
@output.json_option
def show(key: str, sender: str) -> None:
    """Show the newest version of the entry KEY in full."""
    newest = fetch(pb.ReadKnowledgeMsg(view="versions", key=require_utf8(key), sender=sender)).entries[0]
    output.emit(dump_entry(newest), render=lambda _: _render_entry(newest))


@knowledge.command()
@click.argument("key")
@sender_option
@output.json_option
def history(key: str, sender: str) -> None:
    """Show all versions of the entry KEY, newest first."""
    found = fetch(pb.ReadKnowledgeMsg(view="versions", key=require_utf8(key), sender=sender)).entries
    output.emit([dump_entry(each) for each in found], render=lambda _: "\n\n".join(map(_render_entry, found)))


@knowledge.command()
@click.argument("key")
@click.argument("content")
@click.option(
    "--category",
    type=click.Choice([each.value for each in KnowledgeCategory]),
    default="fact",
    show_default=True,
    help="What it is.",
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag to find it by; can be given several times.")
@click.option("--source", default="", metavar="TEXT", help="Where it comes from.")
@click.option(
    "--source-class",
    type=click.Choice([each.value for each in SourceClass]),
    default=SourceClass.PRIVATE_CONFIDENTIAL.value,
    show_default=True,
    help="Who may get it.",
)
@sender_option
@output.json_option
def save(key: str, content: str, tags: Sequence[str], source: str, sender: str, **kind: str) -> None:
    """Save CONTENT under KEY. Other content under the same key is a new version."""
    request = pb.ChangeKnowledgeMsg(
        change="save",
        key=require_utf8(key),
        content=require_utf8(content),
        tags=map(require_utf8, tags),
        source=require_utf8(source),
        sender=sender,
        category=kind["category"],
        source_class=kind["source_class"],
    )
    done = send_request(pb.ClientMessage(change_knowledge=request)).knowledge_changed
    text = f"Saved version {done.version}." if done.is_new else f"Version {done.version} says this already."
    output.emit({"key": key, "version": done.version, "is_new": done.is_new}, render=lambda _: text)


@knowledge.command()
@click.argument("key")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@sender_option
@output.json_option
def forget(key: str, yes: bool, sender: str) -> None:
    """Delete the entry KEY with all its versions. This cannot be undone."""
    found = fetch(pb.ReadKnowledgeMsg(view="versions", key=require_utf8(key), sender=sender)).entries
    if not yes:
        output.print_note(_render_entry(found[0]))
        prompts.require_confirmation("Forget this, with all versions?")
    request = pb.ChangeKnowledgeMsg(change="forget", key=key, sender=sender)
    done = send_request(pb.ClientMessage(change_knowledge=request)).knowledge_changed
    output.emit(
        {"key": key, "versions": done.count}, render=lambda _: f"Forgot {format_plural(done.count, 'version')}."
    )


@knowledge.command()
@click.option("--all", "everything", is_flag=True, help="Include those that were answered or dismissed.")
@sender_option
@output.json_option
def inquiries(everything: bool, sender: str) -> None:
    """List inquiries: questions of the librarian that wait for an answer."""
    found = fetch(pb.ReadKnowledgeMsg(view="inquiries", all=everything, sender=sender)).inquiries

    def render(_: Any) -> str:
        rows = [[each.inquiry_id, each.agent, each.priority, _describe_state(each), each.question] for each in found]
        return terminal.render_table(["ID", "AGENT", "PRIORITY", "STATE", "QUESTION"], rows) or "No inquiries."

    output.emit([_dump_inquiry(each) for each in found], render=render)


@knowledge.command()
@click.argument("inquiry")
@click.argument("text")
@sender_option
@output.json_option
def answer(inquiry: str, text: str, sender: str) -> None:
    """Answer an INQUIRY, given by its id or the beginning of it. TEXT is saved as knowledge."""
    request = pb.ChangeKnowledgeMsg(change="answer", inquiry_id=inquiry, content=require_utf8(text), sender=sender)
    done = send_request(pb.ClientMessage(change_knowledge=request)).knowledge_changed
    output.emit({"version": done.version}, render=lambda _: "Saved. It will not be asked again.")


@knowledge.command()
@click.argument("inquiry")
@sender_option
@output.json_option
def dismiss(inquiry: str, sender: str) -> None:
    """Dismiss an INQUIRY, given by its id or the beginning of it. It is not asked again."""
    send_request(
        pb.ClientMessage(change_knowledge=pb.ChangeKnowledgeMsg(change="dismiss", inquiry_id=inquiry, sender=sender))
    )
    output.emit({"dismissed": inquiry}, render=lambda _: "Dismissed. It will not be asked again.")


def _describe_state(info: pb.InquiryInfo) -> str:
    if info.status != "pending":
        return info.status
    return f"asked {numbers.format_time(info.asked_at)}" if info.asked_at else "not asked yet"


def _dump_inquiry(info: pb.InquiryInfo) -> dict[str, Any]:
    shape = {
        "id": info.inquiry_id,
        "agent": info.agent,
        "sender": info.sender,
        "topic": info.topic,
        "question": info.question,
        "context": info.context,
        "priority": info.priority,
        "status": info.status,
        "created_at": info.created_at,
        "asked_at": info.asked_at,
    }
    more = {"answer": info.answer, "taint": info.taint}
    return shape | {name: value for name, value in more.items() if value}


def dump_entry(entry: pb.KnowledgeEntry) -> dict[str, Any]:
    shape = {
        "key": entry.key,
        "version": entry.version,
        "category": entry.category,
        "content": entry.content,
        "tags": list(entry.tags),
        "source": entry.source,
        "source_class": entry.source_class,
        "created_at": entry.created_at,
    }
    more = {"asset_label": entry.asset_label, "agent": entry.agent, "taint": entry.taint}
    return shape | {name: value for name, value in more.items() if value}


def _render_entry(entry: pb.KnowledgeEntry) -> str:
    facts = [
        ("version", f"{entry.version}, {numbers.format_time(entry.created_at)}"),
        ("category", entry.category),
        ("tags", ", ".join(entry.tags)),
        ("source", entry.source),
        ("source class", entry.source_class),
        ("label", entry.asset_label),
        ("only for", entry.agent),
        ("contains text from", entry.taint),
    ]
    lines = [terminal.paint(sanitize.line(entry.key), bold=True)]
    lines += [f"{name:13} {sanitize.line(value)}" for name, value in facts if value]
    return "\n".join([*lines, *(f"> {line}" for line in sanitize.clean(entry.content).split("\n"))])
