"""`moot agents vocabulary`: what people say when they need an agent, as a model wrote it for the router."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from moot.cli import output
from moot.cli.connect import run_connected, send_request
from moot.cli.name_completion import complete_vocabularies
from moot.cli.render import flow, numbers, sanitize, terminal
from moot.client.connection import Connection
from moot.domain.errors import ModelError, MootError
from moot.domain.vocabulary import LANGUAGES
from moot.wire import moot_pb2 as pb

_REQUEST = "  · "
_NO_AGENTS = "You have no agents of your own; what people say to the built-in ones is known."


@click.command()
@click.argument("name", default="", shell_complete=complete_vocabularies)
@click.option("--write", is_flag=True, help="Let the default model write it now. Without NAME: all that are missing.")
@output.json_option
def vocabulary(name: str, write: bool) -> None:
    """Show what people say when they need your agents, by which requests are routed with multiAgent.

    With NAME, show the words and sample requests of that agent.
    """
    if not name:
        _print_all(run_connected(_write_missing) if write else fetch(""))
        return
    if write:
        with output.progress(f"Writing the vocabulary of {sanitize.name(name)}"):
            answer = send_request(pb.ClientMessage(write_vocabulary=pb.WriteVocabularyMsg(agent=name))).vocabularies
    else:
        answer = fetch(name)
    (info,) = answer.vocabularies
    output.emit(dump_vocabulary(info) | {"phrases": _dump_phrases(info)}, render=lambda _: _render_whole(info))
    if write and info.obstacle and not answer.off_reason:
        # It is written because a person wants it, although Moot would not have.
        output.print_prose(f"Read the words: {sanitize.line(info.obstacle)}, and bad ones make routing worse.")
    _note_off(answer)


def fetch(name: str) -> pb.VocabularyList:
    return send_request(pb.ClientMessage(list_vocabularies=pb.ListVocabulariesMsg(agent=name))).vocabularies


async def find_vocabulary(connection: Connection, agent: str) -> pb.VocabularyInfo | None:
    """Return what there is to say of the vocabulary of an agent; None if it needs none, or to others than the owner."""
    message = pb.ClientMessage(list_vocabularies=pb.ListVocabulariesMsg(agent=agent))
    try:
        (info,) = (await connection.request(message)).vocabularies.vocabularies
    except MootError:
        return None
    return info


async def _write_missing(connection: Connection) -> pb.VocabularyList:
    """Write those that are missing, one after the other, also if the model fails for one; return all."""
    listing = pb.ClientMessage(list_vocabularies=pb.ListVocabulariesMsg())
    found = (await connection.request(listing)).vocabularies.vocabularies
    missing = [info.agent for info in found if info.is_teammate and not info.words]
    if not missing:
        output.print_prose("None is missing; `moot agents vocabulary NAME --write` writes one again.")
        return (await connection.request(listing)).vocabularies
    failures: list[ModelError] = []
    with output.progress("Writing vocabularies") as bar:
        for number, agent in enumerate(missing, 1):
            bar.update(f"Writing the vocabulary of {sanitize.name(agent)} ({number} of {len(missing)})")
            message = pb.WriteVocabularyMsg(agent=agent, only_if_missing=True)
            try:
                await connection.request(pb.ClientMessage(write_vocabulary=message))
            except ModelError as error:
                failures.append(error)
                output.print_prose(f"{sanitize.name(agent)}: {sanitize.line(error.message)}")
    if failures:
        raise ModelError(f"{len(failures)} of {len(missing)} vocabularies were not written", fix=failures[0].fix)
    return (await connection.request(listing)).vocabularies


# ---- output ---------------------------------------------------------------------------------------


def _print_all(answer: pb.VocabularyList) -> None:
    found = answer.vocabularies

    def render(_: Any) -> str:
        rows = [
            [
                info.agent,
                *((str(info.words), str(info.requests), info.model) if info.words else ("", "", "")),
                _state(info),
            ]
            for info in found
        ]
        return terminal.render_wrapped_table(["AGENT", "WORDS", "REQUESTS", "MODEL", "WRITTEN"], rows) or _NO_AGENTS

    output.emit({"vocabularies": list(map(dump_vocabulary, found)), "off_reason": answer.off_reason}, render=render)
    _note_off(answer)


def _note_off(answer: pb.VocabularyList) -> None:
    # An agent without one gives the reason itself.
    if answer.off_reason and (not answer.vocabularies or any(info.words for info in answer.vocabularies)):
        output.print_prose(f"Vocabularies are not used: {sanitize.line(answer.off_reason)}.")


def _state(info: pb.VocabularyInfo) -> str:
    """Say when it was written, or why not."""
    if info.words:
        return numbers.format_time(info.written_at)
    if info.being_written:
        return "is being written"
    return f"not written: {info.obstacle}" if info.obstacle else "not yet"


def describe_vocabulary(info: pb.VocabularyInfo) -> str:
    """Say in one line how much there is, or why there is none."""
    if not info.words:
        return _state(info)
    counts = f"{numbers.format_plural(info.words, 'word')}, {numbers.format_plural(info.requests, 'request')}"
    return f"{counts}, by {info.model}, {numbers.format_time(info.written_at)}"


def dump_vocabulary(info: pb.VocabularyInfo) -> dict[str, Any]:
    return {
        "agent": info.agent,
        "words": info.words,
        "requests": info.requests,
        "model": info.model or None,
        "written_at": info.written_at or None,
        "being_written": info.being_written,
        "obstacle": info.obstacle or None,
        "is_teammate": info.is_teammate,
    }


def _dump_phrases(info: pb.VocabularyInfo) -> list[dict[str, Any]]:
    return [
        {"language": each.language, "words": list(each.words), "requests": list(each.requests)} for each in info.phrases
    ]


def _render_whole(info: pb.VocabularyInfo) -> str:
    width = terminal.row_width(sys.stdout)
    name = sanitize.name(info.agent)
    about = flow.wrap_text(f"{name}  {sanitize.line(describe_vocabulary(info))}", width, indent="  ")
    lines = [terminal.paint(name, bold=True) + about.removeprefix(name)]
    for each in info.phrases:
        lines += ["", terminal.paint(LANGUAGES.get(each.language, sanitize.line(each.language)), bold=True)]
        lines += _wrap_words([sanitize.line(word) for word in each.words], width)
        lines += [flow.wrap_text(_REQUEST + sanitize.line(text), width, indent="    ") for text in each.requests]
    return "\n".join(lines)


def _wrap_words(words: Sequence[str], width: int) -> list[str]:
    """Return rows of words, none of which is broken."""
    rows: list[str] = []
    for number, word in enumerate(words, 1):
        text = word if number == len(words) else f"{word},"
        if rows and (not width or sanitize.columns(f"{rows[-1]} {text}") <= width):
            rows[-1] = f"{rows[-1]} {text}"
        else:
            rows.append(f"  {text}")
    return rows
