"""PresenceRecord: what a daemon announces about itself, signed with its key. Written and read by presence.py. Pure.

Whatever is read here may be hostile.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from moot.domain.errors import BadRequest
from moot.domain.goal import read_goal_id
from moot.domain.outbox import Position
from moot.domain.peer_address import is_daemon_name, is_peer_pattern
from moot.multiagent.peers.daemons.signatures import Identity, is_key, verify

MAX_RECORD_BYTES = 1024 * 1024
# One more than a message may go to, so that a sender knows that there are too many.
MOST_GOALS_OF_AGENT = 65
MOST_DAEMONS = 256
_MOST_AGENTS = 1_000
_MOST_PATTERNS = 1_000
_LONGEST_DESCRIPTION = 500
_LONGEST_STREAM = 256
# What a store can compare with its own numbers.
_LARGEST = (1 << 63) - 1
_LARGEST_STORE = (1 << 62) - 1
_CONTEXT = b"moot-presence-1\n"

_Name = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9_-]*$")]


class PeerAgent(Struct, frozen=True, kw_only=True):
    """An agent of another daemon, as that one announces it."""

    agent_id: _Name
    description: Annotated[str, Meta(max_length=_LONGEST_DESCRIPTION)] = ""
    accept_delegates_from: Annotated[tuple[str, ...], Meta(max_length=_MOST_PATTERNS)] | None = None
    # Its live goals that belong to the owner of the daemon.
    goals: Annotated[tuple[str, ...], Meta(max_length=MOST_GOALS_OF_AGENT)] = ()


class PresenceRecord(Struct, frozen=True, kw_only=True):
    name: str
    key: str
    # The number of its store, and how far that has received what the broker keeps for it.
    store: int
    position: Position | None = None
    version: Annotated[str, Meta(max_length=64)] = ""
    started_at: float
    # Counts the records since the start.
    number: int = 0
    # The keys of the daemons it knows, by name.
    knows: Annotated[dict[str, str], Meta(max_length=MOST_DAEMONS)]
    agents: Annotated[tuple[PeerAgent, ...], Meta(max_length=_MOST_AGENTS)] = ()
    # It is about to stop.
    is_leaving: bool = False


class _Envelope(Struct, frozen=True, kw_only=True):
    record: str
    signature: str


def shorten_description(text: str) -> str:
    return text[:_LONGEST_DESCRIPTION]


def encode_record(record: PresenceRecord, identity: Identity) -> bytes:
    text = msgspec.json.encode(record)
    return msgspec.json.encode(_Envelope(record=text.decode(), signature=identity.sign(_CONTEXT + text)))


def read_record(name: str, payload: bytes) -> PresenceRecord:
    """Read what was announced under a name. Raise BadRequest if it is not signed, or not about that daemon."""
    if len(payload) > MAX_RECORD_BYTES:
        raise BadRequest(f"the record has {len(payload)} bytes, max {MAX_RECORD_BYTES}")
    try:
        envelope = msgspec.json.decode(payload, type=_Envelope)
        record = msgspec.json.decode(envelope.record, type=PresenceRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the record is malformed: {error}") from None
    _check(name, record)
    if not verify(record.key, envelope.signature, _CONTEXT + envelope.record.encode()):
        raise BadRequest("the signature is not valid")
    return record


def _check(name: str, record: PresenceRecord) -> None:
    if record.name != name or not is_daemon_name(name):
        raise BadRequest(f"the record is about {record.name!r}")
    if not is_key(record.key):
        raise BadRequest("`key` is not valid")
    if not 0 <= record.store <= _LARGEST_STORE or not _is_valid(record.position):
        raise BadRequest("`store` or `position` is not valid")
    for agent in record.agents:
        if not all(map(is_peer_pattern, agent.accept_delegates_from or ())):
            raise BadRequest("`accept_delegates_from` is not valid")
        for goal_id in agent.goals:
            numbers = read_goal_id(goal_id)
            if numbers is None or numbers[0] != record.store:
                raise BadRequest("it names goals of another store")


def _is_valid(position: Position | None) -> bool:
    if position is None:
        return True
    return 0 <= position.sequence <= _LARGEST and len(position.stream) <= _LONGEST_STREAM
