"""`moot rag`: documents that agents answer from: index, search, answer, list, forget."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import click

from moot.cli import output
from moot.cli.command_group import CommandGroup
from moot.cli.connect import require_utf8, run_connected, send_request
from moot.cli.name_completion import complete_agents, complete_files
from moot.cli.options import sender_option
from moot.cli.program import hint
from moot.cli.render import sanitize, terminal
from moot.cli.render.numbers import format_plural
from moot.client.connection import Connection
from moot.domain.errors import BadRequest, NotFound
from moot.wire import moot_pb2 as pb

_BAR = 20
# Refusals that are printed; --json has all.
_PRINTED = 20
_EXCERPT = 400


def _owner_options(command: Callable[..., Any]) -> Callable[..., Any]:
    agent = click.option(
        "--agent",
        default="",
        metavar="AGENT",
        shell_complete=complete_agents,
        help="The agent that the documents belong to. Default: librarian, or moot if it works without teammates.",
    )
    return agent(sender_option(command))


_source_option = click.option(
    "--source", default="", metavar="SOURCE", help="Only this source: its number, path or address."
)


@click.group(cls=CommandGroup, invoke_without_command=True)
@_owner_options
@output.json_option
@click.pass_context
def rag(context: click.Context, agent: str, sender: str) -> None:
    """Documents that agents search and cite. Without a command: list."""
    if context.invoked_subcommand is None:
        _print_sources(agent, sender)


@rag.command("list")
@_owner_options
@output.json_option
def list_sources(agent: str, sender: str) -> None:
    """List the indexed sources."""
    _print_sources(agent, sender)


@rag.command()
@click.argument("place")
@_owner_options
@output.json_option
def index(place: str, agent: str, sender: str) -> None:
    """Index PLACE: a file, a folder, an http or https address, or "archive".

    A folder that is indexed already is brought up to date; files that cannot be indexed are listed with the reason.
    """
    place, cwd = _split_place(require_utf8(place))
    request = pb.IndexDocumentsMsg(agent=agent, sender=sender, place=place, cwd=cwd)

    async def send(connection: Connection) -> pb.DocumentsIndexed:
        pending = connection.send(pb.ClientMessage(index_documents=request))
        try:
            with output.progress("Indexing") as bar:
                while (answer := await pending.answer()).HasField("index_progress"):
                    bar.update(_render_progress(answer.index_progress))
        finally:
            pending.forget()
        return answer.documents_indexed

    done = run_connected(send)
    output.emit(_dump_indexed(done), render=lambda _: _render_indexed(done))


def _split_place(place: str) -> tuple[str, str]:
    """Return a path as a name and the folder it is in; everything else as it is."""
    if place == "archive" or place.lower().startswith(("http://", "https://")):
        return place, ""
    if "://" in place and not os.path.exists(place):
        raise BadRequest(f"{place} cannot be indexed", fix="Give a path, or an http or https address.")
    path = os.path.realpath(os.path.expanduser(place))
    if not os.path.lexists(path):
        raise NotFound(f"{place} does not exist", fix="Check the path.")
    return (path, path) if os.path.isdir(path) else (path, os.path.dirname(path))


@rag.command()
@click.argument("query")
@click.option("--limit", type=click.IntRange(1, 20), default=5, show_default=True, help="How many passages.")
@_source_option
@_owner_options
@output.json_option
def search(query: str, limit: int, source: str, agent: str, sender: str) -> None:
    """Find passages for QUERY, best first."""
    request = pb.SearchDocumentsMsg(
        agent=agent, sender=sender, query=require_utf8(query), limit=limit, source=require_utf8(source)
    )
    found = send_request(pb.ClientMessage(search_documents=request)).passages
    results = [_dump_passage(each) | {"score": each.score} for each in found.passages]
    data = {"results": results, "notes": list(found.notes)}
    output.emit(data, render=lambda _: _render_passages(found.passages) or "Nothing found.")
    _print_notes(found.notes)


@rag.command()
@click.argument("question")
@_source_option
@_owner_options
@output.json_option
def answer(question: str, source: str, agent: str, sender: str) -> None:
    """Answer QUESTION from the documents, with citations that have been checked."""
    request = pb.AnswerQuestionMsg(
        agent=agent, sender=sender, question=require_utf8(question), source=require_utf8(source)
    )
    with output.progress("Reading"):
        found = send_request(pb.ClientMessage(answer_question=request)).document_answer
    data = {
        "found": found.found,
        "answer": found.answer,
        "grounded": found.grounded,
        "citations": [
            _dump_passage(each) | {"number": each.number, "supported": each.supported} for each in found.citations
        ],
        "message": found.message,
        "notes": list(found.notes),
    }
    output.emit(data, render=lambda _: _render_answer(found))
    _print_notes(found.notes)


@rag.command()
@click.argument("source", shell_complete=complete_files)
@_owner_options
@output.json_option
def forget(source: str, agent: str, sender: str) -> None:
    """Remove SOURCE from the index, by its number, path or address. The files stay."""
    place = require_utf8(source)
    if not place.isdigit() and os.path.exists(place):
        place = os.path.realpath(place)
    request = pb.ForgetSourceMsg(agent=agent, sender=sender, source=place)
    (forgotten,) = send_request(pb.ClientMessage(forget_source=request)).sources.sources
    count = format_plural(forgotten.documents, "document")
    output.emit(_dump_source(forgotten), render=lambda _: f"Forgot {sanitize.line(forgotten.place)}: {count}.")


# ---- output ---------------------------------------------------------------------------------------


def _print_sources(agent: str, sender: str) -> None:
    request = pb.ListSourcesMsg(agent=agent, sender=sender)
    listed = send_request(pb.ClientMessage(list_sources=request)).sources
    found = listed.sources

    def render(_: Any) -> str:
        rows = [
            [
                str(each.number),
                each.kind,
                each.place,
                f"{each.documents:,}",
                f"{each.passages:,}",
                f"{each.refused:,}",
                "" if each.complete else "not complete",
            ]
            for each in found
        ]
        headers = ["NUMBER", "KIND", "PLACE", "DOCUMENTS", "PASSAGES", "REFUSED", ""]
        table = terminal.render_table(headers, rows) or hint("Nothing is indexed; `moot rag index PATH` does it.")
        return f"{table}\nVectors: {sanitize.line(listed.embeddings)}."

    output.emit([_dump_source(each) for each in found], render=render)


def _dump_source(source: pb.SourceInfo) -> dict[str, Any]:
    return {
        "number": source.number,
        "kind": source.kind,
        "place": source.place,
        "documents": source.documents,
        "passages": source.passages,
        "refused": source.refused,
        "complete": source.complete,
        "added_at": source.added_at,
        "embeddings": source.embeddings,
    }


def _dump_indexed(done: pb.DocumentsIndexed) -> dict[str, Any]:
    return {
        "source": _dump_source(done.source),
        "added": done.added,
        "changed": done.changed,
        "removed": done.removed,
        "unchanged": done.unchanged,
        "embedded_anew": done.embedded_anew,
        "refused": [{"document": each.document, "reason": each.reason} for each in done.refused],
        "notes": [{"document": each.document, "reason": each.reason} for each in done.notes],
    }


def _render_indexed(done: pb.DocumentsIndexed) -> str:
    source = done.source
    counts = f"{format_plural(source.documents, 'document')}, {format_plural(source.passages, 'passage')}"
    lines = [
        f"Indexed {sanitize.line(source.place)} as source {source.number}: {counts}.",
        f"{done.added:,} new, {done.changed:,} changed, {done.removed:,} removed, {done.unchanged:,} unchanged.",
    ]
    if done.embedded_anew:
        count = format_plural(done.embedded_anew, "document")
        lines.append(f"New vectors were made of {count}: {sanitize.line(source.embeddings)}.")
    for header, remarks in (("REFUSED", done.refused), ("NOTE", done.notes)):
        if remarks:
            listed = [[each.document, each.reason] for each in remarks[:_PRINTED]]
            lines.append(terminal.render_table([header, "REASON"], listed))
            more = len(remarks) - len(listed)
            lines += [f"and {more:,} more; --json lists all."] if more else []
    return "\n".join(lines)


def _render_progress(progress: pb.IndexProgress) -> str:
    filled = _BAR * progress.done // progress.total if progress.total else _BAR
    return f"Indexing [{'#' * filled}{'.' * (_BAR - filled)}] {progress.done:,} of {progress.total:,}"


def _dump_passage(passage: pb.PassageInfo) -> dict[str, Any]:
    return {
        "citation": passage.citation,
        "title": passage.title,
        "heading": passage.heading,
        "text": passage.text,
        "source": passage.source,
    }


def _render_passages(passages: Sequence[pb.PassageInfo]) -> str:
    blocks = []
    for each in passages:
        cut = sanitize.clean(each.text[:_EXCERPT]).strip() + ("…" if len(each.text) > _EXCERPT else "")
        indented = "\n".join(f"  {line}" for line in cut.split("\n"))
        blocks.append(f"{terminal.paint(sanitize.line(each.citation), bold=True)}\n{indented}")
    return "\n\n".join(blocks)


def _render_answer(answer: pb.DocumentAnswer) -> str:
    if not answer.found:
        return answer.message
    cited = [f"  [{each.number}] {sanitize.line(each.citation)}" for each in answer.citations]
    warning = [] if answer.grounded else ["", answer.message]
    return "\n".join([sanitize.clean(answer.answer), "", *cited, *warning]).rstrip()


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        output.print_note(sanitize.line(note))
