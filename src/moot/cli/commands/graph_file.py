"""`moot graph import`: reads a file and sends it to the daemon in parts, each of which is imported or not at all."""

import json
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from moot.cli import output
from moot.cli.connect import run_connected
from moot.cli.name_completion import complete_files
from moot.cli.options import sender_option
from moot.cli.program import hint
from moot.cli.render import sanitize, terminal
from moot.cli.render.numbers import format_plural
from moot.cli.stdin import read_stdin
from moot.client.connection import Connection
from moot.domain.errors import BadRequest, MootError, TooLarge
from moot.domain.graph import NewEntity, NewFact, Refusal
from moot.domain.graph_import import ParsedGraph, parse_csv, parse_json, parse_jsonl
from moot.domain.ontology import Term, TermKind, format_time
from moot.wire import moot_pb2 as pb

_MOST_BYTES = 64 * 1024 * 1024
_PART_ROWS = 250
_PART_FACTS = 500
_PART_CHARACTERS = 500_000
_BAR = 20
# Refusals that are printed; --json has all.
_PRINTED = 20


class _Total(Struct):
    """What was imported so far."""

    entities: int = 0
    facts: int = 0
    conflicts: int = 0
    proposed: list[str] = []
    refusals: list[Refusal] = []


class _Piece(Struct, frozen=True, kw_only=True):
    """An entity as it is sent: with all its facts, or some of them."""

    entity: NewEntity
    is_first: bool = True


@click.command("import")
@click.argument("file", shell_complete=complete_files)
@click.option("--type", "type_name", default="", metavar="TYPE", help="The type of entities without one; CSV needs it.")
@click.option("--trust", is_flag=True, help="The file is your own: treat its content as trusted.")
@sender_option
@output.json_option
def import_graph(file: str, type_name: str, trust: bool, sender: str) -> None:
    """Import entities and facts from FILE: CSV, JSON or JSON lines; - reads JSON from stdin.

    Rows that cannot be imported are listed with the reason. Importing a file again adds nothing twice.
    """
    parsed = _parse(file, type_name)
    total = _Total(refusals=list(parsed.refusals))

    async def send(connection: Connection) -> None:
        with output.progress(_render_progress(0, len(parsed.entities))) as bar:
            done = 0
            for part, document in _split(parsed):
                request = pb.ImportGraphMsg(sender=sender, content=document, trust=trust)
                _add(total, part, (await connection.request(pb.ClientMessage(import_graph=request))).graph_imported)
                done += sum(piece.is_first for piece in part)
                bar.update(_render_progress(done, len(parsed.entities)))

    try:
        run_connected(send)
    except MootError:
        if total.entities:
            count = format_plural(total.entities, "entity").replace("entitys", "entities")
            output.print_prose(f"{count} were imported before the error; importing the file again adds the rest.")
        raise
    data = {
        "imported": total.entities,
        "total": parsed.total,
        "facts": total.facts,
        "conflicts": total.conflicts,
        "proposed": sorted(set(total.proposed)),
        "errors": [{"place": each.place, "reason": each.reason} for each in total.refusals],
    }
    output.emit(data, render=lambda _: _render_total(total, parsed.total))


def _parse(file: str, type_name: str) -> ParsedGraph:
    text = read_stdin() if file == "-" else _read_file(Path(file))
    suffix = Path(file).suffix.lower()
    if suffix in (".csv", ".tsv"):
        if not type_name:
            raise BadRequest("the type of the entities is missing", fix="Add --type, for example --type person.")
        return parse_csv(text, type_name)
    if suffix in (".jsonl", ".ndjson"):
        return parse_jsonl(text, type_name)
    return parse_json(text, type_name)


def _read_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}", fix="Check the path.") from error
    if len(data) > _MOST_BYTES:
        raise TooLarge(f"{path} has more than {_MOST_BYTES // 1024 // 1024} MB", fix="Split the file.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path} is not UTF-8 text", fix="Convert it to UTF-8 first.") from error


def _split(parsed: ParsedGraph) -> Iterator[tuple[Sequence[_Piece], str]]:
    """Return the parts to send: the entities of each, and its document. The first declares types and predicates.

    The others repeat those that are closed to new data: only what comes with their declaration may use them.
    """
    declared = [_dump_term(term) for term in parsed.declared]
    closed = [_dump_term(term) for term in parsed.declared if term.is_closed]
    part: list[_Piece] = []
    items: list[dict[str, Any]] = []
    size = facts = 0
    for piece in _cut(parsed.entities):
        item = _dump_entity(piece.entity)
        length, count = len(json.dumps(item)), len(piece.entity.facts)
        is_full = len(part) == _PART_ROWS or size + length > _PART_CHARACTERS or facts + count > _PART_FACTS
        if part and is_full:
            yield part, _build_document(items, declared)
            part, items, size, facts, declared = [], [], 0, 0, closed
        part.append(piece)
        items.append(item)
        size += length
        facts += count
    if part or declared:
        yield part, _build_document(items, declared)


def _cut(entities: Sequence[NewEntity]) -> Iterator[_Piece]:
    """Return the entities, each with no more facts than fit into a part."""
    for entity in entities:
        yield _Piece(entity=replace(entity, facts=entity.facts[:_PART_FACTS]))
        for start in range(_PART_FACTS, len(entity.facts), _PART_FACTS):
            facts = entity.facts[start : start + _PART_FACTS]
            yield _Piece(entity=replace(entity, properties={}, facts=facts), is_first=False)


def _build_document(items: Sequence[dict[str, Any]], declared: Sequence[dict[str, Any]]) -> str:
    kinds = {"types": TermKind.TYPE, "predicates": TermKind.PREDICATE}
    terms = {key: [each for each in declared if each["kind"] == kind] for key, kind in kinds.items()}
    return json.dumps({"entities": items, **terms}, ensure_ascii=False)


def _dump_term(term: Term) -> dict[str, Any]:
    return {"kind": term.kind, "name": term.name, "exclusive": term.is_exclusive, "status": term.status}


def _dump_entity(entity: NewEntity) -> dict[str, Any]:
    relations = [_dump_fact(fact) for fact in entity.facts]
    data = {"id": entity.id, "type": entity.type, "properties": entity.properties, "relations": relations}
    return data | ({"aliases": entity.aliases} if entity.aliases else {})


def _dump_fact(fact: NewFact) -> dict[str, Any]:
    data: dict[str, Any] = {
        "predicate": fact.predicate,
        "object": fact.object,
        "object_type": fact.object_type,
        "confidence": fact.confidence,
        "source": fact.source,
    }
    if fact.valid is not None:
        data |= {"valid_from": format_time(fact.valid.start, is_exact=True)} if fact.valid.start > -inf else {}
        data |= {"valid_to": format_time(fact.valid.end, is_exact=True)} if fact.valid.end < inf else {}
    return data


def _add(total: _Total, part: Sequence[_Piece], answer: pb.GraphImported) -> None:
    total.entities += max(0, answer.entities - sum(not piece.is_first for piece in part))
    total.facts += answer.facts
    total.conflicts += answer.conflicts
    total.proposed += answer.proposed
    for refusal in answer.refusals:
        # The daemon counts the entities of the part; their places in the file are known here.
        number = refusal.place.removeprefix("entity ")
        place = part[int(number) - 1].entity.place if number.isdigit() else refusal.place
        total.refusals.append(Refusal(place=place, reason=refusal.reason))


def _render_progress(done: int, total: int) -> str:
    filled = _BAR * done // total if total else _BAR
    return f"Importing [{'#' * filled}{'.' * (_BAR - filled)}] {done:,} of {total:,}"


def _render_total(total: _Total, count: int) -> str:
    rows = [f"Imported {total.entities:,} of {count:,} rows and {format_plural(total.facts, 'new fact')}."]
    if total.proposed:
        rows.append(f"New: {', '.join(map(sanitize.line, sorted(set(total.proposed))))}.")
    if total.conflicts:
        rows.append(hint(f"{format_plural(total.conflicts, 'fact')} in conflict: see `moot graph conflicts`."))
    if total.refusals:
        listed = [[each.place, each.reason] for each in total.refusals[:_PRINTED]]
        rows.append(terminal.render_table(["REFUSED", "REASON"], listed))
        more = len(total.refusals) - len(listed)
        rows += [f"and {more:,} more; --json lists all."] if more else []
    return "\n".join(rows)
