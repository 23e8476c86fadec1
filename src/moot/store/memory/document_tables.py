"""The rows of the index of documents in memory. Used by database.py and documents.py."""

from msgspec import Struct

from moot.domain.conversation import ConversationKey
from moot.domain.rag import Document, NewPassage, Source


class SourceRow(Struct, frozen=True, kw_only=True):
    owner: ConversationKey
    source: Source


class DocumentRow(Struct, frozen=True, kw_only=True):
    source: int
    document: Document


class PassageRow(Struct, frozen=True, kw_only=True):
    number: int
    owner: ConversationKey
    source: int
    document: str
    passage: NewPassage
