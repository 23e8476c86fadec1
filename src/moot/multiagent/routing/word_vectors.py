"""Meanings of words as vectors, by which `agent_match` compares a request with what an agent says of itself.

The vectors are for English words; a word of another language has the vector of its concept (`concepts`). The file is
made by `scripts/make_word_vectors.py` and read at the first comparison.
"""

import math
import struct
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from operator import mul
from pathlib import Path
from zlib import crc32

from msgspec import Struct

from moot.multiagent.routing.classifier import read_hashes
from moot.multiagent.routing.concepts import load_concepts
from moot.multiagent.routing.text_features import Reading, stem

FILE = Path(__file__).with_name("word_vectors.bin")
SIZE = 128
# Of every vector in the file.
LENGTH = 350

Vector = tuple[float, ...]


class WordVectors(Struct, frozen=True):
    hashes: "array[int]"
    values: memoryview

    def find(self, word: str) -> Sequence[float] | None:
        """The vector of a stemmed English word; all have the same length."""
        code = crc32(word.encode())
        place = bisect_left(self.hashes, code)
        if place == len(self.hashes) or self.hashes[place] != code:
            return None
        return self.values[place * SIZE : (place + 1) * SIZE]


def mean(weighed: Sequence[tuple[float, Sequence[float]]]) -> Vector | None:
    """The weighted mean of vectors, made to have length 1; None for none."""
    sums = [0.0] * SIZE
    for weight, vector in weighed:
        sums = [total + weight * each for total, each in zip(sums, vector, strict=True)]
    length = math.hypot(*sums)
    return tuple(each / length for each in sums) if length else None


def similarity(first: Vector, second: Vector) -> float:
    return float(sum(map(mul, first, second)))


@cache
def load_word_vectors() -> WordVectors:
    body = FILE.read_bytes()
    (count,) = struct.unpack_from("<I", body)
    body = body[4:]
    return WordVectors(read_hashes(body, count), memoryview(body[4 * count :]).cast("b"))


@cache
def concept_vector(name: str) -> Sequence[float] | None:
    """The mean of the English words of a concept, as long as that of a word."""
    vectors = load_word_vectors()
    words = (word for each in load_concepts().english[name] for word in each.split())
    found = mean([(1.0, vector) for word in words if (vector := vectors.find(stem(word))) is not None])
    return None if found is None else tuple(LENGTH * each for each in found)


def find_word_vectors(reading: Reading) -> list[tuple[str, Sequence[float]]]:
    """The English words of a text that have a vector. Other languages have none here."""
    if reading.language not in ("en", ""):
        return []
    vectors = load_word_vectors()
    return [(word, vector) for word in reading.words if (vector := vectors.find(word)) is not None]
