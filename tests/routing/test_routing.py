"""Routing: measured on requests nobody tuned on, and what it promises whoever reads or extends it."""

import json
import re
import time
from dataclasses import asdict, replace

import pytest

from moot.domain.agent import ROLES, Agent, AgentSource
from moot.domain.trace import PAYLOAD_LENGTH
from moot.multiagent.routing.classifier import FILE
from moot.multiagent.routing.router import Route, Router
from scripts import train_routing
from scripts.routing_doc import (
    LABELLED,
    LABELS,
    TARGET,
    built_in,
    by_role,
    custom,
    document,
    everybody,
    rows,
    together,
    without_keyword,
)


@pytest.fixture(scope="module")
def team() -> list[Agent]:
    return built_in()


def route(text: str, agents: list[Agent]) -> Route:
    return Router().route(text, agents)


def plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def test_at_least_85_percent_of_the_held_out_requests_go_where_they_belong(team: list[Agent]) -> None:
    results = by_role(rows("held_out.jsonl"), team)
    assert together(results).accuracy >= 0.85
    assert set(results) == set(LABELS)
    assert {role: one.accuracy for role, one in results.items() if one.accuracy < 0.7} == {}


def test_the_page_says_what_is_measured() -> None:
    assert TARGET.read_text(encoding="utf-8") == document(), "run: python scripts/routing_doc.py"


def test_the_model_is_learnt_from_what_is_written_down_now() -> None:
    told = json.loads(FILE.read_bytes().partition(b"\n")[0])
    assert told["learnt_from"] == train_routing.digest(), "run: python scripts/train_routing.py"


def test_no_request_is_both_learnt_from_and_measured() -> None:
    measured = {plain(row["text"]) for row in rows("held_out.jsonl")}
    learnt = {
        plain(sample.text) for sample in (*train_routing.written(), *train_routing.filled(), *train_routing.labelled())
    }
    # Counted and not shown: whoever trains must not read what is measured.
    shared = len(measured & learnt)
    assert shared == 0


def test_the_labelled_set_is_large_and_half_of_it_has_no_keyword_of_any_role() -> None:
    for name in ("tuning.jsonl", "held_out.jsonl"):
        requests = rows(name)
        assert len(requests) >= 150
        assert len(without_keyword(requests)) >= len(requests) / 2


def test_agents_of_a_user_are_found_by_what_they_say_of_themselves() -> None:
    assert custom().accuracy >= 0.9


def test_agents_of_a_user_take_little_from_the_built_in_roles(team: list[Agent]) -> None:
    requests = rows("held_out.jsonl")
    alone, crowded = together(by_role(requests, team)), together(by_role(requests, everybody()))
    assert crowded.accuracy >= alone.accuracy - 0.05


@pytest.mark.parametrize(
    "text", ["hi", "thanks a lot!", "what is the capital of Peru", "how are you?", "", "???", "\x00", "🙂"]
)
def test_small_talk_general_knowledge_and_noise_are_answered_directly(text: str, team: list[Agent]) -> None:
    assert route(text, team).agent == ""


@pytest.mark.parametrize("role", ROLES)
def test_somebody_asked_for_by_name_is_chosen(role: str, team: list[Agent]) -> None:
    assert route(f"@{role} hello there", team).agent == role
    assert route(f"please ask the {role} about it", team).agent == role


def test_every_step_gives_its_reason(team: list[Agent]) -> None:
    found = route("encrypt the letter with my password", team)
    assert found.agent == "vault"
    assert [step.split(":")[0] for step in found.steps] == ["CLASSIFY", "MATCH", "SELECT", "SCOPE", "EXECUTE"]
    assert "encrypt, password" in found.steps[1]
    assert "crypto_*" in found.steps[3]
    assert found.steps[4] == "EXECUTE: agent_spawn vault"
    assert found.candidates[0].agent == "vault"
    assert found.candidates[0].share == found.confidence
    assert len(found.candidates) > 1
    assert "keywords encrypt, password" in found.summary


def test_reasons_hold_the_words_of_the_request_as_they_were_written(team: list[Agent]) -> None:
    assert "schedules" in route("which schedules are set", team).steps[0]


def test_a_route_fits_into_a_trace(team: list[Agent]) -> None:
    for request in rows("tuning.jsonl"):
        assert len(json.dumps(asdict(route(request["text"], team)))) <= PAYLOAD_LENGTH


def test_what_an_absent_role_would_do_is_left_to_the_orchestrator(team: list[Agent]) -> None:
    others = [agent for agent in team if agent.name != "vault"]
    assert route("what is the password for the staging server", team).agent == "vault"
    assert route("what is the password for the staging server", others).agent == ""


def test_with_nobody_there_everything_is_answered_directly() -> None:
    found = route("run the tests", [])
    assert (found.agent, found.confidence) == ("", 1.0)


def test_an_agent_is_recognised_by_keyword_capability_or_description() -> None:
    gardener = Agent(name="gardener", description="Prunes hedges and lays lawns.", instruction="")
    asked = "who could prune the hedges behind the lawn"
    assert route(asked, [gardener]).agent == "gardener"
    keyword = replace(gardener, description="x", keywords=("hedges",))
    assert "keywords hedges" in route(asked, [keyword]).steps[1]
    able = replace(gardener, description="x", capabilities=("hedge-pruning",))
    assert "capabilities hedge-pruning" in route(asked, [able]).steps[1]


def test_an_agent_of_a_user_does_not_inherit_what_a_role_of_its_name_has_learnt() -> None:
    impostor = Agent(name="vault", description="x", instruction="", source=AgentSource.REMOTE)
    assert route("what is the password for the staging server", [impostor]).agent == ""


def test_the_same_request_has_the_same_route_whatever_the_order_of_agents(team: list[Agent]) -> None:
    for request in rows("tuning.jsonl")[:60]:
        assert route(request["text"], team) == route(request["text"], list(reversed(team)))


def test_a_long_text_pasted_into_a_request_neither_hides_it_nor_costs_more(team: list[Agent]) -> None:
    pasted = "it was a bright cold day in the valley and the clocks were striking " * 20_000
    started = time.thread_time()
    found = route(f"encrypt this with my password: {pasted}", team)
    assert time.thread_time() - started < 1
    assert found.agent == "vault"


def test_a_request_takes_less_than_five_milliseconds(team: list[Agent]) -> None:
    requests = [row["text"] for row in rows("tuning.jsonl")]
    route(requests[0], team)
    spent = []
    for text in requests:
        started = time.thread_time()
        route(text, team)
        spent.append(time.thread_time() - started)
    assert sorted(spent)[len(spent) // 2] < 0.005


def test_the_labelled_files_hold_known_roles_only() -> None:
    for path in LABELLED.glob("*.jsonl"):
        names = {row.get("role") or row["agent"] for row in rows(path.name)}
        assert names <= {*LABELS, *(agent.name for agent in everybody())}
