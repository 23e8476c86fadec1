"""The tools rag_index, rag_search, rag_answer and rag_forget. They work with Documents and Answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from moot.domain.conversation import ConversationKey
from moot.domain.errors import MootError
from moot.domain.ports.tool import RunContext, Tool, ToolResult
from moot.domain.prompt import Safety, Sink, ToolSpec
from moot.domain.rag import MOST_RESULTS, SourceKind
from moot.domain.senders import owner_of
from moot.retrieval.answers import Answers
from moot.retrieval.documents import ARCHIVE, Documents
from moot.retrieval.pages import is_address
from moot.retrieval.render import answer_data, dump_passages, report_data, shorten_paths, shorten_place

GROUP = "documents"
_FOUND = 5
_LINE = 120
_SOURCE = {"type": "string", "description": "Only this source: its number, or its path or address."}


def find_owner(context: RunContext) -> ConversationKey:
    """Return whose documents they are: the agent's that speaks, for the person the run works for."""
    return ConversationKey(context.speaker, owner_of(context.asks_in.sender))


@contextmanager
def _relative_errors(cwd: str) -> Iterator[None]:
    """Name files in errors as the agent names them: the sender may not know where the working directory is."""
    try:
        yield
    except MootError as error:
        error.message, error.fix = shorten_paths(error.message, cwd), shorten_paths(error.fix, cwd)
        raise


def _name_source(source: str, cwd: str) -> str:
    """Return what a source is found by: its number, place, or the end of its path, which "." is not."""
    return cwd if source.strip() in (".", "./") else source


def build_rag_tools(documents: Documents, answers: Answers) -> list[Tool]:
    return [RagIndex(documents), RagSearch(documents), RagAnswer(answers), RagForget(documents)]


class RagIndex:
    spec = ToolSpec(
        name="rag_index",
        safety=Safety.MODERATE,
        # A page is fetched from the network.
        sinks=frozenset({Sink.EGRESS}),
        group=GROUP,
        deferred=True,
        repeatable=True,
        description="Index documents so that rag_search and rag_answer find them: a file or folder of the working "
        f"directory, a web page, or {ARCHIVE} for your archived messages with this person. Folders stay in step with "
        "their files. Reads text, Markdown, HTML, PDF, DOCX, CSV and source code, also in ZIP and tar archives.",
        parameters={
            "type": "object",
            "properties": {
                "source": {"type": "string", "description": f'A path, an http or https address, or "{ARCHIVE}".'},
            },
            "required": ["source"],
        },
    )

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def find_sinks(self, arguments: dict[str, Any]) -> frozenset[Sink]:
        return self.spec.sinks if is_address(str(arguments.get("source", "")).strip()) else frozenset()

    def line(self, arguments: dict[str, Any]) -> str:
        return f"index {str(arguments.get('source', ''))[:_LINE]}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        source, cwd = str(arguments["source"]), context.cwd
        with _relative_errors(cwd):
            stored, report = await self._documents.index(
                find_owner(context), source, cwd=cwd, taint=context.taint, charge=context.charge
            )
        data = {"status": "indexed", **report_data(stored, report, context.cwd)}
        if not self._documents.has_vectors:
            data["message"] = "Documents are found by their words only."
        # The names of files and the reasons are ours; what a page says of itself is not shown.
        taint = stored.source.taint if stored.source.kind is SourceKind.PAGE else frozenset[str]()
        return ToolResult(content=_to_json(data), taint=taint)


class RagSearch:
    spec = ToolSpec(
        name="rag_search",
        safety=Safety.SAFE,
        group=GROUP,
        deferred=True,
        repeatable=True,
        description="Find passages in the indexed documents, best first. Each has a citation: file and lines, or page.",
        parameters={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "A question, or what to look for."},
                "limit": {"type": "integer", "description": f"How many at most; {_FOUND} if not given."},
                "source": _SOURCE,
            },
            "required": ["query"],
        },
        fine=frozenset({"limit", "source"}),
    )

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def line(self, arguments: dict[str, Any]) -> str:
        return f"search documents for {str(arguments.get('query', ''))[:_LINE]}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        owner = find_owner(context)
        limit = max(1, min(MOST_RESULTS, int(arguments.get("limit") or _FOUND)))
        query, source = str(arguments["query"]), _name_source(str(arguments.get("source") or ""), context.cwd)
        with _relative_errors(context.cwd):
            found = await self._documents.search(owner, query, limit=limit, source=source, charge=context.charge)
        data = dump_passages(found, context.cwd)
        if not found.passages:
            sources = await self._documents.list_sources(owner)
            data["message"] = (
                "Nothing in the documents matches." if sources else "Nothing is indexed yet; use rag_index first."
            )
        taint = frozenset[str]().union(*(each.passage.taint for each in found.passages))
        return ToolResult(content=_to_json(data), taint=taint)


class RagAnswer:
    spec = ToolSpec(
        name="rag_answer",
        safety=Safety.SAFE,
        group=GROUP,
        deferred=True,
        repeatable=True,
        description="Answer a question from the indexed documents alone, with citations that have been checked.",
        parameters={
            "type": "object",
            "properties": {
                "question": {"type": "string", "description": "The whole question."},
                "source": _SOURCE,
            },
            "required": ["question"],
        },
        fine=frozenset({"source"}),
    )

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def line(self, arguments: dict[str, Any]) -> str:
        return f"answer from documents: {str(arguments.get('question', ''))[:_LINE]}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        question, source = str(arguments["question"]), _name_source(str(arguments.get("source") or ""), context.cwd)
        with _relative_errors(context.cwd):
            answer = await self._answers.answer(find_owner(context), question, source=source, charge=context.charge)
        return ToolResult(content=_to_json(answer_data(answer, context.cwd)), taint=answer.taint)


class RagForget:
    spec = ToolSpec(
        name="rag_forget",
        safety=Safety.MODERATE,
        group=GROUP,
        deferred=True,
        repeatable=True,
        description="Remove a source from the index. The files themselves stay.",
        parameters={
            "type": "object",
            "properties": {"source": {"type": "string", "description": "Its number, or its path or address."}},
            "required": ["source"],
        },
    )

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def line(self, arguments: dict[str, Any]) -> str:
        return f"forget the documents of {str(arguments.get('source', ''))[:_LINE]}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        with _relative_errors(context.cwd):
            source = _name_source(str(arguments["source"]), context.cwd)
            report = await self._documents.forget(find_owner(context), source)
        place = shorten_place(report.source.place, context.cwd)
        data = {"status": "forgotten", "place": place, "documents": report.documents}
        return ToolResult(content=_to_json(data), taint=report.source.taint)


def _to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
