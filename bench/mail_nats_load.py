"""A process that exchanges messages over NATS as fast as it can: a daemon, or nats-py alone. Started by mail_nats.py.

`raw URL` publishes to JetStream and awaits each acknowledgement; `mail HOME GOALS` sends mail from a daemon, as its
agents do. Both have as many messages under way, the same event loop, and a process of their own. Says `ready`, then for
each line with two numbers sends the messages between them and prints when that began and what it took. `receive URL`
receives and acknowledges as many messages with nats-py instead.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import nats
from nats.js import JetStreamContext

from bench.broker import RAW_STREAM, add_raw_stream, publish_raw, send_together
from bench.mail import make_origin
from moot.daemon import app
from moot.daemon.interpreter import tune_interpreter
from moot.daemon.paths import Paths
from moot.domain.conversation import ConversationKey
from moot.multiagent.peers.letter import Letter
from moot.multiagent.peers.mail_sender import MailSender
from moot.redaction.redactor import Redactor

LOOK_SECONDS = 0.005

_FETCHED_TOGETHER = 500

Exchange = Callable[[range], Awaitable[object]]


async def wait_until_known(daemon: app.Daemon) -> None:
    """Wait until the agents of the other daemon can be written to."""
    directory = daemon.runtime.peers.directory
    while True:
        peers = directory.find_remote("bench@laptop")
        if peers and not directory.explain_remote_refusal(None, peers[0]):
            return
        await asyncio.sleep(LOOK_SECONDS)


async def send_mail(sender: MailSender, goal: str, number: int) -> None:
    letter = Letter(
        origin=(make_origin(number), ""),
        from_agent="@bench",
        from_goal="",
        root=ConversationKey("bench", "sender-0"),
        to="bench@laptop",
        body="Task 1 is ready for handoff.",
        goal_id=goal,
        emit=lambda _event: None,
    )
    report = await sender.send(letter)
    if not report.delivered_to:
        raise RuntimeError(f"mail was not delivered: {report.unreachable_reasons}")


async def _obey(exchange: Exchange) -> None:
    """Send or receive what is asked for, until nothing more is."""
    tune_interpreter()
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        first, last = map(int, line.split())
        began = time.monotonic()
        await exchange(range(first, last))
        print(json.dumps({"began": began, "seconds": time.monotonic() - began}), flush=True)


async def _publish_raw(url: str) -> None:
    client = await nats.connect(url)
    jetstream = client.jetstream()
    await add_raw_stream(jetstream)
    await _obey(lambda numbers: send_together(lambda number: publish_raw(jetstream, number), numbers))
    await client.close()


async def _receive_raw(url: str) -> None:
    client = await nats.connect(url)
    await _obey(lambda numbers: _receive(client.jetstream(), len(numbers)))
    await client.close()


async def _receive(jetstream: JetStreamContext, count: int) -> None:
    """Receive so many messages and acknowledge each, as a reader does that keeps its place."""
    reader = await jetstream.pull_subscribe("", durable="raw-reader", stream=RAW_STREAM)
    while count:
        messages = await reader.fetch(_FETCHED_TOGETHER, timeout=60)
        for message in messages:
            await message.ack()
        count -= len(messages)
    await reader.unsubscribe()


async def _send_from_daemon(home: Path, goals: list[str]) -> None:
    async with app.running(Paths.under(home), Redactor()) as daemon:
        await wait_until_known(daemon)
        sender = daemon.runtime.peers.sender
        await _obey(
            lambda numbers: send_together(lambda number: send_mail(sender, goals[number % len(goals)], number), numbers)
        )


def main() -> None:
    try:
        import uvloop  # noqa: PLC0415 — not there on every system

        factory = uvloop.new_event_loop
    except ImportError:
        factory = None
    kind, *values = sys.argv[1:]
    with asyncio.Runner(loop_factory=factory) as runner:
        if kind == "raw":
            runner.run(_publish_raw(values[0]))
        elif kind == "receive":
            runner.run(_receive_raw(values[0]))
        else:
            runner.run(_send_from_daemon(Path(values[0]), json.loads(Path(values[1]).read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
