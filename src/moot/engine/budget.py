"""Budget: what a turn and the runs it spawns may spend.

The loop reserves before each model call and settles after it; so does every call outside steps, through a Charge.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.config import Config
from moot.domain.errors import ModelError
from moot.domain.ports.store import Store
from moot.domain.run import Limits, RunRequest
from moot.domain.usage import Charge, Need, Reservation, RunUsage, Usage

# A shorter reply is not worth its prompt. While other calls hold reservations, it is better to wait for what they
# release.
_LEAST_REPLY = 64
_GOOD_REPLY = 1024
_WARNING = 0.8


# The need of a call while nothing is limited but steps and time.
NOTHING_NEEDED = Need()


class Hold(Struct, frozen=True, kw_only=True):
    """A reservation for one model call. `reply` is the maximum number of reply tokens."""

    reply: int = 0
    tokens: int = 0
    cost: float = 0.0
    # 0 for a call outside steps.
    steps: int = 1


_NOTHING_HELD = Hold()


class Shortfall(Struct, frozen=True):
    """The limit that leaves no room for another call, and whether it belongs to the whole tree."""

    limit: str
    shared: bool = False

    @property
    def error(self) -> str:
        whose = "The run and all it set to work have" if self.shared else "The run has"
        return f"{whose} no room for another step under the limit on {self.limit}."


class Alarm(Struct, frozen=True):
    """A limit of which 80 % is used."""

    limit: str
    used: float
    most: float


class _Outside:
    """The reservation of a call outside steps."""

    def __init__(self, budget: "Budget", hold: Hold) -> None:
        self.reply = hold.reply
        self._budget = budget
        self._hold: Hold | None = hold

    def settle(self, usage: Usage, cost: float) -> None:
        self._budget.count(usage, cost)
        self.release()

    def release(self) -> None:
        """Release what is reserved, unless that has happened."""
        hold, self._hold = self._hold, None
        if hold is not None:
            self._budget.release(hold)


class Budget:
    """The shared budget of one user turn. Every run reserves before it spends, so no amount is spent twice.

    `on_unused` is called when neither a run nor a reservation uses it any more.
    """

    def __init__(
        self, limits: Limits, spent: RunUsage, on_unused: Callable[["Budget"], object] = lambda _budget: None
    ) -> None:
        self.limits = limits
        self.spent = spent
        # Whether runs other than the root spend from it.
        self.is_shared = False
        self._on_unused = on_unused
        self._users: set[str] = set()
        self._holds = 0
        self._held_steps = 0
        self._held_tokens = 0
        self._held_cost = 0.0
        self._freed: list[asyncio.Future[None]] = []
        self._warned: set[str] = set()

    def reserve_step(self, own: Limits, steps: int, *, is_teammate: bool) -> Hold | None:
        """Reserve a call while only steps are limited; `steps` is how many the run has made. None if none is left."""
        most = self.limits.steps
        if own.steps is not None and steps >= own.steps:
            return None
        if most is not None and self.spent.steps + self._held_steps >= most - is_teammate:
            return None
        self._holds += 1
        self._held_steps += 1
        return _NOTHING_HELD

    def is_used_up(self, need: Need, own: Limits, spent: RunUsage, *, is_teammate: bool) -> bool:
        """Whether the limits of the run, or of the whole tree, leave no room for another call."""
        limits, taken = self.limits, self.spent
        if limits.steps is not None:
            taken = replace(taken, steps=taken.steps + self._held_steps + is_teammate)
        return any(_is_too_little(*room(*each, need), need) for each in ((own, spent), (limits, taken)))

    def join(self, run_id: str) -> None:
        self._users.add(run_id)

    def leave(self, run_id: str) -> None:
        self._users.discard(run_id)
        self._check_use()

    async def reserve(self, need: Need, own: Limits, spent: RunUsage, *, is_teammate: bool = False) -> Hold | Shortfall:
        """Reserve one call from the limits of the run and of the whole tree, or return the shortfall.

        If other reservations take up the missing amount, wait until they are settled or released. A teammate leaves
        one step of the tree unused, so that the run that spawned it can still answer.
        """
        limits = self.limits
        if is_teammate and limits.steps is not None:
            limits = replace(limits, steps=limits.steps - 1)
        while True:
            reply, limit = room(own, spent, need)
            if _is_too_little(reply, limit, need):
                return Shortfall(limit)
            found = self._find_room(limits, need, reply)
            if not isinstance(found, Shortfall):
                return self._hold(need, found, steps=1)
            if not self._holds or found.limit == "steps":
                return found
            await self._wait_for_release()

    async def reserve_outside(self, need: Need) -> Hold | Shortfall:
        """Reserve one call outside steps from the limits of the tree; wait as `reserve` does."""
        while True:
            found = self._find_room(replace(self.limits, steps=None), need, need.reply)
            if not isinstance(found, Shortfall):
                return self._hold(need, found, steps=0)
            if not self._holds:
                return found
            await self._wait_for_release()

    def settle(self, hold: Hold, usage: Usage, cost: float, seconds: float) -> None:
        """Release the reservation and add what the call actually used. `seconds` is the elapsed time of the tree."""
        spent = self.spent
        self.spent = RunUsage(
            steps=spent.steps + 1,
            usage=spent.usage + usage,
            cost=spent.cost + cost,
            seconds=max(spent.seconds, seconds),
        )
        self.release(hold)

    def release(self, hold: Hold) -> None:
        """Release the reservation of a call that was not completed, and wake all waiting reservations."""
        self._holds -= 1
        self._held_steps -= hold.steps
        self._held_tokens -= hold.tokens
        self._held_cost -= hold.cost
        freed, self._freed = self._freed, []
        for waiting in freed:
            if not waiting.done():
                waiting.set_result(None)
        self._check_use()

    def count(self, usage: Usage, cost: float) -> None:
        """Add usage outside steps, such as a summary of the history."""
        self.spent = RunUsage(
            steps=self.spent.steps,
            usage=self.spent.usage + usage,
            cost=self.spent.cost + cost,
            seconds=self.spent.seconds,
        )

    def make_charge(self, root_id: str) -> Charge:
        """Return what model calls outside steps count against. `root_id` is the root run of the tree."""
        return Charge(root_id=root_id, limits_spend=self.limits.spend is not None, reserve=self._reserve_for_charge)

    @asynccontextmanager
    async def _reserve_for_charge(self, need: Need) -> AsyncIterator[Reservation]:
        hold = await self.reserve_outside(need)
        if isinstance(hold, Shortfall):
            raise ModelError(
                "the limits of this turn leave no room for another model call",
                fix=f"Raise `{hold.limit}` in [budget], or do it in another turn.",
            )
        reservation = _Outside(self, hold)
        try:
            yield reservation
        finally:
            reservation.release()

    def seconds_left(self) -> float | None:
        return None if self.limits.seconds is None else max(0.0, self.limits.seconds - self.spent.seconds)

    def alarms(self) -> list[Alarm]:
        """Return limits that are nearly reached. Each limit is returned only once."""
        limits, spent = self.limits, self.spent
        found: list[Alarm] = []
        for name, used, most in (
            ("steps", spent.steps, limits.steps),
            ("tokens", spent.usage.total, limits.tokens),
            ("spend", spent.cost, limits.spend),
            ("seconds", spent.seconds, limits.seconds),
        ):
            if most is not None and used >= most * _WARNING and name not in self._warned:
                self._warned.add(name)
                found.append(Alarm(name, used, most))
        return found

    def is_last_step(self, own_steps: int) -> bool:
        """Whether one step is left in a tree shared with other runs. `own_steps` is the steps of the calling run."""
        if self.limits.steps is None or not (self.is_shared or self.spent.steps > own_steps):
            return False
        return self.spent.steps + self._held_steps + 1 >= self.limits.steps

    def _check_use(self) -> None:
        if not self._users and not self._holds:
            self._on_unused(self)

    def _find_room(self, limits: Limits, need: Need, reply: int) -> int | Shortfall:
        """Return the reply tokens the tree has room for beside the current reservations, or the shortfall."""
        taken = self.spent
        if self._holds:
            taken = RunUsage(
                steps=taken.steps + self._held_steps,
                usage=taken.usage + Usage(prompt=self._held_tokens),
                cost=taken.cost + self._held_cost,
            )
        most, limit = room(limits, taken, need)
        most = min(most, reply)
        least = min(_GOOD_REPLY if self._holds else _LEAST_REPLY, need.reply)
        return Shortfall(limit, shared=True) if limit and (most < least or limit == "steps") else most

    def _hold(self, need: Need, reply: int, *, steps: int) -> Hold:
        self._holds += 1
        self._held_steps += steps
        most = Usage(prompt=need.prompt, completion=reply)
        hold = Hold(reply=reply, tokens=most.total, cost=need.price(most), steps=steps)
        self._held_tokens += hold.tokens
        self._held_cost += hold.cost
        return hold

    async def _wait_for_release(self) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._freed.append(waiting)
        await waiting


def _is_too_little(reply: int, limit: str, need: Need) -> bool:
    """Whether a limit leaves no room for a useful reply."""
    return limit == "steps" or (bool(limit) and reply < min(_LEAST_REPLY, need.reply))


def room(limits: Limits, taken: RunUsage, need: Need) -> tuple[int, str]:
    """Return the maximum reply tokens and the name of the limit that caps them; "" if the need is met in full."""
    if limits.steps is not None and taken.steps >= limits.steps:
        return 0, "steps"
    most, limit = need.reply, ""
    if limits.tokens is not None:
        left = limits.tokens - taken.usage.total - need.prompt
        if left < most or left <= 0:
            most, limit = left, "tokens"
    if limits.spend is not None:
        left_spend = limits.spend - taken.cost - need.price(Usage(prompt=need.prompt))
        each = need.price(Usage(completion=1000)) / 1000
        affordable = int(left_spend / each) if each else most if left_spend >= 0 else -1
        if affordable < most:
            most, limit = affordable, "spend"
    return most, limit


# Yields what calls made after a run count against; given the root run of its tree.
ChargeTree = Callable[[str], AbstractAsyncContextManager[Charge]]


class Budgets:
    """The budgets of active turns. A budget without users is dropped; it can be rebuilt from the store."""

    def __init__(self, *, store: Store, config: Callable[[], Config]) -> None:
        self._store = store
        self._config = config
        self._open: dict[str, Budget] = {}
        self._charges = 0

    async def open(self, request: RunRequest, config: Config, *, resumed: bool) -> Budget:
        """Return the budget a run spends from: its own, or that of the root run it belongs to."""
        root_id = request.root_id or request.id
        budget = self._open.get(root_id)
        if budget is None:
            limits, spent = request.limits, RunUsage()
            if request.root_id or resumed:
                limits, spent = await self._store.load_budget(root_id)
            budget = self._keep(root_id, limits, spent, config)
        budget.join(request.id)
        budget.is_shared |= bool(request.root_id)
        return budget

    def close(self, request: RunRequest) -> None:
        budget = self._open.get(request.root_id or request.id)
        if budget is not None:
            budget.leave(request.id)

    @asynccontextmanager
    async def charge(self, root_id: str) -> AsyncIterator[Charge]:
        """Yield what calls made after a run count against: the budget of the tree that the run belongs to."""
        budget = self._open.get(root_id)
        if budget is None:
            budget = self._keep(root_id, *await self._store.load_budget(root_id), self._config())
        self._charges += 1
        user = f"charge {self._charges}"
        budget.join(user)
        try:
            yield budget.make_charge(root_id)
        finally:
            budget.leave(user)

    def _keep(self, root_id: str, limits: Limits, spent: RunUsage, config: Config) -> Budget:
        """Return the budget of a tree: the one that another run has opened in the meantime, or a new one."""

        def drop(unused: Budget) -> None:
            if self._open.get(root_id) is unused:
                del self._open[root_id]

        return self._open.setdefault(root_id, Budget(_find_turn_limits(config, limits), spent, drop))


def _find_turn_limits(config: Config, requested: Limits) -> Limits:
    """Return the limits of a turn: configuration narrowed by the request.

    Tokens and money of all its runs count together.
    """
    each = config.limits
    return config.budget.narrow(Limits(tokens=each.tokens, spend=each.spend)).narrow(requested)
