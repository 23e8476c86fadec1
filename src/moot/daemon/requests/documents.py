"""Handlers for documents: index, search, answer, list, forget. A principal works on those of its own senders only."""

from collections.abc import Callable

from moot.daemon.principal import Principal
from moot.daemon.requests.pages import PAGE_BYTES
from moot.daemon.requests.reply import Reply
from moot.domain.agent import ROOT
from moot.domain.config import Config
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Unavailable
from moot.domain.rag import IndexedPassage, SourceReport
from moot.engine.request_factory import RequestFactory
from moot.retrieval.pages import is_address
from moot.retrieval.render import describe_answer, hide_folders
from moot.retrieval.retrieval import Retrieval
from moot.wire import moot_pb2 as pb

LIBRARIAN = "librarian"
_FOUND = 5
# How many documents are done between two messages about it.
_TOLD_EVERY = 20


class DocumentRequests:
    def __init__(self, retrieval: Retrieval, *, requests: RequestFactory, config: Callable[[], Config]) -> None:
        self._documents = retrieval.documents
        self._answers = retrieval.answers
        self._requests = requests
        self._config = config

    async def index_documents(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.index_documents
        if request.cwd:
            principal.require_owner("choose the working directory")
        if is_address(request.place.strip()):
            # No agent asks for approval here.
            principal.require_approver()
        owner = self._find_owner(request.agent, request.sender, principal)

        def tell(done: int, total: int) -> None:
            if done % _TOLD_EVERY == 0 or done == total:
                reply.send(pb.ServerMessage(index_progress=pb.IndexProgress(done=done, total=total)))

        cwd = self._requests.directory(request.cwd) if request.cwd else ""
        stored, report = await self._documents.index(owner, request.place, cwd=cwd, progress=tell)
        answer = pb.DocumentsIndexed(
            source=self._build_source_info(stored, await self._choose_names(owner, principal)),
            added=report.added,
            changed=report.changed,
            removed=report.removed,
            unchanged=report.unchanged,
            refused=_list_remarks(report.refused),
            notes=_list_remarks(report.notes),
            embedded_anew=report.embedded_anew,
        )
        reply.send(pb.ServerMessage(documents_indexed=answer))

    async def search_documents(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.search_documents
        owner = self._find_owner(request.agent, request.sender, principal)
        found = await self._documents.search(owner, request.query, limit=request.limit or _FOUND, source=request.source)
        show = await self._choose_names(owner, principal)
        passages = [_passage_info(each.passage, show, score=each.score) for each in found.passages]
        reply.send(pb.ServerMessage(passages=pb.PassageList(passages=passages, notes=map(show, found.notes))))

    async def answer_question(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.answer_question
        owner = self._find_owner(request.agent, request.sender, principal)
        answer = await self._answers.answer(owner, request.question, source=request.source)
        show = await self._choose_names(owner, principal)
        citations = [
            _passage_info(each.passage, show, number=each.number, supported=each.is_supported)
            for each in answer.citations
        ]
        info = pb.DocumentAnswer(
            found=answer.is_found,
            answer=answer.text,
            grounded=answer.is_grounded,
            citations=citations,
            message=describe_answer(answer),
            notes=map(show, answer.notes),
        )
        reply.send(pb.ServerMessage(document_answer=info))

    async def list_sources(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.list_sources
        owner = self._find_owner(request.agent, request.sender, principal)
        found = await self._documents.list_sources(owner)
        show = await self._choose_names(owner, principal)
        infos = [self._build_source_info(each, show) for each in found]
        listed = pb.SourceList(sources=infos, embeddings=self._documents.describe_embeddings())
        reply.send(pb.ServerMessage(sources=listed))

    async def forget_source(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.forget_source
        owner = self._find_owner(request.agent, request.sender, principal)
        show = await self._choose_names(owner, principal)
        forgotten = await self._documents.forget(owner, request.source)
        reply.send(pb.ServerMessage(sources=pb.SourceList(sources=[self._build_source_info(forgotten, show)])))

    async def _choose_names(self, owner: ConversationKey, principal: Principal) -> Callable[[str], str]:
        """Return how paths are shown: only the owner of the daemon gets absolute ones."""
        if principal.is_owner:
            return str
        return hide_folders(report.source for report in await self._documents.list_sources(owner))

    def _build_source_info(self, report: SourceReport, show: Callable[[str], str]) -> pb.SourceInfo:
        source = report.source
        return pb.SourceInfo(
            number=source.label,
            kind=source.kind.value,
            place=show(source.place),
            documents=report.documents,
            passages=report.passages,
            refused=report.refused,
            complete=source.is_complete,
            added_at=source.added_at,
            embeddings=self._documents.describe_embeddings(),
        )

    def _find_owner(self, agent: str, sender: str, principal: Principal) -> ConversationKey:
        """Return the owner; without an agent, the one that is asked about documents."""
        config = self._config()
        if not config.tools.rag.enabled:
            raise Unavailable("documents are turned off", fix="Set enabled = true in [rag].")
        chosen = agent or (LIBRARIAN if config.has_teammates else ROOT)
        return ConversationKey(self._requests.resolve_agent(chosen).name, principal.sender(sender))


def _passage_info(
    passage: IndexedPassage, show: Callable[[str], str], *, score: float = 0.0, number: int = 0, supported: bool = False
) -> pb.PassageInfo:
    return pb.PassageInfo(
        citation=show(passage.location),
        title=passage.title,
        heading=passage.heading,
        text=passage.content,
        score=score,
        source=passage.source_label,
        number=number,
        supported=supported,
    )


def _list_remarks(reasons: dict[str, str]) -> list[pb.DocumentRemark]:
    """Return as many as one message has room for."""
    remarks: list[pb.DocumentRemark] = []
    room = PAGE_BYTES // 2
    for name, reason in reasons.items():
        remark = pb.DocumentRemark(document=name, reason=reason)
        room -= remark.ByteSize()
        if room < 0:
            break
        remarks.append(remark)
    return remarks
