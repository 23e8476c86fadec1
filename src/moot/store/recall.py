"""Search one conversation's archives: BM25 counted over that conversation alone, gently favouring the recent.

The full-text index finds the messages and how often each term is in them. A conversation's rows lie in
one range of ids, so neither the cost nor the ranking depends on anybody else's archives.
"""

import heapq
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import log

import apsw

from moot.domain.conversation import Archive, ConversationKey, Passage, Recollection
from moot.domain.message import Entry
from moot.store import archives, dialect, passages, rows

ENTRIES_EACH = 5
HALF_LIFE_DAYS = 30.0
_DAY = 86_400.0
_MAX_TERMS = 24
_MAX_TERM = 64
# Rows of one search that are scored: the rarest words choose them, and of those the newest are taken.
_MAX_ROWS = 4_000
_K1, _B = 1.2, 0.75
_SUMMARY_WEIGHT = 1.5

_WORD = re.compile(r"\w+")
# Scripts written without spaces: the tokenizer sees a whole clause as one word, so pairs are looked for instead.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)
# Words that say nothing of what is looked for.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """a about an and are as at be but by can did do does for from had has have how i in is it me my of on or
        our so that the their them there they this to us was we were what when where which who why will with you
        your""",
    )
)


@dataclass(slots=True)
class _Scores:
    """What was found in one archive: how well its summary fits, and its best messages as (score, id)."""

    summary: float = 0.0
    messages: list[tuple[float, int]] = field(default_factory=list)

    @property
    def relevance(self) -> float:
        best = [score for score, _ in heapq.nlargest(ENTRIES_EACH, self.messages)]
        # The best message counts whole, each further one half as much as the one before.
        return _SUMMARY_WEIGHT * self.summary + sum(score * 0.5**place for place, score in enumerate(best))


def recall(db: apsw.Connection, key: ConversationKey, query: str, limit: int, now: float) -> list[Recollection]:
    conversation = rows.conversation_id(db, key)
    if conversation is None or limit < 1:
        return []
    found, locate = _search(db, conversation, archives.of_conversation(db, conversation), query)
    ranked = heapq.nlargest(
        limit,
        ((scores.relevance * _recency(archive, now), archive.number, archive, scores) for archive, scores in found),
        key=lambda item: item[:2],
    )
    return [
        Recollection(
            archive=archive,
            score=score,
            passages=_best_passages(db, scores, locate),
            summary_span=locate(archive.summary),
        )
        for score, _, archive, scores in ranked
    ]


def terms(query: str) -> list[str]:
    """The words worth looking for, lower case, each once; common ones only when there is nothing else."""
    words = list(dict.fromkeys(word[:_MAX_TERM].lower() for word in _WORD.findall(query)))
    return ([word for word in words if word not in _COMMON] or words)[:_MAX_TERMS]


def fragments(query: str) -> list[str]:
    """What to look for letter by letter: pairs of unspaced scripts, and words of three letters or more."""
    found: list[str] = []
    for run in _UNSPACED.findall(query):
        found += [run] if len(run) == 1 else [run[at : at + 2] for at in range(len(run) - 1)]
    found += [word for word in terms(_UNSPACED.sub(" ", query)) if len(word) >= 3]
    return list(dict.fromkeys(found))[:_MAX_TERMS]


def _search(
    db: apsw.Connection, conversation: int, all_archives: list[Archive], query: str
) -> tuple[list[tuple[Archive, _Scores]], passages.Locate]:
    """What was found, and how the places in it are found."""
    words, parts = terms(query), fragments(query)
    hits = [] if _UNSPACED.search(query) else _by_words(db, conversation, all_archives, words)
    if hits:
        return hits, passages.by_words(db, words)
    return _by_letters(db, conversation, all_archives, parts), passages.by_letters(parts)


def _by_words(
    db: apsw.Connection, conversation: int, all_archives: list[Archive], words: Sequence[str]
) -> list[tuple[Archive, _Scores]]:
    if not words or not all_archives:
        return []
    found = _Found(all_archives)
    reach = (rows.message_id(conversation, 0), rows.message_id(conversation, rows.MAX_SEQ))
    having = {word: count for word in words if (count := dialect.count_messages(db, _any_of([word]), reach))}
    rarest = _rarest(having)
    in_messages = dialect.search(db, "message_index", _any_of(rarest), reach, _MAX_ROWS)
    for number, score in _bm25(in_messages, [having[word] for word in rarest], all_archives[-1].last_seq):
        found.at_seq(number & rows.MAX_SEQ).messages.append((score, number))
    in_summaries = dialect.search(db, "summary_index", _any_of(words), reach, _MAX_ROWS)
    counted = [_rows_having(in_summaries, place) for place in range(len(words))]
    for number, score in _bm25(in_summaries, counted, len(all_archives)):
        found.at_number(number & rows.MAX_SEQ).summary = score
    return found.items()


def _rows_having(hits: Sequence[rows.Row], place: int) -> int:
    return sum(1 for _, counts in hits if counts[4 + place])


def _any_of(words: Iterable[str]) -> str:
    """A search for any of these words. Words hold letters and digits only, and are quoted all the same."""
    return " OR ".join('"' + word.replace('"', '""') + '"' for word in words) or '""'


def _rarest(having: dict[str, int]) -> list[str]:
    """The rarest words that together need no more rows than are scored, and at least one."""
    chosen: list[str] = []
    left = _MAX_ROWS
    for word, count in sorted(having.items(), key=lambda item: item[1]):
        if chosen and count > left:
            break
        chosen.append(word)
        left -= count
    return chosen


def _bm25(hits: Sequence[rows.Row], having: Sequence[int], documents: int) -> list[tuple[int, float]]:
    """Score rows by their phrase counts. Lengths are compared among the hits, which is all that is known of them."""
    if not hits:
        return []
    weights = [log(1 + (documents - min(count, documents) + 0.5) / (count + 0.5)) for count in having]
    lengths = [int.from_bytes(counts[:4], "little") for _, counts in hits]
    average = sum(lengths) / len(lengths) or 1.0
    scored: list[tuple[int, float]] = []
    for (number, counts), length in zip(hits, lengths, strict=True):
        norm = _K1 * (1 - _B + _B * length / average)
        score = sum(
            weight * count * (_K1 + 1) / (count + norm)
            for weight, count in zip(weights, counts[4:], strict=True)
            if count
        )
        scored.append((number, score))
    return scored


def _by_letters(
    db: apsw.Connection, conversation: int, all_archives: list[Archive], parts: Sequence[str]
) -> list[tuple[Archive, _Scores]]:
    """Look for the parts as they are, inside words too. Reads everything archived, so it is the second choice."""
    if not parts or not all_archives:
        return []
    patterns = ["%" + re.sub(r"([%_\\])", r"\\\1", part) + "%" for part in parts]
    found = _Found(all_archives)
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


class _Found:
    """Scores by archive, reached by a message's seq or by the archive's number."""

    def __init__(self, all_archives: list[Archive]) -> None:
        self._archives = all_archives
        self._ends = [archive.last_seq for archive in all_archives]
        self._scores: dict[int, _Scores] = {}

    def at_seq(self, seq: int) -> _Scores:
        return self._scores.setdefault(bisect_left(self._ends, seq), _Scores())

    def at_number(self, number: int) -> _Scores:
        return self._scores.setdefault(number - 1, _Scores())

    def items(self) -> list[tuple[Archive, _Scores]]:
        return [(self._archives[place], scores) for place, scores in self._scores.items()]


def _recency(archive: Archive, now: float) -> float:
    """From 1 for today down to a half for long ago: age breaks ties, it never hides a good match."""
    age = max(0.0, now - archive.archived_at) / _DAY
    return float(0.5 + 0.5 * 0.5 ** (age / HALF_LIFE_DAYS))


def _best_passages(db: apsw.Connection, scores: _Scores, locate: passages.Locate) -> tuple[Passage, ...]:
    best = sorted(number for _, number in heapq.nlargest(ENTRIES_EACH, scores.messages))
    question = f"SELECT {rows.MESSAGE_COLUMNS} FROM messages WHERE id = ?"
    found = (rows.entry(rows.one(db.execute(question, (number,)))) for number in best)
    return tuple(_passage(entry, locate) for entry in found)


def _passage(entry: Entry, locate: passages.Locate) -> Passage:
    start, end = locate(entry.message.content)
    return Passage(entry=entry, start=start, end=end)
