"""Routing: measured on requests nobody tuned on, and what it promises whoever reads or extends it."""

import json
import re
import unicodedata
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from moot.domain.agent import ROLES, Agent, AgentSource
from moot.domain.trace import PAYLOAD_LENGTH
from moot.multiagent.routing import router as router_module
from moot.multiagent.routing.availability import CAPABILITIES
from moot.multiagent.routing.classifier import DIRECT, FILE, load_classifier
from moot.multiagent.routing.concepts import LANGUAGES, load_concepts
from moot.multiagent.routing.router import Route, Router
from moot.multiagent.routing.subject_weights import load_subject_weights
from moot.multiagent.routing.text_features import fold, read, stem
from moot.multiagent.routing.word_vectors import (
    Meaning,
    combine,
    compare_topics,
    find_places,
    load_word_vectors,
)
from moot.multiagent.teammates.briefing import render_advice
from scripts import fit_subjects, train_routing
from scripts.measure_routing import (
    ALL_TOOLS,
    DEFAULT_ROLES,
    DEFAULT_TOOLS,
    LABELLED,
    LABELS,
    Judged,
    judge_rare,
    judge_strangers,
    load_everybody,
    load_roles,
    load_teams,
    rows,
    total,
)
from scripts.routing_doc import TARGET, by_kind, document, judge_blind, judge_old, judge_usual


@pytest.fixture(scope="module")
def team() -> list[Agent]:
    return load_roles()


@pytest.fixture(scope="module")
def fresh() -> dict[str, list[Judged]]:
    return by_kind()


def route(text: str, agents: list[Agent], tools: tuple[str, ...] = ALL_TOOLS) -> Route:
    return Router().route(text, agents, tools)


def plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", text.lower())))


def test_at_least_90_percent_of_the_fresh_requests_go_where_they_belong(fresh: dict[str, list[Judged]]) -> None:
    whole = total(one for judged in fresh.values() for one in judged)
    assert whole.count >= 500
    assert whole.accuracy >= 0.9
    assert whole.confidently_wrong <= 0.03


@pytest.mark.parametrize("language", ["de", "es", "fr", "zh"])
def test_at_least_75_percent_in_each_other_language(fresh: dict[str, list[Judged]], language: str) -> None:
    result = total(one for one in fresh["role"] if one.language == language)
    assert result.count >= 60
    assert result.accuracy >= 0.75


def test_agents_of_a_user_and_what_nobody_can_do_are_recognised(fresh: dict[str, list[Judged]]) -> None:
    assert total(fresh["agent"]).accuracy >= 0.75
    assert total(fresh["missing"]).accuracy >= 0.75


def test_certainty_is_not_given_up_to_avoid_errors(fresh: dict[str, list[Judged]]) -> None:
    assert total(fresh["role"]).certainty >= 0.5


def test_the_older_set_is_still_routed(team: list[Agent]) -> None:
    alone, crowded = judge_old()
    assert alone.accuracy >= 0.85
    # Agents of a user's take little from the built-in roles.
    assert crowded.accuracy >= 0.85


# Slightly under what was measured.
BLIND = {"role": 0.97, "agent": 0.66, "missing": 0.9, "crowded": 0.95}
BLIND_LANGUAGES = {"en": 0.93, "de": 0.85, "es": 0.94, "fr": 0.92, "zh": 0.97}


def test_at_least_90_percent_of_the_blind_requests_go_where_they_belong() -> None:
    blind = judge_blind()
    for kind, least in BLIND.items():
        assert total(blind[kind]).accuracy >= least, kind
    for language, least in BLIND_LANGUAGES.items():
        assert total(one for one in blind["role"] if one.language == language).accuracy >= least, language
    whole = total(one for kind in ("role", "agent", "missing") for one in blind[kind])
    assert whole.accuracy >= 0.9
    assert whole.confidently_wrong <= 0.015
    assert total(blind["crowded"]).confidently_wrong <= 0.02


# Slightly under what was measured, without and with vocabularies; the target is 0.9 of all.
ALONE = {
    "everyday": {"role": 0.95, "agent": 0.57, "missing": 0.95, "all": 0.87},
    "independent": {"role": 0.95, "agent": 0.36, "missing": 0.9, "all": 0.84},
    "usual": {"role": 0.97, "agent": 0.44, "missing": 0.95, "all": 0.86},
    "final": {"role": 0.95, "agent": 0.43, "missing": 0.9, "all": 0.86},
}
WITH_VOCABULARIES = {
    "everyday": {"role": 0.95, "agent": 0.89, "missing": 0.95, "all": 0.94},
    "independent": {"role": 0.95, "agent": 0.86, "missing": 0.95, "all": 0.94},
    "usual": {"role": 0.97, "agent": 0.83, "missing": 0.95, "all": 0.94},
    "final": {"role": 0.95, "agent": 0.9, "missing": 0.9, "all": 0.94},
}


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("has_vocabularies", [False, True])
def test_requests_in_the_proportions_of_usual_use_go_where_they_belong(name: str, has_vocabularies: bool) -> None:
    least = (WITH_VOCABULARIES if has_vocabularies else ALONE)[name]
    kinds = dict(judge_usual(name, has_vocabularies=has_vocabularies))
    kinds["all"] = [one for judged in kinds.values() for one in judged]
    for kind, judged in kinds.items():
        assert total(judged).accuracy >= least[kind], kind
    assert total(kinds["all"]).confidently_wrong <= 0.03
    for language in ("de", "es", "fr", "zh"):
        own = total(one for one in kinds["all"] if one.language == language)
        assert own.accuracy >= 0.75, language


def test_an_agent_of_a_rare_subject_is_found_by_its_vocabulary() -> None:
    assert total(judge_rare(has_vocabularies=True)).accuracy >= 0.97


def test_the_vocabularies_are_of_the_labelled_agents() -> None:
    for file in sorted((LABELLED / "vocabularies").glob("*.json")):
        written = json.loads(file.read_text(encoding="utf-8"))
        for each in written.values():
            assert {*each["words"], *each["requests"]} == set(LANGUAGES)
            assert all(len(words) >= 20 for words in each["words"].values())


def test_an_agent_without_keywords_gets_problems_of_its_subject_and_no_phone_calls() -> None:
    team = [*load_roles(), *(agent for agent in load_teams("practice_agents.json")[2] if agent.name not in ROLES)]
    assert route("somebody scratched the bumper of the van in the car park", team).agent == "fleet"
    assert route("Wann muss der Transporter zum TÜV?", team).agent == "fleet"
    called = route("Ruf in der Werkstatt an", team)
    assert (called.agent, bool(called.missing)) == ("", True)


def test_the_page_says_what_is_measured() -> None:
    assert TARGET.read_text(encoding="utf-8") == document(), "run: python -m scripts.routing_doc"


def test_the_model_was_made_from_the_shipped_data() -> None:
    about = json.loads(FILE.read_bytes().partition(b"\n")[0])
    assert about["learnt_from"] == train_routing.digest(), "run: ./dev train-routing"


def test_the_weights_of_subjects_were_fitted_to_the_shipped_data() -> None:
    assert load_subject_weights().learnt_from == fit_subjects.digest(), "run: ./dev train-routing"


def test_the_words_of_the_dictionary_are_in_the_table() -> None:
    keys: list[str] = []
    for line in (train_routing.DATA / "words" / "dictionary.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            english, *others = ([fold(word.strip()) for word in column.split(",")] for column in line.split("|"))
            # A word with a hyphen has no vector, and neither do its translations.
            known = [word for phrase in english for word in phrase.split() if word.isascii() and word.isalpha()]
            translated = zip(LANGUAGES[1:], others if known else [[]] * 4, strict=True)
            keys += [stem(word) for word in known]
            keys += [f"{name}:{word}" for name, words in translated for word in words if word and " " not in word]
    assert len(keys) > 5000
    absent = [key for key in keys if load_word_vectors().find(key) < 0]
    assert absent == [], "run: python -m scripts.make_word_vectors"


def test_weights_are_fitted_to_what_tells_requests_apart() -> None:
    assert fit_subjects.solve([[2.0, 1.0], [1.0, 3.0]], [5.0, 10.0]) == pytest.approx([1.0, 3.0])
    team, model = load_teams("practice_agents.json"), load_classifier()
    cases = [fit_subjects.make_case(row, team[row["team"]], model) for row in rows("practice.jsonl")]
    _, similarity, lead, advice, *_ = fit_subjects.fit_weights(cases)
    assert min(similarity, lead, advice) > 0
    assert fit_subjects.fit_weights(cases) == fit_subjects.fit_weights(cases)


def test_a_question_that_fits_no_agent_is_not_given_to_one_with_certainty() -> None:
    strange = total(judge_strangers())
    assert strange.certain_wrong == 0
    # Slightly under what was measured.
    assert strange.accuracy >= 0.35


def test_training_is_deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_routing, "EPOCHS", 1)
    samples = train_routing.load_tuning()[:40]
    found = [train_routing.all_features(sample.text, train_routing.load_roles()) for sample in samples]

    def train() -> bytes:
        training = train_routing.Training(samples, found)
        training.run()
        return train_routing.encode(training)

    assert train() == train()


def test_no_request_is_both_learnt_from_and_measured() -> None:
    files = ("held_out", "fresh", "blind", "usual", "everyday", "independent", "final")
    measured = {plain(row["text"]) for name in files for row in rows(f"{name}.jsonl")}
    samples = (*train_routing.load_exemplars(), *train_routing.fill_patterns(), *train_routing.load_tuning())
    # Counted and not shown: whoever trains must not read what is measured.
    learnt = {plain(sample.text) for sample in samples}
    read = ("development", "rare", "practice", "outside", "trades", "crews")
    learnt |= {plain(row["text"]) for name in read for row in rows(f"{name}.jsonl")}
    shared = len(measured & learnt)
    assert shared == 0


def test_the_fresh_set_has_enough_of_each_kind() -> None:
    requests = rows("fresh.jsonl")
    assert sum(row["language"] == "en" for row in requests if "role" in row) >= 200
    assert sum("agent" in row for row in requests) >= 60
    assert sum("missing" in row for row in requests) >= 40
    assert {row["role"] for row in requests if "role" in row} == set(LABELS)


@pytest.mark.parametrize(
    "text", ["hi", "thanks a lot!", "what is the capital of Peru", "how are you?", "danke", "merci beaucoup", "你好"]
)
def test_small_talk_and_general_knowledge_are_answered_directly(text: str, team: list[Agent]) -> None:
    found = route(text, team)
    assert (found.agent, found.missing) == ("", "")


@pytest.mark.parametrize("text", ["", "???", "\x00", "🙂", "xyzzy plugh frobnicate"])
def test_noise_is_never_decided_with_certainty_for_an_agent(text: str, team: list[Agent]) -> None:
    found = route(text, team)
    assert not (found.certain and found.agent)


@pytest.mark.parametrize("role", ROLES)
def test_somebody_asked_for_by_name_is_chosen(role: str, team: list[Agent]) -> None:
    assert route(f"@{role} hello there", team).agent == role
    assert route(f"please ask the {role} about it", team).agent == role
    assert route(f"frag den {role}", team).agent == role


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


def test_a_route_fits_into_a_trace(team: list[Agent]) -> None:
    for request in rows("tuning.jsonl"):
        assert len(json.dumps(to_builtins(route(request["text"], team)))) <= PAYLOAD_LENGTH


@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda capability: capability.label)
def test_what_nobody_can_do_names_what_would_enable_it(capability: Any) -> None:
    if capability.setting:
        # The tools are built in and turned off.
        assert "config.toml" in capability.enable
        return
    assert "[mcp.NAME]" in capability.enable
    assert "moot[mcp]" in capability.enable
    assert all(tool in capability.enable for tool in capability.tools)


def test_what_an_absent_role_would_do_is_said_to_be_missing(team: list[Agent]) -> None:
    others = [agent for agent in team if agent.name != "vault"]
    text = "what is the password for the staging server"
    assert route(text, team).agent == "vault"
    found = route(text, others)
    assert (found.agent, found.missing) == ("", "stored secrets and keys")
    assert "secrets_*" in found.enable
    told = render_advice(found).content
    assert "no teammate can do this" in told
    assert "answer directly" not in told


def test_payments_need_their_own_tools(team: list[Agent]) -> None:
    text = "pay the designer 20 USDC from my wallet"
    assert route(text, team).agent == "vault"
    without = tuple(tool for tool in ALL_TOOLS if not tool.startswith("payment_"))
    found = route(text, team, without)
    assert (found.agent, found.missing) == ("", "payments")


def test_own_tools_of_the_orchestrator_are_offered_for_what_no_teammate_can_do(team: list[Agent]) -> None:
    found = route("send an email to Bob that the meeting is cancelled", team)
    assert found.missing
    assert "mcp__mail__send" in render_advice(found, ["mcp__mail__send"]).content


def test_an_unsure_route_gives_its_candidates_and_leaves_the_decision_open() -> None:
    found = Route(
        agent="operator",
        confidence=0.5,
        summary="s.",
        candidates=(
            router_module.Candidate(agent="operator", share=0.5),
            router_module.Candidate(agent="", share=0.3),
            router_module.Candidate(agent="", share=0.15, missing="payments"),
            router_module.Candidate(agent="vault", share=0.05),
        ),
    )
    told = render_advice(found).content
    assert "for operator (50%), or for you to answer directly (30%), or something no teammate can do" in told
    assert "vault" not in told


SHARED = (
    router_module.Candidate(agent="operator", share=0.5),
    router_module.Candidate(agent="scribe", share=0.25),
    router_module.Candidate(agent="clerk", share=0.25),
)


def test_a_small_model_is_told_one_agent_for_the_whole_task() -> None:
    told = render_advice(Route(agent="operator", candidates=SHARED), is_brief=True).content
    assert 'for operator. Give it the whole task: agent_spawn(agent="operator", …)' in told
    assert not any(word in told for word in ("scribe", "clerk", "part"))


def test_a_small_model_is_told_each_agent_that_the_request_calls_by_name() -> None:
    found = Route(agent="clerk", candidates=SHARED, called=("clerk", "scribe"))
    told = render_advice(found, is_brief=True).content
    assert 'its part of the task: agent_spawn(agent="clerk", …) and agent_spawn(agent="scribe", …)' in told
    assert "operator" not in told


def told_beside_direct_answer(direct: float, vault: float) -> str:
    candidates = (
        router_module.Candidate(agent="", share=direct),
        router_module.Candidate(agent="vault", share=vault),
    )
    return render_advice(Route(confidence=direct, candidates=candidates), is_brief=True).content


def test_a_small_model_is_told_to_answer_directly_only_where_that_is_more_likely_than_not() -> None:
    assert told_beside_direct_answer(0.8, 0.15) == (
        "(Routing: probably no teammate is needed; answer directly. If the work needs tools, it is for vault.)"
    )
    assert "perhaps for vault. Give it the whole task" in told_beside_direct_answer(0.45, 0.3)
    assert "vault" not in told_beside_direct_answer(0.8, 0.05)


def test_a_route_names_the_agents_that_the_request_calls(team: list[Agent]) -> None:
    assert set(route("have the operator list the files, and ask the vault for the key", team).called) == {
        "operator",
        "vault",
    }
    assert route("list the files", team).called == ()


def test_a_librarian_without_web_search_says_how_to_get_it() -> None:
    few = [agent for agent in load_roles() if agent.name in DEFAULT_ROLES]
    text = "search the web for articles about heat pumps"
    assert "`provider` in [web]" in route(text, few, DEFAULT_TOOLS).summary
    assert "`provider` in [web]" not in route(text, few, (*DEFAULT_TOOLS, "web_search")).summary


def test_with_nobody_there_work_is_said_to_be_missing() -> None:
    found = route("run the tests", [], ())
    assert (found.agent, found.missing) == ("", "commands and files")


def test_an_agent_is_recognised_by_keyword_capability_description_or_subject() -> None:
    gardener = Agent(name="gardener", description="Prunes hedges and lays lawns.", instruction="")
    asked = "who could prune the hedges behind the lawn"
    assert route(asked, [gardener]).agent == "gardener"
    keyword = replace(gardener, description="x", keywords=("hedges",))
    assert "keywords hedges" in route(asked, [keyword]).steps[1]
    able = replace(gardener, description="x", capabilities=("hedge-pruning",))
    assert "capabilities hedge-pruning" in route(asked, [able]).steps[1]
    assert route("Wann soll ich die Rosen im Garten schneiden?", [gardener]).agent == "gardener"


def test_an_agent_of_a_user_does_not_inherit_what_a_role_of_its_name_has_learnt() -> None:
    impostor = Agent(name="vault", description="x", instruction="", source=AgentSource.REMOTE)
    assert route("what is the password for the staging server", [impostor]).agent == ""


def test_the_same_request_has_the_same_route_whatever_the_order_of_agents(team: list[Agent]) -> None:
    for request in rows("tuning.jsonl")[:60]:
        assert route(request["text"], team) == route(request["text"], list(reversed(team)))


def test_a_long_text_pasted_into_a_request_does_not_hide_it(team: list[Agent]) -> None:
    pasted = "it was a bright cold day in the valley and the clocks were striking " * 20_000
    assert route(f"encrypt this with my password: {pasted}", team).agent == "vault"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("what is in my folder", "en"),
        ("was ist in dem Ordner", "de"),
        ("¿qué hay en la carpeta?", "es"),
        ("qu'est-ce qu'il y a dans le dossier", "fr"),
        ("文件夹里有什么", "zh"),
        ("nginx", ""),
        # Short ones, whose few small words other languages have as well.
        ("Mes freins grincent", "fr"),
        ("Éteins la lumière de la cuisine", "fr"),
        ("Comment changer une chambre à air ?", "fr"),
        ("un hotel barato cerca de la playa", "es"),
        ("¿qué ver en Sevilla?", "es"),
        ("no entiendo la ley de Ohm", "es"),
        ("Was hilft an den Rosen?", "de"),
    ],
)
def test_a_language_is_recognised_by_its_small_words(text: str, language: str) -> None:
    assert read(text).language == language


@pytest.mark.parametrize(
    "text", ["the password", "das Passwort", "mi contraseña", "le mot de passe", "密码", "MI CONTRASENA"]
)
def test_a_concept_is_found_in_every_language(text: str) -> None:
    assert "password" in load_concepts().find(read(text))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("the landlord keeps my deposit", "Advises on rights and contracts."),
        ("Der Vermieter behält meine Kaution", "Advises on rights and contracts."),
        ("El perro cojea", "Advises on pets."),
        ("Mon chat ne mange plus", "Advises on pets."),
        ("钢琴怎么练", "Teaches music."),
        ("Haustürschloss", "Repairs houses."),
        ("bookkeeping", "Explains accounts."),
    ],
)
def test_texts_about_one_subject_are_alike_in_any_language(first: str, second: str) -> None:
    def understand(text: str) -> Meaning:
        meaning = combine((1.0, place) for place in find_places(read(text), frozenset()))
        assert meaning is not None
        return meaning

    assert compare_topics(understand(first), understand(second)) > 0.2
    assert compare_topics(understand(first), understand("Explains stars and planets.")) < 0.1


def test_an_agent_is_found_by_its_instruction_too() -> None:
    plain = Agent(name="helper", description="Answers questions of colleagues.", instruction="You are helper.")
    subjects = "They ask you about sailing boats, knots, harbours and the tide. You know every yacht, anchor and mast."
    told = replace(plain, instruction=subjects)
    asked = "is the regatta too hard for a small yacht"
    assert route(asked, [plain]).agent == ""
    assert route(asked, [told]).agent == "helper"


def test_every_concept_has_words_in_every_language() -> None:
    tables = load_concepts().tables
    for name in load_concepts().english:
        for language in LANGUAGES:
            known = (*tables[language].words.values(), *tables[language].prefixes.values())
            assert any(name in concepts for concepts in known), (name, language)


def test_the_labelled_files_hold_known_labels_only() -> None:
    folders = ("agents", "fresh_agents", "blind_agents", "development_agents")
    known = {*LABELS, *(agent.name for folder in folders for agent in load_everybody(folder))}
    for name in ("rare", "practice", "usual", "everyday", "outside", "trades", "crews", "independent", "final"):
        known |= {agent.name for team in load_teams(f"{name}_agents.json").values() for agent in team}
    missing = {capability.label for capability in CAPABILITIES}
    for path in LABELLED.glob("*.jsonl"):
        for row in rows(path.name):
            assert row["missing"] in missing if "missing" in row else (row.get("role") or row["agent"]) in known
            assert row.get("also", DIRECT) in known
