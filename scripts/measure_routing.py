"""Measures routing on labelled requests; `routing_doc` prints the figures and the tests hold them.

`python -m scripts.measure_routing FILE [--agents FOLDER] [--set-up]` prints accuracy, how often a certain decision was
wrong, and the processor time a decision takes, never a request.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moot.agents.registry import Registry
from moot.domain.agent import ROLES, ROOT, Agent
from moot.domain.vocabulary import LANGUAGES, Phrases, Vocabulary, digest_definition
from moot.multiagent.routing.availability import CAPABILITIES
from moot.multiagent.routing.classifier import DIRECT
from moot.multiagent.routing.router import Route, Router
from moot.multiagent.routing.vocabulary_match import NO_VOCABULARIES, VocabularyIndex, build_index

HOME = Path(__file__).parent.parent
LABELLED = HOME / "tests" / "routing"
LABELS = (*ROLES, DIRECT)

# A tool of every family, as in an installation where everything is set up.
ALL_TOOLS = (
    "exec", "fs_read", "browser_open", "crypto_sign", "secrets_get", "payment_send", "web_search", "web_fetch",
    "cron_add", "bg_start", "workflow_run", "memory_agent_save", "observe_add", "ontology_add",
)  # fmt: skip
# What an installation has before anything is set up.
DEFAULT_TOOLS = ("exec", "fs_read", "crypto_sign", "secrets_get", "web_fetch", "memory_agent_save", "observe_add")
DEFAULT_ROLES = ("operator", "vault", "librarian", "planner", "chronicler")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One labelled request and what became of it."""

    label: str
    language: str
    is_right: bool
    is_certain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    right: int
    count: int
    certain: int
    certain_wrong: int

    @property
    def accuracy(self) -> float:
        return self.right / self.count

    @property
    def certainty(self) -> float:
        return self.certain / self.count

    @property
    def confidently_wrong(self) -> float:
        return self.certain_wrong / self.count


def total(judged: Iterable[Judged]) -> Result:
    each = list(judged)
    return Result(
        right=sum(one.is_right for one in each),
        count=len(each),
        certain=sum(one.is_certain for one in each),
        certain_wrong=sum(one.is_certain and not one.is_right for one in each),
    )


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (LABELLED / name).read_text(encoding="utf-8").splitlines() if line.strip()]


def load_roles() -> list[Agent]:
    return [agent for agent in Registry(LABELLED / "nobody").active() if agent.name in ROLES]


def load_packaged() -> list[Agent]:
    """The built-in roles and the embedded agents: who is there for somebody that has written no agent."""
    return [agent for agent in Registry(LABELLED / "nobody").active() if agent.name != ROOT]


def load_everybody(folder: str = "agents") -> list[Agent]:
    """Those, and some that a user might write."""
    packaged = load_packaged()
    names = {agent.name for agent in packaged} | {ROOT}
    return packaged + [agent for agent in Registry(LABELLED / folder).active() if agent.name not in names]


def load_teams(file: str) -> dict[int, list[Agent]]:
    """Agents that have a description and no keywords, by team, each together with the packaged ones."""
    teams: dict[int, list[Agent]] = {}
    for name, about in json.loads((LABELLED / file).read_text(encoding="utf-8")).items():
        instruction = about.get("instruction", f"You are {name}.")
        agent = Agent(name=name, description=about["description"], instruction=instruction)
        teams.setdefault(about["team"], load_packaged()).append(agent)
    return teams


def load_vocabularies(file: str, team: Sequence[Agent]) -> VocabularyIndex:
    """The vocabularies of those agents of a team that have one in a file of tests/routing/vocabularies."""
    written = json.loads((LABELLED / "vocabularies" / file).read_text(encoding="utf-8"))
    return build_index(
        [(agent, _read_vocabulary(agent, written[agent.name])) for agent in team if agent.name in written]
    )


def _read_vocabulary(agent: Agent, written: dict[str, dict[str, list[str]]]) -> Vocabulary:
    phrases = (
        Phrases(language=name, words=tuple(written["words"][name]), requests=tuple(written["requests"][name]))
        for name in LANGUAGES
    )
    return Vocabulary(
        agent=agent.name, digest=digest_definition(agent), model="", written_at=0.0, phrases=tuple(phrases)
    )


def judge_team(
    requests: Sequence[dict[str, Any]], team: Sequence[Agent], vocabularies: VocabularyIndex = NO_VOCABULARIES
) -> list[Judged]:
    """Every request among the same agents, with a tool of every family."""
    router = Router()
    return [_judge(row, router.route(row["text"], team, ALL_TOOLS, vocabularies)) for row in requests]


def judge_rare(*, has_vocabularies: bool = False) -> list[Judged]:
    """The requests of rare.jsonl for agents, each among the team of its agent."""
    requests, judged = rows("rare.jsonl"), []
    for team in load_teams("rare_agents.json").values():
        own = [row for row in requests if row.get("agent") in {agent.name for agent in team}]
        judged += judge_team(own, team, load_vocabularies("rare.json", team) if has_vocabularies else NO_VOCABULARIES)
    return judged


def find_strangers(name: str) -> list[tuple[dict[str, Any], list[Agent]]]:
    """The requests of a set for agents, each with the team after its own: questions that none of the agents is for."""
    teams = list(load_teams(f"{name}_agents.json").values())
    place = {agent.name: number for number, team in enumerate(teams) for agent in team if agent.name not in ROLES}
    return [(row, teams[(place[row["agent"]] + 1) % len(teams)]) for row in rows(f"{name}.jsonl") if "agent" in row]


def judge_strangers(*, has_vocabularies: bool = False) -> list[Judged]:
    """Those requests, labelled by the kind of agent that they got: right is a role or none."""
    router, embedded = Router(), {agent.name for agent in load_packaged()} - set(ROLES)
    judged = []
    for name in ("rare", "practice"):
        for row, team in find_strangers(name):
            vocabularies = load_vocabularies(f"{name}.json", team) if has_vocabularies else NO_VOCABULARIES
            route = router.route(row["text"], team, ALL_TOOLS, vocabularies)
            is_right = route.agent in ("", *ROLES)
            label = DIRECT if is_right else "embedded" if route.agent in embedded else "own"
            judged.append(Judged(label=label, language=row["language"], is_right=is_right, is_certain=route.certain))
    return judged


def judge(
    requests: Sequence[dict[str, Any]], folder: str = "agents", crowd: Sequence[Agent] = (), is_set_up: bool = False
) -> list[Judged]:
    """Roles among the roles, or among `crowd`; custom agents among everybody; the missing in a fresh installation.

    With `is_set_up` the missing are measured like roles: among all of them, with a tool of every family.
    """
    router, roles, everybody = Router(), list(crowd) or load_roles(), load_everybody(folder)
    few = [agent for agent in load_roles() if agent.name in DEFAULT_ROLES]
    judged = []
    for row in requests:
        if "missing" in row and not is_set_up:
            route = router.route(row["text"], few, DEFAULT_TOOLS)
        else:
            route = router.route(row["text"], everybody if "agent" in row else roles, ALL_TOOLS)
        judged.append(_judge(row, route))
    return judged


def _judge(row: dict[str, Any], route: Route) -> Judged:
    return Judged(
        label=row.get("role") or row.get("agent") or row["missing"],
        language=row.get("language", "en"),
        is_right=_is_right(row, route),
        is_certain=route.certain,
    )


def _is_right(row: dict[str, Any], route: Route) -> bool:
    needs = {capability.label: capability.needs for capability in CAPABILITIES}
    if "missing" in row and route.missing == needs[row["missing"]]:
        return True
    # `also` is a second label that people would accept.
    wanted = (row.get("agent") or row.get("role"), row.get("also"))
    return route.missing == "" and (route.agent or DIRECT) in wanted


def measure_time(requests: Sequence[dict[str, Any]], agents: Sequence[Agent], rounds: int = 4) -> list[float]:
    """Milliseconds of processor time per decision after a first round: those of percentile 1 to 99."""
    router, spent = Router(), []
    for turn in range(rounds + 1):
        for row in requests:
            began = time.thread_time()
            router.route(row["text"], agents, ALL_TOOLS)
            if turn:
                spent.append((time.thread_time() - began) * 1000)
    return statistics.quantiles(spent, n=100)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures routing on a file of tests/routing.")
    parser.add_argument("file")
    parser.add_argument("--agents", default="agents", help="folder with the agents the file is labelled with")
    parser.add_argument("--set-up", action="store_true", help="measure what nobody can do with all roles and tools")
    options = parser.parse_args()
    requests = rows(options.file)
    judged = judge(requests, folder=options.agents, is_set_up=options.set_up)
    kinds = ["agent" if "agent" in row else "missing" if "missing" in row else "role" for row in requests]
    groups = {"all": judged}
    for kind in ("role", "agent", "missing"):
        groups[kind] = [one for one, own in zip(judged, kinds, strict=True) if own == kind]
    for language in LANGUAGES:
        groups[language] = [one for one in judged if one.language == language]
        groups[f"{language} role"] = [one for one in groups["role"] if one.language == language]
    for name, group in groups.items():
        if group:
            result = total(group)
            sys.stdout.write(
                f"{name:10} {result.right:4} of {result.count:4} {result.accuracy:6.1%}, "
                f"certain {result.certainty:.0%}, certain and wrong {result.confidently_wrong:.1%}\n"
            )
    for team in (load_roles(), load_everybody(options.agents)):
        percentiles = measure_time(requests, team)
        sys.stdout.write(
            f"{len(team)} agents: p50 {percentiles[49]:.2f} ms, p99 {percentiles[98]:.2f} ms of processor time\n"
        )


if __name__ == "__main__":
    main()
