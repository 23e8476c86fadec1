"""Retrieval: the index of documents with its tools, built over the Runtime. Used by daemon/app.py."""

from collections.abc import Callable

from moot.domain.ports.embedding import EmbeddingModel
from moot.engine.completion import CountedCompletion
from moot.multiagent.runtime import Runtime
from moot.retrieval.answer_model import AnswerModel
from moot.retrieval.answers import Answers
from moot.retrieval.archives import ArchiveReader
from moot.retrieval.documents import Documents, DocumentsDependencies
from moot.retrieval.embedders import EmbedderChoice
from moot.retrieval.files import SourceFiles
from moot.retrieval.indexer import Indexer, IndexerDependencies
from moot.retrieval.pages import PageFetcher
from moot.retrieval.rag_tools import build_rag_tools
from moot.retrieval.search import PassageSearch
from moot.tools.files.off_limits import OffLimits


class Retrieval:
    """`off_limits` are the files that are never indexed; `embeddings` finds a model that makes vectors."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        off_limits: Callable[[], OffLimits],
        embeddings: Callable[[str, str], EmbeddingModel],
    ) -> None:
        d = runtime.dependencies
        self._config = d.config
        self._supervisor = d.supervisor
        choose = EmbedderChoice(lambda: d.config.current, embeddings, d.storage.store)
        files = SourceFiles(off_limits, d.clock)
        indexer = Indexer(
            IndexerDependencies(
                index=d.storage.documents,
                files=files,
                archives=ArchiveReader(d.storage.store),
                config=lambda: d.config.current.tools.rag,
                choose_embedder=choose,
                redact=d.redactor.mask_secrets,
                clock=d.clock,
            )
        )
        self.documents = Documents(
            DocumentsDependencies(
                index=d.storage.documents,
                indexer=indexer,
                search=PassageSearch(d.storage.documents, choose),
                files=files,
                pages=PageFetcher(lambda: d.config.current.tools.web, d.clock),
                choose_embedder=choose,
                config=lambda: d.config.current.tools.rag,
                start=d.supervisor.start,
                redact=d.redactor.mask_secrets,
                clock=d.clock,
            )
        )
        self.answers = Answers(
            self.documents, AnswerModel(d.registry.get, d.models, CountedCompletion(d.storage.store))
        )
        d.tools.register(*build_rag_tools(self.documents, self.answers))

    def start(self) -> None:
        """Take up what a stopped daemon had not indexed in full."""
        if self._config.current.tools.rag.enabled:
            self._supervisor.start("index documents", self.documents.resume())
