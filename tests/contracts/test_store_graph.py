"""The Graph port: facts in time, conflicts, merges that can be undone, types and predicates, and owners."""

import asyncio
from collections.abc import Awaitable, Callable
from math import inf

import pytest
from msgspec.structs import replace

from moot.domain import ontology
from moot.domain.conversation import ConversationKey
from moot.domain.cron_job import CronJob, JobDelivery
from moot.domain.errors import BadRequest, Conflict, NotFound
from moot.domain.graph import Fact, FactFilter, NewEntity, NewFact, Period, Statement, Traversal
from moot.domain.knowledge import Knowledge, KnowledgeCategory
from moot.domain.learning import Learning
from moot.domain.mail import UNVERIFIED_TAINT
from moot.domain.memory import Memory
from moot.domain.ontology import Term, TermKind, TermStatus
from moot.domain.ports.graph import Graph
from moot.domain.ports.storage import Storage
from moot.domain.run import Run, RunKind, RunStatus, Spawn
from moot.domain.schedule import Schedule, ScheduleKind
from moot.domain.task import Task
from moot.domain.token import Token
from moot.domain.workflow import WorkflowRun
from moot.store import graph_rules, graph_terms
from tests.contracts.store_kit import Disk, request, with_disk, with_storage

ME = "user"
AT_1 = Statement(now=1.0, run_id="run-1")
AT_2 = Statement(now=2.0, run_id="run-2")
AT_5 = Statement(now=5.0)


def fact(subject: str, predicate: str, target: str, **more: object) -> NewFact:
    return NewFact(subject=subject, predicate=predicate, object=target, **more)  # type: ignore[arg-type]


def triples(facts: "list[Fact] | tuple[Fact, ...]") -> list[tuple[str, str, str]]:
    return [(each.subject, each.predicate, each.object) for each in facts]


async def objects_at(graph: Graph, subject: str, predicate: str, at: float) -> list[str]:
    wanted = FactFilter(subject=subject, predicate=predicate, during=Period(at, at))
    return [each.object for each in await graph.list_facts(ME, wanted)]


@with_storage
async def test_a_fact_is_true_from_when_it_is_stated_until_it_is_retracted(storage: Storage) -> None:
    graph = storage.graph
    made = await graph.assert_fact(ME, fact("ada", "works_at", "acme", subject_type="person", confidence=0.5), AT_1)
    assert (made.is_new, made.conflict, made.proposed) == (True, None, ())
    assert (made.fact.subject_type, made.fact.run_id, made.fact.valid) == ("person", "run-1", Period(1.0, inf))
    again = await graph.assert_fact(ME, fact("ada", "works_at", "acme", confidence=0.9), AT_2)
    assert (again.is_new, again.fact.number, again.fact.confidence) == (False, made.fact.number, 0.9)
    await graph.assert_fact(ME, fact("ada", "works_at", "mill", valid=Period(-10.0, -5.0)), AT_2)
    assert [await objects_at(graph, "ada", "works_at", at) for at in (-11.0, -7.0, -5.0, 1.0)] == [
        [],
        ["mill"],
        [],
        ["acme"],
    ]
    (ended,) = await graph.retract(ME, ("ada", "works_at", "acme"), "she left", AT_5)
    assert (ended.retracted_at, ended.reason, ended.is_wrong) == (5.0, "she left", False)
    assert await objects_at(graph, "ada", "works_at", 4.0) == ["acme"]
    assert await objects_at(graph, "ada", "works_at", 5.0) == []
    # Nothing is deleted.
    assert len(await graph.list_facts(ME, FactFilter(subject="ada"))) == 2
    with pytest.raises(NotFound, match="there is no fact: ada works_at acme"):
        await graph.retract(ME, ("ada", "works_at", "acme"), "again", AT_5)
    await graph.retract(ME, ("ada", "works_at", "mill"), "never did", AT_5, is_wrong=True)
    assert await objects_at(graph, "ada", "works_at", -7.0) == []


@with_storage
async def test_exclusive_facts_conflict_while_both_are_true_and_are_resolved_with_a_reason(storage: Storage) -> None:
    graph = storage.graph
    await graph.assert_fact(ME, fact("ada", "born_in", "london"), AT_1)
    # One that ended before is no contradiction, nor is another object of a predicate that allows several.
    await graph.assert_fact(ME, fact("ada", "born_in", "rome", valid=Period(-9.0, 0.5)), AT_1)
    for friend in ("bob", "cy"):
        assert (await graph.assert_fact(ME, fact("ada", "knows", friend), AT_1)).conflict is None
    made = await graph.assert_fact(ME, fact("ada", "born_in", "paris"), AT_2)
    assert made.conflict is not None
    assert [each.object for each in made.conflict.facts] == ["london", "paris"]
    (conflict,) = await graph.list_conflicts(ME)
    assert conflict == made.conflict
    with pytest.raises(BadRequest, match="Choose one of: london, paris|'oslo' is not part"):
        await graph.resolve(ME, conflict.id, "oslo", "why not", AT_5)
    with pytest.raises(NotFound, match="no open conflict"):
        await graph.resolve(ME, "conflict-999", "paris", "why not", AT_5)
    (loser,) = await graph.resolve(ME, conflict.id, "london", "the register says so", AT_5)
    assert (loser.object, loser.is_wrong, loser.reason) == ("paris", True, "the register says so")
    assert await graph.list_conflicts(ME) == []
    # What has lost was never true.
    assert await objects_at(graph, "ada", "born_in", 3.0) == ["london"]


def test_of_facts_asserted_at_once_the_later_one_sees_the_conflict(tmp_path: object, storage_kind: str) -> None:
    async def scenario(disk: Disk) -> None:
        first, second = await disk.open(), await disk.open()
        made = await asyncio.gather(
            *(
                storage.graph.assert_fact(ME, fact("ada", "born_in", place), replace(AT_1, run_id=f"run-{number}"))
                for number, (storage, place) in enumerate([(first, "london"), (second, "paris"), (first, "rome")])
            )
        )
        # Each is stored, and all but the first to be committed are told.
        assert sorted(each.conflict is None for each in made) == [False, False, True]
        (conflict,) = await second.graph.list_conflicts(ME)
        assert {each.object for each in conflict.facts} == {"london", "paris", "rome"}
        await first.store.close()
        await second.store.close()

    with_disk(scenario)(tmp_path, storage_kind)  # type: ignore[arg-type]


@with_storage
async def test_a_merge_joins_names_and_facts_and_can_be_undone(storage: Storage) -> None:
    graph = storage.graph
    await graph.assert_fact(ME, fact("ada", "born_in", "london", subject_type="person"), AT_1)
    await graph.assert_fact(ME, fact("a. lovelace", "born_in", "westminster"), AT_1)
    await graph.assert_fact(ME, fact("bob", "knows", "a. lovelace"), AT_1)
    await graph.import_entities(ME, [NewEntity(id="a. lovelace", properties={"field": "maths"})], (), AT_1)
    before = await graph.list_facts(ME, FactFilter())
    merged = await graph.merge(ME, "ada", "a. lovelace", "one person", AT_2)
    assert (merged.canonical, merged.facts, merged.aliases) == ("ada", 2, ("a. lovelace",))
    assert [each.predicate for each in merged.conflicts] == ["born_in"]
    entity = await graph.get_entity(ME, "a. lovelace")
    assert (entity.id, entity.type, entity.aliases) == ("ada", "person", ("a. lovelace",))
    assert entity.properties == {"field": "maths"}
    assert ("bob", "knows", "ada") in triples(await graph.list_facts(ME, FactFilter()))
    assert len((await graph.walk(ME, Traversal(start="a. lovelace", depth=1))).facts) == 3
    # What is said under the alias belongs to the alias.
    await graph.assert_fact(ME, fact("a. lovelace", "knows", "charles"), AT_2)
    assert ("ada", "knows", "charles") in triples(await graph.list_facts(ME, FactFilter(subject="ada")))
    with pytest.raises(BadRequest, match="the same entity already"):
        await graph.merge(ME, "ada", "a. lovelace", "again", AT_2)
    undone = await graph.unmerge(ME, "a. lovelace", now=AT_2.now)
    assert (undone.canonical, undone.duplicate, undone.facts) == ("ada", "a. lovelace", 3)
    assert (await graph.list_facts(ME, FactFilter()))[:3] == before
    assert await graph.list_conflicts(ME) == []
    assert (await graph.get_entity(ME, "ada")).properties == {}
    with pytest.raises(BadRequest, match="is not merged into another"):
        await graph.unmerge(ME, "a. lovelace", now=AT_2.now)


@with_storage
async def test_merges_of_merges_are_undone_in_any_order_and_types_must_agree(storage: Storage) -> None:
    graph = storage.graph
    for name in ("a", "b", "c", "d"):
        await graph.assert_fact(ME, fact(name, "knows", "x"), AT_1)
    await graph.merge(ME, "b", "a", "same", AT_1)
    await graph.merge(ME, "c", "b", "same", AT_1)
    await graph.merge(ME, "a", "d", "same", AT_1)
    assert (await graph.get_entity(ME, "d")).aliases == ("a", "b", "d")
    with pytest.raises(Conflict, match="is merged into 'c'"):
        await graph.merge(ME, "x", "b", "no", AT_1)
    await graph.unmerge(ME, "b", now=AT_2.now)
    assert (await graph.get_entity(ME, "a")).id == "b"
    assert (await graph.get_entity(ME, "c")).aliases == ("d",)
    await graph.unmerge(ME, "a", now=AT_2.now)
    await graph.unmerge(ME, "d", now=AT_2.now)
    assert [each.aliases for each in await graph.list_entities(ME, limit=9)] == [()] * 5
    await graph.assert_fact(ME, fact("a", "knows", "b", subject_type="person", object_type="tool"), AT_1)
    with pytest.raises(Conflict, match="'a' is a person and 'b' a tool"):
        await graph.merge(ME, "a", "b", "no", AT_1)
    with pytest.raises(Conflict, match="'a' is a person, not a tool"):
        await graph.assert_fact(ME, fact("a", "knows", "b", subject_type="tool"), AT_1)


@with_storage
async def test_types_and_predicates_have_a_life_cycle_with_reasons(storage: Storage) -> None:
    graph = storage.graph
    # An unknown predicate is an error, and nothing of the fact is stored.
    with pytest.raises(NotFound, match="there is no predicate 'work_at'") as raised:
        await graph.assert_fact(ME, fact("oak", "work_at", "lawn", subject_type="tree"), AT_1)
    assert "Did you mean 'works_at'?" in raised.value.fix
    assert await graph.list_entities(ME, limit=9) == []
    made = await graph.assert_fact(ME, fact("oak", "shades", "lawn", subject_type="tree"), AT_1, proposes=True)
    assert made.proposed == ("predicate shades", "type tree")
    # A known name misspelt is not proposed.
    with pytest.raises(NotFound, match="there is no predicate 'shadez'") as raised:
        await graph.assert_fact(ME, fact("oak", "shadez", "lawn"), AT_1, proposes=True)
    assert "Did you mean 'shades'?" in raised.value.fix
    with pytest.raises(NotFound, match="Works-At") as raised:
        await graph.assert_fact(ME, fact("oak", "Works-At", "lawn"), AT_1, proposes=True)
    assert "'works_at'" in raised.value.fix
    with pytest.raises(BadRequest, match="cannot be the name of a predicate"):
        await graph.assert_fact(ME, fact("oak", "has leaves", "lawn"), AT_1, proposes=True)
    with pytest.raises(Conflict, match="is proposed and cannot become active"):
        await graph.promote(ME, TermKind.TYPE, "tree", TermStatus.ACTIVE, "good", AT_2)
    for target in (TermStatus.SHADOW, TermStatus.ACTIVE, TermStatus.QUARANTINED):
        await graph.promote(ME, TermKind.PREDICATE, "shades", target, f"to {target}", AT_2)
    history = await graph.list_changes(ME, TermKind.PREDICATE, "shades")
    assert [(each.status.value, each.reason) for each in history][1:] == [
        ("shadow", "to shadow"),
        ("active", "to active"),
        ("quarantined", "to quarantined"),
    ]
    # Facts of a quarantined predicate are hidden, and none is added.
    assert await graph.list_facts(ME, FactFilter()) == []
    assert (await graph.walk(ME, Traversal(start="oak"))).facts == ()
    assert len(await graph.list_facts(ME, FactFilter(includes_hidden=True))) == 1
    with pytest.raises(Conflict, match="'shades' is quarantined: to quarantined"):
        await graph.assert_fact(ME, fact("oak", "shades", "bench"), AT_2)
    health = await graph.measure(ME)
    assert (health.predicates["quarantined"], health.types["proposed"], health.facts) == (1, 1, 1)
    # A predicate becomes exclusive later, and what contradicts by then is found.
    for place in ("lawn", "pond"):
        await graph.assert_fact(ME, fact("oak", "located_in", place), AT_2)
    assert await graph.list_conflicts(ME) == []
    await graph.promote(ME, TermKind.PREDICATE, "located_in", None, "one place", AT_2, is_exclusive=True)
    assert [each.predicate for each in await graph.list_conflicts(ME)] == ["located_in"]
    await graph.add_term(ME, Term(kind=TermKind.PREDICATE, name="shadez", status=TermStatus.ACTIVE))
    assert (await graph.assert_fact(ME, fact("oak", "shadez", "lawn"), AT_2)).is_new
    with pytest.raises(NotFound, match="Did you mean 'tree'|there is no type 'tre'"):
        await graph.measure_type(ME, "tre")
    usage = await graph.measure_type(ME, "tree")
    assert (usage.entities, usage.facts, usage.predicates) == (1, 4, {"located_in": 2, "shades": 1, "shadez": 1})


@with_storage
async def test_a_walk_is_bounded_in_depth_and_size_and_survives_circles(storage: Storage) -> None:
    graph = storage.graph
    for number in range(6):
        await graph.assert_fact(ME, fact(f"n{number}", "related_to", f"n{(number + 1) % 6}"), AT_1)
    await graph.assert_fact(ME, fact("n0", "knows", "bob", subject_type="thing"), AT_1)
    near = await graph.walk(ME, Traversal(start="n0", depth=1))
    assert sorted(triples(near.facts)) == [
        ("n0", "knows", "bob"),
        ("n0", "related_to", "n1"),
        ("n5", "related_to", "n0"),
    ]
    assert len((await graph.walk(ME, Traversal(start="n0", depth=2))).facts) == 5
    assert len((await graph.walk(ME, Traversal(start="n0", depth=6))).facts) == 7
    only = await graph.walk(ME, Traversal(start="n0", depth=6, predicates=frozenset({"knows"})))
    assert triples(only.facts) == [("n0", "knows", "bob")]
    # Facts with other predicates do not count towards the limit.
    few = await graph.walk(ME, Traversal(start="n0", depth=1, predicates=frozenset({"knows"}), limit=1))
    assert (triples(few.facts), few.is_cut) == ([("n0", "knows", "bob")], False)
    typed = await graph.walk(ME, Traversal(start="n3", depth=6, subject_type="thing"))
    assert {each.subject for each in typed.facts} == {"n0"}
    cut = await graph.walk(ME, Traversal(start="n0", depth=6, limit=4))
    assert (len(cut.facts), cut.is_cut) == (4, True)
    with pytest.raises(NotFound, match="no entity 'n9'"):
        await graph.walk(ME, Traversal(start="n9"))
    with pytest.raises(NotFound, match="no predicate 'knowz'"):
        await graph.walk(ME, Traversal(start="n0", predicates=frozenset({"knowz"})))


@with_storage
async def test_an_import_refuses_rows_with_a_reason_and_repeating_it_adds_nothing(storage: Storage) -> None:
    graph = storage.graph
    rows = [
        NewEntity(id="ada", type="person", properties={"field": "maths"}, place="line 2"),
        NewEntity(id="bob", type="persom", place="line 3"),
        NewEntity(
            id="cy", type="person", facts=(fact("cy", "knows", "ada"), fact("cy", "likes", "tea")), place="line 4"
        ),
        NewEntity(id="ada", type="tool", place="line 5"),
    ]
    refused = await graph.import_entities(ME, rows, (), AT_1)
    assert "there is no predicate 'likes'" in {each.place: each.reason for each in refused.refusals}["line 4"]
    likes = Term(kind=TermKind.PREDICATE, name="likes", status=TermStatus.ACTIVE)
    misspelt = Term(kind=TermKind.PREDICATE, name="liked", status=TermStatus.ACTIVE)
    done = await graph.import_entities(ME, rows, (likes, misspelt), AT_1)
    assert (done.entities, done.facts, done.proposed) == (2, 2, ("predicate likes",))
    assert done.refusals[0].place == "predicate liked"
    # What a run declares is a proposal.
    assert (await graph.list_changes(ME, TermKind.PREDICATE, "likes"))[0].status is TermStatus.PROPOSED
    assert [(each.place, each.reason) for each in done.refusals[1:]] == [
        (
            "line 3",
            "there is no type 'persom'. Did you mean 'person'?"
            " A person can add it as it is: `moot graph define type persom`.",
        ),
        ("line 5", "'ada' is a person, not a tool. Give it that type, or another id."),
    ]
    again = await graph.import_entities(ME, rows, (), AT_2)
    assert (again.entities, again.facts, len(again.refusals)) == (2, 0, 2)
    found = await graph.list_entities(ME, type_name="person", filters=[("field", "contains", "MATH")], limit=9)
    assert [each.id for each in found] == ["ada"]
    found = await graph.list_entities(ME, type_name="person", filters=[("field", "neq", "maths")], limit=9)
    assert [each.id for each in found] == ["cy"]
    assert await graph.list_entities(ME, type_name="person", filters=[("field", "eq", "art")], limit=9) == []


@with_storage
async def test_facts_that_exclude_each_other_at_different_times_are_different_conflicts(storage: Storage) -> None:
    graph = storage.graph
    spans = {"a": (1.0, 10.0), "b": (5.0, 20.0), "c": (15.0, 30.0), "d": (40.0, 50.0), "e": (45.0, 60.0)}
    for name, span in spans.items():
        await graph.assert_fact(ME, fact("lamp", "has_status", name, valid=Period(*span)), AT_1)
    first, second = await graph.list_conflicts(ME)
    assert ([each.object for each in first.facts], [each.object for each in second.facts]) == (
        ["a", "b", "c"],
        ["d", "e"],
    )
    # a and c do not exclude each other: only what excludes the winner was wrong.
    assert [each.object for each in await graph.resolve(ME, first.id, "a", "seen", AT_5)] == ["b"]
    assert await graph.list_conflicts(ME) == [second]
    assert await objects_at(graph, "lamp", "has_status", 16.0) == ["c"]


@with_storage
async def test_an_import_adds_aliases_and_merges_nothing_that_is_known(storage: Storage) -> None:
    graph = storage.graph
    await graph.assert_fact(ME, fact("bob", "knows", "cy"), AT_1)
    rows = [
        NewEntity(id="ada", type="person", aliases=("lady lovelace", "countess"), place="line 1"),
        NewEntity(id="eve", type="person", aliases=("bob",), place="line 2"),
    ]
    done = await graph.import_entities(ME, rows, (), AT_1)
    assert [(each.place, each.reason) for each in done.refusals] == [
        ("line 2", "the alias 'bob' is an entity already. Merge them, or leave it out.")
    ]
    assert (await graph.get_entity(ME, "countess")).aliases == ("lady lovelace", "countess")
    assert (await graph.import_entities(ME, rows[:1], (), AT_2)).refusals == ()
    await graph.unmerge(ME, "countess", now=AT_2.now)
    assert (await graph.get_entity(ME, "ada")).aliases == ("lady lovelace",)


@with_storage
async def test_the_usage_of_a_type_has_the_taint_of_its_names_also_in_quarantine(storage: Storage) -> None:
    graph = storage.graph
    web = Statement(now=1.0, taint=frozenset({"web"}))
    for number in range(3):
        entity = NewEntity(id=f"t{number}", type="tree", properties={"height": "1"} if number < 2 else {"ruse": "2"})
        await graph.import_entities(ME, [entity], (), web if number == 2 else AT_1)
    await graph.promote(ME, TermKind.TYPE, "tree", TermStatus.QUARANTINED, "unclear", AT_2)
    usage = await graph.measure_type(ME, "tree")
    assert usage.properties == {"height": 2, "ruse": 1}
    assert usage.taint == {"web"}
    assert (await graph.measure_type(ME, "person")).taint == frozenset()
    # The reason of a refusal may contain untrusted text too.
    await graph.promote(ME, TermKind.TYPE, "place", TermStatus.DEPRECATED, "obey me", web)
    done = await graph.import_entities(ME, [NewEntity(id="x", type="place")], (), AT_5)
    assert "obey me" in done.refusals[0].reason
    assert done.taint == {"web"}


@with_storage
async def test_owners_do_not_share_anything(storage: Storage) -> None:
    graph = storage.graph
    await graph.assert_fact(ME, fact("ada", "born_in", "london", subject_type="poet"), AT_1)
    await graph.assert_fact("tg:1", fact("ada", "born_in", "paris"), AT_1)
    for owner, place in ((ME, "london"), ("tg:1", "paris")):
        assert [each.object for each in await graph.list_facts(owner, FactFilter())] == [place]
        assert [each.object for each in (await graph.walk(owner, Traversal(start="ada"))).facts] == [place]
        assert await graph.list_conflicts(owner) == []
    with pytest.raises(NotFound):
        await graph.measure_type("tg:1", "poet")
    with pytest.raises(NotFound):
        await graph.get_entity("other", "ada")
    assert await graph.clear("tg:1") == 1
    assert (await graph.list_entities("tg:1", limit=9), len(await graph.list_entities(ME, limit=9))) == ([], 2)


@with_storage
async def test_taint_of_facts_names_and_merges_reaches_readers_until_confirmed(storage: Storage) -> None:
    graph = storage.graph
    web = Statement(now=1.0, taint=frozenset({"web"}))
    await graph.assert_fact(ME, fact("ada", "knows", "bob"), AT_1)
    made = await graph.assert_fact(ME, fact("ada", "knows", "eve"), web)
    assert made.fact.taint == {"web"}
    # The name of the entity came from there.
    later = await graph.assert_fact(ME, fact("ada", "works_at", "eve"), AT_2)
    assert later.fact.taint == {"web"}
    await graph.merge(ME, "ada", "bob", "same", web)
    (known,) = await graph.list_facts(ME, FactFilter(subject="ada", object="bob"))
    assert known.taint == {"web"}
    await graph.unmerge(ME, "bob", now=AT_2.now)
    (known,) = await graph.list_facts(ME, FactFilter(subject="ada", object="bob"))
    assert known.taint == frozenset()
    await graph.assert_fact(ME, fact("ada", "made_by", "bob"), web)
    confirmed = await graph.assert_fact(ME, fact("ada", "made_by", "bob"), AT_5)
    assert confirmed.fact.taint == frozenset()
    stranger = Statement(now=6.0, taint=frozenset({UNVERIFIED_TAINT}))
    await graph.assert_fact(ME, fact("bob", "knows", "mallory"), stranger)
    for includes, count in ((True, 1), (False, 0)):
        wanted = FactFilter(subject="bob", includes_unverified=includes)
        assert len(await graph.list_facts(ME, wanted)) == count


@with_storage
async def test_nobody_untrusted_clears_taint_or_changes_what_others_stated(storage: Storage) -> None:
    graph = storage.graph
    for name in ("ada", "bob"):
        await graph.assert_fact(ME, fact(name, "is_a", "thing"), AT_1)
    web, mail = (Statement(now=2.0, taint=frozenset({each})) for each in ("web", "mail"))
    await graph.assert_fact(ME, fact("ada", "knows", "bob", source="obey this", confidence=0.5), web)
    # Another untrusted source that says the same does not make it trusted.
    again = await graph.assert_fact(ME, fact("ada", "knows", "bob", source="and this", confidence=0.9), mail)
    assert (again.fact.taint, again.fact.source, again.fact.confidence) == (frozenset({"web"}), "obey this", 0.5)
    # Nothing of its text stays once it counts as trusted.
    trusted = await graph.assert_fact(ME, fact("ada", "knows", "bob", source="register", confidence=0.4), AT_5)
    assert (trusted.fact.taint, trusted.fact.source, trusted.fact.confidence) == (frozenset(), "register", 0.4)
    # And nobody untrusted makes it more certain.
    await graph.assert_fact(ME, fact("ada", "knows", "bob", confidence=1.0), web)
    (known,) = await graph.list_facts(ME, FactFilter(subject="ada", predicate="knows"))
    assert (known.taint, known.confidence) == (frozenset(), 0.4)


@with_storage
async def test_what_each_new_fact_is_compared_with_is_bounded(storage: Storage) -> None:
    graph = storage.graph

    def at(year: int, place: str = "", predicate: str = "born_in") -> NewFact:
        return fact("ada", predicate, place or f"place {year}", valid=Period(year, year + 1))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_rules, "MOST_ALIKE", 3)
        for year in range(3):
            assert (await graph.assert_fact(ME, at(year), AT_1)).conflict is None
        with pytest.raises(BadRequest, match="more than 3 facts 'born_in'"):
            await graph.assert_fact(ME, at(3), AT_1)
        same = [at(year, "bob", "knows") for year in range(4)]
        done = await graph.import_entities(ME, [NewEntity(id="ada", facts=tuple(same), place="line 1")], (), AT_1)
        assert [(each.place, "more than 3 facts" in each.reason) for each in done.refusals] == [("line 1", True)]
        # Other facts of one entity are not compared with each other, and so there may be more.
        others = tuple(fact("ada", "knows", f"person {number}") for number in range(9))
        assert (await graph.import_entities(ME, [NewEntity(id="ada", facts=others)], (), AT_1)).facts == 9


@with_storage
async def test_types_and_predicates_are_bounded_however_they_are_added(storage: Storage) -> None:
    graph = storage.graph
    count = sum(term.kind is TermKind.TYPE for term in await graph.list_terms(ME))
    oak, yew = (
        Term(kind=TermKind.TYPE, name=name, status=TermStatus.PROPOSED, reason="x") for name in ("oak", "yew_tree")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ontology, "MOST_TERMS", count + 1)
        patch.setattr(graph_terms, "MOST_CHANGES", 3)
        done = await graph.import_entities(ME, [], [oak, yew], AT_1)
        assert [each.place for each in done.refusals] == ["type yew_tree"]
        with pytest.raises(BadRequest, match="types already"):
            await graph.add_term(ME, yew)
        for target in (TermStatus.SHADOW, TermStatus.ACTIVE):
            await graph.promote(ME, TermKind.TYPE, "oak", target, "x", AT_2)
        with pytest.raises(BadRequest, match="was changed 3 times"):
            await graph.promote(ME, TermKind.TYPE, "oak", TermStatus.DEPRECATED, "x", AT_5)


@with_storage
async def test_a_status_replaces_the_one_before(storage: Storage) -> None:
    graph = storage.graph
    # Times are stored in microseconds, and a clock is more exact.
    for now, status in ((1.0, "open"), (2.0, "closed"), (3.0000004, "locked"), (4.0000006, "gone")):
        await graph.replace_fact(ME, fact("door", "has_status", status), "changed", Statement(now=now))
    seen = [await objects_at(graph, "door", "has_status", at) for at in (1.5, 2.5, 3.5, 4.5)]
    assert seen == [["open"], ["closed"], ["locked"], ["gone"]]
    assert await graph.list_conflicts(ME) == []


@with_storage
async def test_a_new_token_does_not_get_what_its_name_has_left(storage: Storage) -> None:
    left: dict[str, Callable[[str], Awaitable[object]]] = {
        "fact": lambda owner: storage.graph.assert_fact(owner, fact("ada", "knows", "bob"), AT_1),
        "type": lambda owner: storage.graph.add_term(
            owner, Term(kind=TermKind.TYPE, name="oak", status=TermStatus.ACTIVE, reason="x")
        ),
        "job": lambda owner: storage.cron.save(
            CronJob(
                id=f"cron-{owner}",
                owner=ConversationKey("ada", owner),
                name="beans",
                agent="ada",
                prompt="count",
                schedule=Schedule(kind=ScheduleKind.EVERY, text="1h", zone="UTC"),
                delivery=JobDelivery.NOWHERE,
            )
        ),
        "flow": lambda owner: storage.workflows.create(
            WorkflowRun(id=f"wf-{owner}", name="demo", source="x", owner=owner, created_at=1.0), []
        ),
        "entry": lambda owner: storage.knowledge.save(
            Knowledge(owner=owner, key="tea", category=KnowledgeCategory.FACT, content="Tea is green.")
        ),
        "learning": lambda owner: storage.learnings.save(
            Learning(id="", owner=owner, trigger="tool:exec", pattern="no such", fix="Look first.")
        ),
        # Of a teammate, which has no conversation with the person.
        "memory": lambda owner: storage.memories.save(
            ConversationKey("operator", owner), Memory(key="tea", content="green"), max_entries=9, now=1.0
        ),
        "task": lambda owner: storage.tasks.create(
            ConversationKey("ada", owner), Task(id=f"task-{owner}", title="Row", created_at=1.0, updated_at=1.0)
        ),
        # Of a background run, whose conversation names the person.
        "background": lambda owner: storage.store.spawn(
            Run(
                request=request("arun-1", key=ConversationKey("ada", f"bg:arun-1:{owner}")),
                status=RunStatus.QUEUED,
                created_at=1.0,
                spawn=Spawn(kind=RunKind.BACKGROUND),
            )
        ),
    }
    for number, (name, leave) in enumerate(left.items()):
        await leave(name)
        with pytest.raises(Conflict, match="which a token of this name would get"):
            await storage.store.add_token(Token(name=name, senders=(), created_at=1.0), f"digest {number}")


@with_storage
async def test_undoing_a_merge_restores_what_only_the_merge_contradicted(storage: Storage) -> None:
    graph = storage.graph
    for triple in (("ada", "born_in", "london"), ("lov", "born_in", "rome"), ("lov", "born_in", "oslo")):
        await graph.assert_fact(ME, fact(*triple), AT_1)
    await graph.merge(ME, "ada", "lov", "same", AT_1)
    (conflict,) = await graph.list_conflicts(ME)
    await graph.resolve(ME, conflict.id, "rome", "register", AT_2)
    undone = await graph.unmerge(ME, "lov", now=AT_2.now)
    assert triples(undone.restored) == [("ada", "born_in", "london")]
    (known,) = await graph.list_facts(ME, FactFilter(subject="ada"))
    assert (known.is_wrong, known.retracted_at, known.reason) == (False, 0.0, "")
    # What contradicted another fact of the same entity stays wrong.
    assert [each.is_wrong for each in await graph.list_facts(ME, FactFilter(subject="lov"))] == [False, True]


@with_storage
async def test_undoing_a_merge_restores_what_only_a_fact_about_the_other_entity_replaced(storage: Storage) -> None:
    graph = storage.graph
    await graph.assert_fact(ME, fact("ada", "has_status", "active"), AT_1)
    await graph.assert_fact(ME, fact("lov", "has_status", "idle"), AT_1)
    await graph.merge(ME, "ada", "lov", "same", AT_1)
    for status in ("busy", "away"):
        await graph.replace_fact(ME, fact("ada", "has_status", status), "new", AT_2)
    everything = await graph.list_facts(ME, FactFilter(subject="ada"))
    assert [each.object for each in everything if not each.is_retracted] == ["away"]
    undone = await graph.unmerge(ME, "lov", now=AT_5.now)
    assert triples(undone.restored) == [("lov", "has_status", "idle")]
    own, others = [await graph.list_facts(ME, FactFilter(subject=name)) for name in ("ada", "lov")]
    assert [(each.object, each.is_retracted) for each in own] == [("active", True), ("busy", True), ("away", False)]
    assert [(each.object, each.is_retracted) for each in others] == [("idle", False)]


@with_storage
async def test_undoing_a_merge_restores_no_status_that_a_later_one_of_the_same_entity_has_replaced(
    storage: Storage,
) -> None:
    graph = storage.graph
    for subject, status in (("ada", "active"), ("lov", "idle")):
        await graph.assert_fact(ME, fact(subject, "has_status", status), AT_1)
    await graph.merge(ME, "ada", "lov", "same", AT_1)
    # Each of the two ends the status that the other one has; the statuses of their own are ended by that.
    web = Statement(now=3.0, taint=frozenset({"web"}))
    await graph.replace_fact(ME, fact("lov", "has_status", "busy"), "first", AT_2)
    await graph.replace_fact(ME, fact("ada", "has_status", "away"), "second", web)
    await graph.replace_fact(ME, fact("ada", "has_status", "back"), "third", AT_5)
    await graph.unmerge(ME, "lov", now=AT_5.now)
    own, others = [await graph.list_facts(ME, FactFilter(subject=name)) for name in ("ada", "lov")]
    assert [(each.object, each.retracted_at, each.reason) for each in own] == [
        ("active", 3.0, "second"),
        ("away", 5.0, "third"),
        ("back", 0.0, ""),
    ]
    # The reason may be untrusted text.
    assert "web" in own[0].taint
    assert [(each.object, each.is_retracted) for each in others] == [("idle", True), ("busy", False)]
    assert await graph.list_conflicts(ME) == []


@with_storage
async def test_undoing_a_merge_ends_a_fact_as_it_was_ended_before_it_lost_the_conflict(storage: Storage) -> None:
    graph = storage.graph
    since_0, since_1 = Period(0.0), Period(1.0)
    await graph.assert_fact(ME, fact("ada", "born_in", "london", valid=since_0), AT_1)
    (ended,) = await graph.retract(ME, ("ada", "born_in", "london"), "misread", AT_2)
    await graph.assert_fact(ME, fact("lov", "born_in", "rome", valid=since_1), AT_2)
    (conflict,) = (await graph.merge(ME, "ada", "lov", "same", AT_2)).conflicts
    await graph.resolve(ME, conflict.id, "rome", "register", AT_5)
    undone = await graph.unmerge(ME, "lov", now=AT_5.now)
    assert triples(undone.restored) == [("ada", "born_in", "london")]
    (restored,) = await graph.list_facts(ME, FactFilter(subject="ada"))
    assert (restored.retracted_at, restored.reason) == (ended.retracted_at, ended.reason) == (2.0, "misread")
    assert not restored.is_wrong
    assert restored.lost_to == 0


@with_storage
async def test_a_fact_replaced_by_one_entity_and_found_wrong_by_another_is_whole_without_both(
    storage: Storage,
) -> None:
    graph = storage.graph
    # Whichever merge is undone first.
    for owner, order in ((ME, ("lov", "countess")), ("another", ("countess", "lov"))):
        await graph.assert_fact(owner, fact("ada", "has_status", "active"), AT_1)
        await graph.assert_fact(owner, fact("lov", "knows", "bob"), AT_1)
        await graph.merge(owner, "ada", "lov", "same", AT_1)
        await graph.replace_fact(owner, fact("lov", "has_status", "busy"), "new", AT_2)
        await graph.assert_fact(owner, fact("countess", "has_status", "ill", valid=Period(1.5, 2.0)), AT_2)
        (conflict,) = (await graph.merge(owner, "ada", "countess", "same", AT_2)).conflicts
        await graph.resolve(owner, conflict.id, "ill", "register", AT_5)
        undone = {alias: await graph.unmerge(owner, alias, now=AT_5.now) for alias in order}
        assert triples(undone["countess"].restored) == [("ada", "has_status", "active")]
        (active,) = await graph.list_facts(owner, FactFilter(subject="ada"))
        assert (active.object, active.is_retracted, active.reason, active.lost_to) == ("active", False, "", 0)


@with_storage
async def test_a_fact_stated_under_an_alias_stays_with_it_also_if_the_entity_had_it(storage: Storage) -> None:
    graph = storage.graph
    await graph.assert_fact(ME, fact("ada", "works_at", "acme"), AT_1)
    await graph.assert_fact(ME, fact("lov", "knows", "bob"), AT_1)
    await graph.merge(ME, "ada", "lov", "same", AT_1)
    assert not (await graph.assert_fact(ME, fact("lov", "works_at", "acme"), AT_2)).is_new
    assert not (await graph.assert_fact(ME, fact("lov", "works_at", "acme"), AT_5)).is_new
    await graph.unmerge(ME, "lov", now=AT_2.now)
    expected = [("lov", "knows", "bob"), ("lov", "works_at", "acme")]
    assert triples(await graph.list_facts(ME, FactFilter(subject="lov"))) == expected
    assert triples(await graph.list_facts(ME, FactFilter(subject="ada"))) == [("ada", "works_at", "acme")]


@with_storage
async def test_facts_and_conflicts_are_numbered_for_each_owner(storage: Storage) -> None:
    graph = storage.graph
    stated = (("ada", "born_in", "london"), ("ada", "knows", "bob"), ("ada", "born_in", "rome"))
    for owner in (ME, "another", ME):
        for triple in stated:
            await graph.assert_fact(owner, fact(*triple), AT_1)
    for owner in (ME, "another"):
        assert [each.number for each in await graph.list_facts(owner, FactFilter())] == [1, 2, 3]
        assert [each.number for each in await graph.list_facts(owner, FactFilter(after=1))] == [2, 3]
        (conflict,) = await graph.list_conflicts(owner)
        assert conflict.id == "conflict-1"
        (lost,) = await graph.resolve(owner, "conflict-1", "rome", "register", AT_2)
        assert (lost.number, lost.lost_to) == (1, 3)
    await graph.clear(ME)
    await graph.assert_fact(ME, fact(*stated[0]), AT_1)
    assert [each.number for each in await graph.list_facts(ME, FactFilter())] == [1]
    theirs = await graph.list_facts("another", FactFilter(subject="ada"))
    assert [each.is_wrong for each in theirs] == [True, False, False]
