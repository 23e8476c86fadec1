"""What every Clock promises, over the machine's, the one a test moves, and the one of a simulation."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from moot.daemon.clock import ManualClock, SystemClock
from moot.domain.ports.clock import Clock
from tests.simulation.clock import VirtualClock
from tests.simulation.event_loop import run_virtual

Check = Callable[[Clock], Awaitable[None]]

# Short for the machine's clock, which nobody can hurry.
MOMENT = 0.01


def on_system(check: Check) -> None:
    async def run() -> None:
        await check(SystemClock())

    asyncio.run(run())


def on_manual(check: Check) -> None:
    async def run() -> None:
        clock = ManualClock()
        async with asyncio.TaskGroup() as group:
            work = group.create_task(_checked(check, clock))
            while not work.done():
                await clock.advance(MOMENT / 4)

    asyncio.run(run())


def on_virtual(check: Check) -> None:
    run_virtual(_checked(check, VirtualClock()))


async def _checked(check: Check, clock: Clock) -> None:
    await check(clock)


@pytest.fixture(params=[on_system, on_manual, on_virtual], ids=["system", "manual", "virtual"])
def hold(request: pytest.FixtureRequest) -> Callable[[Check], None]:
    """Run a check on one of the clocks."""
    run: Callable[[Check], None] = request.param
    return run


def test_time_goes_on_while_somebody_sleeps(hold: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        before, began = clock.now(), clock.monotonic()
        await clock.sleep(MOMENT)
        assert clock.monotonic() - began >= MOMENT * 0.99
        assert clock.now() > before

    hold(check)


def test_sleeping_no_time_lets_others_run(hold: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        done: list[str] = []
        asyncio.get_running_loop().call_soon(done.append, "other")
        await clock.sleep(0)
        assert done == ["other"]

    hold(check)


def test_callbacks_come_in_the_order_of_their_time(hold: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        done: list[str] = []
        all_done = asyncio.Event()
        clock.call_later(MOMENT * 3, all_done.set)
        clock.call_later(MOMENT * 2, lambda: done.append("late"))
        clock.call_later(MOMENT, lambda: done.append("early"))
        clock.call_later(MOMENT, lambda: done.append("never")).cancel()
        await all_done.wait()
        assert done == ["early", "late"]

    hold(check)


def test_a_timeout_cancels_what_is_inside_and_says_so(hold: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        cancelled: list[bool] = []
        timeout = clock.timeout(MOMENT)

        async def work() -> None:
            async with timeout:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cancelled.append(True)
                    raise

        with pytest.raises(TimeoutError):
            await work()
        assert cancelled == [True]
        assert timeout.expired()

    hold(check)


def test_a_timeout_that_is_not_reached_changes_nothing(hold: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        timeout = clock.timeout(60.0)
        async with timeout:
            await clock.sleep(0)
        assert not timeout.expired()
        await clock.sleep(MOMENT)

    hold(check)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_no_time_expires_at_the_first_wait(hold: Callable[[Check], None], seconds: float) -> None:
    async def check(clock: Clock) -> None:
        with pytest.raises(TimeoutError):
            async with clock.timeout(seconds):
                await asyncio.Event().wait()

    hold(check)


def test_a_timeout_can_be_put_off_lifted_and_set_again(hold: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        timeout = clock.timeout(MOMENT)

        async def work() -> None:
            async with timeout:
                timeout.reschedule(None)
                assert timeout.when() is None
                await clock.sleep(MOMENT * 2)
                timeout.reschedule(clock.monotonic() + MOMENT)
                await asyncio.Event().wait()

        with pytest.raises(TimeoutError):
            await work()
        due = timeout.when()
        assert due is not None
        assert clock.monotonic() >= due - MOMENT / 10

    hold(check)


def test_being_cancelled_from_outside_is_no_timeout(hold: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        timeout = clock.timeout(60.0)

        async def work() -> None:
            async with timeout:
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await clock.sleep(MOMENT)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not timeout.expired()

    hold(check)
