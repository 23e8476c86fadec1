"""The trained part of routing: a linear model over text features that knows the built-in roles, read by `router`.

`scripts/train_routing.py` writes the file: one line of JSON, then for every feature a hash, its rarity, and one small
number per label.
"""

import json
import math
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from functools import cache, lru_cache
from heapq import nsmallest
from pathlib import Path
from zlib import crc32

from msgspec import Struct

FILE = Path(__file__).with_name("classifier.bin")
RARITY_STEPS = 20.0
WEIGHT_STEPS = 127.0
# Requests that the orchestrator answers itself.
DIRECT = "direct"
# Questions and problems of some subject: for an agent that knows it, or else for the orchestrator.
ADVICE = "advice"
# Payments: handled by vault, and only if there are tools for them.
PAYMENT = "payment"
# Requests that no role handles: mail, telephone, lights, pictures.
UNSUPPORTED = "unsupported"

# The features of a request that occurred in training: the index and the value of each.
Known = dict[str, tuple[int, float]]


class Classifier(Struct, frozen=True):
    labels: tuple[str, ...]
    bias: tuple[float, ...]
    # What one step of a stored weight is worth.
    unit: float
    hashes: "array[int]"
    rarities: bytes
    weights: memoryview
    rarest: float

    def classify(self, known: Known) -> dict[str, float]:
        """Return the probability of each label."""
        scores = list(self.bias)
        width = len(scores)
        for place, value in known.values():
            row = self.weights[place * width : (place + 1) * width]
            scores = [score + value * weight for score, weight in zip(scores, row, strict=True)]
        top = max(scores)
        parts = [math.exp(score - top) for score in scores]
        whole = sum(parts)
        return {label: part / whole for label, part in zip(self.labels, parts, strict=True)}

    def find_evidence(self, known: Known, label: str, count: int = 3) -> list[str]:
        """Return the features with the most weight for a label, strongest first."""
        column, width = self.labels.index(label), len(self.labels)
        weighed = [
            (-value * weight, feature)
            for feature, (place, value) in known.items()
            if (weight := self.weights[place * width + column]) > 0
        ]
        return [feature for _, feature in nsmallest(count, weighed)]

    def rarity(self, word: str) -> float:
        """Return the rarity of a word between 0 and 1; highest for a word that did not occur in training."""
        place = self._place(word)
        return 1.0 if place < 0 else min(1.0, self.rarities[place] / RARITY_STEPS / self.rarest)

    def _place(self, feature: str) -> int:
        code = crc32(feature.encode())
        place = bisect_left(self.hashes, code)
        return place if place < len(self.hashes) and self.hashes[place] == code else -1

    def look_up(self, features: Iterable[str]) -> Known:
        """Return the index and value of each known feature: rarities normalised to length 1, times `unit`."""
        found = {feature: place for feature in features if (place := self._place(feature)) >= 0}
        rare = {feature: self.rarities[place] / RARITY_STEPS for feature, place in found.items()}
        length = math.sqrt(math.fsum(value * value for value in rare.values())) or 1.0
        return {feature: (place, rare[feature] / length * self.unit) for feature, place in found.items()}


@cache
def load_classifier() -> Classifier:
    """Load the classifier, once. Called at the first request, so that a daemon that routes nothing does not load it."""
    return decode(FILE.read_bytes())


def decode(content: bytes) -> Classifier:
    head, _, body = content.partition(b"\n")
    about = json.loads(head)
    count, width = about["features"], len(about["labels"])
    rarities = body[4 * count : 5 * count]
    return Classifier(
        labels=tuple(about["labels"]),
        bias=tuple(about["bias"]),
        unit=about["unit"],
        hashes=read_hashes(body, count),
        rarities=rarities,
        weights=memoryview(body[5 * count : (5 + width) * count]).cast("b"),
        rarest=max(rarities) / RARITY_STEPS,
    )


@lru_cache(maxsize=8192)
def find_rarity(word: str) -> float:
    return load_classifier().rarity(word)


def read_hashes(body: bytes, count: int) -> "array[int]":
    """Return the sorted hashes at the beginning of a table, which are stored in little-endian order."""
    hashes = array("I", body[: 4 * count])
    if sys.byteorder == "big":
        hashes.byteswap()
    return hashes
