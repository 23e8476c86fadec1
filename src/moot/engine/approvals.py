"""Calls that wait for their owner: asked once, answered by id and attempt, used once, and kept across restarts."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from moot.domain.approval import Approval, AskState, Decision, Rule, fit
from moot.domain.errors import Conflict, MootError
from moot.domain.events import ApprovalClosed, ApprovalOpened, EventBody
from moot.domain.ports import ApprovalStore, Clock


class Approvals:
    """Rules are few and asked at every call, so they are kept in memory beside the store.

    `redact` takes every known secret out of a text: what is asked is written down and shown.
    """

    def __init__(self, *, store: ApprovalStore, clock: Clock, redact: Callable[[str], str]) -> None:
        self._store = store
        self._clock = clock
        self._redact = redact
        self._waiting: dict[str, asyncio.Future[AskState]] = {}
        self._rules: list[Rule] = []
        # Calls of runs that go on where the last daemon stopped, about which somebody was asked.
        self._left_open: set[tuple[str, str]] = set()
        self._suspended = False

    async def load(self) -> None:
        self._rules = await self._store.rules()

    async def take_up(self) -> None:
        """At a start: what the last daemon has asked and not used."""
        await self.load()
        self._left_open = set(await self._store.open_calls())

    def is_left_open(self, run_id: str, call_id: str) -> bool:
        """Whether the call was put before its owner by an earlier daemon; without a yes it is not made."""
        return bool(self._left_open) and (run_id, call_id) in self._left_open

    def suspend(self) -> None:
        """The daemon stops: what is pending stays pending and is taken up again at the next start."""
        self._suspended = True

    def allowed(self, approval: Approval, *, exactly: bool = False) -> bool:
        """Whether a rule already says yes; `exactly` counts only rules written for this very subject."""
        return any(rule.allows(approval, exactly=exactly) for rule in self._rules)

    def granted(self, approval: Approval) -> bool:
        """Whether a rule gives the tool that is asked for."""
        return any(rule.grants(approval) for rule in self._rules)

    async def request(self, approval: Approval, emit: Callable[[EventBody], None], *, seconds: float) -> AskState:
        """Ask the owner, or take up what was asked before a restart. Returns granted (and used), denied or expired."""
        known = await self._store.of_call(approval.run_id, approval.call_id)
        if known is None and self.is_left_open(approval.run_id, approval.call_id):
            known = await self._denied(approval)
        self._left_open.discard((approval.run_id, approval.call_id))
        now = self._clock.now()
        if known is not None and known.digest == approval.digest and not known.is_stale(now):
            asked = known
        else:
            fitted = await asyncio.to_thread(fit, approval, self._redact)
            asked = await self._store.open(replace(fitted, opened_at=now, expires_at=now + seconds))
        state = AskState.CANCELLED
        try:
            if asked.state is AskState.PENDING:
                emit(ApprovalOpened(asked))
                state = await self._answer(asked)
            else:
                state = asked.state
            if state is AskState.GRANTED:
                await self._store.use(asked, now=self._clock.now())
        finally:
            if not (state is AskState.CANCELLED and self._suspended):
                if state in (AskState.CANCELLED, AskState.EXPIRED):
                    await self._close(asked, state)
                emit(ApprovalClosed(asked.id, state))
        return state

    async def decide(self, ask_id: str, *, attempt: int, decision: Decision, by: str, whole: bool = False) -> Approval:
        """Settle it; `whole` makes the rule about the call, where one is written, one for any call."""
        now = self._clock.now()
        decided = await self._store.decide(ask_id, attempt=attempt, decision=decision, by=by, now=now, whole=whole)
        if decided.rules(decision, whole=whole):
            await self.load()
        future = self._waiting.get(ask_id)
        if future is not None and not future.done():
            future.set_result(decided.state)
        return decided

    async def of_call(self, run_id: str, call_id: str) -> Approval | None:
        """What was asked for this call and is still open."""
        return await self._store.of_call(run_id, call_id)

    async def give_up(self, approval: Approval) -> None:
        """Nobody needs to decide any more: the call cannot be made."""
        await self._store.close(approval.id, AskState.CANCELLED, now=self._clock.now())

    async def pending(self) -> list[Approval]:
        return await self._store.pending()

    def rules(self) -> list[Rule]:
        return list(self._rules)

    async def delete_rule(self, number: int) -> None:
        await self._store.delete_rule(number)
        await self.load()

    async def _denied(self, approval: Approval) -> Approval | None:
        """A no that was said after the start, before the run came to take up its question."""
        found = await self._store.find(approval.id)
        is_no = found is not None and found.state is AskState.DENIED and found.call_id == approval.call_id
        return found if is_no else None

    async def _answer(self, asked: Approval) -> AskState:
        if asked.id in self._waiting:
            raise Conflict(f"the approval {asked.id} is being waited for already")
        future: asyncio.Future[AskState] = asyncio.get_running_loop().create_future()
        self._waiting[asked.id] = future
        try:
            # Who decided between reading it and waiting for it found nobody to tell.
            stands = await self._store.find(asked.id)
            if stands is not None and stands.attempt == asked.attempt and stands.state is not AskState.PENDING:
                return stands.state
            async with asyncio.timeout(max(0.0, asked.expires_at - self._clock.now())):
                return await future
        except TimeoutError:
            return AskState.EXPIRED
        finally:
            del self._waiting[asked.id]

    async def _close(self, asked: Approval, state: AskState) -> None:
        """Record that nobody decided. A run that is being killed does not wait longer for the disk than it must."""
        with suppress(MootError):
            await asyncio.shield(self._store.close(asked.id, state, now=self._clock.now()))
