"""The trained part of routing: how much each mark of a request speaks for each role, read from a file beside this one.

The file is written by `scripts/train_routing.py`. It begins with one line of JSON; then come, for every mark the
training knew, a hash, how rare it is, and one small number a role.
"""

import json
import math
import sys
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from zlib import crc32

FILE = Path(__file__).with_name("classifier.bin")
RARITY_STEPS = 20.0
WEIGHT_STEPS = 127.0
# The label of what the orchestrator answers itself.
DIRECT = "direct"


@dataclass(frozen=True, slots=True)
class Model:
    labels: tuple[str, ...]
    bias: tuple[float, ...]
    # What one step of a stored weight is worth.
    unit: float
    places: dict[int, int]
    rarities: bytes
    weights: memoryview
    rarest: float

    def shares(self, marks: Iterable[str]) -> dict[str, float]:
        """For each label how likely it is, together 1."""
        known = self._known(marks)
        scores = list(self.bias)
        for place, value in known.values():
            start = place * len(scores)
            for label in range(len(scores)):
                scores[label] += value * self.weights[start + label]
        top = max(scores)
        parts = [math.exp(score - top) for score in scores]
        whole = sum(parts)
        return {label: part / whole for label, part in zip(self.labels, parts, strict=True)}

    def evidence(self, marks: Iterable[str], label: str, count: int = 3) -> list[str]:
        """The marks that speak most for a label rather than for the others, strongest first."""
        column, width = self.labels.index(label), len(self.labels)
        told = []
        for mark, (place, value) in self._known(marks).items():
            row = self.weights[place * width : (place + 1) * width]
            told.append((value * (row[column] - sum(row) / width), mark))
        return [mark for weight, mark in sorted(told, key=lambda one: (-one[0], one[1]))[:count] if weight > 0]

    def rarity(self, word: str) -> float:
        """Between 0 and 1: how much a word tells. One that the training never met tells most."""
        place = self.places.get(crc32(word.encode()))
        if place is None:
            return 1.0
        return min(1.0, self.rarities[place] / RARITY_STEPS / self.rarest)

    def _known(self, marks: Iterable[str]) -> dict[str, tuple[int, float]]:
        """Where each known mark stands, and its share in a request of which all marks together have length 1."""
        found = {mark: place for mark in marks if (place := self.places.get(crc32(mark.encode()))) is not None}
        rare = {mark: self.rarities[place] / RARITY_STEPS for mark, place in found.items()}
        length = math.sqrt(math.fsum(value * value for value in rare.values())) or 1.0
        return {mark: (place, rare[mark] / length * self.unit) for mark, place in found.items()}


@cache
def trained() -> Model:
    """Read at the first request that needs it: a daemon that routes nothing does not pay for it."""
    head, _, body = FILE.read_bytes().partition(b"\n")
    told = json.loads(head)
    count, width = told["marks"], len(told["labels"])
    hashes = array("I", body[: 4 * count])
    if sys.byteorder == "big":
        hashes.byteswap()
    rarities = body[4 * count : 5 * count]
    return Model(
        labels=tuple(told["labels"]),
        bias=tuple(told["bias"]),
        unit=told["unit"],
        places=dict(zip(hashes, range(count), strict=True)),
        rarities=rarities,
        weights=memoryview(body[5 * count : (5 + width) * count]).cast("b"),
        rarest=max(rarities) / RARITY_STEPS,
    )
