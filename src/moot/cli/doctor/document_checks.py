"""The check of `moot doctor` of documents: what vectors are made with, and whether text is sent elsewhere for it."""

from collections.abc import Iterator
from importlib.util import find_spec

from moot.cli.doctor import checks
from moot.cli.doctor.checks import Finding
from moot.daemon.paths import Paths
from moot.domain.rag_config import NO_EMBEDDINGS, split_embeddings


def check_documents(home: Paths) -> Iterator[Finding]:
    config = checks.load_valid_config(home)
    if config is None:
        yield checks.skip_finding("documents")
        return
    rag = config.tools.rag
    if not rag.enabled:
        yield checks.note("documents", "Documents are turned off: `enabled` in [rag].")
    elif rag.embeddings == NO_EMBEDDINGS:
        yield checks.note("documents", "Documents are found by their words alone: `embeddings` in [rag].")
    elif find_spec("numpy") is None:
        yield checks.note(
            "documents", "Documents are found by their words alone; pip install 'moot[rag]' adds vectors."
        )
    elif chosen := split_embeddings(rag.embeddings, config.models) if rag.has_provider else None:
        name, model = chosen
        address = config.models[name].base_url or "its provider"
        text = (
            f"Vectors of documents are made by {model} of [models.{name}]. The text of documents is sent to {address}."
        )
        yield checks.note("documents", text)
    else:
        yield checks.ok("documents", "Vectors of documents are made on this machine.")
