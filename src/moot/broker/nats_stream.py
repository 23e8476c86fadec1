"""The JetStream stream that all daemons share: its configuration, its id, and which subjects a store receives.

A published subject ends with the id of a goal, and the last two groups of that id are the number of its store. The
stream splits the id into tokens, so that the server itself selects the messages of a store. Used by nats.py.
"""

from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
    StreamInfo,
    SubjectTransform,
)
from nats.js.errors import APIError, NotFoundError

from moot.broker.nats_errors import NO_ROOM_FOR_STREAM, STREAM_DIFFERS
from moot.domain.goal import make_goal_id
from moot.domain.ports.broker import INBOX_SUBJECT, NOTICE_SUBJECT

STREAM = "MOOT"
# The messages the server sends before the first of them is acknowledged.
MOST_UNACKNOWLEDGED = 512
HEARTBEAT = 5.0
_DUPLICATE_WINDOW = 120.0
_UNLIMITED = -1
# What must be as it is here, whoever has created the stream: otherwise messages could be removed before they are
# received, or be copied to subjects that their readers may not read and their senders may not publish to.
_REQUIRED = (
    "subjects",
    "discard",
    "subject_transform",
    "deny_delete",
    "deny_purge",
    "allow_rollup_hdrs",
    "max_age",
    "max_msgs_per_subject",
    "sources",
    "republish",
)
# Longer than a handler can take: within one consumer nothing is given twice.
_ACKNOWLEDGE_WITHIN = 24 * 3600.0
# How long the server keeps the consumer of a daemon that has disappeared.
_KEEP_CONSUMER = 30.0


def make_stream_config(most_bytes: int) -> StreamConfig:
    return StreamConfig(
        name=STREAM,
        description="Mail between the daemons of Moot",
        subjects=[f"{INBOX_SUBJECT}*", f"{NOTICE_SUBJECT}*"],
        retention=RetentionPolicy.WORK_QUEUE,
        storage=StorageType.FILE,
        discard=DiscardPolicy.NEW,
        max_bytes=most_bytes,
        duplicate_window=_DUPLICATE_WINDOW,
        # Only receivers remove messages: the number of a later one says that those before it were received.
        deny_delete=True,
        deny_purge=True,
        max_age=0,
        max_msgs_per_subject=_UNLIMITED,
        subject_transform=SubjectTransform(src="agent.*.*", dest="agent.{{wildcard(1)}}.{{split(2,-)}}"),
    )


async def open_stream(jetstream: JetStreamContext, most_bytes: int) -> StreamInfo:
    """Create the stream, or change what must be as it is here. Other settings, such as its size, are left alone."""
    wanted = make_stream_config(most_bytes)
    try:
        await jetstream.add_stream(wanted)
    except APIError as error:
        # The server looks whether it has room for another stream of that size before it looks for this one.
        may_exist = error.err_code == STREAM_DIFFERS or error.err_code in NO_ROOM_FOR_STREAM
        found = await _find_config(jetstream) if may_exist else None
        # What is kept until when cannot be changed.
        if found is None or found.retention != wanted.retention:
            raise
        if any(_read_setting(found, name) != _read_setting(wanted, name) for name in _REQUIRED):
            await jetstream.update_stream(found.evolve(**{name: getattr(wanted, name) for name in _REQUIRED}))
    # The answer to the creation does not name the leader.
    return await jetstream.stream_info(STREAM)


async def _find_config(jetstream: JetStreamContext) -> StreamConfig | None:
    try:
        return (await jetstream.stream_info(STREAM)).config
    except NotFoundError:
        return None


def _read_setting(config: StreamConfig, name: str) -> object:
    value = getattr(config, name)
    return sorted(value) if name == "subjects" and value else value or None


def make_stream_id(info: StreamInfo) -> str:
    """Return what changes if messages that the server has accepted may be lost.

    A single server writes to its disk a little later than it acknowledges, so that its stream counts as another one
    after each start; its leader is then the id of the server's process, unless it was given a name. The servers of a
    cluster have copies.
    """
    created = info.created.isoformat() if info.created else ""
    cluster = info.cluster
    return created if cluster is None or cluster.name else f"{created}/{cluster.leader}"


def make_consumer_config(name: str, store: int, deliver_to: str) -> ConsumerConfig:
    """Describe a consumer that gives everything for a store which nobody has acknowledged, in the stream's order."""
    tail = ".".join(make_goal_id(store, 0).split("-")[3:])
    return ConsumerConfig(
        name=name,
        deliver_subject=deliver_to,
        filter_subject=f"agent.*.*.*.*.{tail}",
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=_ACKNOWLEDGE_WITHIN,
        max_ack_pending=MOST_UNACKNOWLEDGED,
        idle_heartbeat=HEARTBEAT,
        inactive_threshold=_KEEP_CONSUMER,
        mem_storage=True,
    )


def make_malformed_name(name: str) -> str:
    """Return the name of the consumer with which a daemon removes messages for nobody; no daemon can have this name."""
    return f"{name}_malformed"


def restore_subject(subject: str) -> str:
    """Return the subject as it was published: the stream has split the id of the goal into tokens."""
    kind, what, groups = subject.split(".", 2)
    return f"{kind}.{what}.{groups.replace('.', '-')}"
