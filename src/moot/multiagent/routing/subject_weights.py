"""How much the subject of a request counts when `router` decides whether it is for one of a user's agents.

`scripts/fit_subjects.py` writes the file, from the labelled requests that are for tuning.
"""

from functools import cache
from pathlib import Path

from msgspec import Struct, json

FILE = Path(__file__).with_name("subject_weights.json")


class SubjectWeights(Struct, frozen=True, kw_only=True):
    # Of the signals that `router.find_signals` returns, in a logistic function: where the agent of the most similar
    # subject has no vocabulary, and where it has one.
    weights: tuple[float, ...]
    vocabulary_weights: tuple[float, ...]
    # A digest of what the weights were fitted to.
    learnt_from: str


@cache
def load_subject_weights() -> SubjectWeights:
    return json.decode(FILE.read_bytes(), type=SubjectWeights)
