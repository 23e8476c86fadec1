"""Follows the events of the daemon for `moot events` and `moot peers watch`, also across lost connections.

A loss is reported on stderr; the subscription then continues after the last event that was received.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from moot.cli import output
from moot.cli.connect import daemon_client
from moot.client.errors import Unreachable
from moot.wire import moot_pb2 as pb

# Pause between two attempts to connect again.
_RETRY_SECONDS = 0.5


async def follow_events(since: int | None = None) -> AsyncGenerator[pb.AgentEventMsg, None]:
    """Yield every event once, from now on or after `since`. The daemon is started only at the beginning.

    Use it under `aclosing`. Events that are not kept any more, as those before a restart, are announced by a gap.
    """
    last, has_begun, is_lost = since, False, False
    while True:
        try:
            async with daemon_client(start=not has_begun) as connection:
                newest, events = await connection.open_subscription(since=last)
                last = newest if last is None else last
                output.print_prose("Connected again." if has_begun else "Following. Ctrl-C stops.")
                has_begun, is_lost = True, False
                async with aclosing(events):
                    async for event in events:
                        last = event.seq
                        yield event
        except Unreachable:
            if not has_begun:
                raise
        if not is_lost:
            is_lost = True
            output.print_prose("Lost the connection to the daemon; waiting for it. Ctrl-C stops.")
        await asyncio.sleep(_RETRY_SECONDS)
