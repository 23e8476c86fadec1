"""Fits how much the subject of a request counts for a user's agents: `./dev train-routing`, after the classifier.

Whether a request is for the agent of the most similar subject is a logistic function of `router.find_signals`. Its
weights are fitted to labelled requests that are for tuning: `rare.jsonl`, `development.jsonl`, `custom.jsonl` and
`practice.jsonl`, each among its agents, and the requests of `find_strangers`, which fit none of the agents present.
The shipped classifier has learnt the first three, and would recognise them too well; they are judged by one that has
learnt no labelled request. `tuning.jsonl` is left out: it is English and has nothing that nobody can do, and with it
the weight of that would become 0.1.

A second list of weights is for agents that have a vocabulary: fitted to `rare.jsonl`, `practice.jsonl`,
`outside.jsonl`, `trades.jsonl` and `crews.jsonl` with those in `tests/routing/vocabularies`.

Then a table says what `router.FROM_ROLES` does to these requests and to those of `tuning.jsonl`. Needs nothing but
Python, takes two minutes, and writes the same bytes each time.
"""

import hashlib
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, json
from msgspec.structs import replace

from moot.domain.agent import Agent
from moot.multiagent.routing import classifier, word_vectors
from moot.multiagent.routing.availability import find_missing
from moot.multiagent.routing.classifier import DIRECT, Classifier, decode, load_classifier
from moot.multiagent.routing.router import FROM_ROLES, Compared, Option, compare, find_signals, weigh
from moot.multiagent.routing.subject_weights import FILE, SubjectWeights
from moot.multiagent.routing.text_features import excerpt
from moot.multiagent.routing.vocabulary_match import NO_VOCABULARIES, VocabularyIndex
from scripts import train_routing
from scripts.measure_routing import (
    ALL_TOOLS,
    LABELLED,
    find_strangers,
    load_everybody,
    load_teams,
    load_vocabularies,
    rows,
)

# How much a request counts that is for an agent, that is for a role or for nobody, and that fits no agent present.
FOR_AGENT, FOR_OTHERS, STRANGE = 1.0, 4.0, 0.1
# The last of these where the agents have vocabularies.
STRANGE_TO_VOCABULARIES = 0.2
# Keeps weights small, in units of the signals' deviations.
DECAY = 0.002
ROUNDS = 30
# The shares taken from roles that are shown.
STEPS = (0.0, 0.2, FROM_ROLES, 0.5, 0.7, 1.0)
FILES = (
    "rare.jsonl", "rare_agents.json", "development.jsonl", "custom.jsonl", "practice.jsonl", "practice_agents.json",
    "outside.jsonl", "outside_agents.json", "vocabularies/rare.json", "vocabularies/practice.json",
    "vocabularies/outside.json", "trades.jsonl", "trades_agents.json", "vocabularies/trades.json",
    "crews.jsonl", "crews_agents.json", "vocabularies/crews.json",
)  # fmt: skip
FOLDERS = ("development_agents", "agents")


class Case(Struct, frozen=True, kw_only=True):
    """A labelled request, compared with the agents it is measured among."""

    compared: Compared
    # The labels that are right.
    wanted: tuple[str, ...]
    weight: float
    is_for_agent: bool

    @property
    def nearest(self) -> str:
        """Return the agent with the most similar subject."""
        untrained = self.compared.untrained_matches
        return max(untrained, key=lambda name: untrained[name].meaning)


def train_without_labelled() -> Classifier:
    """Return a classifier that has learnt the written requests and patterns only."""
    agents = train_routing.load_roles()
    samples = [*train_routing.load_exemplars(), *train_routing.fill_patterns()]
    training = train_routing.Training(samples, [train_routing.all_features(each.text, agents) for each in samples])
    training.run()
    return decode(train_routing.encode(training))


def load_vocabulary_cases(plain: Classifier) -> list[Case]:
    """Return the requests to fit to among agents that have a vocabulary; all but strange ones count the same."""
    whole = load_classifier()
    cases = []
    for name, model in (("rare", plain), ("practice", whole), ("outside", plain), ("trades", plain), ("crews", plain)):
        teams = load_teams(f"{name}_agents.json")
        indexes = {number: load_vocabularies(f"{name}.json", team) for number, team in teams.items()}
        own = {agent: number for number, index in indexes.items() for agent in index.features}
        for place, row in enumerate(rows(f"{name}.jsonl")):
            # Requests of `rare` name no team; those for a role are measured with each in turn.
            number = row.get("team") or own.get(row.get("agent", ""), list(teams)[place % len(teams)])
            cases.append(replace(make_case(row, teams[number], model, indexes[number]), weight=1.0))
        for row, team in find_strangers(name):
            number = own[team[-1].name]
            strange = make_case({"text": row["text"], "role": DIRECT}, team, model, indexes[number])
            cases.append(replace(strange, weight=STRANGE_TO_VOCABULARIES))
    return [case for case in cases if case.compared.matches[case.nearest].shared is not None]


def load_cases(plain: Classifier) -> list[Case]:
    """Return the requests to fit to; `plain` judges those that the shipped classifier has learnt."""
    whole, teams = load_classifier(), load_teams("practice_agents.json")
    cases = [make_case(row, team, plain) for row, team in _list_learnt()]
    cases += [make_case(row, teams[row["team"]], whole) for row in rows("practice.jsonl")]
    for name, model in (("rare", plain), ("practice", whole)):
        strangers = [({"text": row["text"], "role": DIRECT}, team) for row, team in find_strangers(name)]
        cases += [replace(make_case(row, team, model), weight=STRANGE) for row, team in strangers]
    return cases


def _list_learnt() -> Iterator[tuple[dict[str, Any], list[Agent]]]:
    """Yield the requests that the shipped classifier has learnt, each with the agents it is measured among."""
    teams = list(load_teams("rare_agents.json").values())
    own = {agent.name: team for team in teams for agent in team}
    for place, row in enumerate(rows("rare.jsonl")):
        yield row, own[row["agent"]] if "agent" in row else teams[place % len(teams)]
    for name, folder in (("development.jsonl", "development_agents"), ("custom.jsonl", "agents")):
        everybody = load_everybody(folder)
        for row in rows(name):
            yield row, everybody


def make_case(
    row: dict[str, Any], team: Sequence[Agent], model: Classifier, vocabularies: VocabularyIndex = NO_VOCABULARIES
) -> Case:
    label = row.get("agent") or row.get("role") or row["missing"]
    return Case(
        compared=compare(excerpt(row["text"]), team, model, vocabularies),
        wanted=(label, row.get("also", label)),
        weight=FOR_AGENT if "agent" in row else FOR_OTHERS,
        is_for_agent="agent" in row,
    )


def fit_weights(cases: Sequence[Case]) -> tuple[float, ...]:
    """Return the weights of the signals, by logistic regression with Newton's method.

    A request for an agent whose subject is not the most similar one says nothing about them.
    """
    used = [case for case in cases if not case.is_for_agent or case.nearest in case.wanted]
    found = [(find_signals(case.compared.shares, case.compared.untrained_matches), case) for case in used]
    signals = [own for own, _ in found if own]
    wanted = [float(case.is_for_agent) for own, case in found if own]
    counts = [case.weight for own, case in found if own]
    means = [math.fsum(column) / len(signals) for column in zip(*signals, strict=True)]
    deviations = [
        math.sqrt(math.fsum((each - mean) ** 2 for each in column) / len(signals)) or 1.0
        for column, mean in zip(zip(*signals, strict=True), means, strict=True)
    ]
    scaled = [
        [1.0, *((x - mean) / width for x, mean, width in zip(own[1:], means[1:], deviations[1:], strict=True))]
        for own in signals
    ]
    theta = [0.0] * len(means)
    for _ in range(ROUNDS):
        theta = _step(theta, scaled, wanted, counts)
    weights = [one / width for one, width in zip(theta[1:], deviations[1:], strict=True)]
    constant = theta[0] - math.fsum(one * mean for one, mean in zip(weights, means[1:], strict=True))
    return tuple(round(one, 1) for one in (constant, *weights))


def _step(
    theta: list[float], rows_: Sequence[list[float]], wanted: Sequence[float], counts: Sequence[float]
) -> list[float]:
    size, total = len(theta), len(rows_)
    slope = [0.0, *(DECAY * one for one in theta[1:])]
    curve = [[DECAY if i == j and i else 0.0 for j in range(size)] for i in range(size)]
    for row, right, count in zip(rows_, wanted, counts, strict=True):
        likely = 1 / (1 + math.exp(-math.fsum(a * b for a, b in zip(theta, row, strict=True))))
        for i, one in enumerate(row):
            slope[i] += count * (likely - right) * one / total
            for j, other in enumerate(row):
                curve[i][j] += count * likely * (1 - likely) * one * other / total
    return [one - change for one, change in zip(theta, solve(curve, slope), strict=True)]


def solve(matrix: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Return the solution of linear equations, by elimination. The matrix is positive definite: no pivot is 0."""
    left = [[*row, value] for row, value in zip(matrix, values, strict=True)]
    for place, pivot in enumerate(left):
        for row in left:
            if row is not pivot:
                factor = row[place] / pivot[place]
                row[:] = [one - factor * other for one, other in zip(row, pivot, strict=True)]
    return [row[-1] / row[place] for place, row in enumerate(left)]


def show_from_roles(cases: Sequence[Case], weights: SubjectWeights) -> Iterator[str]:
    """Yield what each step gives: right decisions for agents, for roles and for what fits no agent."""
    groups = {
        "for agents": [case for case in cases if case.is_for_agent],
        "for others": [case for case in cases if case.weight == FOR_OTHERS],
        "that fit no agent": [case for case in cases if case.weight == STRANGE],
    }
    for step in STEPS:
        parts = (f"{count_right(own, weights, step)} of {len(own)} {name}" for name, own in groups.items())
        yield f"from roles {step}: {', '.join(parts)}\n"


def count_right(cases: Sequence[Case], weights: SubjectWeights, from_roles: float) -> int:
    decided = (
        (weigh(case.compared, find_missing(case.compared.roles, ALL_TOOLS), weights, from_roles)[0], case)
        for case in cases
    )
    return sum(_name(option) in case.wanted for option, case in decided)


def _name(option: Option) -> str:
    return option.missing.label if option.missing is not None else option.agent or DIRECT


def digest() -> str:
    """What the weights were fitted to, in short: they have to be fitted again when any of it changes."""
    whole = hashlib.sha256(repr((FOR_AGENT, FOR_OTHERS, STRANGE, STRANGE_TO_VOCABULARIES, DECAY, ROUNDS)).encode())
    agents = [path for folder in FOLDERS for path in sorted((LABELLED / folder).rglob("*.md"))]
    for path in (classifier.FILE, word_vectors.FILE, *(LABELLED / name for name in FILES), *agents):
        whole.update(path.name.encode() + path.read_bytes())
    return whole.hexdigest()[:16]


def main() -> None:
    plain, everybody = train_without_labelled(), load_everybody()
    cases = load_cases(plain)
    with_vocabulary = load_vocabulary_cases(plain)
    found = SubjectWeights(
        weights=fit_weights(cases), vocabulary_weights=fit_weights(with_vocabulary), learnt_from=digest()
    )
    FILE.write_bytes(json.encode(found) + b"\n")
    sys.stdout.write(f"{len(cases)} requests, weights {found.weights}\n")
    sys.stdout.write(f"{len(with_vocabulary)} with vocabularies, weights {found.vocabulary_weights}\n")
    cases += [make_case(row, everybody, plain) for row in rows("tuning.jsonl")]
    sys.stdout.writelines(show_from_roles(cases, found))


if __name__ == "__main__":
    main()
