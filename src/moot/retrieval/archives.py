"""Reads the archived messages of the owner's conversation as text. Used by the indexer."""

from collections.abc import Sequence

from msgspec import Struct

from moot.domain.conversation import ConversationKey
from moot.domain.message import Message, Role
from moot.domain.ports.store import Store
from moot.retrieval.reading.pieces import Section

_SHOWN = (Role.USER, Role.ASSISTANT)


class ArchiveInfo(Struct, frozen=True, kw_only=True):
    """An archive as a document. Its name has its messages, which never change."""

    name: str
    title: str
    first_seq: int
    last_seq: int
    taint: frozenset[str]


class ArchiveReader:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def list_archives(self, owner: ConversationKey) -> list[ArchiveInfo]:
        return [
            ArchiveInfo(
                name=f"archive {each.number}, messages {each.first_seq}-{each.last_seq}",
                title=each.title,
                first_seq=each.first_seq,
                last_seq=each.last_seq,
                taint=each.taint,
            )
            for each in await self._store.list_archives(owner)
        ]

    async def read(self, owner: ConversationKey, archive: ArchiveInfo) -> tuple[Section, ...]:
        """Return what was said, each message with its speaker. Results of tools are left out."""
        entries = await self._store.list_entries(owner, first=archive.first_seq, last=archive.last_seq)
        messages = [
            entry.message for entry in entries if entry.message.role in _SHOWN and entry.message.content.strip()
        ]
        return (Section(text=_render(messages, owner.agent)),)


def _render(messages: Sequence[Message], primary: str) -> str:
    return "\n\n".join(f"{_name_speaker(message, primary)}: {message.content}" for message in messages)


def _name_speaker(message: Message, primary: str) -> str:
    return message.agent or (primary if message.role is Role.ASSISTANT else "the user")
