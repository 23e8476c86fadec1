"""`AsyncMoot`: the Python client for asyncio. Works with `turn` (one run) and `link` (the connection)."""

import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from inspect import isawaitable
from pathlib import Path
from typing import Self, Unpack

from moot.client import caller, convert
from moot.client.errors import Unreachable
from moot.client.event_values import EventInfo, Gap
from moot.client.link import Link
from moot.client.options import (
    Answer,
    AsyncAskOptions,
    AsyncOnApproval,
    AsyncOnQuestion,
    RunOptions,
    TurnOptions,
    Verdict,
    check_options,
)
from moot.client.turn import Turn, check_reply, decide_message, reply_message, start_turn
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
from moot.wire import moot_pb2 as pb

_LONGEST_WAIT = 3600.0


class AsyncMoot:
    """A client of a Moot daemon, for one event loop.

    Without an address it uses the local daemon, as the owner; `start` starts that one if it is not running, `home` is
    its MOOT_HOME. An address is "host:port" and needs a `token`. Both default to MOOT_ADDRESS and MOOT_TOKEN.
    `sender` is who speaks if a call does not say. The callbacks decide approvals and answer questions of every turn.
    After a lost connection it waits `reconnect` seconds for the daemon to come back.

    Every error is a MootError with a `message` and a `fix`.
    """

    def __init__(  # noqa: PLR0913 - all but the first are optional and named
        self,
        address: str | None = None,
        *,
        token: str | None = None,
        home: str | Path | None = None,
        start: bool = False,
        sender: str = "",
        on_approval: AsyncOnApproval | None = None,
        on_question: AsyncOnQuestion | None = None,
        reconnect: float = 30.0,
    ) -> None:
        # A home names a local daemon, whatever the environment says.
        default = "" if home is not None else os.environ.get("MOOT_ADDRESS", "")
        self._link = Link(
            default if address is None else address,
            os.environ.get("MOOT_TOKEN", "") if token is None else token,
            home=Path(home) if home is not None else None,
            start=start,
            patience=reconnect,
        )
        self._sender = sender
        self._on_approval = on_approval
        self._on_question = on_question

    async def __aenter__(self) -> Self:
        await self._link.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection. Runs go on."""
        await self._link.close()

    # ---- talk ----

    async def ask(self, agent: str, text: str, **options: Unpack[AsyncAskOptions]) -> Reply:
        """Send a message and return the reply.

        Raises RunFailed if the run does not complete, and WaitingForPerson once only a person can continue it, or the
        run ahead in the queue, and no callback answers; the run then goes on waiting. If the caller is cancelled, the
        run is stopped (see `detach`).
        """
        turn = self.start_turn(agent, text, options)
        async with aclosing(self._stream_answering(turn, options, leave=True)) as items:
            async for item in items:
                if isinstance(item, Ended):
                    return check_reply(item)
        raise AssertionError("a stream ends with Ended")

    async def stream(
        self, agent: str, text: str, **options: Unpack[AsyncAskOptions]
    ) -> AsyncGenerator[StreamItem, None]:
        """Send a message and yield what happens; the last item is Ended, whatever the outcome.

        Questions and approvals are passed to the callbacks, if there are any, and yielded, also those that the run
        ahead in the queue waits with (after a Queued). Leaving the loop early stops the run (see `detach`); use
        `contextlib.aclosing` for that to happen at once.
        """
        turn = self.start_turn(agent, text, options)
        async with aclosing(self._stream_answering(turn, options, leave=False)) as items:
            async for item in items:
                yield item

    async def attach(self, agent: str, *, sender: str = "") -> AsyncGenerator[StreamItem, None]:
        """Join the active run of a conversation: what it has said so far, then the rest. Leaving does not stop it."""
        async with aclosing(self.stream_attached(agent, sender)) as items:
            async for item in items:
                yield item

    async def attach_run(self, run_id: str) -> AsyncGenerator[StreamItem, None]:
        """Join any run by its id; one that has ended is repeated."""
        turn = Turn(pb.AttachRunMsg(run_id=run_id), detach=True)
        async with aclosing(turn.items(self._link)) as items:
            async for item in items:
                yield item

    async def kill(self, agent: str, *, sender: str = "") -> bool:
        """Stop the active run of a conversation. False if there was none."""
        message = pb.KillMsg(agent=agent, sender=sender or self._sender)
        return (await self._link.request(pb.ClientMessage(kill=message))).pong.stopped

    # ---- questions and approvals ----

    async def asks(self) -> list[Question | Approval]:
        """The open questions and approvals of your conversations, oldest first."""
        found = (await self._link.request(pb.ClientMessage(list_asks=pb.ListAsksMsg()))).ask_list.asks
        return [convert.convert_ask(info) for info in sorted(found, key=lambda info: info.opened_at)]

    async def decide(self, approval: Approval, decision: Verdict, *, pattern: str = "") -> str:
        """Decide an approval: True or "once", "run", "conversation", "always", False or "deny". Returns its state.

        `Denial("why")` denies with a reason that the model reads. A `pattern` is one of `approval.patterns`, or one
        like it: the rule that is written covers all calls that it matches. For the owner, or a token made with
        --may-approve. Raises Conflict if the call has changed since it was shown.
        """
        return (await self._link.request(decide_message(approval, decision, pattern=pattern))).ask_decided.state

    async def reply(self, question: Question, answer: Answer) -> None:
        """Answer a question: with a text, or with one text for each of its questions."""
        await self._link.request(reply_message(question, answer))

    # ---- conversations ----

    async def history(self, agent: str, *, sender: str = "", archived: bool = False, newest: int = 0) -> list[Message]:
        """The messages of a conversation; with `archived` also those of archives, or only the `newest` ones."""
        message = pb.GetHistoryMsg(agent=agent, sender=sender or self._sender, all=archived, newest=newest)
        found: list[Message] = []
        while True:
            page = (await self._link.request(pb.ClientMessage(get_history=message))).history
            found += map(convert.convert_message, page.messages)
            if not page.next_seq:
                return found
            message.first_seq = page.next_seq

    async def conversations(self, *, agent: str = "", sender: str = "") -> list[Conversation]:
        """Your conversations, the last used first."""
        message = pb.ListConversationsMsg(agent=agent, sender=sender)
        found: list[Conversation] = []
        while True:
            page = (await self._link.request(pb.ClientMessage(list_conversations=message))).conversation_list
            found += map(convert.convert_conversation, page.conversations)
            if not page.next_cursor:
                return found
            message.cursor = page.next_cursor

    async def agents(self) -> list[Agent]:
        """All agents."""
        listed = await self._link.request(pb.ClientMessage(list_agents=pb.ListAgentsMsg()))
        return [convert.convert_agent(info) for info in listed.agent_list.agents]

    # ---- runs ----

    async def start_run(self, text: str, agent: str = "", **options: Unpack[RunOptions]) -> RunInfo:
        """Start a background run; without an agent, of the root agent. It continues without a client."""
        check_options(options, RunOptions.__optional_keys__)
        message = pb.StartRunMsg(
            agent=agent,
            content=text,
            sender=options.get("sender") or self._sender,
            cwd=options.get("cwd") or (caller.read_folder() if self._link.is_local else ""),
            tools=options.get("tools", ()),
            search_path=caller.read_search_path() if self._link.is_local else "",
        )
        if (limits := options.get("limits")) is not None:
            message.limits.CopyFrom(convert.build_limits(limits))
        if options.get("message_id"):
            message.client_message_id = options["message_id"]
        return convert.convert_run((await self._link.request(pb.ClientMessage(start_run=message))).run)

    async def runs(self, *, ended: bool = False, limit: int = 0) -> list[RunInfo]:
        """The active and queued runs of your conversations; with `ended` also the last ones that have ended."""
        message = pb.ListRunsMsg(all=ended, limit=limit)
        listed = await self._link.request(pb.ClientMessage(list_runs=message))
        return [convert.convert_run(info) for info in listed.run_list.runs]

    async def run(self, run_id: str) -> RunInfo:
        """One run; its id may be shortened to six characters."""
        return convert.convert_run(
            (await self._link.request(pb.ClientMessage(get_run=pb.GetRunMsg(run_id=run_id)))).run
        )

    async def wait(
        self, *runs: RunInfo | str, seconds: float = _LONGEST_WAIT, first: bool = False, until_asked: bool = True
    ) -> list[RunInfo]:
        """Wait until all runs have ended, or the `first` of them, and return how they stand then.

        With `until_asked`, also return when only a person can continue them (`needs_person`). A wait that is over
        before that returns them as they are; it never changes a run.
        """
        run_ids = [run.id if isinstance(run, RunInfo) else run for run in runs]
        message = pb.WaitRunsMsg(run_ids=run_ids, seconds=seconds, any=first, until_asked=until_asked)
        waited = await self._link.request(pb.ClientMessage(wait_runs=message))
        return [convert.convert_run(info) for info in waited.run_list.runs]

    async def stop(self, run: RunInfo | str, *, only: bool = False) -> list[RunInfo]:
        """Stop a run and, unless `only`, all runs it started. Returns the stopped ones."""
        message = pb.StopRunMsg(run_id=run.id if isinstance(run, RunInfo) else run, only=only)
        stopped = await self._link.request(pb.ClientMessage(stop_run=message))
        return [convert.convert_run(info) for info in stopped.run_list.runs]

    # ---- events ----

    @asynccontextmanager
    async def events(
        self, *, since: int | None = None, deltas: bool = False
    ) -> AsyncIterator[AsyncGenerator[EventInfo | Gap, None]]:
        """Subscribe to the events of your conversations: `async with moot.events() as events: async for …`.

        Inside the `with` no event is missed. `since` is the number (`seq`) of the last event you have seen; a Gap
        stands for events that are not available any more. After a lost connection it continues where it was.
        `deltas` are the pieces of text and reasoning.
        """
        seq, messages = await (await self._link.open()).open_subscription(since=since, without_deltas=not deltas)
        async with aclosing(self._events(messages, seq if since is None else since, deltas)) as events:
            yield events

    async def _events(
        self, events: AsyncGenerator[pb.AgentEventMsg, None], last: int, deltas: bool
    ) -> AsyncGenerator[EventInfo | Gap, None]:
        while True:
            try:
                async with aclosing(events):
                    async for each in events:
                        last = each.seq
                        yield convert.convert_event(each)
            except Unreachable as loss:
                await self._link.reopen(loss)
                connection = await self._link.open()
                _, events = await connection.open_subscription(since=last, without_deltas=not deltas)

    # ---- shared with the synchronous client ----

    def start_turn(self, agent: str, text: str, options: TurnOptions) -> Turn:
        check_options(options, AsyncAskOptions.__optional_keys__)
        if self._sender and not options.get("sender"):
            options = options | {"sender": self._sender}
        return start_turn(agent, text, options, is_local=self._link.is_local)

    def turn_items(self, turn: Turn) -> AsyncGenerator[StreamItem, None]:
        return turn.items(self._link)

    def stream_attached(self, agent: str, sender: str) -> AsyncGenerator[StreamItem, None]:
        message = pb.AttachMsg(agent=agent, sender=sender or self._sender)
        return Turn(message, detach=True, agent=agent, sender=message.sender).items(self._link)

    async def find_ahead(self, turn: Turn, item: Queued) -> Question | Approval | None:
        """The ask that the run ahead in the queue waits with; None if there is none, or if it was returned before."""
        found = (ask for ask in await self.asks() if ask.id == item.ask_id) if item.ask_id else ()
        return next((ask for ask in found if turn.show_ahead(ask)), None)

    async def _stream_answering(
        self, turn: Turn, options: AsyncAskOptions, *, leave: bool
    ) -> AsyncGenerator[StreamItem, None]:
        on_approval = options.get("on_approval") or self._on_approval
        on_question = options.get("on_question") or self._on_question
        async with aclosing(self.turn_items(turn)) as items:
            async for item in items:
                ask: StreamItem | None = item
                if isinstance(item, Queued):
                    yield item
                    ask = await self.find_ahead(turn, item)
                is_answered = True
                if isinstance(ask, Approval):
                    is_answered = await self._ask_approval(ask, on_approval)
                elif isinstance(ask, Question):
                    is_answered = await self._ask_question(ask, on_question)
                if not is_answered and leave and isinstance(ask, Approval | Question):
                    if isinstance(item, Queued):
                        raise turn.leave_ahead(ask)
                    turn.leave(ask)
                if ask is not None:
                    yield ask

    async def _ask_approval(self, item: Approval, callback: AsyncOnApproval | None) -> bool:
        """Whether the callback has decided. That somebody else was faster is no error."""
        verdict = callback(item) if callback else None
        verdict = await verdict if isawaitable(verdict) else verdict
        if verdict is not None:
            with suppress(Conflict, NotFound):
                await self.decide(item, verdict)
        return verdict is not None

    async def _ask_question(self, item: Question, callback: AsyncOnQuestion | None) -> bool:
        answer = callback(item) if callback else None
        answer = await answer if isawaitable(answer) else answer
        if answer is not None:
            with suppress(Conflict, NotFound):
                await self.reply(item, answer)
        return answer is not None
