"""Search in memory: archives of a conversation and texts of an owner, by words and by trigrams. Used by store.py.

Words are compared by a simple stem instead of SQLite's tokenizer: ordinary queries find the same rows, scores may
differ.
"""

import heapq
import re
import unicodedata
from collections.abc import Container, Mapping, Sequence

from moot.domain.conversation import Archive, ConversationKey, Passage, Recollection
from moot.domain.memory import Memory, MemoryKind, choose_helpful, usefulness
from moot.store import passages, ranking
from moot.store.memory.database import ConversationRow, Database, OwnedRow
from moot.store.passages import Token
from moot.store.ranking import FoundArchives, Hit, Scores, fragments, terms, topics

_WORD = re.compile(r"[^\W_]+")
_ENDINGS = ("ations", "ation", "ments", "ment", "ings", "ing", "ied", "ies", "ed", "es", "ly", "s", "e")
# The minimum length of a stem.
_SHORTEST_STEM = 3

Found = list[tuple[Archive, Scores]]


def tokens(text: str) -> list[Token]:
    return [Token(word.start(), _stem(_plain(word[0]))) for word in _WORD.finditer(text)]


def _plain(word: str) -> str:
    """Lower-case the text and remove diacritics."""
    if word.isascii():
        return word.lower()
    return "".join(
        letter for letter in unicodedata.normalize("NFKD", word.lower()) if not unicodedata.combining(letter)
    )


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word


def _phrases(words: Sequence[str]) -> list[list[str]]:
    """Split the query into phrases; one word of it may be several in a text, such as `max_connections`."""
    return [[token.term for token in tokens(word)] for word in words]


def _hit(number: int, text: str, phrases: Sequence[Sequence[str]]) -> Hit:
    found = [token.term for token in tokens(text)]
    return Hit(number, len(found), [_count(found, phrase) for phrase in phrases])


def _count(found: Sequence[str], phrase: Sequence[str]) -> int:
    if not phrase:
        return 0
    size = len(phrase)
    return sum(1 for at in range(len(found) - size + 1) if list(found[at : at + size]) == list(phrase))


def _bm25(hits: Sequence[Hit], terms_count: int, documents: int) -> list[tuple[int, float]]:
    matching = [hit for hit in hits if any(hit.counts)]
    having = [ranking.count_having(matching, place) for place in range(terms_count)]
    return ranking.bm25(matching, having, documents)


# ---- archives -----------------------------------------------------------------------------------


def recall(db: Database, key: ConversationKey, query: str, limit: int, now: float) -> list[Recollection]:
    row = db.conversation(key)
    if row is None or limit < 1 or not row.archives:
        return []
    words, parts = terms(query), fragments(query)
    found = [] if ranking.is_unspaced(query) else _by_words(db, row, words)
    locate = passages.by_tokens(tokens, words)
    if not found:
        found, locate = _by_letters(db, row, parts), passages.by_letters(parts)
    return [
        Recollection(
            archive=archive,
            score=score,
            passages=_best_passages(db, row.id, scores, locate),
            summary_span=locate(archive.summary),
        )
        for score, archive, scores in ranking.rank(found, limit, now)
    ]


def _by_words(db: Database, row: ConversationRow, words: Sequence[str]) -> Found:
    archives, phrases = db.archives_of(row), _phrases(words)
    found = FoundArchives(archives)
    hits = [_hit(entry.seq, entry.message.content, phrases) for entry in db.entries(row.id, 1, row.archived_seq)]
    for seq, score in _bm25(hits, len(words), row.archived_seq):
        found.at_seq(seq).messages.append((score, seq))
    hits = [_hit(archive.number, f"{archive.title} {archive.summary}", phrases) for archive in archives]
    for number, score in _bm25(hits, len(words), len(archives)):
        found.at_number(number).summary = score
    return found.items()


def _by_letters(db: Database, row: ConversationRow, parts: Sequence[str]) -> Found:
    archives = db.archives_of(row)
    found = FoundArchives(archives)
    for entry in db.entries(row.id, 1, row.archived_seq):
        if share := _share(entry.message.content, parts):
            found.at_seq(entry.seq).messages.append((share, entry.seq))
    for archive in archives:
        if share := _share(archive.summary, parts):
            found.at_number(archive.number).summary = share
    return found.items()


def _share(text: str, parts: Sequence[str]) -> float:
    """Return the fraction of the parts that occur in the text."""
    lowered = text.lower()
    return sum(1 for part in parts if part in lowered) / len(parts) if parts else 0.0


def _best_passages(db: Database, conversation: int, scores: Scores, locate: passages.Locate) -> tuple[Passage, ...]:
    best = sorted(seq for _, seq in heapq.nlargest(ranking.ENTRIES_EACH, scores.messages))
    entries = [db.messages[conversation, seq] for seq in best]
    spans = [locate(entry.message.content) for entry in entries]
    return tuple(Passage(entry=entry, start=start, end=end) for entry, (start, end) in zip(entries, spans, strict=True))


# ---- memories -----------------------------------------------------------------------------------


def recall_memories(
    db: Database, owner: ConversationKey, query: str, kind: MemoryKind | None, limit: int, now: float
) -> list[OwnedRow]:
    """Return the memories that match the query, best first."""
    wanted, scores = _match_memories(db, owner, kind, terms(query), fragments(query))
    ranked = sorted(
        ((score * usefulness(wanted[number].memory, now), number) for number, score in scores.items()), reverse=True
    )
    return [wanted[number] for _, number in ranked[:limit]]


def suggest_memories(db: Database, owner: ConversationKey, text: str, limit: int, now: float) -> list[Memory]:
    """Return the memories that help with a message."""
    parts = fragments(text) if ranking.is_unspaced(text) else []
    wanted, scores = _match_memories(db, owner, None, topics(text), parts)
    matches = [(score, wanted[number].memory) for number, score in scores.items()]
    preferences = [row.memory for row in wanted.values() if row.memory.kind is MemoryKind.PREFERENCE]
    return choose_helpful(matches, preferences, limit=limit, now=now)


def _match_memories(
    db: Database, owner: ConversationKey, kind: MemoryKind | None, words: Sequence[str], parts: Sequence[str]
) -> tuple[dict[int, OwnedRow], dict[int, float]]:
    """Return the memories of a kind, and the scores of those that have some of the words."""
    everything = db.memories.find("owner", owner)
    wanted = {row.number: row for row in everything if kind in (None, row.memory.kind)}
    hits = [_hit(row.number, _text(row.memory), _phrases(words)) for row in everything]
    scores = {number: score for number, score in _bm25(hits, len(words), len(everything)) if number in wanted}
    if not scores:
        # No match by words: search by trigrams, for scripts without spaces and parts of words.
        shares = {number: _share(_text(row.memory), parts) for number, row in wanted.items()}
        scores = {number: share for number, share in shares.items() if share}
    return wanted, scores


def _text(memory: Memory) -> str:
    return f"{memory.key} {memory.content} {' '.join(memory.tags)}"


# ---- texts of an owner ----------------------------------------------------------------------------


def score_texts(texts: Mapping[int, str], query: str, wanted: Container[int]) -> dict[int, float]:
    """Return the scores of the wanted texts that match; the others count for the ranking only."""
    words, parts = terms(query), fragments(query)
    scores: dict[int, float] = {}
    if not ranking.is_unspaced(query):
        hits = [_hit(number, text, _phrases(words)) for number, text in texts.items()]
        scores = {number: score for number, score in _bm25(hits, len(words), len(texts)) if number in wanted}
    if not scores:
        shares = {number: _share(text, parts) for number, text in texts.items() if number in wanted}
        scores = {number: share for number, share in shares.items() if share}
    return scores
