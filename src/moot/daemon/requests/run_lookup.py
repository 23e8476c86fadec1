"""Finds runs by id, live or stored."""

from collections.abc import Mapping

from msgspec import Struct

from moot.daemon.principal import Principal
from moot.daemon.requests.run_info import (
    Moment,
    add_needs,
    ended_info,
    live_info,
    turn_info,
)
from moot.domain.errors import BadRequest, NotFound, Unavailable
from moot.domain.ports.clock import Clock
from moot.domain.ports.store import Store
from moot.engine.asks import Asks
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
    clock: Clock

    async def list_live(self) -> dict[str, pb.RunInfo]:
        """Return the current infos of all live runs, by id."""
        at = Moment(self.clock.now(), self.clock.monotonic())
        # The oldest pending ask of each run.
        asks = {ask.run_id: ask for ask in reversed(self.asks.list_pending())}
        infos: dict[str, pb.RunInfo] = {}
        tickets = {
            ticket.request.id: (position, ticket)
            for lane in self.runs.lanes()
            for position, ticket in enumerate([lane.active, *lane.waiting])
            if ticket is not None and ticket.request is not None
        }
        for seen in self.teammates.live():
            _, ticket = tickets.pop(seen.id, (0, None))
            infos[seen.id] = live_info(seen, at, ticket=ticket, ask=asks.get(seen.id))
        for run_id, (position, ticket) in tickets.items():
            waits = self.teammates.waits.waited_for_by(run_id)
            infos[run_id] = turn_info(ticket, at, position=position, ask=asks.get(run_id), waits=waits)
        add_needs(infos)
        return infos

    async def info(self, run_id: str, principal: Principal) -> pb.RunInfo:
        """Return the current info of a run. Raise NotFound also if the principal may not see it."""
        picture = await self.list_live()
        info = picture.get(run_id) or await self.find_stored(run_id)
        if info is None:
            info = await self._find_by_prefix(run_id, picture, principal)
        if info is None and (run := await self.store.get_run(run_id)) is not None and principal.owns(run.root.sender):
            raise Unavailable(f"run {run_id} is not at work in this daemon", fix="Ask the daemon that has it.")
        if info is None or not can_see(principal, info):
            raise NotFound(f"there is no run {run_id!r}", fix=_FIX)
        return info

    async def find_known(self, run_id: str, picture: Mapping[str, pb.RunInfo]) -> pb.RunInfo:
        info = picture.get(run_id) or await self.find_stored(run_id)
        if info is None:
            raise NotFound(f"run {run_id!r} no longer exists", fix=_FIX)
        return info

    async def find_stored(self, run_id: str) -> pb.RunInfo | None:
        run = await self.store.get_run(run_id)
        return ended_info(run) if run is not None and run.end is not None else None

    async def _find_by_prefix(
        self, start: str, picture: Mapping[str, pb.RunInfo], principal: Principal
    ) -> pb.RunInfo | None:
        """Return the run with this id prefix; live runs take precedence over ended ones."""
        if not start:
            return None
        ended = await self.list_ended(principal, MOST_ENDED)
        turns = [await self.find_stored(run_id) for run_id in await self.store.list_run_ids(start, limit=_MOST_ALIKE)]
        ended |= {info.run_id: info for info in turns if info is not None}
        for infos in (picture, ended):
            found = [each for each in infos.values() if each.run_id.startswith(start) and can_see(principal, each)]
            if len(found) > 1 or (found and len(start) < _SHORTEST):
                named = ", ".join(each.run_id for each in found[:5])
                raise BadRequest(f"{start!r} could be any of {named}", fix="Give more of the id.")
            if found:
                return found[0]
        return None

    async def list_ended(self, principal: Principal, limit: int) -> dict[str, pb.RunInfo]:
        """Return the infos of the runs of all kinds that ended last, by id."""
        return {run.id: ended_info(run) for run in await self.store.list_ended_runs(principal.owned, limit=limit)}

    async def add_origins(self, infos: dict[str, pb.RunInfo]) -> None:
        """Add the ancestors of the given runs, so that every run has its parent."""
        missing = {info.parent for info in infos.values() if info.parent and info.parent not in infos}
        while missing:
            found = [await self.find_stored(run_id) for run_id in missing]
            infos.update({info.run_id: info for info in found if info is not None})
            above = {info.parent for info in found if info is not None and info.parent}
            missing = {run_id for run_id in above if run_id not in infos}


def can_see(principal: Principal, info: pb.RunInfo) -> bool:
    return principal.owns(info.root_sender)
