"""The reading process: parses documents that may be hostile, cuts and analyses text. Started by process.py.

It has little memory and no environment, and the daemon kills it when a task takes too long.
"""

import csv
import resource
import sys

from moot.domain.errors import MootError, TooLarge, Unavailable
from moot.domain.rag import NewPassage, join_text
from moot.retrieval.reading.csv_blocks import describe_ragged_rows
from moot.retrieval.reading.formats import choose_blocks
from moot.retrieval.reading.messages import (
    LENGTH,
    Answer,
    Extracted,
    ExtractTask,
    Failed,
    Split,
    SplitTask,
    Task,
    UnpackTask,
    decode_task,
    encode,
)
from moot.retrieval.reading.pieces import Piece, cut_text
from moot.retrieval.reading.terms import list_terms
from moot.retrieval.reading.unpack import unpack

_MEMORY = 2 * 1024**3


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A field may be as long as the text, whose length is limited. The default is 131,072 characters.
    csv.field_size_limit(sys.maxsize)
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while header := source.read(LENGTH.size):
        (length,) = LENGTH.unpack(header)
        answer = encode(do_task(decode_task(source.read(length))))
        target.write(LENGTH.pack(len(answer)) + answer)
        target.flush()


def do_task(task: Task) -> Answer:
    try:
        if isinstance(task, UnpackTask):
            return unpack(task)
        return _extract(task) if isinstance(task, ExtractTask) else _split(task)
    except MootError as error:
        return Failed(reason=error.message, fix=error.fix, is_missing=isinstance(error, Unavailable))
    except (MemoryError, RecursionError):
        return Failed(reason="it is too large or too deeply nested", fix="Split it into several files.")


def _extract(task: ExtractTask) -> Extracted:
    # Imported for the format that needs it: a PDF reader takes long to load.
    if task.format == "pdf":
        from moot.retrieval.reading.extract_pdf import extract_pdf  # noqa: PLC0415

        title, sections = extract_pdf(task.data, task.most_characters)
    elif task.format == "docx":
        from moot.retrieval.reading.extract_docx import extract_docx  # noqa: PLC0415

        title, sections = extract_docx(task.data, task.most_characters)
    else:
        from moot.retrieval.reading.extract_html import extract_html  # noqa: PLC0415
        from moot.tools.web.readable import decode  # noqa: PLC0415

        title, sections = extract_html(decode(task.data))
    return Extracted(title=title, sections=tuple(sections))


def _split(task: SplitTask) -> Split:
    cut = choose_blocks(task.format, task.name)
    pieces = [piece for section in task.sections for piece in cut_text(section, cut)]
    if len(pieces) > task.most_passages:
        raise TooLarge(f"it has {len(pieces)} passages; at most {task.most_passages} are indexed", fix="Split it.")
    note = describe_ragged_rows(task.sections[0].text) if task.format == "csv" else ""
    return Split(passages=tuple(_analyse(piece, task) for piece in pieces), note=note)


def _analyse(piece: Piece, task: SplitTask) -> NewPassage:
    text = join_text(task.title, piece.heading, piece.content)
    vector = b""
    if task.embeds:
        from moot.retrieval.reading.word_embedding import make_vector  # noqa: PLC0415

        vector = make_vector(text)
    return NewPassage(
        content=piece.content,
        heading=piece.heading,
        first_line=piece.first_line,
        last_line=piece.last_line,
        page=piece.page,
        terms=" ".join(list_terms(text)),
        vector=vector,
    )


if __name__ == "__main__":
    main()
