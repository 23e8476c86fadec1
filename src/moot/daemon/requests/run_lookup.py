"""Finds runs by id. The stored rows say which are live, on every node; this node's memory adds what its own do."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from moot.daemon.principal import Principal
from moot.daemon.requests.run_info import (
    Moment,
    add_needs,
    build_ended_info,
    build_stored_info,
    key_of,
    live_info,
    turn_info,
)
from moot.domain.ask import Ask
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, NotFound, Unavailable
from moot.domain.near_names import suggest_name
from moot.domain.owner import Location, OwnedRun, check_here
from moot.domain.ports.clock import Clock
from moot.domain.ports.mail import MailStore
from moot.domain.ports.store import Store
from moot.domain.run import Run, RunKind, RunStatus
from moot.engine.asks import Asks
from moot.engine.run_results import load_result, load_results
from moot.engine.runs import Runs
from moot.multiagent.teammates.teammates import Teammates
from moot.wire import moot_pb2 as pb

MOST_ENDED = 500
# A shorter prefix of an id could soon match another run.
_SHORTEST = 6
_MOST_ALIKE = 64
_FIX = "`moot ps -a` lists them."


class RunLookup(Struct, frozen=True, kw_only=True):
    """Finds live and stored runs."""

    teammates: Teammates
    runs: Runs
    store: Store
    asks: Asks
    mail: MailStore
    clock: Clock

    async def list_live(self) -> dict[str, pb.RunInfo]:
        """Return the current infos of all live runs of all nodes, by id."""
        stored = await self.store.list_live_runs()
        # The oldest pending ask of each run.
        asks = {ask.run_id: ask for ask in reversed(await self.asks.list_pending())}
        infos = self._add_memory(stored, asks)
        for owned in stored:
            if owned.run.id in infos:
                continue
            if owned.location is Location.HERE:
                # It has ended since the rows were read, or its end is not on disk yet.
                run = await self.store.get_run(owned.run.id)
                if run is None or run.end is not None:
                    continue
            position = _queue_position(owned, stored)
            infos[owned.run.id] = build_stored_info(owned, self._now(), ask=asks.get(owned.run.id), position=position)
        add_needs(infos)
        unread = await self.mail.count_unread()
        for info in infos.values():
            info.unread = unread.get(key_of(info), 0)
        return infos

    def _add_memory(self, stored: Sequence[OwnedRun], asks: Mapping[str, Ask]) -> dict[str, pb.RunInfo]:
        """Return the infos of those of the stored runs that this node has in memory, with what it knows of them."""
        at, infos = self._now(), dict[str, pb.RunInfo]()
        tickets = {
            ticket.request.id: (position, ticket)
            for lane in self.runs.local_lanes()
            for position, ticket in enumerate([lane.active, *lane.waiting])
            if ticket is not None and ticket.request is not None
        }
        spawned = {view.id: view for view in self.teammates.local_runs()}
        for run in [owned.run for owned in stored if owned.location is Location.HERE]:
            position, ticket = tickets.get(run.id, (0, None))
            if run.id in spawned:
                infos[run.id] = live_info(spawned[run.id], at, ticket=ticket, ask=asks.get(run.id))
            elif ticket is not None:
                waits = self.teammates.waits.list_awaited(run.id)
                infos[run.id] = turn_info(run, ticket, at, position=position, ask=asks.get(run.id), waits=waits)
        return infos

    def _now(self) -> Moment:
        return Moment(self.clock.now(), self.clock.monotonic())

    async def find_here(
        self, run_id: str, principal: Principal, picture: Mapping[str, pb.RunInfo] | None = None
    ) -> pb.RunInfo:
        """Return the info of a run that this node can act on, or that has ended.

        Raise Fenced if it is on another living node, and Unavailable if it is on none.
        """
        info = await self.info(run_id, principal, picture)
        if not info.outcome:
            owner = await self.store.find_owner(key_of(info))
            check_here(f"run {info.run_id}", owner)
            if owner is not None and owner.location is Location.NOWHERE:
                raise Unavailable(
                    f"no running daemon executes run {info.run_id}", fix="The next daemon that starts continues it."
                )
        return info

    async def group_by_conversation(self) -> dict[ConversationKey, list[OwnedRun]]:
        """Return the live runs of living nodes by conversation; conversations with other work here have none."""
        stored = [owned for owned in await self.store.list_live_runs() if owned.location is not Location.NOWHERE]
        groups: dict[ConversationKey, list[OwnedRun]] = {lane.key: [] for lane in self.runs.local_lanes()}
        for owned in stored:
            groups.setdefault(owned.run.key, []).append(owned)
        return groups

    async def info(
        self, run_id: str, principal: Principal, picture: Mapping[str, pb.RunInfo] | None = None
    ) -> pb.RunInfo:
        """Return the current info of a run. Raise NotFound also if the principal may not see it."""
        if picture is None:
            picture = await self.list_live()
        info = picture.get(run_id) or await self.find_stored(run_id)
        if info is None:
            info = await self._find_by_prefix(run_id, picture, principal)
        if info is None or not can_see(principal, info):
            visible = [each.run_id for each in picture.values() if can_see(principal, each)]
            raise NotFound(f"there is no run {run_id!r}", fix=suggest_name(run_id, visible) + _FIX)
        return info

    async def find_known(self, run_id: str, picture: Mapping[str, pb.RunInfo]) -> pb.RunInfo:
        info = picture.get(run_id) or await self.find_stored(run_id)
        if info is None:
            raise NotFound(f"run {run_id!r} no longer exists", fix=_FIX)
        return info

    async def find_stored(self, run_id: str) -> pb.RunInfo | None:
        run = await self.store.get_run(run_id)
        return build_ended_info(await load_result(self.store, run)) if run is not None and run.end is not None else None

    async def _find_by_prefix(
        self, start: str, picture: Mapping[str, pb.RunInfo], principal: Principal
    ) -> pb.RunInfo | None:
        """Return the run with this id prefix; live runs take precedence over ended ones."""
        if not start:
            return None
        known = await self.store.list_ended_runs(principal.owned, limit=MOST_ENDED)
        ended = {run.id: build_ended_info(run) for run in known}
        turns = [await self.find_stored(run_id) for run_id in await self.store.list_run_ids(start, limit=_MOST_ALIKE)]
        ended |= {info.run_id: info for info in turns if info is not None}
        for infos in (picture, ended):
            found = [each for each in infos.values() if each.run_id.startswith(start) and can_see(principal, each)]
            if len(found) > 1 or (found and len(start) < _SHORTEST):
                named = ", ".join(each.run_id for each in found[:5])
                raise BadRequest(f"{start!r} is ambiguous: {named}", fix="Give more characters of the id.")
            if found:
                return found[0] if infos is picture else await self.find_stored(found[0].run_id)
        return None

    async def list_ended(self, principal: Principal, limit: int, *, prefix: str = "") -> dict[str, pb.RunInfo]:
        """Return the infos of the runs of all kinds that ended last, by id; of senders with a prefix if it is given."""
        found = await self.store.list_ended_runs(principal.owned, prefix=prefix, limit=limit)
        return {run.id: build_ended_info(run) for run in await load_results(self.store, found)}

    async def add_origins(self, infos: dict[str, pb.RunInfo]) -> None:
        """Add the ancestors of the given runs, so that every run has its parent."""
        missing = {info.parent for info in infos.values() if info.parent and info.parent not in infos}
        while missing:
            found = [await self.find_stored(run_id) for run_id in missing]
            infos.update({info.run_id: info for info in found if info is not None})
            above = {info.parent for info in found if info is not None and info.parent}
            missing = {run_id for run_id in above if run_id not in infos}


def _queue_position(owned: OwnedRun, stored: Sequence[OwnedRun]) -> int:
    """Return the position of a queued turn in its conversation, counted from 1; 0 for any other run."""

    def is_queued(run: Run) -> bool:
        return run.kind is RunKind.TURN and run.status is RunStatus.QUEUED and run.key == owned.run.key

    queue = [each.run.id for each in stored if is_queued(each.run)]
    return queue.index(owned.run.id) + 1 if owned.run.id in queue else 0


def can_see(principal: Principal, info: pb.RunInfo) -> bool:
    return principal.owns(info.root_sender)
