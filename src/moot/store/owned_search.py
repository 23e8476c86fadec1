"""Full-text search over the rows of some owners only, so that no other rows affect cost or ranking.

Used by knowledge.py and learnings.py.
"""

from collections.abc import Sequence
from hashlib import sha256

import apsw

from moot.store import dialect, ranking
from moot.store.ranking import Hit

# Rows of one search that are scored: the newest.
_MOST_ROWS = 10_000


def owner_word(*owner: str) -> str:
    """Return one word for an owner. It is longer than what the tokenizer stems."""
    return "o" + sha256("\x00".join(owner).encode()).hexdigest()


def score_by_words(
    db: apsw.Connection, index: str, owners: Sequence[str], words: Sequence[str], documents: int
) -> dict[int, float]:
    """Return the BM25 scores of the rows of these owners, given by their words, that have any of the words."""
    if not words or not documents:
        return {}
    any_owner, any_word = (" OR ".join(f'"{each}"' for each in some) for some in (owners, words))
    hits = dialect.search_owned(db, index, f"owner : ({any_owner}) AND {{key content tags}} : ({any_word})", _MOST_ROWS)
    # The counts follow four bytes of length; the first ones are those of the owners.
    before = 4 + len(owners)
    found = [Hit(number, int.from_bytes(counts[:4], "little"), counts[before:]) for number, counts in hits]
    having = [ranking.count_having(found, place) for place in range(len(words))]
    return dict(ranking.bm25(found, having, documents))


def score_by_letters(texts: Sequence[tuple[int, str]], parts: Sequence[str]) -> dict[int, float]:
    """Return the share of the parts that each text has, for scripts without spaces and for parts of words."""
    scores = {number: sum(1 for part in parts if part in text.lower()) for number, text in texts}
    return {number: hits / len(parts) for number, hits in scores.items() if hits}
