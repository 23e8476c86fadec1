"""Trains what routing knows of the built-in roles: `python scripts/train_routing.py`, or `… check` to measure by folds.

It learns from requests written for it (`routing_data/exemplars`), from patterns with gaps that many words fit
(`routing_data/patterns`), and from the half of the labelled set that may be used (`tests/routing/tuning.jsonl`).
Needs nothing but Python, takes minutes, and writes the same bytes each time.
"""

import hashlib
import json
import math
import random
import re
import struct
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from moot.agents.registry import Registry
from moot.domain.agent import ROLES, Agent
from moot.multiagent.routing.agent_match import match
from moot.multiagent.routing.classifier import DIRECT, FILE, RARITY_STEPS, WEIGHT_STEPS
from moot.multiagent.routing.text_features import marks, words

ROOT = Path(__file__).parent.parent
MATERIAL = ROOT / "scripts" / "routing_data"
TUNING = ROOT / "tests" / "routing" / "tuning.jsonl"
LABELS = (*ROLES, DIRECT)

# How much one request of each kind counts.
WRITTEN, FILLED, LABELLED = 1.0, 0.15, 2.0
FILLINGS = 25
OPENINGS = 0.2
# Marks that a single request has teach nothing about others, unless they are words.
FEWEST = 2
EPOCHS = 14
PACE = 0.7
FORGETTING = 0.00002
SEED = 20


@dataclass(frozen=True, slots=True)
class Sample:
    text: str
    label: int
    weight: float


def lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def written() -> list[Sample]:
    return [
        Sample(line.strip(), label, WRITTEN)
        for label, role in enumerate(LABELS)
        for line in lines(MATERIAL / "exemplars" / f"{role}.txt")
    ]


def labelled() -> list[Sample]:
    rows = [json.loads(line) for line in lines(TUNING)]
    return [Sample(row["text"], LABELS.index(row["role"]), LABELLED) for row in rows]


_CHOICE = re.compile(r"\(([^()]*)\)")
_GAP = re.compile(r"\{(\w+)\}")


def filled() -> list[Sample]:
    """Each pattern many times, its choices made and its gaps filled by chance; some begin as polite people begin."""
    rng = random.Random(SEED)
    gaps = dict(line.split(": ", 1) for line in lines(MATERIAL / "patterns" / "slots.txt"))
    openings = lines(MATERIAL / "patterns" / "preambles.txt")
    samples = []
    for label, role in enumerate(LABELS):
        for pattern in lines(MATERIAL / "patterns" / f"{role}.txt"):
            for text in sorted({_fill(pattern, gaps, rng) for _ in range(FILLINGS)}):
                polite = f"{rng.choice(openings)} {text}" if rng.random() < OPENINGS else text
                samples.append(Sample(polite, label, FILLED))
    return samples


def _fill(pattern: str, gaps: dict[str, str], rng: random.Random) -> str:
    while choice := _CHOICE.search(pattern):
        pattern = pattern[: choice.start()] + rng.choice(choice[1].split("|")) + pattern[choice.end() :]
    while gap := _GAP.search(pattern):
        pattern = pattern[: gap.start()] + rng.choice(gaps[gap[1]].split("|")) + pattern[gap.end() :]
    return " ".join(pattern.replace("[,]", ",").split())


def roles() -> list[Agent]:
    registry = Registry(MATERIAL / "no agents")
    return [agent for agent in registry.active() if agent.name in ROLES]


def all_marks(text: str, agents: Sequence[Agent]) -> set[str]:
    """The marks of a request, and which roles' keywords and capabilities stand in it."""
    found = words(text)
    told = marks(found)
    for agent in agents:
        common = match(found, agent, lambda _: 1.0)
        told |= {f"k:{agent.name}"} if common.keywords else set()
        told |= {f"c:{agent.name}"} if common.capabilities else set()
    return told


class Training:
    """Logistic regression over the marks, one request at a time, with a pace of its own for every weight."""

    def __init__(self, samples: Sequence[Sample], told: Sequence[set[str]]) -> None:
        self._samples = samples
        counts = Counter(mark for own in told for mark in own)
        self.marks = sorted(mark for mark, count in counts.items() if count >= FEWEST or mark.isalpha())
        total = len(samples)
        # As they will be stored, so that what is learnt is what is used.
        self.rarity = [
            min(255, round(RARITY_STEPS * (math.log((1 + total) / (1 + counts[mark])) + 1))) for mark in self.marks
        ]
        self._place = {mark: place for place, mark in enumerate(self.marks)}
        self._rows = [self.row(own) for own in told]
        width = len(LABELS)
        self.weights = [[0.0] * width for _ in self.marks]
        self.bias = [0.0] * width
        self._pace = [[1e-8] * width for _ in self.marks]
        self._bias_pace = [1e-8] * width

    def row(self, own: set[str]) -> list[tuple[int, float]]:
        places = sorted(self._place[mark] for mark in own if mark in self._place)
        values = [self.rarity[place] / RARITY_STEPS for place in places]
        length = math.sqrt(math.fsum(value * value for value in values)) or 1.0
        return [(place, value / length) for place, value in zip(places, values, strict=True)]

    def run(self) -> None:
        rng = random.Random(SEED)
        order = list(range(len(self._samples)))
        for _ in range(EPOCHS):
            rng.shuffle(order)
            for index in order:
                self._learn(self._rows[index], self._samples[index])

    def shares(self, row: list[tuple[int, float]]) -> list[float]:
        scores = list(self.bias)
        for place, value in row:
            own = self.weights[place]
            for label, weight in enumerate(own):
                scores[label] += value * weight
        top = max(scores)
        parts = [math.exp(score - top) for score in scores]
        whole = sum(parts)
        return [part / whole for part in parts]

    def _learn(self, row: list[tuple[int, float]], sample: Sample) -> None:
        wrong = self.shares(row)
        wrong[sample.label] -= 1.0
        wrong = [error * sample.weight for error in wrong]
        for label, error in enumerate(wrong):
            self._bias_pace[label] += error * error
            self.bias[label] -= PACE * 0.1 * error / math.sqrt(self._bias_pace[label])
        for place, value in row:
            own, pace = self.weights[place], self._pace[place]
            for label, error in enumerate(wrong):
                slope = error * value + FORGETTING * own[label]
                pace[label] += slope * slope
                own[label] -= PACE * slope / math.sqrt(pace[label])


def write(training: Training) -> None:
    """Marks are kept as hashes; of two with the same hash the first in the alphabet counts."""
    kept: dict[int, int] = {}
    for place, mark in enumerate(training.marks):
        kept.setdefault(crc32(mark.encode()), place)
    hashes = sorted(kept)
    unit = max(abs(weight) for own in training.weights for weight in own) / WEIGHT_STEPS
    head = {
        "labels": LABELS,
        "bias": [round(value, 5) for value in training.bias],
        "unit": round(unit, 6),
        "marks": len(hashes),
        "learnt_from": digest(),
    }
    body = b"".join(struct.pack("<I", one) for one in hashes)
    body += bytes(training.rarity[kept[one]] for one in hashes)
    body += b"".join(struct.pack("b", round(w / unit)) for one in hashes for w in training.weights[kept[one]])
    FILE.write_bytes(json.dumps(head).encode() + b"\n" + body)


def digest() -> str:
    """What the model was learnt from, in short: it has to be trained again when any of it changes."""
    whole = hashlib.sha256()
    for path in sorted((MATERIAL / "patterns").iterdir()):
        whole.update(path.name.encode() + path.read_bytes())
    for sample in (*written(), *labelled()):
        whole.update(f"{sample.label}{sorted(marks(words(sample.text)))}".encode())
    return whole.hexdigest()[:16]


def folds(samples: Sequence[Sample], count: int = 5) -> Iterator[tuple[list[int], list[int]]]:
    order = list(range(len(samples)))
    random.Random(SEED).shuffle(order)
    for fold in range(count):
        tested = order[fold::count]
        yield [index for index in order if index not in set(tested)], tested


def check() -> None:
    """Accuracy on the labelled half, each request judged by a model that has not seen it."""
    agents, mine, theirs = roles(), [*written(), *filled()], labelled()
    told, asked = [[all_marks(sample.text, agents) for sample in group] for group in (mine, theirs)]
    right = 0
    for learnt, tested in folds(theirs):
        training = Training([*mine, *(theirs[i] for i in learnt)], [*told, *(asked[i] for i in learnt)])
        training.run()
        for index in tested:
            shares = training.shares(training.row(asked[index]))
            right += shares.index(max(shares)) == theirs[index].label
    sys.stdout.write(f"{right} of {len(theirs)} = {right / len(theirs):.1%}\n")


def main() -> None:
    if sys.argv[1:] == ["check"]:
        check()
        return
    agents, samples = roles(), [*written(), *filled(), *labelled()]
    training = Training(samples, [all_marks(sample.text, agents) for sample in samples])
    training.run()
    write(training)
    sys.stdout.write(f"{len(samples)} requests, {len(training.marks)} marks, {FILE.stat().st_size // 1024} KB\n")


if __name__ == "__main__":
    main()
