"""Trains what routing knows of the built-in roles: `./dev train-routing`, or `./dev train-routing check` for folds.

It learns from requests written for it (`routing_data/exemplars`), from patterns in five languages whose gaps many words
fit (`routing_data/patterns`), and from the part of the labelled set that may be used (`tests/routing/tuning.jsonl`).
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
from moot.multiagent.routing import concepts
from moot.multiagent.routing.agent_match import match_words
from moot.multiagent.routing.classifier import ADVICE, DIRECT, FILE, PAYMENT, RARITY_STEPS, UNSUPPORTED, WEIGHT_STEPS
from moot.multiagent.routing.concepts import load_concepts
from moot.multiagent.routing.text_features import features, read

ROOT = Path(__file__).parent.parent
DATA = ROOT / "scripts" / "routing_data"
TUNING = ROOT / "tests" / "routing" / "tuning.jsonl"
# Labelled requests for agents of a user's, and for roles among them.
SUBJECTS = tuple(
    ROOT / "tests" / "routing" / f"{name}.jsonl"
    for name in ("custom", "development", "rare", "outside", "trades", "crews")
)
# What these agents do is what nobody can do without them.
DEVICES = frozenset({"hearth", "illustrator"})
# Their requests are work on files or texts, not questions of a subject.
WORKERS = frozenset({"translator", "code-reviewer", "data-analyst"})
LABELS = (*ROLES, DIRECT, ADVICE, PAYMENT, UNSUPPORTED)
LANGUAGES = ("en", "de", "es", "fr", "zh")

# How much one request of each kind counts.
WRITTEN, FILLED, LABELLED, SUBJECT = 1.0, 0.15, 2.0, 0.4
# How much less requests for advice count, of which there are many.
ADVISED = 0.5
FOREIGN = 0.3
FILLINGS, FOREIGN_FILLINGS = 25, 14
OPENINGS = 0.2
# A feature of a single request teaches nothing about others, unless it is a word.
FEWEST = 2
EPOCHS = 12
PACE = 0.7
DECAY = 0.00002
SEED = 20


@dataclass(frozen=True, slots=True)
class Sample:
    text: str
    label: int
    weight: float
    # Samples of one group are similar: they are trained on together or tested on together.
    group: str
    language: str = "en"


def lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def load_exemplars() -> list[Sample]:
    return [
        Sample(line.strip(), label, WRITTEN * (ADVISED if name == ADVICE else 1.0), line, language)
        for language in LANGUAGES
        for label, name in enumerate(LABELS)
        for line in lines(DATA / "exemplars" / language / f"{name}.txt")
    ]


def load_tuning() -> list[Sample]:
    rows = [json.loads(line) for line in lines(TUNING)]
    return [
        Sample(
            row["text"], LABELS.index(row.get("kind", row["role"])), LABELLED, row["text"], row.get("language", "en")
        )
        for row in rows
    ]


def load_subjects() -> list[Sample]:
    rows = [json.loads(line) for path in SUBJECTS for line in lines(path)]
    return [
        Sample(
            row["text"],
            LABELS.index(_label(row)),
            SUBJECT if "agent" in row else WRITTEN,
            row["text"],
            row.get("language", "en"),
        )
        for row in rows
        if row.get("agent") not in WORKERS
    ]


def _label(row: dict[str, str]) -> str:
    if "agent" not in row:
        return row.get("role") or row["missing"]
    return UNSUPPORTED if row["agent"] in DEVICES else ADVICE


_CHOICE = re.compile(r"\(([^()]*)\)")
_GAP = re.compile(r"\{(\w+)\}")


def fill_patterns() -> list[Sample]:
    """Each pattern many times, its choices made and its gaps filled at random; some begin with a polite phrase."""
    return [sample for language in LANGUAGES for sample in _fill_language(language)]


def _fill_language(language: str) -> Iterator[Sample]:
    rng = random.Random(f"{SEED}{language}")
    folder = DATA / "patterns" / language
    gaps = dict(line.split(": ", 1) for line in lines(folder / "slots.txt"))
    openings = lines(folder / "preambles.txt")
    count, weight = (FILLINGS, FILLED) if language == "en" else (FOREIGN_FILLINGS, FOREIGN)
    for label, name in enumerate(LABELS):
        for pattern in lines(folder / f"{name}.txt"):
            for text in sorted({_fill(pattern, gaps, rng) for _ in range(count)}):
                space = "" if language == "zh" else " "
                polite = f"{rng.choice(openings)}{space}{text}" if rng.random() < OPENINGS else text
                own = weight * ADVISED if name == ADVICE else weight
                yield Sample(polite, label, own, f"{language} {pattern}", language)


def _fill(pattern: str, gaps: dict[str, str], rng: random.Random) -> str:
    while choice := _CHOICE.search(pattern):
        pattern = pattern[: choice.start()] + rng.choice(choice[1].split("|")) + pattern[choice.end() :]
    while gap := _GAP.search(pattern):
        pattern = pattern[: gap.start()] + rng.choice(gaps[gap[1]].split("|")) + pattern[gap.end() :]
    return " ".join(pattern.replace("[,]", ",").split())


def load_roles() -> list[Agent]:
    registry = Registry(DATA / "no agents")
    return [agent for agent in registry.active() if agent.name in ROLES]


def all_features(text: str, agents: Sequence[Agent]) -> set[str]:
    """The features of a request, and which roles' keywords and capabilities it contains."""
    reading = read(text)
    found = features(reading, load_concepts().find(reading))
    for agent in agents:
        common = match_words(reading.words, agent, lambda _: 1.0)
        found |= {f"k:{agent.name}"} if common.keywords else set()
        found |= {f"c:{agent.name}"} if common.capabilities else set()
    return found


class Training:
    """Logistic regression over the features, one request at a time, with AdaGrad steps."""

    def __init__(self, samples: Sequence[Sample], found: Sequence[set[str]]) -> None:
        self._samples = samples
        counts = Counter(feature for own in found for feature in own)
        self.features = sorted(name for name, count in counts.items() if count >= FEWEST or name.isalpha())
        total = len(samples)
        # As they will be stored, so that what is learnt is what is used.
        self.rarity = [
            min(255, round(RARITY_STEPS * (math.log((1 + total) / (1 + counts[name])) + 1))) for name in self.features
        ]
        self._place = {name: place for place, name in enumerate(self.features)}
        self._rows = [self.row(own) for own in found]
        width = len(LABELS)
        self.weights = [[0.0] * width for _ in self.features]
        self.bias = [0.0] * width
        self._pace = [[1e-8] * width for _ in self.features]
        self._bias_pace = [1e-8] * width

    def row(self, own: set[str]) -> list[tuple[int, float]]:
        places = sorted(self._place[name] for name in own if name in self._place)
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

    def classify(self, row: list[tuple[int, float]]) -> list[float]:
        scores = list(self.bias)
        for place, value in row:
            scores = [score + value * weight for score, weight in zip(scores, self.weights[place], strict=True)]
        top = max(scores)
        parts = [math.exp(score - top) for score in scores]
        whole = sum(parts)
        return [part / whole for part in parts]

    def _learn(self, row: list[tuple[int, float]], sample: Sample) -> None:
        errors = self.classify(row)
        errors[sample.label] -= 1.0
        errors = [error * sample.weight for error in errors]
        for label, error in enumerate(errors):
            self._bias_pace[label] += error * error
            self.bias[label] -= PACE * 0.1 * error / math.sqrt(self._bias_pace[label])
        # A label that is right already teaches nothing, and most are.
        wrong = [(label, error) for label, error in enumerate(errors) if abs(error) > 0.001]
        for place, value in row:
            own, pace = self.weights[place], self._pace[place]
            for label, error in wrong:
                slope = error * value + DECAY * own[label]
                pace[label] += slope * slope
                own[label] -= PACE * slope / math.sqrt(pace[label])


def encode(training: Training) -> bytes:
    """Features are kept as hashes; of two with the same hash the first in the alphabet counts."""
    kept: dict[int, int] = {}
    unit = max(abs(weight) for own in training.weights for weight in own) / WEIGHT_STEPS
    for place, name in enumerate(training.features):
        if any(round(weight / unit) for weight in training.weights[place]):
            kept.setdefault(crc32(name.encode()), place)
    hashes = sorted(kept)
    head = {
        "labels": LABELS,
        "bias": [round(value, 5) for value in training.bias],
        "unit": round(unit, 6),
        "features": len(hashes),
        "learnt_from": digest(),
    }
    body = b"".join(struct.pack("<I", one) for one in hashes)
    body += bytes(training.rarity[kept[one]] for one in hashes)
    body += b"".join(struct.pack("b", round(w / unit)) for one in hashes for w in training.weights[kept[one]])
    return json.dumps(head).encode() + b"\n" + body


def digest() -> str:
    """What the model was learnt from, in short: it has to be trained again when any of it changes."""
    whole = hashlib.sha256()
    for path in sorted((DATA / "patterns").rglob("*.txt")):
        whole.update(path.name.encode() + path.read_bytes())
    whole.update(concepts.FILE.read_bytes())
    whole.update(
        repr((WRITTEN, FILLED, LABELLED, SUBJECT, ADVISED, FOREIGN, FILLINGS, FOREIGN_FILLINGS, OPENINGS)).encode()
    )
    whole.update(repr((FEWEST, EPOCHS, PACE, DECAY, SEED, LABELS)).encode())
    for sample in (*load_exemplars(), *load_tuning(), *load_subjects()):
        reading = read(sample.text)
        whole.update(f"{sample.label}{sorted(features(reading, load_concepts().find(reading)))}".encode())
    return whole.hexdigest()[:16]


def check(folds: int = 4) -> None:
    """Accuracy by language, each group of requests judged by a model that has not seen any of it."""
    agents = load_roles()
    samples = [*load_exemplars(), *fill_patterns(), *load_tuning(), *load_subjects()]
    found = [all_features(sample.text, agents) for sample in samples]
    fold_of = [crc32(sample.group.encode()) % folds for sample in samples]
    right, count = Counter[str](), Counter[str]()
    for fold in range(folds):
        learnt = [index for index, one in enumerate(fold_of) if one != fold]
        training = Training([samples[index] for index in learnt], [found[index] for index in learnt])
        training.run()
        for index, sample in enumerate(samples):
            if fold_of[index] != fold:
                continue
            shares = training.classify(training.row(found[index]))
            kind = "labelled" if sample.weight == LABELLED else "written" if sample.weight == WRITTEN else "filled"
            key = f"{sample.language} {kind}"
            count[key] += 1
            right[key] += shares.index(max(shares)) == sample.label
    for key in sorted(count):
        sys.stdout.write(f"{key}: {right[key]} of {count[key]} = {right[key] / count[key]:.1%}\n")


def main() -> None:
    if sys.argv[1:] == ["check"]:
        check()
        return
    agents, samples = load_roles(), [*load_exemplars(), *fill_patterns(), *load_tuning(), *load_subjects()]
    training = Training(samples, [all_features(sample.text, agents) for sample in samples])
    training.run()
    FILE.write_bytes(encode(training))
    sys.stdout.write(f"{len(samples)} requests, {len(training.features)} features, {FILE.stat().st_size // 1024} KB\n")


if __name__ == "__main__":
    main()
