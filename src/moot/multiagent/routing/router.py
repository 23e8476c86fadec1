"""Decides which agent a request is for, with reasons: CLASSIFY, MATCH, SELECT, SCOPE, EXECUTE.

`classifier` recognises requests for the built-in roles, `agent_match` those for other agents by their definitions, and
`availability` knows which capabilities are missing. An uncertain decision is marked as such. The weights of
`subject_weights` are fitted; those below were chosen by hand (`tests/routing/README.md` says with which requests).
"""

import math
from collections.abc import Collection, Sequence
from operator import mul

from msgspec import Struct

from moot.domain.agent import ROLES, Agent, AgentSource
from moot.multiagent.routing.agent_match import Match, find_mentions, match, prepare
from moot.multiagent.routing.availability import SCHEDULES_OFF, WEB_SEARCH_OFF, Capability, find_missing, has_tool
from moot.multiagent.routing.classifier import (
    ADVICE,
    DIRECT,
    PAYMENT,
    UNSUPPORTED,
    Classifier,
    Known,
    find_rarity,
    load_classifier,
)
from moot.multiagent.routing.subject_weights import SubjectWeights, load_subject_weights
from moot.multiagent.routing.text_features import excerpt, features, readable, spell
from moot.multiagent.routing.vocabulary_match import NO_VOCABULARIES, VocabularyIndex

# Words that a request and an agent have in common count from this strength on: one rare keyword, or a few common ones.
_FAINT = 0.35
# With this much beyond it an agent weighs as much as all the built-in roles together.
_HALF = 0.8
# From this similarity on the trace mentions the subject.
_RELATED = 0.2
# Added to shares before their logarithm is taken.
_LEAST_SHARE = 0.02
# The most that a subject gives to agents: without a vocabulary never enough to make a decision certain, and with one.
_MOST_BY_SUBJECT, _MOST_BY_VOCABULARY = 0.75, 0.88
# How much of that they take from roles. Requests for tuning would favour more; roles would lose among many agents.
FROM_ROLES, FROM_ROLES_BY_VOCABULARY = 0.35, 0.85
# How much faster more similar agents gain.
_SHARP = 30.0
# How much of the share of advice counts as a direct answer: requests for roles are sometimes taken for advice.
_ADVICE_WEIGHT = 0.4
# What share makes a role clear, and how much less a subject counts then.
_CLEAR, _SUBJECT_YIELD = 8, 0.7
# How much less an agent's words count where a role is clear.
_YIELD = 0.6
# Being called by name outweighs all else.
_CALLED = 50.0
# From this share on a decision is certain.
_CERTAIN = 0.9
_SHOWN = 3


class Candidate(Struct, frozen=True, kw_only=True):
    """A possible target of a request: the name of an agent, "" for a direct answer, or a missing capability."""

    agent: str
    share: float
    missing: str = ""


class Route(Struct, frozen=True, kw_only=True):
    """The decision. `agent` is "" if the orchestrator should answer itself, or if no agent can do it."""

    agent: str = ""
    confidence: float = 0.0
    certain: bool = False
    # The capability that is missing, and what would enable it; "" if nothing is missing.
    missing: str = ""
    enable: str = ""
    # The text for the orchestrator.
    summary: str = ""
    # One sentence per step, for the trace.
    steps: tuple[str, ...] = ()
    # The likeliest, best first.
    candidates: tuple[Candidate, ...] = ()
    # The agents that the request calls by name, best first.
    called: tuple[str, ...] = ()


class Compared(Struct, frozen=True, kw_only=True):
    """A request compared with the built-in roles and all agents."""

    # The classifier's probability of each label, and the features it knew.
    shares: dict[str, float]
    known: Known
    # The built-in roles that are present.
    roles: frozenset[str]
    matches: dict[str, Match]
    # The agents that the request calls by name.
    called: frozenset[str]

    @property
    def untrained_matches(self) -> dict[str, Match]:
        """Return the matches of the agents that the classifier was not trained on."""
        return {name: common for name, common in self.matches.items() if name not in self.roles}


class Option(Struct, frozen=True):
    """A possible target of a request, with its weight."""

    weight: float
    agent: str = ""
    missing: Capability | None = None

    @property
    def name(self) -> str:
        if self.missing is not None:
            return f"what nobody here can do ({self.missing.needs})"
        return self.agent or "a direct answer"


class Router:
    """Routes requests. Deterministic in request, agents and tools; reads files at the first request only."""

    def route(
        self,
        text: str,
        agents: Sequence[Agent],
        tools: Collection[str],
        vocabularies: VocabularyIndex = NO_VOCABULARIES,
    ) -> Route:
        text = excerpt(text)
        model = load_classifier()
        compared = compare(text, agents, model, vocabularies)
        options = weigh(compared, find_missing(compared.roles, tuple(tools)), load_subject_weights())
        classified = _explain_classification(text, compared.shares, compared.known, model)
        by_name = {agent.name: agent for agent in agents}
        return _decide(by_name, compared.matches, options, classified, compared.called, tools)


def compare(
    text: str, agents: Sequence[Agent], model: Classifier, vocabularies: VocabularyIndex = NO_VOCABULARIES
) -> Compared:
    request = prepare(text)
    roles = frozenset(agent.name for agent in agents if agent.source is AgentSource.BUILT_IN and agent.name in ROLES)
    shared = vocabularies.compare(request.reading)
    matches = {
        agent.name: match(
            request, agent, find_rarity, by_subject=agent.name not in roles, shared=shared.get(agent.name)
        )
        for agent in agents
    }
    found = features(request.reading, request.concepts) | _keyword_features({name: matches[name] for name in roles})
    known = model.look_up(found)
    return Compared(
        shares=model.classify(known),
        known=known,
        roles=roles,
        matches=matches,
        called=find_mentions(text).union(name for name, common in matches.items() if common.called),
    )


def _keyword_features(matches: dict[str, Match]) -> set[str]:
    """Return classifier features for the agents whose keywords and capabilities occur in the request."""
    keywords = {f"k:{name}" for name, common in matches.items() if common.keywords}
    return keywords | {f"c:{name}" for name, common in matches.items() if common.capabilities}


def weigh(
    compared: Compared,
    missing: dict[str, Capability],
    by_subject: SubjectWeights,
    from_roles: float = FROM_ROLES,
) -> list[Option]:
    """Return all possible targets of the request, most likely first. `from_roles` is for agents without vocabulary."""
    roles = compared.roles
    shares, weights = _share_with_agents(compared.shares, compared.untrained_matches, by_subject, from_roles)
    for name in roles:
        weights[name] = 0.0 if name in missing else shares[name]
    if "vault" in roles and PAYMENT not in missing:
        weights["vault"] += shares[PAYMENT]
    for name in compared.called & compared.matches.keys():
        weights[name] += _CALLED
    options = [Option(weight, agent) for agent, weight in weights.items()]
    options.append(Option(shares[DIRECT] + _ADVICE_WEIGHT * shares[ADVICE]))
    options += [Option(shares[label], missing=capability) for label, capability in missing.items()]
    return sorted(options, key=lambda one: (-one.weight, one.name))


def _share_with_agents(
    shares: dict[str, float], untrained: dict[str, Match], by_subject: SubjectWeights, from_roles: float
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the classifier's reduced shares, and the weights of the agents that it was not trained on.

    The likelihood that a request is for an agent of a user's is shared among those agents by the similarity of their
    subjects. Words in common count in addition.
    """
    if not untrained:
        return shares, {}
    nearest = max(untrained.values(), key=lambda common: common.meaning)
    likely = {name: math.exp(_SHARP * (common.meaning - nearest.meaning)) for name, common in untrained.items()}
    fits = sum(likely.values())
    clear = max(shares[name] for name in ROLES) ** _CLEAR
    taken = _estimate(find_signals(shares, untrained), by_subject)
    if nearest.shared is None:
        taken *= 1 - _SUBJECT_YIELD * clear
    else:
        from_roles = FROM_ROLES_BY_VOCABULARY
    given = {label: share * taken * (from_roles if label in ROLES else 1.0) for label, share in shares.items()}
    free = sum(given.values())
    weights = {
        name: free * likely[name] / fits + (1 - _YIELD * clear) * (max(0.0, common.strength - _FAINT) / _HALF) ** 2
        for name, common in untrained.items()
    }
    return {label: share - given[label] for label, share in shares.items()}, weights


def find_signals(shares: dict[str, float], untrained: dict[str, Match]) -> tuple[float, ...]:
    """Return what shows whether a request is for the agent of the most similar subject; () if no subject is similar.

    In the order of `SubjectWeights`: 1, the similarity, how far it is ahead of the next, and the logarithms of the
    shares of advice, of direct answers and of what nobody can do. If the agent has a vocabulary, what the request
    shares with it is the last.
    """
    first, *others = sorted(untrained.values(), key=lambda common: -common.meaning)
    if not first.meaning:
        return ()
    lead = first.meaning - max((common.meaning for common in others), default=first.meaning)
    unsupported = shares[UNSUPPORTED] * (1 - first.unusual)
    logs = (math.log(share + _LEAST_SHARE) for share in (shares[ADVICE], shares[DIRECT], unsupported))
    signals = (1.0, first.meaning, lead, *logs)
    return signals if first.shared is None else (*signals, first.shared.strength)


def _estimate(signals: Sequence[float], by_subject: SubjectWeights) -> float:
    """Return how likely the request is for one of these agents, judged by its subject."""
    if not signals:
        return 0.0
    has_vocabulary = len(signals) == len(by_subject.vocabulary_weights)
    weights = by_subject.vocabulary_weights if has_vocabulary else by_subject.weights
    most = _MOST_BY_VOCABULARY if has_vocabulary else _MOST_BY_SUBJECT
    return most / (1 + math.exp(-sum(map(mul, weights, signals))))


def _explain_classification(text: str, shares: dict[str, float], known: Known, model: Classifier) -> str:
    label = max(shares, key=lambda name: shares[name])
    evidence = model.find_evidence({name: known[name] for name in readable(known)}, label)
    because = f", by {_join(spell(evidence, text))}" if evidence else ""
    kind = {DIRECT: "small talk or general knowledge", ADVICE: "a question of some subject"}.get(label, label)
    return f"CLASSIFY: most like {kind} ({shares[label]:.0%}){because}"


def _decide(
    agents: dict[str, Agent],
    matches: dict[str, Match],
    options: Sequence[Option],
    classified: str,
    called: frozenset[str],
    tools: Collection[str],
) -> Route:
    whole = sum(option.weight for option in options)
    best, second = options[0], options[1]
    share = best.weight / whole
    agent = agents.get(best.agent)
    matched = _explain_match(best, matches, called)
    selected = f"{best.name} ({share:.0%}), before {second.name} ({second.weight / whole:.0%})"
    return Route(
        agent=best.agent,
        confidence=round(share, 3),
        certain=share >= _CERTAIN,
        missing=best.missing.needs if best.missing else "",
        enable=best.missing.enable if best.missing else "",
        summary=f"{matched}; {selected}.{_note_limits(best.agent, tools)}",
        steps=(
            classified,
            f"MATCH: {matched}",
            f"SELECT: {selected}",
            f"SCOPE: {_explain_scope(agent)}",
            f"EXECUTE: {_explain_execution(best, agent)}",
        ),
        candidates=tuple(
            Candidate(
                agent=option.agent,
                share=round(option.weight / whole, 3),
                missing=option.missing.needs if option.missing else "",
            )
            for option in options[:_SHOWN]
        ),
        called=tuple(option.agent for option in options if option.agent in called),
    )


def _note_limits(agent: str, tools: Collection[str]) -> str:
    """Return what the chosen role cannot do because some of its tools are switched off; empty if it can do all."""
    if agent == "librarian" and "web_search" not in tools:
        return f" {WEB_SEARCH_OFF}"
    return f" {SCHEDULES_OFF}" if agent == "automator" and not has_tool(("cron_*",), tools) else ""


def _explain_match(best: Option, matches: dict[str, Match], called: frozenset[str]) -> str:
    """Return what the request has in common with the chosen agent; for a direct answer, which keywords it contains."""
    if not best.agent:
        heard = sorted(name for name, common in matches.items() if common.keywords)
        return f"keywords of {_join(heard)}, outweighed" if heard else "no keyword of any agent"
    common = matches[best.agent]
    parts = [f"{best.agent} is asked for by name"] if best.agent in called else []
    parts += [f"keywords {_join(common.keywords)}"] if common.keywords else []
    parts += [f"capabilities {_join(common.capabilities)}"] if common.capabilities else []
    parts += [f"words of its vocabulary {_join(common.shared.words)}"] if common.shared and common.shared.words else []
    parts += [f"subjects {_join(common.concepts)}"] if common.concepts else []
    parts += [f"description alike to {common.similarity:.2f}"] if common.similarity else []
    parts += [f"subject alike to {common.meaning:.2f}"] if common.meaning >= _RELATED else []
    return ", ".join(parts) or f"no keyword; it reads like requests for {best.agent}"


def _explain_scope(agent: Agent | None) -> str:
    if agent is None:
        return "the orchestrator's own tools"
    patterns = "the tools its definition gives it" if agent.prefixes is None else _join(agent.prefixes) or "no tools"
    return f"at most {patterns}, less where allowed_tools says so"


def _explain_execution(best: Option, agent: Agent | None) -> str:
    if best.missing is not None:
        return "say what is missing and what would enable it"
    if agent is None:
        return "answer without a teammate"
    return "hand over to the remote agent" if agent.source is AgentSource.REMOTE else f"agent_spawn {agent.name}"


def _join(names: Sequence[str]) -> str:
    shown = [str(name) for name in names[:4]]
    return ", ".join(shown) + (", …" if len(names) > 4 else "")
