"""Nobody spends what another has set aside, and what was set aside for nothing is put back."""

import asyncio
import random

import pytest

from moot.domain.errors import ModelError
from moot.domain.run import Limits
from moot.domain.usage import Need, RunUsage, Usage
from moot.engine.budget import Budget, Hold, Shortfall, room

NOTHING = RunUsage()


def priced(usage: Usage) -> float:
    return usage.prompt * 0.001 + usage.completion * 0.002


NEED = Need(prompt=1_000, reply=500, price=priced)


@pytest.mark.parametrize(
    ("limits", "taken", "found"),
    [
        (Limits(), NOTHING, (500, "")),
        (Limits(steps=2), RunUsage(steps=1), (500, "")),
        (Limits(steps=2), RunUsage(steps=2), (0, "steps")),
        (Limits(tokens=2_000), NOTHING, (500, "")),
        (Limits(tokens=1_200), NOTHING, (200, "tokens")),
        (Limits(tokens=2_000), RunUsage(usage=Usage(prompt=900)), (100, "tokens")),
        (Limits(tokens=900), NOTHING, (-100, "tokens")),
        (Limits(spend=2.0), NOTHING, (500, "")),
        (Limits(spend=1.5), NOTHING, (250, "spend")),
        (Limits(spend=1.5, tokens=1_100), NOTHING, (100, "tokens")),
        (Limits(spend=1.5), RunUsage(cost=1.0), (-250, "spend")),
    ],
)
def test_a_reply_may_be_as_long_as_the_tightest_limit_leaves_room_for(
    limits: Limits, taken: RunUsage, found: tuple[int, str]
) -> None:
    assert room(limits, taken, NEED) == found


def test_a_model_that_costs_nothing_fits_any_limit_on_money() -> None:
    assert room(Limits(spend=0.0), NOTHING, Need(prompt=10, reply=5)) == (5, "")


async def held(budget: Budget, need: Need = NEED) -> Hold:
    found = await budget.reserve(need, Limits(), NOTHING)
    assert isinstance(found, Hold)
    return found


async def test_what_one_holds_another_waits_for_and_gets_what_is_left_of_it() -> None:
    budget = Budget(Limits(tokens=4_000), NOTHING)
    need = Need(prompt=1_000, reply=2_000)
    first = await held(budget, need)
    second = asyncio.ensure_future(budget.reserve(need, Limits(), NOTHING))
    await asyncio.sleep(0)
    assert not second.done()
    budget.settle(first, Usage(prompt=900, completion=100), 0.0, 1.0)
    hold = await second
    assert isinstance(hold, Hold)
    # A thousand are spent; the reply gets what the prompt leaves of the rest.
    assert hold.reply == 2_000
    assert budget.spent.usage.total == 1_000


async def test_with_nobody_to_wait_for_what_does_not_fit_is_refused_and_named() -> None:
    budget = Budget(Limits(tokens=1_500), RunUsage(usage=Usage(prompt=600)))
    assert await budget.reserve(NEED, Limits(), NOTHING) == Shortfall("tokens", shared=True)
    assert await Budget(Limits(), NOTHING).reserve(NEED, Limits(tokens=900), NOTHING) == Shortfall("tokens")
    assert await Budget(Limits(steps=1), RunUsage(steps=1)).reserve(Need(), Limits(), NOTHING) == Shortfall(
        "steps", shared=True
    )


async def test_steps_under_way_are_taken_and_not_waited_for() -> None:
    budget = Budget(Limits(steps=2), NOTHING)
    await held(budget, Need())
    await held(budget, Need())
    assert await budget.reserve(Need(), Limits(), NOTHING) == Shortfall("steps", shared=True)


@pytest.mark.parametrize(("is_teammate", "count"), [(False, 3), (True, 2)])
def test_steps_under_way_are_taken_where_only_steps_are_limited(is_teammate: bool, count: int) -> None:
    budget = Budget(Limits(steps=3), NOTHING)
    holds = [budget.reserve_step(Limits(), 0, is_teammate=is_teammate) for _ in range(4)]
    assert [hold is not None for hold in holds] == [True] * count + [False] * (4 - count)


async def test_a_call_outside_steps_waits_as_well_and_takes_no_step() -> None:
    budget = Budget(Limits(tokens=4_000, steps=2), RunUsage(steps=1))
    charge = budget.make_charge("run-1")
    step = await held(budget, Need(prompt=1_000, reply=2_900))

    async def call() -> int:
        async with charge.reserve(Need(prompt=1_000, reply=1_000)) as reservation:
            reservation.settle(Usage(prompt=900, completion=50), 0.0)
            return reservation.reply

    outside = asyncio.ensure_future(call())
    await asyncio.sleep(0)
    assert not outside.done()
    budget.settle(step, Usage(prompt=1_000, completion=500), 0.0, 1.0)
    assert await outside == 1_000
    assert (budget.spent.steps, budget.spent.usage.total) == (2, 2_450)
    # Nobody holds anything, so what does not fit is refused.
    with pytest.raises(ModelError, match="leave no room"):
        async with charge.reserve(Need(prompt=2_000)):
            pass


async def test_a_budget_is_dropped_only_when_neither_runs_nor_calls_use_it() -> None:
    dropped: list[Budget] = []
    budget = Budget(Limits(tokens=4_000), NOTHING, dropped.append)
    budget.join("run-1")
    async with budget.make_charge("run-1").reserve(Need(prompt=1_000)) as reservation:
        budget.leave("run-1")
        assert not dropped
        reservation.settle(Usage(prompt=10), 0.0)
        assert dropped == [budget]


async def test_a_call_that_came_to_nothing_gives_back_what_it_held() -> None:
    budget = Budget(Limits(tokens=1_600), NOTHING)
    budget.release(await held(budget))
    assert (await held(budget)).reply == 500
    assert budget.spent == NOTHING


async def test_whoever_is_cancelled_while_waiting_leaves_nothing_behind() -> None:
    budget = Budget(Limits(tokens=1_600), NOTHING)
    first = await held(budget)
    waiting = asyncio.ensure_future(budget.reserve(NEED, Limits(), NOTHING))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    budget.release(first)
    assert (await held(budget)).reply == 500


def test_each_limit_is_warned_of_once_at_four_fifths() -> None:
    budget = Budget(Limits(steps=10, tokens=100, spend=1.0), RunUsage(steps=7, usage=Usage(prompt=79), cost=0.79))
    assert budget.alarms() == []
    budget.count(Usage(prompt=1), 0.0)
    assert [alarm.limit for alarm in budget.alarms()] == ["tokens"]
    budget.count(Usage(), 0.01)
    assert [(alarm.limit, alarm.most) for alarm in budget.alarms()] == [("spend", 1.0)]
    assert budget.alarms() == []


@pytest.mark.parametrize("seed", range(20))
async def test_many_at_once_never_spend_more_than_there_is(seed: int) -> None:
    """Each takes as much as it was allowed at most; whatever the order, the sum holds."""
    chance = random.Random(seed)
    budget = Budget(Limits(tokens=20_000, spend=30.0, steps=40), NOTHING)
    made = 0

    async def work() -> None:
        nonlocal made
        while True:
            need = Need(prompt=chance.randrange(100, 1_500), reply=chance.randrange(50, 2_000), price=priced)
            hold = await budget.reserve(need, Limits(), NOTHING)
            if isinstance(hold, Shortfall):
                return
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            if chance.random() < 0.2:
                budget.release(hold)
                continue
            usage = Usage(prompt=need.prompt, completion=chance.randrange(hold.reply + 1))
            made += 1
            budget.settle(hold, usage, priced(usage), 0.0)

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        for _ in range(12):
            group.create_task(work())
    assert budget.spent.usage.total <= 20_000
    assert budget.spent.cost <= 30.0
    assert budget.spent.steps == made <= 40
    # They did not stop early either: little is left.
    assert budget.spent.steps == 40 or budget.spent.usage.total > 16_000 or budget.spent.cost > 24.0
