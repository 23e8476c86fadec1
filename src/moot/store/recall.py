"""Search one conversation's archives: BM25 counted over that conversation alone, gently favouring the recent.

The full-text index finds the messages and how often each term is in them. A conversation's rows lie in
one range of ids, so neither the cost nor the ranking depends on anybody else's archives.
"""

import heapq
import re
from collections.abc import Iterable, Sequence

import apsw

from moot.domain.conversation import Archive, ConversationKey, Passage, Recollection
from moot.domain.message import Entry
from moot.store import archives, dialect, passages, ranking, rows
from moot.store.ranking import FoundArchives, Hit, Scores, fragments, terms


def recall(db: apsw.Connection, key: ConversationKey, query: str, limit: int, now: float) -> list[Recollection]:
    conversation = rows.conversation_id(db, key)
    if conversation is None or limit < 1:
        return []
    found, locate = _search(db, conversation, archives.of_conversation(db, conversation), query)
    return [
        Recollection(
            archive=archive,
            score=score,
            passages=_best_passages(db, scores, locate),
            summary_span=locate(archive.summary),
        )
        for score, archive, scores in ranking.rank(found, limit, now)
    ]


def _search(
    db: apsw.Connection, conversation: int, all_archives: list[Archive], query: str
) -> tuple[list[tuple[Archive, Scores]], passages.Locate]:
    """Return the archives that match, and the function that locates passages in them."""
    words, parts = terms(query), fragments(query)
    hits = [] if ranking.is_unspaced(query) else _by_words(db, conversation, all_archives, words)
    if hits:
        return hits, passages.by_words(db, words)
    return _by_letters(db, conversation, all_archives, parts), passages.by_letters(parts)


def _by_words(
    db: apsw.Connection, conversation: int, all_archives: list[Archive], words: Sequence[str]
) -> list[tuple[Archive, Scores]]:
    if not words or not all_archives:
        return []
    found = FoundArchives(all_archives)
    reach = (rows.message_id(conversation, 0), rows.message_id(conversation, rows.MAX_SEQ))
    having = {word: count for word in words if (count := dialect.count_messages(db, _any_of([word]), reach))}
    rarest = ranking.rarest(having)
    in_messages = dialect.search(db, "message_index", _any_of(rarest), reach, ranking.MAX_ROWS)
    weighed = [having[word] for word in rarest]
    for number, score in ranking.bm25(_hits(in_messages), weighed, all_archives[-1].last_seq):
        found.at_seq(number & rows.MAX_SEQ).messages.append((score, number))
    in_summaries = _hits(dialect.search(db, "summary_index", _any_of(words), reach, ranking.MAX_ROWS))
    counted = [ranking.count_having(in_summaries, place) for place in range(len(words))]
    for number, score in ranking.bm25(in_summaries, counted, len(all_archives)):
        found.at_number(number & rows.MAX_SEQ).summary = score
    return found.items()


def _hits(found: Iterable[rows.Row]) -> list[Hit]:
    """Return rows of the index as hits. The counts follow four bytes of length."""
    return [Hit(number, int.from_bytes(counts[:4], "little"), counts[4:]) for number, counts in found]


def _any_of(words: Iterable[str]) -> str:
    """Return a query for any of these words. They contain letters and digits only, but are quoted for safety."""
    return " OR ".join('"' + word.replace('"', '""') + '"' for word in words) or '""'


def _by_letters(
    db: apsw.Connection, conversation: int, all_archives: list[Archive], parts: Sequence[str]
) -> list[tuple[Archive, Scores]]:
    """Search for substrings. Reads all archived messages, so it is only used if the index finds nothing."""
    if not parts or not all_archives:
        return []
    patterns = ["%" + re.sub(r"([%_\\])", r"\\\1", part) + "%" for part in parts]
    found = FoundArchives(all_archives)
    in_messages = db.execute(
        f"SELECT id, {_count_like('content', len(parts))} AS hits FROM messages"
        f" WHERE id BETWEEN ?{len(parts) + 1} AND ?{len(parts) + 2} AND hits > 0",
        (*patterns, rows.message_id(conversation, 1), rows.message_id(conversation, all_archives[-1].last_seq)),
    )
    for number, hits in in_messages:
        found.at_seq(number & rows.MAX_SEQ).messages.append((hits / len(parts), number))
    in_summaries = db.execute(
        f"SELECT number, {_count_like('summary', len(parts))} AS hits FROM archives"
        f" WHERE conversation = ?{len(parts) + 1} AND hits > 0",
        (*patterns, conversation),
    )
    for number, hits in in_summaries:
        found.at_number(number).summary = hits / len(parts)
    return found.items()


def _count_like(column: str, count: int) -> str:
    return " + ".join(f"({column} LIKE ?{place} ESCAPE '\\')" for place in range(1, count + 1))


def _best_passages(db: apsw.Connection, scores: Scores, locate: passages.Locate) -> tuple[Passage, ...]:
    best = sorted(number for _, number in heapq.nlargest(ranking.ENTRIES_EACH, scores.messages))
    question = f"SELECT {rows.MESSAGE_COLUMNS} FROM messages WHERE id = ?"
    found = (rows.entry(rows.one(db.execute(question, (number,)))) for number in best)
    return tuple(_passage(entry, locate) for entry in found)


def _passage(entry: Entry, locate: passages.Locate) -> Passage:
    start, end = locate(entry.message.content)
    return Passage(entry=entry, start=start, end=end)
