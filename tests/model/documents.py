"""The questions of `./dev test-model --score` about documents, each answered by `moot rag answer` and checked.

The documents are the English ones of tests/retrieval. A question is done if the answer has the words that matter, is
grounded, and cites the passage they are in; a question whose answer is nowhere is done if that is said.
"""

import asyncio
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moot.wire import moot_pb2 as pb
from tests.daemon_process import LiveDaemon
from tests.model.tasks import ABSENT, DOCUMENTS
from tests.retrieval.measure import read_documents

SENDER = "documents"
# A question that takes longer has failed.
QUESTION_SECONDS = 600.0


@dataclass(frozen=True)
class Question:
    """`document` is the one that has the answer, empty if none does; the answer has one of `says`."""

    text: str
    document: str = ""
    says: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return DOCUMENTS if self.document else ABSENT


QUESTIONS = (
    Question("How long may a novel be kept?", "en-001", ("four weeks", "4 weeks")),
    Question("How much does a replacement for a lost library card cost?", "en-004", ("three euros", "3 euros", "€3")),
    Question(
        "What deposit do I leave when I take a torque wrench home?", "en-014", ("twenty euros", "20 euros", "€20")
    ),
    Question("At what time does the first baker light the oven?", "en-025", ("half past two", "2:30")),
    Question("How often should the compost heap be turned?", "en-043", ("six weeks", "6 weeks")),
    Question("Who must agree before hives are kept on a plot?", "en-046", ("neighbour", "neighbor")),
    Question("Until when are mattresses in the hut held?", "en-054", ("six", "18:00", "6 ")),
    Question("How many weeks before departure should travel vaccinations be planned?", "en-064", ("six", "6")),
    Question("Which bin does food go into?", "en-082", ("brown",)),
    Question("Up to which amount are shipments insured?", "en-098", ("500",)),
    Question("What does a ticket for the swimming pool cost?"),
    Question("What is the name of the head baker?"),
    Question("How many members does the hiking club have?"),
    Question("Which brand of oil is used for bicycle chains?"),
    Question("On which floor is the laundry room?"),
)


async def measure_documents(daemon: LiveDaemon, folder: Path, kinds: list[str], count: int) -> list[dict[str, Any]]:
    """Index the documents, ask the questions of these kinds, and keep each answer beside the question."""
    shelf = folder / "documents"
    shelf.mkdir(parents=True)
    for name, title, text in read_documents():
        if name.startswith("en"):
            (shelf / f"{name}.md").write_text(f"# {title}\n\n{text}\n")
    daemon.cli_json("rag", "index", str(shelf), "--as", SENDER)
    measured = []
    for kind in kinds:
        for number, question in enumerate([each for each in QUESTIONS if each.kind == kind][:count], 1):
            began = time.monotonic()
            async with daemon.client(patience=QUESTION_SECONDS) as talk:
                request = pb.AnswerQuestionMsg(sender=SENDER, question=question.text)
                async with asyncio.timeout(QUESTION_SECONDS):
                    told = await talk.connection.request(pb.ClientMessage(answer_question=request))
                answer = to_dict(told.document_answer)
            name, fault = f"{kind}-{number:02}", find_fault(question, answer)
            facts = {"task": name, "kind": kind, "fault": fault, "seconds": time.monotonic() - began}
            measured.append(facts | {"first_call": 0.0, "prompt": 0, "retries": 0})
            kept = {"question": question.text, "document": question.document, **measured[-1], "answer": answer}
            (folder / f"{name}.json").write_text(json.dumps(kept, indent=1, ensure_ascii=False))
            print(f"{name:<14} {fault or 'ok'}", f"({facts['seconds']:.0f} s)", flush=True)
    return measured


def to_dict(told: pb.DocumentAnswer) -> dict[str, Any]:
    cited = [
        {"number": each.number, "citation": each.citation, "supported": each.supported, "text": each.text}
        for each in told.citations
    ]
    return {"found": told.found, "answer": told.answer, "grounded": told.grounded, "citations": cited}


def find_fault(question: Question, answer: dict[str, Any]) -> str:
    """Return why the question is not answered as it should be; "" if it is."""
    if not question.document:
        return f"it says {answer['answer']!r}" if answer["found"] else ""
    if not answer["found"]:
        return "it says that the documents have no answer"
    if not any(each.lower() in answer["answer"].lower() for each in question.says):
        return f"the answer has none of {question.says}: {answer['answer']!r}"
    if not answer["grounded"]:
        return f"it is not grounded: {answer['answer']!r}"
    cited = [Path(each["citation"].split(":")[0]).stem for each in answer["citations"] if each["supported"]]
    return "" if question.document in cited else f"it cites {cited}, not {question.document}"
