"""Reads entities and facts for the knowledge graph from CSV and JSON. Used by tools/graph and `moot graph`. Pure."""

import csv
import hashlib
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from typing import Any

import msgspec
from msgspec import Struct

from moot.domain.errors import BadRequest, MootError, TooLarge
from moot.domain.graph import (
    DEFAULT_CONFIDENCE,
    MOST_PROPERTIES,
    NewEntity,
    NewFact,
    Refusal,
    check_confidence,
    check_properties,
    check_source,
    normalize_id,
)
from moot.domain.ontology import BUILT_IN_TERMS, Term, TermKind, TermStatus, check_name, parse_status, parse_validity
from moot.domain.text import clean, normalize_name

# Rows and characters of what a tool imports at once; a person imports a file in parts of this size.
MOST_ROWS = 2_000
MOST_CHARACTERS = 1_000_000
# Facts, and declared types and predicates, of one import: it is one transaction, and others wait for it.
MOST_FACTS = 2_000
MOST_DECLARED = 1_000

# Columns of a CSV file and fields of an object that hold the id, the first that is there.
_ID_FIELDS = ("id", "entity_id", "name")
_DELIMITERS = (",", ";", "\t")
_BOM = "\ufeff"
_LONGEST_HEADER = 100_000
_LINE_END = re.compile(r"[\r\n]")
_QUOTED = re.compile(r'"[^"]*"')

Scalar = str | int | float | bool


class ParsedGraph(Struct, frozen=True, kw_only=True):
    """What an import contains: entities, declared types and predicates, and what cannot be read."""

    entities: tuple[NewEntity, ...]
    declared: tuple[Term, ...] = ()
    refusals: tuple[Refusal, ...] = ()

    @property
    def total(self) -> int:
        return len(self.entities) + len(self.refusals)


def check_size(data: str) -> None:
    if len(data) > MOST_CHARACTERS:
        raise TooLarge(
            f"the data has {len(data):,} characters", fix=f"Import at most {MOST_CHARACTERS:,} at once, or a file."
        )


def check_rows(parsed: ParsedGraph) -> None:
    check_count(parsed.total, MOST_ROWS, "rows")
    check_count(sum(len(entity.facts) for entity in parsed.entities), MOST_FACTS, "facts")
    check_count(len(parsed.declared), MOST_DECLARED, "types and predicates")


def check_count(count: int, most: int, what: str) -> None:
    if count > most:
        raise TooLarge(f"the data has {count:,} {what}", fix=f"Import at most {most:,} at once, or a file.")


# ---- CSV ------------------------------------------------------------------------------------------


def parse_csv(data: str, type_name: str, *, most_rows: int = sys.maxsize) -> ParsedGraph:
    """Return one entity per row. The first row has the names of the properties; one of them is the id.

    A row whose fields do not match the header, or whose quotes do not end, is refused with its line.
    """
    check_name(TermKind.TYPE, type_name)
    entities: list[NewEntity] = []
    refusals: list[Refusal] = []
    header: list[str] = []
    places: dict[str, str] = {}
    for place, row in _read_rows(data.removeprefix(_BOM)):
        if isinstance(row, csv.Error):
            refusals.append(Refusal(place=place, reason=_explain(row)))
        elif not header:
            header = _check_header(row) if any(field.strip() for field in row) else []
        else:
            try:
                entity = _read_row(header, row, type_name, place)
                if (first := places.setdefault(entity.id, place)) != place:
                    raise BadRequest(f"the id {entity.id!r} is already in {first}", fix="")
                entities.append(entity)
            except MootError as error:
                refusals.append(Refusal(place=place, reason=error.sentence))
        check_count(len(entities) + len(refusals), most_rows, "rows")
    if not header:
        raise BadRequest("the CSV data has no header", fix="The first row names the properties.")
    return ParsedGraph(entities=tuple(entities), refusals=tuple(refusals))


def _read_rows(text: str) -> Iterator[tuple[str, list[str] | csv.Error]]:
    """Return each row that is not an empty line, or what is wrong with it, with the line it begins in."""
    reader = csv.reader(StringIO(text, newline=""), delimiter=_find_delimiter(text), strict=True)
    while True:
        place = f"line {reader.line_num + 1}"
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield place, error
        else:
            if len(row) > 1 or any(field.strip() for field in row):
                yield place, row


def _explain(error: csv.Error) -> str:
    if "unexpected end" in str(error):
        return "a quotation mark that begins in this row is not closed; nothing after it was read"
    return f"not valid CSV: {error}"


def _find_delimiter(text: str) -> str:
    """Return the delimiter that the first row has most often outside quotation marks."""
    first = next((row for row in _LINE_END.split(text[:_LONGEST_HEADER]) if row.strip()), "")
    return max(_DELIMITERS, key=_QUOTED.sub("", first).count)


def _check_header(row: Sequence[str]) -> list[str]:
    if len(row) > MOST_PROPERTIES + 1:
        raise BadRequest(f"the header has {len(row)} columns", fix=f"An entity has at most {MOST_PROPERTIES}.")
    header = [normalize_name(field) for field in row]
    repeated = sorted(field for field, count in Counter(header).items() if count > 1)
    if "" in header or repeated:
        problem = f"names {repeated[0]!r} twice" if repeated and repeated[0] else "has an empty name"
        raise BadRequest(f"the header {problem}", fix="Give each column a name of its own.")
    check_properties(dict.fromkeys(header, ""))
    return header


def _read_row(header: Sequence[str], row: Sequence[str], type_name: str, place: str) -> NewEntity:
    if len(row) != len(header):
        raise BadRequest(f"the row has {len(row)} fields, the header {len(header)}", fix="")
    fields = {name: clean(value).strip() for name, value in zip(header, row, strict=True)}
    properties = {name: value for name, value in fields.items() if value}
    if not properties:
        raise BadRequest("all fields of the row are empty", fix="")
    id_field = _find_id_field(header)
    entity_id = properties.pop(id_field, "") if id_field else _make_id(type_name, fields)
    if not entity_id:
        raise BadRequest(f"the column {id_field!r} is empty", fix="")
    check_properties(properties)
    return NewEntity(id=normalize_id(entity_id, "id"), type=type_name, properties=properties, place=place)


def _find_id_field(names: Iterable[str]) -> str:
    by_folded = {name.casefold(): name for name in names}
    return next((by_folded[name] for name in _ID_FIELDS if name in by_folded), "")


def _make_id(type_name: str, fields: dict[str, Any]) -> str:
    """Return an id that the same content always has, so that it is not imported twice."""
    digest = hashlib.sha256(msgspec.json.encode(sorted(fields.items()))).hexdigest()
    return f"{type_name}-{digest[:12]}"


# ---- JSON -----------------------------------------------------------------------------------------


def parse_json(data: str, type_name: str = "", *, source: str = "json", most_rows: int = sys.maxsize) -> ParsedGraph:
    """Return the entities of a JSON document: a list of them, or an object with `entities`, as an export has it.

    An object may also have `facts`, and declare `types` and `predicates`.
    """
    document = _decode(data)
    if isinstance(document, list):
        document = {"entities": document}
    if not isinstance(document, dict) or not {"entities", "facts"} & document.keys():
        raise BadRequest("the JSON data has no list of entities", fix='Write {"entities": [{"id": …, "type": …}]}.')
    for key in ("types", "predicates", "entities", "facts"):
        check_count(len(_list(document, key)), most_rows, "rows")
    reader = _JsonReader(type_name, source, sys.maxsize if most_rows == sys.maxsize else MOST_FACTS)
    for kind, key in ((TermKind.TYPE, "types"), (TermKind.PREDICATE, "predicates")):
        for number, item in enumerate(_list(document, key), 1):
            reader.declare(kind, item, f"{kind} {number}")
    for number, item in enumerate(_list(document, "entities"), 1):
        reader.read_entity(item, f"entity {number}")
    for number, item in enumerate(_list(document, "facts"), 1):
        reader.read_fact(item, f"fact {number}")
    return reader.result()


def parse_jsonl(data: str, type_name: str = "", *, source: str = "json") -> ParsedGraph:
    """Return one entity per line."""
    reader = _JsonReader(type_name, source)
    for number, line in enumerate(data.removeprefix(_BOM).split("\n"), 1):
        if not line.strip():
            continue
        place = f"line {number}"
        try:
            item = _decode(line)
        except MootError as error:
            reader.refuse(place, error)
        else:
            reader.read_entity(item, place)
    return reader.result()


def _decode(data: str) -> Any:
    try:
        return msgspec.json.decode(data.removeprefix(_BOM).encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise BadRequest(f"the data is not valid JSON: {error}", fix="Check it where the error says.") from None


def _list(document: dict[str, Any], key: str) -> list[Any]:
    found = document.get(key) or []
    if not isinstance(found, list):
        raise BadRequest(f"{key} is not a list", fix="")
    return found


class _JsonReader:
    """`most_facts` is the most that all entities may have together."""

    def __init__(self, type_name: str, source: str, most_facts: int = sys.maxsize) -> None:
        self._room = most_facts
        self._type = type_name
        self._source = source
        self._entities: list[NewEntity] = []
        self._declared: list[Term] = []
        self._refusals: list[Refusal] = []

    def result(self) -> ParsedGraph:
        return ParsedGraph(
            entities=tuple(self._entities), declared=tuple(self._declared), refusals=tuple(self._refusals)
        )

    def refuse(self, place: str, error: MootError) -> None:
        self._refusals.append(Refusal(place=place, reason=error.sentence))

    def declare(self, kind: TermKind, item: Any, place: str) -> None:
        try:
            fields = {"name": item} if isinstance(item, str) else _require_object(item)
            name = _text(fields, "name")
            check_name(kind, name)
            status = _text(fields, "status", "")
            built_in = BUILT_IN_TERMS.get((kind, name))
            self._declared.append(
                Term(
                    kind=kind,
                    name=name,
                    status=parse_status(status) if status not in ("", TermStatus.PROPOSED) else TermStatus.PROPOSED,
                    is_exclusive=fields.get("exclusive", built_in is not None and built_in.is_exclusive) is True,
                    reason="declared by an import",
                )
            )
        except MootError as error:
            self.refuse(place, error)

    def read_entity(self, item: Any, place: str) -> None:
        try:
            fields = _require_object(item)
            entity_id = normalize_id(_text(fields, _find_id_field(fields) or "id"), "id")
            type_name = _text(fields, "type", "") or self._type
            properties = read_properties(_require_object(fields.get("properties") or {}))
            check_properties(properties)
            relations = _list(fields, "relations")
            self._room -= len(relations)
            if self._room < 0:
                raise TooLarge("the data has too many facts", fix=f"Import at most {MOST_FACTS:,} at once, or a file.")
            facts = tuple(self._make_fact(_require_object(each), entity_id, type_name) for each in relations)
            aliases = tuple(dict.fromkeys(_read_alias(each) for each in _list(fields, "aliases")))
            self._entities.append(
                NewEntity(
                    id=entity_id, type=type_name, properties=properties, facts=facts, aliases=aliases, place=place
                )
            )
        except MootError as error:
            self.refuse(place, error)

    def read_fact(self, item: Any, place: str) -> None:
        try:
            fields = _require_object(item)
            subject = normalize_id(_text(fields, "subject"), "subject")
            fact = self._make_fact(fields, subject, _text(fields, "subject_type", ""))
            self._entities.append(NewEntity(id=subject, type=fact.subject_type, facts=(fact,), place=place))
        except MootError as error:
            self.refuse(place, error)

    def _make_fact(self, fields: dict[str, Any], subject: str, subject_type: str) -> NewFact:
        confidence = fields.get("confidence", DEFAULT_CONFIDENCE)
        if isinstance(confidence, bool) or not isinstance(confidence, int | float):
            raise BadRequest("confidence is not a number", fix="")
        return NewFact(
            subject=subject,
            predicate=_text(fields, "predicate"),
            object=normalize_id(_text(fields, "object"), "object"),
            subject_type=subject_type,
            object_type=_text(fields, "object_type", ""),
            confidence=check_confidence(confidence),
            source=check_source(_text(fields, "source", "") or self._source),
            valid=parse_validity(_text(fields, "valid_from", ""), _text(fields, "valid_to", "")),
        )


def _read_alias(item: Any) -> str:
    return normalize_id(_text({"alias": item}, "alias"), "alias")


def _require_object(item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise BadRequest("it is not a JSON object", fix="")
    return item


def _text(fields: dict[str, Any], name: str, default: str | None = None) -> str:
    value = fields.get(name, default)
    if isinstance(value, bool | float) or not isinstance(value, str | int):
        raise BadRequest(f"{name} is missing" if value is None else f"{name} is not a text", fix="")
    return clean(str(value)).strip()


def read_properties(fields: dict[str, Any], *, skip_nested: bool = False) -> dict[str, str]:
    """Return the fields as texts. Lists and objects are refused or skipped, and what is null or empty is left out."""
    found: dict[str, str] = {}
    for name, value in fields.items():
        if isinstance(value, dict | list):
            if not skip_nested:
                raise BadRequest(f"the property {name[:40]!r} is not a text, a number or a boolean", fix="")
        elif value is not None and value != "":
            found[normalize_name(name)] = _render_value(value)
    return found


def _render_value(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return str(int(value))
    return clean(str(value)).strip()


def parse_result(tool_name: str, result: str, type_name: str, predicate: str) -> NewEntity:
    """Return the entity that a tool's result describes: its plain fields are properties, its id or name the id."""
    found = _decode(result)
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    if not isinstance(found, dict):
        raise BadRequest("result_json is not a JSON object", fix="Pass the object that describes one entity.")
    properties = read_properties(found, skip_nested=True)
    id_field = _find_id_field(properties)
    entity_id = properties.pop(id_field) if id_field else _make_id(type_name, properties)
    if not properties and not id_field:
        raise BadRequest("result_json has no plain fields", fix="Pass the object that describes one entity.")
    check_properties(properties)
    source = check_source(f"mcp:{tool_name}")
    entity_id, tool = normalize_id(entity_id, "id"), normalize_id(tool_name, "tool_name")
    fact = NewFact(
        subject=entity_id, predicate=predicate, object=tool, subject_type=type_name, object_type="tool", source=source
    )
    return NewEntity(id=entity_id, type=type_name, properties=properties, facts=(fact,), place=tool)
