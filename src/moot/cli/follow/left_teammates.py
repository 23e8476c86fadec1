"""Finds the teammates that a run did not wait for, and what they ask. Used by `follow_run` and `moot wait`."""

from collections.abc import Collection
from typing import Any

from msgspec import Struct

from moot.cli.follow import open_asks
from moot.cli.follow.answer import RunResult
from moot.cli.render import plain_data
from moot.client.connection import Connection
from moot.client.errors import WaitingForPerson
from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb


class LeftTeammates(Struct, frozen=True):
    """The active runs below those that have ended, and their open asks, oldest first."""

    runs: tuple[pb.RunInfo, ...] = ()
    asks: tuple[pb.AskInfo, ...] = ()

    def error(self, ended: int = 1) -> WaitingForPerson:
        """The error that lists what is asked after so many runs have ended."""
        head = (
            "the run has ended, and teammates that it" if ended == 1 else "the runs have ended, and teammates that they"
        )
        shown = [line for info in self.asks for line in open_asks.render_ask(info)]
        return WaitingForPerson(
            "\n".join([f"{head} did not wait for wait for a person:", *shown]),
            fix=open_asks.render_advice(self.asks[0]),
        )

    def data(self) -> dict[str, Any]:
        """The fields for --json."""
        data = {"teammates": [*map(plain_data.dump_run, self.runs)], "open_asks": [*map(open_asks.dump_ask, self.asks)]}
        return {key: value for key, value in data.items() if value}


async def find_left(connection: Connection, answer: RunResult) -> LeftTeammates:
    """What a run has left behind; nothing if the daemon does not tell."""
    return await find_left_by(connection, [answer.run_id] if answer.has_called_tools and answer.run_id else [])


async def find_left_by(connection: Connection, run_ids: Collection[str]) -> LeftTeammates:
    """What these runs, which have ended, have left behind; nothing if the daemon does not tell."""
    try:
        return await _find(connection, run_ids) if run_ids else LeftTeammates()
    except MootError:
        return LeftTeammates()


async def _find(connection: Connection, run_ids: Collection[str]) -> LeftTeammates:
    listed = (await connection.request(pb.ClientMessage(list_runs=pb.ListRunsMsg()))).run_list.runs
    tree = set(run_ids)
    found: list[pb.RunInfo] = []
    # Those above come before those they spawned.
    for info in listed:
        if info.parent in tree:
            tree.add(info.run_id)
            found += [] if info.outcome else [info]
    open_ids = {info.ask_id for info in found if info.ask_id}
    if not open_ids:
        return LeftTeammates(tuple(found))
    asks = (await connection.request(pb.ClientMessage(list_asks=pb.ListAsksMsg()))).ask_list.asks
    here = sorted((ask for ask in asks if ask.ask_id in open_ids), key=lambda ask: ask.opened_at)
    return LeftTeammates(tuple(found), tuple(here))
