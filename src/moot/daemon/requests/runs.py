"""Handlers for runs: start, list, show, attach, wait, stop."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from msgspec import Struct

from moot.daemon.principal import Principal
from moot.daemon.requests.records import RecordRequests
from moot.daemon.requests.reply import Reply
from moot.daemon.requests.run_info import (
    key_of,
    shorten_info,
    sort_as_tree,
)
from moot.daemon.requests.run_lookup import MOST_ENDED, RunLookup, can_see
from moot.daemon.requests.talk import TalkRequests, parse_limits
from moot.domain.agent import ROOT
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, Conflict, NotFound
from moot.domain.events import Event, EventSource, Gap, RunBlocked, RunEnded, RunQueued, RunUnblocked
from moot.domain.ports.clock import Clock
from moot.domain.ports.store import Store
from moot.domain.run import Outcome, RunKind
from moot.domain.scope import only
from moot.domain.senders import BACKGROUND_SENDER
from moot.engine.bus import Bus
from moot.engine.request_factory import RequestFactory
from moot.engine.run_results import load_result
from moot.engine.run_stream import RunStream, repeat_run
from moot.engine.runs import Runs
from moot.engine.supervisor import Supervisor
from moot.engine.tool_registry import ToolRegistry
from moot.multiagent.teammates.run_factory import SpawnRequest
from moot.multiagent.teammates.teammates import Teammates
from moot.wire import moot_pb2 as pb

_ENDED = 50
_MOST_WAITED = 256
_LONGEST_WAIT = 86_400.0
_STOP_SECONDS = 5.0
# The length of texts in a list of runs; a single run is sent complete.
_LISTED_TEXT = 4_000
_WAITED_TEXT = 1_000_000
# Events after which a wait may be over: a run has ended, or its block has changed.
_CHANGES_A_WAIT = (RunEnded, RunBlocked, RunUnblocked)


class RunRequestDependencies(Struct, frozen=True, kw_only=True):
    lookup: RunLookup
    teammates: Teammates
    runs: Runs
    store: Store
    requests: RequestFactory
    talk: TalkRequests
    records: RecordRequests
    tools: ToolRegistry
    # Stops the background commands of a conversation.
    stop_jobs: Callable[[ConversationKey], None]
    clock: Clock
    supervisor: Supervisor
    bus: Bus


class RunRequests:
    def __init__(self, dependencies: RunRequestDependencies) -> None:
        self._d = dependencies
        self._lookup = dependencies.lookup

    # ---- start --------------------------------------------------------------------------------

    async def start_run(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        start = message.start_run
        if start.cwd:
            principal.require_owner("choose the working directory")
        if start.search_path:
            principal.require_owner("set the search path for programs")
        sender = principal.sender(start.sender)
        # The same checks and redaction as for a turn.
        request = await self._d.requests.turn(
            ConversationKey(start.agent or ROOT, sender),
            start.content,
            cwd=start.cwd,
            limits=parse_limits(start.limits) if start.HasField("limits") else None,
            client_message_id=start.client_message_id,
        )
        self._check_tools(request.speaker, start.tools)
        wanted = SpawnRequest(
            agent=request.speaker,
            instruction=request.content,
            allowed_tools=tuple(start.tools) or None,
            limits=request.limits,
            search_path=self._d.requests.with_search_path(request, start.search_path).search_path,
        )
        run = await self._d.teammates.start(
            wanted, owner=sender, cwd=request.cwd, client_message_id=request.client_message_id
        )
        reply.send(pb.ServerMessage(run=await self._lookup.info(run.id, principal)))

    def _check_tools(self, agent: str, patterns: Sequence[str]) -> None:
        scope = self._d.requests.resolve_agent(agent).scope
        own = sorted(name for name in self._d.tools.tools() if scope.allows(name))
        for pattern in patterns:
            if not any(only(pattern).allows(name) for name in own):
                raise BadRequest(
                    f"{agent} has no tool {pattern!r}",
                    fix=f"Name one of: {', '.join(own)}." if own else "Leave the tools out.",
                )

    # ---- find ---------------------------------------------------------------------------------

    async def list_runs(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.list_runs
        infos = {run_id: info for run_id, info in (await self._lookup.list_live()).items() if can_see(principal, info)}
        most, more = min(request.limit or _ENDED, MOST_ENDED), False
        if request.all:
            prefix = BACKGROUND_SENDER if request.tasks else ""
            ended = await self._lookup.list_ended(principal, most + 1, prefix=prefix)
            more = len(ended) > most
            infos = {**dict(islice(ended.items(), most)), **infos}
        await self._lookup.add_origins(infos)
        runs = [shorten_info(info, _LISTED_TEXT) for info in sort_as_tree(infos.values())]
        reply.send(pb.ServerMessage(run_list=pb.RunList(runs=runs, more=more)))

    async def get_run(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        reply.send(pb.ServerMessage(run=await self._lookup.info(message.get_run.run_id, principal)))

    async def get_run_history(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        wanted = message.get_run_history
        info = await self._lookup.info(wanted.run_id, principal)
        request = pb.GetHistoryMsg(first_seq=wanted.first_seq, newest=wanted.newest, all=True)
        # A background run has its own conversation, so later messages there, such as reports, belong to it.
        run_id = "" if info.kind == RunKind.BACKGROUND else info.run_id
        try:
            history = await self._d.records.history(key_of(info), request, run_id=run_id)
        except NotFound:
            # It has not begun, or its messages were removed; only its instruction is known.
            history = pb.History(queued=[info.instruction])
        reply.send(pb.ServerMessage(history=history))

    async def attach_run(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        info = await self._lookup.find_here(message.attach_run.run_id, principal)
        stream = self._stream(info.run_id)
        if stream is None and not info.outcome:
            stream = await self._wait_for_stream(info, reply)
        await self._d.talk.follow(stream or await self._repeat_stream(info), reply)

    # ---- wait and stop ------------------------------------------------------------------------

    async def wait_runs(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.wait_runs
        if not 1 <= len(request.run_ids) <= _MOST_WAITED:
            raise BadRequest(f"between 1 and {_MOST_WAITED} runs can be waited for", fix="Name the runs.")
        picture = await self._lookup.list_live()
        found = [await self._lookup.find_here(run_id, principal, picture) for run_id in request.run_ids]
        run_ids = [info.run_id for info in found]
        deadline = self._d.clock.monotonic() + min(max(0.0, request.seconds), _LONGEST_WAIT)
        news = asyncio.Event()

        leave = self._d.bus.observe(lambda _event: news.set(), *_CHANGES_A_WAIT)
        reply.on_close(news.set)
        try:
            while True:
                news.clear()
                picture = await self._lookup.list_live()
                infos = [await self._lookup.find_known(run_id, picture) for run_id in run_ids]
                left = deadline - self._d.clock.monotonic()
                over = _is_over(infos, any_of_them=request.any) or (request.until_asked and _asks(infos, request.any))
                if over or left <= 0 or reply.closed.is_set():
                    shortened = [shorten_info(info, _WAITED_TEXT // len(infos)) for info in infos]
                    reply.send(pb.ServerMessage(run_list=pb.RunList(runs=shortened, timed_out=not over)))
                    return
                await self._wait_for_change(news, left)
        finally:
            leave()

    async def _wait_for_change(self, news: asyncio.Event, seconds: float) -> None:
        """Wait until there are events, a teammate has ended, or the time is up."""
        # RunEnded of a teammate is published before it is removed from the live runs, so wait for that too.
        live = [run.id for run in self._d.teammates.local_runs()]
        waits: list[asyncio.Task[object]] = [self._d.supervisor.start("wait for news", _wait(news))]
        if live:
            over = self._d.teammates.wait_for_end(live, seconds=seconds, every=False)
            waits.append(self._d.supervisor.start("wait for a run", over))
        try:
            with suppress(TimeoutError):
                async with self._d.clock.timeout(seconds):
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    async def stop_run(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.stop_run
        info = await self._lookup.find_here(request.run_id, principal)
        if info.kind == RunKind.TURN and info.position:
            # It may begin meanwhile, and is then stopped like any active run.
            with suppress(Conflict):
                await self._d.runs.withdraw(ConversationKey(info.root_agent, info.root_sender), info.run_id)
        # It may have ended since it was looked up.
        picture = await self._lookup.list_live()
        info = await self._lookup.info(info.run_id, principal, picture)
        if _is_withdrawn(info):
            reply.send(pb.ServerMessage(run_list=pb.RunList(runs=[shorten_info(info, _LISTED_TEXT)])))
            return
        if info.outcome:
            raise Conflict(
                f"run {info.run_id} has ended already: {info.outcome}", fix=f"See it with `moot show {info.run_id}`."
            )
        stopped = [info.run_id] if request.only else _list_subtree(picture, info.run_id)
        if request.only:
            await self._d.teammates.detach_children(info.run_id)
        await self._end(info, only=request.only)
        await self._d.teammates.wait_for_end(stopped, seconds=_STOP_SECONDS, every=True)
        for run_id in stopped:
            self._d.stop_jobs(key_of(picture[run_id]))
        now = await self._lookup.list_live()
        infos = [await self._lookup.find_known(run_id, now) for run_id in stopped]
        shortened = [shorten_info(info, _LISTED_TEXT) for info in sort_as_tree(infos)]
        reply.send(pb.ServerMessage(run_list=pb.RunList(runs=shortened)))

    async def _end(self, info: pb.RunInfo, *, only: bool) -> None:
        if info.kind == RunKind.TURN:
            await self._stop_turn(info)
        else:
            await self._d.teammates.stop(info.run_id, only=only)

    async def _stop_turn(self, info: pb.RunInfo) -> None:
        over = asyncio.Event()

        def read(event: Event) -> None:
            if event.source.run_id == info.run_id:
                over.set()

        leave = self._d.bus.observe(read, RunEnded)
        try:
            key = ConversationKey(info.root_agent, info.root_sender)
            # It may have ended meanwhile, and another run may be active there.
            if self._d.runs.kill(key, info.run_id):
                async with self._d.clock.timeout(_STOP_SECONDS):
                    await over.wait()
        except TimeoutError:
            # It was told to stop; the answer contains its current state.
            return
        finally:
            leave()

    # ---- following ----------------------------------------------------------------------------

    def _stream(self, run_id: str) -> RunStream | None:
        ticket = self._d.runs.ticket(run_id)
        return ticket.stream if ticket is not None else None

    async def _wait_for_stream(self, info: pb.RunInfo, reply: Reply) -> RunStream | None:
        """Wait for a queued run to begin and return its stream; None if it is stopped before."""
        line = [run.id for run in self._d.teammates.local_runs() if self._stream(run.id) is None]
        begun = asyncio.Event()

        def read(item: Event | Gap) -> None:
            if isinstance(item, Event) and isinstance(item.body, RunQueued):
                reply.event(item)
            begun.set()

        subscription = self._d.bus.subscribe(read, wants=lambda event: event.source.run_id == info.run_id)
        reply.on_close(begun.set)
        try:
            if info.run_id in line:
                source = EventSource(key=key_of(info), root=key_of(info), run_id=info.run_id)
                reply.event(Event(0, 0.0, source, RunQueued(line.index(info.run_id) + 1)))
            while (stream := self._stream(info.run_id)) is None and self._d.teammates.find_live(
                info.run_id
            ) is not None:
                if reply.closed.is_set():
                    break
                begun.clear()
                await self._wait_for_change(begun, _LONGEST_WAIT)
            return stream
        finally:
            subscription.close()

    async def _repeat_stream(self, info: pb.RunInfo) -> RunStream:
        """Return the stream of an ended run."""
        run = await self._d.store.get_run(info.run_id)
        if run is None or run.end is None:
            raise Conflict(f"run {info.run_id} is not available at the moment", fix="Try again in a moment.")
        return repeat_run(await load_result(self._d.store, run))


def _is_withdrawn(info: pb.RunInfo) -> bool:
    """Return whether a turn was stopped while it was queued; stopping it again changes nothing."""
    return info.kind == RunKind.TURN and info.outcome == Outcome.CANCELLED and not info.started_at


def _list_subtree(infos: Mapping[str, pb.RunInfo], run_id: str) -> list[str]:
    """Return the ids of a run and of all runs below it."""
    found = [run_id]
    for each in found:
        found += [info.run_id for info in infos.values() if info.parent == each]
    return found


def _is_over(infos: Iterable[pb.RunInfo], *, any_of_them: bool) -> bool:
    ended = [bool(info.outcome) for info in infos]
    return any(ended) if any_of_them else all(ended)


def _asks(infos: Iterable[pb.RunInfo], any_of_them: bool) -> bool:
    """Return whether the wait cannot end without a person."""
    needs = [info.needs_person for info in infos if not info.outcome]
    return bool(needs) and (all(needs) if any_of_them else any(needs))


async def _wait(news: asyncio.Event) -> None:
    await news.wait()
