"""RemoteDirectory: the other daemons on the broker, their agents, and whether they are there. In memory.

presence.py fills it; mail_sender.py, relay.py, receiver.py and the requests of `moot peers` read it.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.outbox import KnownDaemon, Position
from moot.domain.peer_address import join_address, split_address
from moot.multiagent.peers.daemons.link import DaemonLink
from moot.multiagent.peers.daemons.presence_record import MOST_DAEMONS, PeerAgent, PresenceRecord
from moot.multiagent.peers.daemons.signatures import make_fingerprint

# A daemon counts as gone when nothing was heard of it for this long.
EXPIRY_SECONDS = 10.0
# By then a goal that has written has been announced, or it has ended.
_WRITER_SECONDS = 5.0


class RemoteAgent(Struct, frozen=True, kw_only=True, gc=False):
    """An agent of another daemon, with its address."""

    daemon: str
    agent: PeerAgent
    # When its daemon was last heard.
    last_seen: float

    @property
    def address(self) -> str:
        return join_address(self.agent.agent_id, self.daemon)


class DaemonStatus(Struct, frozen=True, kw_only=True):
    """What a person is shown of another daemon."""

    name: str
    fingerprint: str
    is_live: bool
    last_seen: float
    version: str = ""
    # Why nothing can be sent to it or is accepted from it; empty if that is not so.
    problem: str = ""


class RemoteDirectory:
    def __init__(self, link: DaemonLink) -> None:
        self._link = link
        # How far the store of this daemon has received what the broker keeps for it.
        self.position: Position | None = None
        self._problem = ""
        self._problem_changed = asyncio.Event()
        self._known: dict[str, KnownDaemon] = {}
        # The last record of each daemon that was heard since the start, and which of them are there.
        self._records: dict[str, PresenceRecord] = {}
        # By the monotonic clock of this daemon, since that of the other may be wrong.
        self._live: dict[str, float] = {}
        self._last_seen: dict[str, float] = {}
        # Goals that have written lately, with the address of their agent.
        self._writers: dict[str, tuple[str, float]] = {}
        # The agents that were found by an address or a name; forgotten whenever something is heard.
        self._found: dict[str, Sequence[RemoteAgent]] = {}
        # Other keys that were announced under the names of known daemons.
        self._refused_keys: dict[str, str] = {}
        # Daemons that announced the store of another one, with the name of that.
        self._refused_stores: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The name of this daemon."""
        return self._link.name

    @property
    def is_up(self) -> bool:
        """Whether other daemons can be heard now."""
        return self._link.is_up

    @property
    def problem(self) -> str:
        """Why this daemon cannot take part; empty if it can."""
        return self._problem

    @problem.setter
    def problem(self, text: str) -> None:
        self._problem = text
        self._problem_changed.set()

    async def wait_for_problem(self, *, present: bool) -> None:
        """Wait until there is a problem, or none. Only receiver.py waits."""
        while bool(self._problem) is not present:
            self._problem_changed.clear()
            await self._problem_changed.wait()

    # ---- what presence.py reports -----------------------------------------------------------------

    def load(self, daemons: Iterable[KnownDaemon]) -> None:
        self._known = {daemon.name: daemon for daemon in daemons}

    def add(self, daemon: KnownDaemon) -> None:
        self._known[daemon.name] = daemon
        self._refused_keys.pop(daemon.name, None)

    def forget(self, name: str) -> None:
        tables: tuple[dict[str, Any], ...] = (
            self._known,
            self._records,
            self._live,
            self._last_seen,
            self._refused_keys,
            self._refused_stores,
        )
        for table in tables:
            table.pop(name, None)
        self._found.clear()

    def refuse_key(self, name: str, key: str) -> bool:
        """Note that another key was announced under a known name; return whether that is new."""
        is_new = self._refused_keys.get(name) != key
        self._refused_keys[name] = key
        return is_new

    def find_store_holder(self, record: PresenceRecord) -> str:
        """Return the other daemon, with another key, that has the store of a record; empty if there is none."""
        others = (each for name, each in self._known.items() if name != record.name)
        return next((each.name for each in others if each.store == record.store and each.key != record.key), "")

    def refuse_store(self, name: str, holder: str) -> bool:
        """Note that a daemon announced the store of another one; return whether that is new."""
        is_new = self._refused_stores.get(name) != holder
        if len(self._refused_stores) >= MOST_DAEMONS:
            self._refused_stores.clear()
        self._refused_stores[name] = holder
        return is_new

    def accept(self, record: PresenceRecord, now: float, at: float) -> bool:
        """Note the record of a known daemon; return whether the daemon was not there before, or was restarted.

        `now` is the monotonic time, `at` that of the calendar.
        """
        before = self._records.get(record.name)
        if before is not None and before.started_at == record.started_at and record.number <= before.number:
            return False
        self._forget_earlier_name(record)
        self._records[record.name] = record
        self._found.clear()
        self._refused_stores.pop(record.name, None)
        self._last_seen[record.name] = at
        if record.is_leaving:
            self._live.pop(record.name, None)
            return False
        is_new = record.name not in self._live or before is None or before.started_at != record.started_at
        self._live[record.name] = now
        return is_new

    def _forget_earlier_name(self, record: PresenceRecord) -> None:
        """Note that a daemon which was renamed while it runs is no longer there under its earlier name."""
        for name, earlier in list(self._records.items()):
            is_same_process = (earlier.key, earlier.started_at) == (record.key, record.started_at)
            if is_same_process and name != record.name and earlier.number < record.number:
                del self._records[name]
                self._live.pop(name, None)

    def forget_live(self) -> None:
        """Note that no other daemon can be there: this one has left the broker for good."""
        self._live.clear()
        self._found.clear()

    def renew_all(self, now: float) -> None:
        """Give all daemons time to be heard: without a connection nothing is known about them."""
        self._live = dict.fromkeys(self._live, now)

    def expire(self, now: float) -> list[str]:
        """Remove the daemons that were not heard for too long; return their names."""
        self._writers = {
            goal_id: (address, at) for goal_id, (address, at) in self._writers.items() if now < at + _WRITER_SECONDS
        }
        gone = [name for name, at in self._live.items() if now >= at + EXPIRY_SECONDS]
        for name in gone:
            del self._live[name]
        self._found.clear()
        return gone

    def note_writer(self, address: str, goal_id: str, now: float) -> None:
        """Note that a goal of another daemon has written, which may not have announced it yet: it can be answered."""
        known = self._writers.get(goal_id)
        if known is None or known[0] != address:
            self._found.clear()
        self._writers[goal_id] = address, now

    def get_next_expiry(self) -> float | None:
        """Return when the next daemon expires if it is not heard again; None if none is there."""
        return min(self._live.values()) + EXPIRY_SECONDS if self._live else None

    # ---- what others ask --------------------------------------------------------------------------

    def find_daemon(self, name: str) -> KnownDaemon | None:
        return self._known.get(name)

    def list_known_keys(self) -> dict[str, str]:
        return {name: daemon.key for name, daemon in self._known.items()}

    def list_agents(self) -> list[RemoteAgent]:
        """Return the agents of the daemons that are there."""
        return self._list_agents("", "")

    def _list_agents(self, agent_id: str, daemon: str) -> list[RemoteAgent]:
        """Return the agents of this name or of any, on this daemon or on all."""
        names = sorted(self._live) if not daemon else [daemon] if daemon in self._live else []
        return [
            RemoteAgent(daemon=name, agent=self._add_writers(name, agent), last_seen=self._last_seen[name])
            for name in names
            for agent in self._records[name].agents
            if agent_id in ("", agent.agent_id)
        ]

    def _add_writers(self, daemon: str, agent: PeerAgent) -> PeerAgent:
        if not self._writers:
            return agent
        address = join_address(agent.agent_id, daemon)
        new = [goal_id for goal_id, (of, _) in self._writers.items() if of == address and goal_id not in agent.goals]
        return replace(agent, goals=(*agent.goals, *new)) if new else agent

    def find_agents(self, to: str) -> Sequence[RemoteAgent]:
        """Return the agents of this address, or of this name on any other daemon."""
        if (known := self._found.get(to)) is not None:
            return known
        name, daemon = split_address(to)
        found = self._list_agents(name, daemon) if name else []
        if found:
            self._found[to] = found
        return found

    def find_away(self, to: str) -> str:
        """Return the known daemon that has an agent of this address or name, and is not there; empty if none has."""
        name, daemon = split_address(to)
        away = [each for each in sorted(self._known) if each not in self._live and daemon in ("", each)]
        # An address names its daemon, which may not have been heard since the start.
        has_agent = [each for each in away if daemon or self._has_agent(each, name)]
        return has_agent[0] if has_agent else ""

    def _has_agent(self, daemon: str, name: str) -> bool:
        record = self._records.get(daemon)
        return record is not None and any(agent.agent_id == name for agent in record.agents)

    def find_store(self, name: str) -> int | None:
        known = self._known.get(name)
        return None if known is None else known.store

    def explain_unreachable(self, name: str) -> str:
        """Return why mail to a daemon would be dropped there; empty if nothing is known against it."""
        if self._problem:
            return self._problem
        record = self._records.get(name)
        if record is None or record.knows.get(self._link.name) == self._link.identity.key:
            return ""
        if self.name not in record.knows:
            return f"daemon `{name}` has not heard of this one yet; try again in a few seconds"
        return (
            f"daemon `{name}` knows another key under the name `{self.name}`; if this daemon is the right one, run"
            f" `moot peers daemons --forget {self.name}` there"
        )

    def may_publish_to(self, store: int) -> bool:
        """Whether a store would accept mail of this daemon, as far as is known."""
        names = [name for name, daemon in self._known.items() if daemon.store == store]
        # A daemon that was renamed has also the names that it had before: what was heard under those is out of date.
        live = [name for name in names if name in self._live]
        return not self.problem and not any(map(self.explain_unreachable, live or names))

    def list_daemons(self) -> list[DaemonStatus]:
        return [self._describe(daemon) for _, daemon in sorted(self._known.items())]

    def count_live(self) -> int:
        return len(self._live)

    def _describe(self, daemon: KnownDaemon) -> DaemonStatus:
        record = self._records.get(daemon.name)
        return DaemonStatus(
            name=daemon.name,
            fingerprint=make_fingerprint(daemon.key),
            is_live=daemon.name in self._live,
            last_seen=self._last_seen.get(daemon.name, daemon.last_seen),
            version=record.version if record is not None else "",
            problem=self._find_problem(daemon.name),
        )

    def _find_problem(self, name: str) -> str:
        other = self._refused_keys.get(name)
        if other is not None:
            return (
                f"another key ({make_fingerprint(other)}) is announced under this name and refused; if it is right, run"
                f" `moot peers daemons --forget {name}`"
            )
        holder = self._refused_stores.get(name)
        if holder is not None:
            return (
                f"it announces the store of daemon `{holder}` with another key and is refused; if `{holder}` is gone,"
                f" run `moot peers daemons --forget {holder}`"
            )
        return self.explain_unreachable(name) if name in self._live else ""
