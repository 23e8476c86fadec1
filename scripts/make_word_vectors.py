"""Writes the word vectors by which routing compares requests with agents: `python scripts/make_word_vectors.py WHEEL`.

WHEEL is the unpacked folder of the package `wordllama`, whose token vectors (MIT licence) are averaged per word. Needs
numpy, safetensors, tokenizers and wordfreq, which Moot itself does not; the result is part of the repository.
"""

import struct
import sys
from pathlib import Path
from zlib import crc32

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer
from wordfreq import top_n_list

from moot.multiagent.routing.concepts import load_concepts
from moot.multiagent.routing.text_features import stem
from moot.multiagent.routing.word_vectors import FILE, LENGTH, SIZE

WORDS = 30_000


def main() -> None:
    wheel = Path(sys.argv[1])
    tokens = load_file(wheel / "wordllama/weights/l2_supercat_256.safetensors")["embedding.weight"].astype(np.float32)
    tokenizer = Tokenizer.from_file(str(wheel / "wordllama/tokenizers/l2_supercat_tokenizer_config.json"))
    frequent = [word for word in top_n_list("en", WORDS) if word.isascii() and word.isalpha()]
    listed = [word for words in load_concepts().english.values() for each in words for word in each.split()]
    sums: dict[str, np.ndarray] = {}
    # Forms of one word share an entry; the more frequent form, which comes first, counts more.
    for rank, word in enumerate([*frequent, *listed]):
        ids = tokenizer.encode(word, add_special_tokens=False).ids
        vector = tokens[ids, :SIZE].mean(axis=0) / (1 + rank / 1000)
        key = stem(word)
        sums[key] = sums[key] + vector if key in sums else vector
    mean = np.mean([vector / np.linalg.norm(vector) for vector in sums.values()], axis=0)
    rows: dict[int, bytes] = {}
    for key, vector in sums.items():
        centred = vector / np.linalg.norm(vector) - mean
        # All of one length, so that they can be added as they are.
        scaled = np.clip(np.round(centred / np.linalg.norm(centred) * LENGTH), -127, 127).astype(np.int8)
        rows.setdefault(crc32(key.encode()), scaled.tobytes())
    hashes = sorted(rows)
    body = b"".join(struct.pack("<I", one) for one in hashes) + b"".join(rows[one] for one in hashes)
    FILE.write_bytes(struct.pack("<I", len(hashes)) + body)
    sys.stdout.write(f"{len(hashes)} words, {FILE.stat().st_size // 1024} KB\n")


if __name__ == "__main__":
    main()
