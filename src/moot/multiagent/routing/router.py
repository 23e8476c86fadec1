"""Where a request belongs: CLASSIFY, MATCH, SELECT, SCOPE, EXECUTE, in code and with a reason for each.

Roles that are built in are recognised by a model trained for them, which also weighs their keywords and capabilities.
Any other agent is recognised by what it says of itself, without training. What nobody is for is answered directly.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from moot.domain.agent import ROLES, Agent, AgentSource
from moot.multiagent.routing.agent_match import Match, match, mentioned
from moot.multiagent.routing.classifier import DIRECT, Model, trained
from moot.multiagent.routing.text_features import excerpt, marks, readable, spelled, words

# What an agent says of itself counts from this strength on: one rare keyword, or a few common words.
_FAINT = 0.35
# With this much beyond it an agent weighs as much as all the built-in roles together.
_HALF = 0.8
# Being called by name outweighs all else.
_CALLED = 50.0
# Below this an orchestrator should look twice.
_SURE = 0.5
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An agent that a request could be for; the name "" stands for answering directly."""

    agent: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The decision. `agent` is "" where the orchestrator should answer itself."""

    agent: str = ""
    confidence: float = 0.0
    # What the orchestrator is told.
    summary: str = ""
    # One sentence a step, for whoever reads the trace.
    steps: tuple[str, ...] = ()
    # The likeliest, best first.
    candidates: tuple[Candidate, ...] = ()


class Router:
    """The same request and agents give the same route. After the first request it touches neither disk nor network."""

    def route(self, text: str, agents: Sequence[Agent]) -> Route:
        text = excerpt(text)
        model, found = trained(), words(text)
        by_name = {agent.name: agent for agent in agents}
        matches = {name: match(found, agent, model.rarity) for name, agent in by_name.items()}
        roles = {name for name, agent in by_name.items() if agent.source is AgentSource.BUILT_IN and name in ROLES}
        told = marks(found) | _signals({name: matches[name] for name in roles})
        shares = model.shares(told)
        called = mentioned(text).union(name for name, common in matches.items() if common.called)
        weights = _weigh(shares, roles, matches, called)
        ranked = sorted(weights, key=lambda name: (-weights[name], name))
        whole = sum(weights.values())
        candidates = tuple(Candidate(agent=name, share=round(weights[name] / whole, 3)) for name in ranked[:_SHOWN])
        classified = _classified(text, shares, told, model)
        return _decide(by_name, matches, candidates, classified, called)


def _signals(matches: dict[str, Match]) -> set[str]:
    """Whose keywords and capabilities stand in the request, as marks the model knows."""
    keywords = {f"k:{name}" for name, common in matches.items() if common.keywords}
    return keywords | {f"c:{name}" for name, common in matches.items() if common.capabilities}


def _weigh(
    shares: dict[str, float], roles: set[str], matches: dict[str, Match], called: frozenset[str]
) -> dict[str, float]:
    """What a role would do that is not here is left to the orchestrator."""
    weights = {name: shares[name] for name in roles}
    weights[""] = shares[DIRECT] + sum(shares[name] for name in ROLES if name not in roles)
    for name in matches.keys() - roles:
        beyond = matches[name].strength - _FAINT
        weights[name] = (beyond / _HALF) ** 2 if beyond > 0 else 0.0
    for name in called & matches.keys():
        weights[name] += _CALLED
    return weights


def _classified(text: str, shares: dict[str, float], told: set[str], model: Model) -> str:
    label = max(shares, key=lambda name: shares[name])
    by = model.evidence(readable(told), label)
    because = f", by {_listed(spelled(by, text))}" if by else ""
    kind = "small talk or general knowledge" if label == DIRECT else label
    return f"CLASSIFY: most like {kind} ({shares[label]:.0%}){because}"


def _decide(
    agents: dict[str, Agent],
    matches: dict[str, Match],
    candidates: tuple[Candidate, ...],
    classified: str,
    called: frozenset[str],
) -> Route:
    best = candidates[0]
    agent = agents.get(best.agent)
    matched = _matched(best.agent, matches, called)
    runner_up = candidates[1] if len(candidates) > 1 else None
    second = f", before {runner_up.agent or 'a direct answer'} ({runner_up.share:.0%})" if runner_up else ""
    selected = f"{best.agent or 'a direct answer'} ({best.share:.0%}){second}"
    unsure = " This is not certain." if best.share < _SURE else ""
    return Route(
        agent=best.agent,
        confidence=best.share,
        summary=f"{matched}; {selected}.{unsure}",
        steps=(
            classified,
            f"MATCH: {matched}",
            f"SELECT: {selected}",
            f"SCOPE: {_scope(agent)}",
            f"EXECUTE: {_execute(agent)}",
        ),
        candidates=candidates,
    )


def _matched(chosen: str, matches: dict[str, Match], called: frozenset[str]) -> str:
    """What the request has in common with the chosen agent's own words; for a direct answer, whose keywords it has."""
    if not chosen:
        heard = sorted(name for name, common in matches.items() if common.keywords)
        return f"keywords of {_listed(heard)}, outweighed" if heard else "no keyword of any agent"
    common = matches[chosen]
    parts = [f"{chosen} is asked for by name"] if chosen in called else []
    parts += [f"keywords {_listed(common.keywords)}"] if common.keywords else []
    parts += [f"capabilities {_listed(common.capabilities)}"] if common.capabilities else []
    parts += [f"description alike to {common.similarity:.2f}"] if common.similarity else []
    return ", ".join(parts) or f"no keyword; it reads like requests for {chosen}"


def _scope(agent: Agent | None) -> str:
    if agent is None:
        return "the orchestrator's own tools"
    patterns = "the tools its definition gives it" if agent.prefixes is None else _listed(agent.prefixes) or "no tools"
    return f"at most {patterns}, less where allowed_tools says so"


def _execute(agent: Agent | None) -> str:
    if agent is None:
        return "answer without a teammate"
    return "hand over to the remote agent" if agent.source is AgentSource.REMOTE else f"agent_spawn {agent.name}"


def _listed(names: Sequence[str]) -> str:
    shown = [str(name) for name in names[:4]]
    return ", ".join(shown) + (", …" if len(names) > 4 else "")
