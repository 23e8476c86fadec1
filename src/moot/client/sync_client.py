"""`Moot`: the synchronous Python client. Runs an `AsyncMoot` on an event loop in a thread of its own."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, Unpack

from moot.client.async_client import AsyncMoot
from moot.client.event_values import EventInfo, Gap
from moot.client.options import Answer, AskOptions, OnApproval, OnQuestion, RunOptions, Verdict
from moot.client.turn import Turn, check_reply
from moot.client.values import (
    Agent,
    Approval,
    Conversation,
    Ended,
    Message,
    Question,
    Queued,
    Reply,
    RunInfo,
    StreamItem,
)
from moot.domain.errors import Conflict, NotFound

_T = TypeVar("_T")
# How long an interrupted call waits until its run has been told to stop.
_LINGER_SECONDS = 6.0
_LONGEST_WAIT = 3600.0


class Moot:
    """A client of a Moot daemon, for ordinary code and notebooks. The parameters are those of `AsyncMoot`.

    Use it as a context manager or call `close`. Callbacks are called in the thread of the caller. Ctrl-C in `ask` and
    `stream` stops the run (see the option `detach`). It may be used from several threads.
    """

    def __init__(  # noqa: PLR0913 - all but the first are optional and named
        self,
        address: str | None = None,
        *,
        token: str | None = None,
        home: str | Path | None = None,
        start: bool = False,
        sender: str = "",
        on_approval: OnApproval | None = None,
        on_question: OnQuestion | None = None,
        reconnect: float = 30.0,
    ) -> None:
        self._on_approval = on_approval
        self._on_question = on_question
        self._loop = LoopThread()
        try:
            self._moot = self._loop.call(
                _open(
                    lambda: AsyncMoot(address, token=token, home=home, start=start, sender=sender, reconnect=reconnect)
                )
            )
        except BaseException:
            self._loop.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and end the thread. Runs go on. Closing twice is allowed."""
        if self._loop.is_running:
            try:
                self._loop.call(self._moot.close())
            finally:
                self._loop.stop()

    # ---- talk ----

    def ask(self, agent: str, text: str, **options: Unpack[AskOptions]) -> Reply:
        """Send a message and return the reply. Errors as with `AsyncMoot.ask`; Ctrl-C stops the run."""
        turn = self._moot.start_turn(agent, text, options)
        with closing(self._stream_answering(turn, options, leave=True)) as items:
            for item in items:
                if isinstance(item, Ended):
                    return check_reply(item)
        raise AssertionError("a stream ends with Ended")

    def stream(self, agent: str, text: str, **options: Unpack[AskOptions]) -> Generator[StreamItem, None, None]:
        """Send a message and yield what happens; the last item is Ended. Leaving the loop early stops the run."""
        turn = self._moot.start_turn(agent, text, options)
        return self._stream_answering(turn, options, leave=False)

    def attach(self, agent: str, *, sender: str = "") -> Generator[StreamItem, None, None]:
        """Join the active run of a conversation: what it has said so far, then the rest. Leaving does not stop it."""
        return self._loop.iterate(self._moot.attach(agent, sender=sender))

    def attach_run(self, run_id: str) -> Generator[StreamItem, None, None]:
        """Join any run by its id; one that has ended is repeated."""
        return self._loop.iterate(self._moot.attach_run(run_id))

    def kill(self, agent: str, *, sender: str = "") -> bool:
        """Stop the active run of a conversation. False if there was none."""
        return self._loop.call(self._moot.kill(agent, sender=sender))

    # ---- questions and approvals ----

    def asks(self) -> list[Question | Approval]:
        """The open questions and approvals of your conversations, oldest first."""
        return self._loop.call(self._moot.asks())

    def decide(self, approval: Approval, decision: Verdict, *, pattern: str = "") -> str:
        """Decide an approval: True or "once", "run", "conversation", "always", False or "deny". Returns its state.

        `Denial("why")` denies with a reason. The rule that is written covers all calls that `pattern` matches.
        """
        return self._loop.call(self._moot.decide(approval, decision, pattern=pattern))

    def reply(self, question: Question, answer: Answer) -> None:
        """Answer a question: with a text, or with one text for each of its questions."""
        self._loop.call(self._moot.reply(question, answer))

    # ---- conversations ----

    def history(self, agent: str, *, sender: str = "", archived: bool = False, newest: int = 0) -> list[Message]:
        """The messages of a conversation; with `archived` also those of archives, or only the `newest` ones."""
        return self._loop.call(self._moot.history(agent, sender=sender, archived=archived, newest=newest))

    def conversations(self, *, agent: str = "", sender: str = "") -> list[Conversation]:
        """Your conversations, the last used first."""
        return self._loop.call(self._moot.conversations(agent=agent, sender=sender))

    def agents(self) -> list[Agent]:
        """All agents."""
        return self._loop.call(self._moot.agents())

    # ---- runs ----

    def start_run(self, text: str, agent: str = "", **options: Unpack[RunOptions]) -> RunInfo:
        """Start a background run; without an agent, of the root agent. It continues without a client."""
        return self._loop.call(self._moot.start_run(text, agent, **options))

    def runs(self, *, ended: bool = False, limit: int = 0) -> list[RunInfo]:
        """The active and queued runs of your conversations; with `ended` also the last ones that have ended."""
        return self._loop.call(self._moot.runs(ended=ended, limit=limit))

    def run(self, run_id: str) -> RunInfo:
        """One run; its id may be shortened to six characters."""
        return self._loop.call(self._moot.run(run_id))

    def wait(
        self, *runs: RunInfo | str, seconds: float = _LONGEST_WAIT, first: bool = False, until_asked: bool = True
    ) -> list[RunInfo]:
        """Wait until all runs have ended, or the `first`, or a person must continue them; return how they stand."""
        return self._loop.call(self._moot.wait(*runs, seconds=seconds, first=first, until_asked=until_asked))

    def stop(self, run: RunInfo | str, *, only: bool = False) -> list[RunInfo]:
        """Stop a run and, unless `only`, all runs it started. Returns the stopped ones."""
        return self._loop.call(self._moot.stop(run, only=only))

    # ---- events ----

    @contextmanager
    def events(
        self, *, since: int | None = None, deltas: bool = False
    ) -> Iterator[Generator[EventInfo | Gap, None, None]]:
        """Subscribe to the events of your conversations: `with moot.events() as events: for event in events: …`."""
        subscription = self._moot.events(since=since, deltas=deltas)
        entered = self._loop.call(subscription.__aenter__())
        try:
            with closing(self._loop.iterate(entered)) as events:
                yield events
        finally:
            self._loop.call(subscription.__aexit__(None, None, None))

    # ---- inside ----

    def _stream_answering(self, turn: Turn, options: AskOptions, *, leave: bool) -> Generator[StreamItem, None, None]:
        on_approval = options.get("on_approval") or self._on_approval
        on_question = options.get("on_question") or self._on_question
        with closing(self._loop.iterate(self._moot.turn_items(turn))) as items:
            for item in items:
                ask: StreamItem | None = item
                if isinstance(item, Queued):
                    yield item
                    ask = self._loop.call(self._moot.find_ahead(turn, item))
                is_answered = True
                if isinstance(ask, Approval):
                    is_answered = self._ask_approval(ask, on_approval)
                elif isinstance(ask, Question):
                    is_answered = self._ask_question(ask, on_question)
                if not is_answered and leave and isinstance(ask, Approval | Question):
                    if isinstance(item, Queued):
                        raise turn.leave_ahead(ask)
                    turn.leave(ask)
                if ask is not None:
                    yield ask

    def _ask_approval(self, item: Approval, callback: OnApproval | None) -> bool:
        """Whether the callback has decided. That somebody else was faster is no error."""
        verdict = callback(item) if callback else None
        if verdict is not None:
            with suppress(Conflict, NotFound):
                self.decide(item, verdict)
        return verdict is not None

    def _ask_question(self, item: Question, callback: OnQuestion | None) -> bool:
        answer = callback(item) if callback else None
        if answer is not None:
            with suppress(Conflict, NotFound):
                self.reply(item, answer)
        return answer is not None


async def _open(make: Callable[[], AsyncMoot]) -> AsyncMoot:
    return await make().__aenter__()


class LoopThread:
    """An event loop in a thread. An interrupted caller cancels what it called and waits until that has ended."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A daemon thread: a client that was not closed does not keep the interpreter from ending.
        self._thread = threading.Thread(target=self._serve, name="moot client", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive() and not self._loop.is_closed()

    def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        if not self.is_running:
            work.close()
            raise RuntimeError("this client is closed")
        call = _Call(work)
        # An interrupt may arrive at any point from here on, also before the loop has begun the work.
        try:
            self._loop.call_soon_threadsafe(call.start)
            return call.result.result()
        except BaseException:
            if not call.over.is_set():
                self._loop.call_soon_threadsafe(call.cancel)
                call.over.wait(_LINGER_SECONDS)
            raise

    def iterate(self, items: AsyncGenerator[_T, None]) -> Generator[_T, None, None]:
        try:
            while True:
                try:
                    item = self.call(_next_item(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            if self.is_running:
                self.call(items.aclose())

    def stop(self) -> None:
        if self.is_running:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._cancel_rest())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    async def _cancel_rest(self) -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest)


class _Call(Generic[_T]):
    """One call of a coroutine on the loop. All methods are called in the thread of the loop."""

    def __init__(self, work: Coroutine[Any, Any, _T]) -> None:
        self.result: Future[_T] = Future()
        # Set when the coroutine has ended, or will never begin.
        self.over = threading.Event()
        self._work = work
        self._task: asyncio.Task[_T] | None = None

    def start(self) -> None:
        if self.over.is_set():
            return
        self._task = asyncio.get_running_loop().create_task(self._work)
        self._task.add_done_callback(self._finish)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:
            self._work.close()
            self.over.set()

    def _finish(self, task: asyncio.Task[_T]) -> None:
        if task.cancelled():
            self.result.cancel()
        elif error := task.exception():
            self.result.set_exception(error)
        else:
            self.result.set_result(task.result())
        self.over.set()


async def _next_item(items: AsyncGenerator[_T, None]) -> _T:
    return await anext(items)
