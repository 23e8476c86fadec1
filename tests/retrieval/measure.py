"""Measures retrieval on the labelled questions: `./dev rag-eval`. The held-out third was never used for tuning.

Neither were the fresh questions, which are all German: they were written to judge how German words are analysed.

Every document of the corpus is one passage. The baseline is SQLite's full text index over the plain words, ranked by
BM25, for the same questions.
"""

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from math import log2
from pathlib import Path

import apsw
from msgspec import Struct

from moot.daemon.clock import SystemClock
from moot.domain.conversation import ConversationKey
from moot.domain.rag import Document, DocumentChange, NewPassage, SourceKind
from moot.domain.rag_config import RagConfig
from moot.retrieval.embedders import NoEmbedder, choose_local
from moot.retrieval.reading.child import do_task
from moot.retrieval.reading.messages import Split, SplitTask
from moot.retrieval.reading.pieces import Section
from moot.retrieval.search import PassageSearch
from moot.store.memory.storage import open_memory_storage

CORPUS = Path(__file__).parent / "corpus"
OWNER = ConversationKey("librarian", "measure")
LANGUAGES = ("en", "de", "es")

Search = Callable[[str], Awaitable[list[str]]]


class Question(Struct, frozen=True):
    document: str
    text: str

    @property
    def language(self) -> str:
        return self.document[:2]


class Quality(Struct, frozen=True):
    recall: float
    ndcg: float
    count: int


def read_documents() -> list[tuple[str, str, str]]:
    """Return the id, the title and the text of each document."""
    lines = [line for name in LANGUAGES for line in (CORPUS / f"{name}.txt").read_text("utf-8").splitlines() if line]
    return [(first, title, text) for first, title, text in (line.split(" | ", 2) for line in lines)]


def read_questions(name: str) -> list[Question]:
    lines = (CORPUS / f"questions_{name}.txt").read_text("utf-8").splitlines()
    return [Question(*line.split(" | ", 1)) for line in lines if line]


async def build_search(*, has_vectors: bool = True) -> Search:
    """Index the corpus in memory as the daemon does; return the search."""
    storage = await open_memory_storage(SystemClock())
    embedder = choose_local(RagConfig()) if has_vectors else NoEmbedder()
    source = await storage.documents.add_source(
        OWNER, SourceKind.FOLDER, "corpus", folder="", taint=frozenset(), now=0.0
    )
    changes = [
        DocumentChange(
            document=Document(name=name, embedder=embedder.name),
            passages=_split(name, title, text, embeds=embedder.is_local),
        )
        for name, title, text in read_documents()
    ]
    await storage.documents.put_documents(OWNER, source.number, changes)
    searching = PassageSearch(storage.documents, lambda: embedder)

    async def search(question: str) -> list[str]:
        found = await searching.search(OWNER, question, limit=10)
        return [each.passage.document for each in found.passages]

    return search


def _split(name: str, title: str, text: str, *, embeds: bool) -> tuple[NewPassage, ...]:
    section = Section(text=text, has_lines=True)
    task = SplitTask(format="text", name=name, title=title, sections=(section,), embeds=embeds, most_passages=9)
    answer = do_task(task)
    assert isinstance(answer, Split)
    return answer.passages


def build_baseline() -> Search:
    """Return a plain full text search: any of the words, best first."""
    db = apsw.Connection(":memory:")
    db.execute("CREATE VIRTUAL TABLE found USING fts5 (name UNINDEXED, title, content)")
    db.executemany("INSERT INTO found VALUES (?, ?, ?)", read_documents())

    async def search(question: str) -> list[str]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        rows = db.execute("SELECT name FROM found WHERE found MATCH ? ORDER BY rank LIMIT 10", (words,))
        return [str(name) for (name,) in rows]

    return search


async def measure(search: Search, questions: list[Question], missed: list[Question] | None = None) -> Quality:
    """Return recall@5 and nDCG@10 over questions that one document answers each."""
    hits, gain = 0, 0.0
    for question in questions:
        found = await search(question.text)
        place = found.index(question.document) if question.document in found else -1
        hits += 0 <= place < 5
        gain += 1 / log2(place + 2) if place >= 0 else 0.0
        if missed is not None and not 0 <= place < 5:
            missed.append(question)
    return Quality(hits / len(questions), gain / len(questions), len(questions))


async def main() -> None:
    searches = {
        "plain full text": build_baseline(),
        "words only": await build_search(has_vectors=False),
        "words and vectors": await build_search(),
    }
    print(f"{len(read_documents())} documents in {len(LANGUAGES)} languages")
    print(f"{'questions':22} {'search':18} {'recall@5':>9} {'nDCG@10':>9}")
    sets = {"tuning": read_questions("tuning"), "held out": read_questions("held")}
    sets["all"] = [question for each in list(sets.values()) for question in each]
    sets["fresh"] = read_questions("fresh")
    wanted = [each for each in sys.argv[1:] if not each.startswith("--")] or list(sets)
    for name in wanted:
        parts = {"": sets[name], **{each: [one for one in sets[name] if one.language == each] for each in LANGUAGES}}
        for part, questions in parts.items():
            if not questions or len(questions) == len(sets[name]) and part:
                continue
            for label, search in searches.items():
                missed: list[Question] = []
                quality = await measure(search, questions, missed)
                title = f"{name} {part}".strip() + f" ({quality.count})"
                print(f"{title:22} {label:18} {quality.recall:9.3f} {quality.ndcg:9.3f}")
                if "--missed" in sys.argv and not part and label == "words and vectors":
                    print("\n".join(f"  missed: {each.document} {each.text}" for each in missed))


if __name__ == "__main__":
    asyncio.run(main())
