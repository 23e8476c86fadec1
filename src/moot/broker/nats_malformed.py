"""Removes messages from the stream whose subject is that of no goal, which no daemon would receive. Used by nats.py.

Anybody who can publish can write them. They are taken one subject at a time, by a consumer of this daemon's own.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from contextlib import suppress

from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import APIError, NotFoundError

from moot.broker.nats_link import NatsLink
from moot.broker.nats_stream import STREAM, make_malformed_name, restore_subject
from moot.domain.goal import read_goal_id
from moot.domain.uuid_text import is_usual_form

logger = logging.getLogger(__name__)

# What is left waits for the next time.
_MOST_SUBJECTS = 100
_MOST_MESSAGES = 1_000
_TAKE_SECONDS = 2.0
_KEEP_CONSUMER = 30.0
_ACKNOWLEDGE = b"+ACK"
_STORE = re.compile(r"[89ab][0-9a-f]{3}-[0-9a-f]{12}")


async def remove_malformed(link: NatsLink, report: Callable[[str], object]) -> None:
    """Remove what is there now; report the subject of each message that was removed."""
    stream = await link.call(link.jetstream.stream_info(STREAM))
    if not stream.state.messages:
        return
    stream = await link.call(link.jetstream.stream_info(STREAM, subjects_filter=">"))
    found = [subject for subject in sorted(stream.state.subjects or {}) if is_malformed(restore_subject(subject))]
    for subject in found[:_MOST_SUBJECTS]:
        try:
            await _remove(link, subject, report)
        except APIError as error:
            # Another daemon is removing it: a subject has one consumer at a time.
            logger.info("messages on %.128r stay for now: %s", subject, error.description)


def is_malformed(subject: str) -> bool:
    """Whether no daemon receives this subject. What ends with the number of a store is received by that, if at all."""
    goal_id = subject.rpartition(".")[2]
    _, _, rest = goal_id.partition("-")
    ends_with_store = goal_id.count("-") == 4 and _STORE.fullmatch(rest.split("-", 2)[2]) is not None
    return (read_goal_id(goal_id) is None or not is_usual_form(goal_id)) and not ends_with_store


async def _remove(link: NatsLink, subject: str, report: Callable[[str], object]) -> None:
    name = make_malformed_name(link.settings.name)
    messages: asyncio.Queue[Msg] = asyncio.Queue()
    inbox = link.client.new_inbox()
    subscription = await link.client.subscribe(inbox, cb=messages.put)
    try:
        config = ConsumerConfig(
            name=name,
            deliver_subject=inbox,
            filter_subject=subject,
            ack_policy=AckPolicy.EXPLICIT,
            max_ack_pending=_MOST_MESSAGES,
            inactive_threshold=_KEEP_CONSUMER,
            mem_storage=True,
        )
        consumer = await link.call(link.jetstream.add_consumer(STREAM, config))
        count = (consumer.num_pending or 0) + (consumer.num_ack_pending or 0)
        with suppress(TimeoutError):
            for _ in range(min(count, _MOST_MESSAGES)):
                async with link.clock.timeout(_TAKE_SECONDS):
                    message = await messages.get()
                # Not within that time: a message whose acknowledgement is cut off may be removed and is not reported.
                await link.call(link.client.request(message.reply, _ACKNOWLEDGE))
                report(restore_subject(message.subject))
    finally:
        await subscription.unsubscribe()
        with suppress(NotFoundError):
            await link.call(link.jetstream.delete_consumer(STREAM, name))
