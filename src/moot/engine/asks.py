"""Asks: opens, answers and decides asks, and wakes the runs that wait. Used by the loop, the approval hook and grants.

The rows are the open asks. An ask is stored before it is shown, an answer or decision before it is acknowledged to the
client. In memory are only the asks of this node's runs; `refresh` reads one again that another node may have closed.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from msgspec.structs import replace

from moot.domain.approval import Decision, fit, make_rules
from moot.domain.ask import Ask, AskReply, AskState, approval_id, grant_id
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Conflict, Fenced, MootError, StoreError, Unavailable
from moot.domain.events import AskClosed, AskOpened, EventBody
from moot.domain.ports.clock import Clock, Timeout, Timer
from moot.domain.ports.store import AskStore
from moot.engine.redact_text import redact_text
from moot.engine.rules import Rules
from moot.failpoint import reach

_LONGEST_REASON = 2_000
# The clock may be set, and stands still for timers while the computer sleeps, so it is compared again after this time.
_LONGEST_WAIT = 60.0

Emit = Callable[[EventBody], None]


class Asks:
    """Opens, answers and decides asks.

    `redact` removes every known secret from a text, since asks are stored and shown.
    """

    def __init__(self, *, store: AskStore, rules: Rules, clock: Clock, redact: Callable[[str], str]) -> None:
        self._store = store
        self.rules = rules
        self._clock = clock
        self._redact = redact
        # The asks of this node's runs that are pending, or granted and not yet used, by id.
        self._open: dict[str, Ask] = {}
        # The futures of runs that wait for an ask in this process, by ask id.
        self._waiting: dict[str, asyncio.Future[Ask]] = {}
        # Set when an ask changes, for calls that wait for the decision on another call, by ask id.
        self._changed: dict[str, asyncio.Event] = {}
        # Run id and call id of calls that an earlier daemon asked about and did not execute.
        self._carried_over: set[tuple[str, str]] = set()
        self._is_suspended = False

    async def start(self) -> None:
        """Load the open asks of the runs that this node has taken over."""
        self._open = {ask.id: ask for ask in await self._store.list_open(here=True)}
        self._carried_over = set(await self._store.list_unused_calls())

    def suspend(self) -> None:
        """Prepare for shutdown: pending asks stay pending in the store and are resumed at the next start."""
        self._is_suspended = True

    async def refresh(self, ask_id: str) -> None:
        """Read an ask of this node's runs again; wake the run that waits for it if the ask is closed or was lost.

        For whoever learns that another holder of the store has changed the ask.
        """
        known = self._open.get(ask_id)
        if known is None:
            return
        try:
            found = await self._store.find_held(ask_id)
        except Fenced as error:
            self._lose([known], error)
            return
        # If it was closed or opened again here meanwhile, what was read is out of date.
        if self._open.get(ask_id) is known and (found is None or found.state is not known.state):
            self._settle(found or replace(known, state=AskState.CANCELLED))

    async def refresh_all(self) -> None:
        """Refresh the asks of all runs of this node, so that a notice that was lost only delays an answer."""
        for ask_id in list(self._open):
            await self.refresh(ask_id)

    def end_run(self, run_id: str) -> None:
        """Cancel the asks of an ended run in memory; the store has already cancelled them."""
        for ask in [each for each in self._open.values() if each.run_id == run_id]:
            self._settle(replace(ask, state=AskState.CANCELLED))

    # ---- which are open -----------------------------------------------------------------------

    async def list_pending(self) -> list[Ask]:
        """Return the pending asks of all nodes, oldest first, as they are stored."""
        return [ask for ask in await self._store.list_open() if ask.state is AskState.PENDING]

    def list_local_of_conversation(self, key: ConversationKey) -> list[Ask]:
        """Return the pending asks of this node's runs that are shown in a conversation: its own and its teammates'."""
        return [ask for ask in self._list_pending_here() if ask.key == key]

    def list_local_of_run(self, run_id: str) -> list[Ask]:
        """Return the pending asks of a run of this node, oldest first."""
        return [ask for ask in self._list_pending_here() if ask.run_id == run_id]

    def _list_pending_here(self) -> list[Ask]:
        pending = (ask for ask in self._open.values() if ask.state is AskState.PENDING)
        return sorted(pending, key=lambda ask: ask.opened_at)

    def find_open_call(self, run_id: str, call_id: str) -> Ask | None:
        """Return the approval or grant of a call if it is pending, or granted and not yet used."""
        found = (ask for ask in self._open.values() if (ask.run_id, ask.call_id) == (run_id, call_id))
        return next((ask for ask in found if not ask.is_question), None)

    def find_other_call(self, ask: Ask) -> Ask | None:
        """Return the ask with this id if it is about another call, and pending or granted and not yet used."""
        known = self._open.get(ask.id)
        if known is None or known.call_id == ask.call_id or self._clock.now() >= known.expires_at:
            return None
        return known

    async def wait_for_change(self, ask: Ask) -> None:
        """Wait until a pending ask of another call is decided, closed or expired."""
        changed = self._changed.setdefault(ask.id, asyncio.Event())
        with suppress(TimeoutError):
            async with self._clock.timeout(max(0.0, ask.expires_at - self._clock.now())):
                await changed.wait()

    def is_carried_over(self, run_id: str, call_id: str) -> bool:
        """Whether an earlier daemon asked for approval of the call; it is then executed only if approved."""
        return bool(self._carried_over) and (run_id, call_id) in self._carried_over

    # ---- to ask -------------------------------------------------------------------------------

    async def ask_question(self, ask: Ask, emit: Emit, *, seconds: float) -> str:
        """Ask the questions and return the answer. Raise Unavailable when there is no answer in time.

        After a restart the same question is resumed with the time that was left, or with the answer it already has.
        """
        ask = fit(ask, self._redact)
        known = self._open.get(ask.id) or await self._store.find(ask.id)
        if known is None or known.questions != ask.questions:
            known = await self._persist(ask, seconds)
        if known.state is AskState.PENDING:
            known = await self._wait(known, emit)
        if known.state is not AskState.ANSWERED:
            raise Unavailable(
                f"nobody answered within {known.expires_at - known.opened_at:.0f} seconds",
                fix="Go on without the answer, or ask again later.",
            )
        return known.answer

    async def request_approval(self, ask: Ask, emit: Emit, *, seconds: float) -> AskState:
        """Ask the owner, or resume the ask from before a restart. Return granted (and used), denied or expired."""
        known = await self._find_earlier(ask)
        if known is None or known.digest != ask.digest or known.is_stale(self._clock.now()):
            fitted = await asyncio.to_thread(fit, ask, self._redact)
            known = await self._persist(fitted, seconds)
        if known.state is AskState.PENDING:
            return (await self._wait(known, emit)).state
        if known.state is AskState.GRANTED:
            await self._use(known)
            self._close(known, emit)
        return known.state

    async def find_denial_reason(self, ask_id: str) -> str:
        """Return why the person denied the call; empty if no reason was given."""
        known = await self._store.find(ask_id)
        return known.answer if known is not None and known.state is AskState.DENIED else ""

    async def is_grant_denied(self, grant_id: str) -> bool:
        """Whether the owner has denied the grant; a run does not request it again."""
        known = await self._store.find(grant_id)
        return known is not None and known.state is AskState.DENIED

    async def is_call_denied(self, run_id: str, call_id: str, tool: str) -> bool:
        """Whether the call or its tool was denied to the run, or nobody decided on it in time."""
        asks = [await self._store.find(each) for each in (approval_id(run_id, call_id), grant_id(run_id, tool))]
        return any(ask is not None and ask.state in (AskState.DENIED, AskState.EXPIRED) for ask in asks)

    async def cancel(self, ask: Ask) -> None:
        """Cancel an ask because its call can no longer be executed."""
        closed = await self._store.close(ask.id, AskState.CANCELLED, now=self._clock.now())
        self._settle(closed or replace(ask, state=AskState.CANCELLED))

    # ---- to answer ----------------------------------------------------------------------------

    async def answer(self, key: ConversationKey, reply: AskReply) -> Ask:
        """Answer the oldest question of the conversation. The answer is on disk when this returns."""
        now = self._clock.now()
        try:
            redacted = replace(reply, content=await redact_text(self._redact, reply.content))
            answered = await self._store.answer(key, redacted, now=now)
        except Fenced as error:
            self._lose([ask for ask in self.list_local_of_conversation(key) if ask.is_question][:1], error)
            raise
        reach("ask.answered")
        self._settle(answered)
        return answered

    async def find_reply(self, key: ConversationKey, prefix: str) -> Ask | None:
        """Return the most recently answered question whose reply id starts with `prefix`."""
        return await self._store.find_reply(key, prefix)

    async def decide(  # noqa: PLR0913 — what one decision consists of
        self,
        ask_id: str,
        *,
        attempt: int,
        decision: Decision,
        by: str,
        whole: bool = False,
        pattern: str = "",
        reason: str = "",
    ) -> Ask:
        """Decide an approval or grant. `whole` or a `pattern` widens the rule about the call (make_rules)."""
        given = self._redact(reason)[:_LONGEST_REASON]
        try:
            decided = await self._store.decide(
                ask_id,
                attempt=attempt,
                decision=decision,
                by=by,
                now=self._clock.now(),
                whole=whole,
                pattern=pattern,
                reason=given,
            )
        except Fenced as error:
            self._lose([ask for ask in self._open.values() if ask.id == ask_id], error)
            raise
        if make_rules(decided, decision, whole=whole, pattern=pattern):
            self.rules.invalidate()
        self._settle(decided)
        return decided

    # ---- inside -------------------------------------------------------------------------------

    async def _find_earlier(self, ask: Ask) -> Ask | None:
        """Return the earlier ask for this call: still open, or denied before the run was notified."""
        known = self.find_open_call(ask.run_id, ask.call_id)
        is_carried_over = self.is_carried_over(ask.run_id, ask.call_id)
        self._carried_over.discard((ask.run_id, ask.call_id))
        if known is None and is_carried_over:
            found = await self._store.find(ask.id)
            # An expired ask is not a decision, so the owner is asked again.
            is_no = found is not None and found.state is AskState.DENIED and found.call_id == ask.call_id
            known = found if is_no else None
        return known

    async def _persist(self, ask: Ask, seconds: float) -> Ask:
        now = self._clock.now()
        return await self._store.open(replace(ask, opened_at=now, expires_at=now + seconds))

    async def _wait(self, ask: Ask, emit: Emit) -> Ask:
        """Show the ask, wait until it is closed and return it. A granted ask is marked as used."""
        if ask.id in self._waiting:
            raise Conflict(f"{ask.id} is being waited for already")
        future: asyncio.Future[Ask] = asyncio.get_running_loop().create_future()
        self._waiting[ask.id] = future
        self._open[ask.id] = ask
        emit(AskOpened(ask))
        reach("ask.opened")
        closed = replace(ask, state=AskState.CANCELLED)
        try:
            # Its row has been visible since it was stored: it may have been answered before the run waited.
            with suppress(StoreError):
                await self.refresh(ask.id)
            closed = await self._wait_for_outcome(ask, future)
            if closed.state is AskState.GRANTED:
                await self._use(closed)
        finally:
            del self._waiting[ask.id]
            # When the daemon stops, the ask stays open.
            if closed.state is not AskState.CANCELLED or not self._is_suspended:
                if closed.state is AskState.CANCELLED:
                    await self._cancel_quietly(ask)
                self._close(closed, emit)
        return closed

    async def _wait_for_outcome(self, ask: Ask, future: "asyncio.Future[Ask]") -> Ask:
        limit = self._clock.timeout(max(0.0, ask.expires_at - self._clock.now()))
        try:
            async with limit:
                with self._compare_clock(ask, limit):
                    return await future
        except TimeoutError:
            # An answer stored just before the timeout was acknowledged and must count; `close` then returns it.
            closed = await self._store.close(ask.id, AskState.EXPIRED, now=self._clock.now())
            return closed or replace(ask, state=AskState.EXPIRED)

    @contextmanager
    def _compare_clock(self, ask: Ask, limit: Timeout) -> Iterator[None]:
        """Let the limit expire during the block if the clock says that the time of the ask is over."""
        timer: Timer

        def compare() -> None:
            nonlocal timer
            if self._clock.now() < ask.expires_at:
                timer = self._clock.call_later(_LONGEST_WAIT, compare)
            elif not limit.expired():
                limit.reschedule(self._clock.monotonic())

        timer = self._clock.call_later(_LONGEST_WAIT, compare)
        try:
            yield
        finally:
            timer.cancel()

    async def _use(self, ask: Ask) -> None:
        await self._store.use(ask, now=self._clock.now())
        self._open.pop(ask.id, None)

    async def _cancel_quietly(self, ask: Ask) -> None:
        """Cancel the ask in the store.

        Errors are ignored and the write is shielded, because the run is being killed.
        """
        with suppress(MootError):
            await asyncio.shield(self._store.close(ask.id, AskState.CANCELLED, now=self._clock.now()))

    def _close(self, ask: Ask, emit: Emit) -> None:
        self._open.pop(ask.id, None)
        self._announce_change(ask.id)
        emit(AskClosed(ask))

    def _announce_change(self, ask_id: str) -> None:
        if (changed := self._changed.pop(ask_id, None)) is not None:
            changed.set()

    def _lose(self, asks: Sequence[Ask], error: Fenced) -> None:
        """Fail the waiting runs and drop their asks, because another daemon has taken over the conversation."""
        for ask in asks:
            self._open.pop(ask.id, None)
            self._announce_change(ask.id)
            future = self._waiting.get(ask.id)
            if future is not None and not future.done():
                future.set_exception(error)

    def _settle(self, ask: Ask) -> None:
        """Apply the stored state of an ask and wake the run that waits for it."""
        if ask.state is AskState.GRANTED and ask.id in self._open:
            self._open[ask.id] = ask
        else:
            self._open.pop(ask.id, None)
        self._announce_change(ask.id)
        future = self._waiting.get(ask.id)
        if future is not None and not future.done():
            future.set_result(ask)
