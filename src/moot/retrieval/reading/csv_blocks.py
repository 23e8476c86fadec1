"""Cuts CSV after rows, with the names of the columns as heading; says which rows have another number of them. Pure."""

import csv
from collections.abc import Iterator, Sequence

from moot.retrieval.reading.pieces import TARGET, Block

_MOST_HEADING = 200
_NAMED_ROWS = 5
_SAMPLE = 4_096


def choose_delimiter(text: str) -> str:
    """Return the separator that the first line has most of."""
    first = text[:_SAMPLE].split("\n", 1)[0]
    return max(",;\t|", key=lambda mark: (first.count(mark), mark == ","))


def cut_csv(lines: Sequence[str]) -> Iterator[Block]:
    """Yield blocks of whole rows. A quoted value can span lines."""
    delimiter = choose_delimiter("\n".join(lines[:1]))
    heading = ""
    start = taken = size = 0
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter)
    for row in reader:
        end = reader.line_num
        if not heading:
            heading = ", ".join(cell.strip() for cell in row)[:_MOST_HEADING]
        size += sum(len(line) + 1 for line in lines[taken:end])
        taken = end
        if size > TARGET:
            yield Block(lines=tuple(lines[start:end]), first=start + 1, heading=heading)
            start, size = end, 0
    if any(line.strip() for line in lines[start:taken]):
        yield Block(lines=tuple(lines[start:taken]), first=start + 1, heading=heading)


def describe_ragged_rows(text: str) -> str:
    """Return which rows have another number of columns than the first; empty if none has."""
    # Lines end as they do everywhere else, not also at the other marks that `splitlines` knows.
    reader = csv.reader((f"{line}\n" for line in text.split("\n")), delimiter=choose_delimiter(text))
    columns = 0
    ragged: list[int] = []
    for row in reader:
        columns = columns or len(row)
        if row and len(row) != columns:
            ragged.append(reader.line_num)
    if not ragged:
        return ""
    named = ", ".join(map(str, ragged[:_NAMED_ROWS])) + (" …" if len(ragged) > _NAMED_ROWS else "")
    if len(ragged) == 1:
        return f"1 row does not have {columns} columns: line {named}"
    return f"{len(ragged)} rows do not have {columns} columns: lines {named}"
