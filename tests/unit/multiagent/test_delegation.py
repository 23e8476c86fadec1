"""Who may be started: not too deep, not in a circle, not too often, and not who keeps failing."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from moot.domain.ask import Question
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, Conflict
from moot.domain.ports.tool import RunContext
from moot.domain.run import Outcome, Run
from moot.multiagent.teammates.delegation import Delegations, Tally, check_chain, check_not_done
from tests.unit.shelves import teammate_run

KEY = ConversationKey("moot", "user")


async def _nobody(questions: Sequence[Question]) -> str:
    raise AssertionError(questions)


def context(step: int, call: str = "c") -> RunContext:
    return RunContext(
        run_id="root", key=KEY, speaker="moot", cwd="/", emit=lambda _event: None, ask=_nobody, step=step, call_id=call
    )


def run(number: int, agent: str, outcome: Outcome | None, *, step: int = 1) -> Run:
    made = teammate_run(
        f"arun-{number}", parent="root", agent=agent, instruction="x", root=KEY, outcome=outcome,
        parent_call=f"call-{number}", parent_step=step,
    )  # fmt: skip
    return replace(made, ended_at=float(number))


class Shelf:
    def __init__(self, *runs: Run) -> None:
        self.runs = list(runs)
        self.reads = 0

    async def list_runs_of_root(self, root_id: str) -> list[Run]:
        self.reads += 1
        return [each for each in self.runs if each.root_id == root_id]


@pytest.mark.parametrize(
    ("agent", "chain", "complaint"),
    [
        ("moot", ("moot",), "cannot spawn itself"),
        ("a", ("moot", "a", "b"), "already at work above"),
        ("d", ("moot", "a", "b", "c"), "3 deep at most, and this would be 4 deep"),
    ],
)
def test_a_chain_is_bounded_and_has_nobody_twice(agent: str, chain: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(BadRequest, match=complaint):
        check_chain(agent, chain, most=3)
    check_chain("c", ("moot", "a", "b"), most=3)


def test_a_step_that_spawns_several_is_one_round() -> None:
    tally = Tally()
    for step in (1, 1, 1, 2):
        tally.count(context(step), "a", most=2)
    with pytest.raises(BadRequest, match="delegated 2 times"):
        tally.count(context(3), "a", most=2)


def test_failures_count_against_who_failed_and_success_ends_a_streak() -> None:
    tally = Tally()
    tally.record_end(run(1, "a", Outcome.TIMEOUT))
    assert tally.streak == 1
    tally.record_end(run(2, "b", Outcome.ESCALATED))
    assert tally.streak == 0
    tally.record_end(run(3, "a", Outcome.LOOP_DETECTED))
    tally.record_end(run(4, "b", Outcome.MODEL_ERROR))
    assert (tally.failures["a"], tally.failures["b"], tally.streak) == (2, 1, 2)
    tally.count(context(1), "b", most=9)
    with pytest.raises(Conflict, match="a has failed 2 times"):
        tally.count(context(1), "a", most=9)


async def test_what_was_counted_before_a_restart_is_read_back_once() -> None:
    shelf = Shelf(run(1, "a", Outcome.TIMEOUT, step=1), run(2, "a", Outcome.TIMEOUT, step=2), run(3, "b", None, step=2))
    delegations = Delegations(shelf)
    tally = await delegations.of("root", user="root")
    assert await delegations.of("root", user="root") is tally
    assert (shelf.reads, tally.failures["a"], delegations.streak("root")) == (1, 2, 2)
    # A call that is made again is the one that was counted; a new one is not.
    tally.count(context(2, "call-2"), "a", most=2)
    with pytest.raises(Conflict):
        tally.count(context(2, "call-9"), "a", most=2)
    tally.count(context(2, "call-9"), "b", most=2)
    with pytest.raises(BadRequest):
        tally.count(context(3, "call-9"), "b", most=2)
    delegations.record_end(run(3, "b", Outcome.COMPLETED))
    assert delegations.streak("root") == 0
    delegations.release("root", "root")
    assert delegations.streak("root") == 0


async def test_a_tally_is_kept_until_the_last_of_those_that_delegate_is_over() -> None:
    shelf = Shelf(run(1, "a", Outcome.TIMEOUT))
    delegations = Delegations(shelf)
    tally = await delegations.of("root", user="root")
    # Set to work by the turn, it delegates on when the turn is over.
    assert await delegations.of("root", user="arun-2") is tally
    delegations.release("root", "root")
    delegations.release("root", "arun-who-never-delegated")
    assert delegations.streak("root") == 1
    delegations.release("root", "arun-2")
    assert (delegations.streak("root"), delegations._tallies) == (0, {})
    # Somebody answers what was reported later: what was counted is read again, and goes with the answer.
    assert (await delegations.of("root", user="run-report")).failures["a"] == 1
    delegations.release("root", "run-report")
    assert (shelf.reads, delegations._tallies) == (2, {})


def test_a_task_done_in_two_steps_is_refused_in_a_third_and_several_at_once_count_once() -> None:
    tally = Tally()
    done = Outcome.COMPLETED
    tally.read_back([*(run(number, "operator", done, step=1) for number in range(3)), run(3, "librarian", done)])
    # Those of the same step are no repetition, also where some are done before the last is spawned.
    assert tally.list_completed("operator", "x", parent="root", step=1) == []
    (first,) = tally.list_completed("operator", " x\n", parent="root", step=2)
    assert first.id == "arun-0"
    check_not_done("operator", [first])
    tally.record_end(run(4, "operator", Outcome.MODEL_ERROR, step=2))
    tally.record_end(run(5, "operator", done, step=3))
    twice = tally.list_completed("operator", "x", parent="root", step=4)
    with pytest.raises(Conflict, match="2 times in this turn, as arun-0, arun-5") as refused:
        check_not_done("operator", twice)
    assert "Answer with what is there" in refused.value.sentence
    assert len(tally.list_completed("librarian", "x", parent="root", step=4)) == 1
