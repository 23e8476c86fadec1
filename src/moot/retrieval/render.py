"""Renders sources, passages and answers as JSON values for agents and people. Pure."""

import os
import re
from collections.abc import Callable, Iterable
from typing import Any

from moot.domain.rag import IndexedPassage, Source, SourceReport
from moot.retrieval.answers import Answer
from moot.retrieval.indexer import IndexReport
from moot.retrieval.search import Found

_LISTED = 20
_SHOWN_SENTENCE = 200


def cite(passage: IndexedPassage, cwd: str) -> str:
    """Return where a passage is; a path in the working directory is shortened to one relative to it."""
    return shorten_place(passage.location, cwd)


def shorten_place(place: str, cwd: str) -> str:
    if not cwd:
        return place
    return "." if place == cwd else place.removeprefix(f"{cwd.rstrip('/')}/")


def shorten_paths(text: str, cwd: str) -> str:
    """Return a sentence with the paths in the working directory relative to it."""
    folder = cwd.rstrip("/")
    if not folder:
        return text
    inside = re.sub(rf"(?<![\w./-]){re.escape(folder)}/", "", text)
    # An error that explains which folder that is keeps its name, as the file tools do.
    return re.sub(rf"(?<!working directory, )(?<![\w./-]){re.escape(folder)}(?![\w-])", ".", inside)


def hide_folders(sources: Iterable[Source]) -> Callable[[str], str]:
    """Return what makes paths in a text relative, for a reader who is not told where the folders of the sources are.

    A folder that is a source is named by its own name, everything else from the folder that it was indexed in.
    """
    found = {os.path.dirname(each.folder) if each.place == each.folder else each.folder for each in sources}
    folders = sorted(found, key=len, reverse=True)

    def hide(text: str) -> str:
        for folder in folders:
            text = shorten_paths(text, folder)
        return text

    return hide


def report_data(stored: SourceReport, report: IndexReport, cwd: str) -> dict[str, Any]:
    return {
        "source": stored.source.label,
        "place": shorten_place(stored.source.place, cwd),
        "documents": stored.documents,
        "passages": stored.passages,
        "added": report.added,
        "changed": report.changed,
        "removed": report.removed,
        "unchanged": report.unchanged,
        **({"embedded_anew": report.embedded_anew} if report.embedded_anew else {}),
        "refused": _list_reasons(report.refused, cwd),
        "refused_count": len(report.refused),
        "notes": _list_reasons(report.notes, cwd),
    }


def _list_reasons(reasons: dict[str, str], cwd: str) -> list[dict[str, str]]:
    listed = list(reasons.items())[:_LISTED]
    return [{"document": shorten_place(name, cwd), "reason": reason} for name, reason in listed]


def dump_passages(found: Found, cwd: str) -> dict[str, Any]:
    results = [
        {
            "citation": cite(each.passage, cwd),
            "title": each.passage.title,
            "heading": each.passage.heading,
            "text": each.passage.content,
            "score": round(each.score, 5),
            "source": each.passage.source_label,
        }
        for each in found.passages
    ]
    return {"results": results, "count": len(results), **_dump_notes(found.notes, cwd)}


def _dump_notes(notes: Iterable[str], cwd: str) -> dict[str, list[str]]:
    shortened = [shorten_paths(note, cwd) for note in notes]
    return {"notes": shortened} if shortened else {}


def answer_data(answer: Answer, cwd: str) -> dict[str, Any]:
    citations = [
        {
            "number": each.number,
            "citation": cite(each.passage, cwd),
            "text": each.passage.content,
            "supported": each.is_supported,
        }
        for each in answer.citations
    ]
    return {
        "found": answer.is_found,
        "answer": answer.text,
        "grounded": answer.is_grounded,
        "citations": citations,
        "message": describe_answer(answer),
        **_dump_notes(answer.notes, cwd),
    }


def describe_answer(answer: Answer) -> str:
    if not answer.is_found:
        return "Not in the documents."
    if answer.invalid:
        named = ", ".join(map(str, answer.invalid))
        return f"The answer cites passages that do not exist ({named}); do not rely on it."
    if not answer.citations:
        return "The answer cites no passage; do not rely on it."
    if answer.contradicted:
        named = ", ".join(answer.contradicted)
        return f"The cited passages have other numbers than the answer ({named}); do not rely on it."
    if answer.unsupported:
        named = " ".join(f'"{sentence[:_SHOWN_SENTENCE]}"' for sentence in answer.unsupported)
        return f"The cited passages say nothing of this; do not rely on it: {named}"
    if not answer.is_grounded:
        return "No cited passage supports the answer; do not rely on it."
    return "Every citation exists in the documents."
