"""Vocabularies of agents. Built by sqlite_storage.py."""

from collections.abc import Iterator

import apsw
import msgspec

from moot.domain.vocabulary import Phrases, Vocabulary
from moot.store.sqlite import SqliteStore

_COLUMNS = "agent, digest, model, written_at, phrases"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[Phrases, ...]).decode


class SqliteVocabularies:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def list_all(self) -> list[Vocabulary]:
        return await self._store.read(lambda db: list(_list(db)))

    async def save(self, vocabulary: Vocabulary) -> None:
        await self._store.write(lambda db: _save(db, vocabulary))

    async def remove(self, agent: str) -> bool:
        return await self._store.write(lambda db: _remove(db, agent))


def _list(db: apsw.Connection) -> Iterator[Vocabulary]:
    for agent, digest, model, written_at, encoded in db.execute(f"SELECT {_COLUMNS} FROM vocabularies ORDER BY agent"):
        try:
            phrases = _decode(encoded)
        except (msgspec.DecodeError, UnicodeDecodeError):
            # One agent without a vocabulary, which is written again, instead of none with one.
            continue
        yield Vocabulary(agent=agent, digest=digest, model=model, written_at=written_at, phrases=phrases)


def _save(db: apsw.Connection, vocabulary: Vocabulary) -> None:
    db.execute(
        f"INSERT INTO vocabularies ({_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5)"
        " ON CONFLICT (agent) DO UPDATE SET digest = ?2, model = ?3, written_at = ?4, phrases = ?5",
        (
            vocabulary.agent,
            vocabulary.digest,
            vocabulary.model,
            vocabulary.written_at,
            _encode(vocabulary.phrases),
        ),
    )


def _remove(db: apsw.Connection, agent: str) -> bool:
    db.execute("DELETE FROM vocabularies WHERE agent = ?", (agent,))
    return db.changes() > 0
