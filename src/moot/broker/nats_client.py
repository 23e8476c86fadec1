"""NatsClient: nats-py's client, with a shorter way for the messages that JetStream carries. Used by nats_link.py.

Its own way costs a parsed header, an object, a queue and a task for each message; here a subscription may take the
bytes as they were read, and many commands are written and read at once. Everything else is left to nats-py.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache

import nats.errors
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.protocol.parser import AWAITING_CONTROL_LINE, Parser

# Is given the subject, the reply subject, the payload and the block of headers, which is empty if there are none.
ReceiveBytes = Callable[[bytes, bytes, bytes, bytes], None]
# Is given what the groups of a pattern have found in each of the messages that were read together.
ReceiveFound = Callable[[list[tuple[bytes, ...]]], None]

_LINE_END = "\r\n"
_END = b"\r\n"
_MESSAGE = b"MSG"
# The parts of the line before a message: name, subject, subscription, reply subject, sizes. The reply subject may miss.
_MOST_PARTS = {_MESSAGE: 5, b"HMSG": 6}
_MISSING = (0, 1)


class PlainMessages:
    """Messages of one subscription whose payload is like a pattern: all that follow each other are read at once."""

    def __init__(self, beginning: bytes, payload: bytes, receive: ReceiveBytes, receive_found: ReceiveFound) -> None:
        self.beginning = beginning
        self.receive = receive
        self.receive_found = receive_found
        message = rb"%b([0-9]+) [0-9]+ [0-9]+\r\n%b\r\n" % (re.escape(beginning), payload)
        self.one = re.compile(message)
        self.many = re.compile(rb"(?:%b)+" % message.replace(b"(", b"(?:"))


class _BytesParser(Parser):
    """The parser of nats-py, which gives whole messages of some subscriptions to functions without taking them apart.

    A message that is not complete stays in the buffer until the rest of it was read.
    """

    def __init__(self, client: Client, receivers: dict[int, ReceiveBytes]) -> None:
        super().__init__(client)
        self._receivers = receivers
        # What is read many at once.
        self.plain: PlainMessages | None = None

    async def parse(self, data: bytes = b"") -> None:
        if self.state != AWAITING_CONTROL_LINE:
            await super().parse(data)
            return
        if self.buf:
            data = bytes(self.buf) + data
            self.buf.clear()
        at, is_for_others = self._give_messages(data)
        if is_for_others:
            # The parser of nats-py reads it together with all that follows.
            await super().parse(data[at:])
        elif at < len(data):
            self.buf.extend(data[at:])

    def _give_messages(self, data: bytes) -> tuple[int, bool]:
        """Give away whole messages. Return where the rest begins, and whether it begins with something else."""
        at, size, receivers, plain = self._give_plain(data, 0), len(data), self._receivers, self.plain
        while (line_end := data.find(_END, at)) >= 0:
            parts = data[at:line_end].split(b" ")
            kind, start = parts[0], line_end + 2
            try:
                missing = _MOST_PARTS[kind] - len(parts)
                receive, end = receivers[int(parts[2])], start + int(parts[-1])
                payload_at = start if kind == _MESSAGE else start + int(parts[-2])
            except (IndexError, KeyError, ValueError):
                return at, True
            if missing not in _MISSING or not start <= payload_at <= end:
                return at, True
            if end + 2 > size:
                break
            receive(parts[1], b"" if missing else parts[3], data[payload_at:end], data[start:payload_at])
            at = end + 2
            if plain is not None and receive is plain.receive:
                at = self._give_plain(data, at)
        return at, False

    def _give_plain(self, data: bytes, start: int) -> int:
        """Give away the plain messages from `start` on; return where the first other one begins."""
        plain = self.plain
        if plain is None or not data.startswith(plain.beginning, start):
            return start
        found = plain.many.match(data, start)
        if found is None:
            return start
        plain.receive_found(plain.one.findall(data, start, found.end()))
        return found.end()


class NatsClient(Client):
    """A client that never sends anything without TLS if its address says tls://."""

    def __init__(self) -> None:
        super().__init__()
        # Who takes the messages of a subscription, by its number.
        self._receivers: dict[int, ReceiveBytes] = {}
        self._ps: _BytesParser = _BytesParser(self, self._receivers)

    @property
    def has_begun(self) -> bool:
        """Whether `connect` could read its options. Before that there is nothing to close, and `close` fails."""
        return self._flush_queue is not None

    def _connect_command(self) -> bytes:
        server = self._current_server
        if server is not None and server.uri.scheme == "tls" and not self._server_info.get("tls_required"):
            raise nats.errors.SecureConnWantedError
        return super()._connect_command()

    def close_socket(self) -> None:
        """Close the socket if `close` was interrupted or another task of the client has not closed it yet."""
        if self._transport:
            self._transport.close()  # type: ignore[no-untyped-call]

    async def subscribe_bytes(self, subject: str, receive: ReceiveBytes) -> Subscription:
        """Subscribe with a function that is called at once for each message; it must not raise."""
        # The number that the subscription gets: its first message may be read before this returns.
        number = self._sid + 1
        self._receivers[number] = receive
        return await self.subscribe(subject)

    async def subscribe_answers(
        self, inbox: str, payload: bytes, receive: ReceiveBytes, receive_found: ReceiveFound
    ) -> None:
        """Subscribe to answers whose subjects end with a number. Those with such a payload are given together.

        They are given as lists of what is found: the number, and the groups of `payload`, a pattern. Only one
        subscription of a connection can have this.
        """
        self._ps.plain = PlainMessages(f"MSG {inbox}.".encode(), payload, receive, receive_found)
        await self.subscribe_bytes(f"{inbox}.*", receive)

    def _remove_sub(self, sid: int, max_msgs: int = 0) -> None:
        self._receivers.pop(sid, None)
        super()._remove_sub(sid, max_msgs)

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        # A message that was read together with something else.
        receive = self._receivers.get(sid)
        if receive is None:
            await super()._process_msg(sid, subject, reply, data, headers)
        else:
            receive(subject, reply, data, headers or b"")

    async def send_commands(self, commands: Iterable[bytes]) -> None:
        """Send commands of the protocol, in one write if possible. They are not checked."""
        if not self.is_connected:
            raise nats.errors.ConnectionClosedError
        await self._send_command(b"".join(commands))
        await self._flush_pending()


def make_publish_command(subject: str, reply: bytes, headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return the command that publishes a message. Raise an error of nats-py if the server would not read it as one."""
    block = "\r\n".join(["NATS/1.0", *map(": ".join, headers.items()), "", ""]).encode()
    if len(block.splitlines()) != len(headers) + 2:
        raise nats.errors.BadHeaderError("a header has a line break")
    size = len(block)
    encoded = _encode_subject(subject)
    return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (encoded, reply, size, size + len(payload), block, payload)


@lru_cache(maxsize=4096)
def _encode_subject(subject: str) -> bytes:
    # Most goals are written to more than once.
    if subject.split() != [subject]:
        raise nats.errors.BadSubjectError
    return subject.encode()


def read_header_block(block: bytes) -> dict[str, str]:
    """Return the headers of a message. Lines that are none are left out."""
    # The first line is the version, the last two are empty.
    lines = block.decode("utf-8", "replace").split(_LINE_END)[1:]
    # As nearly everybody writes them. `dict` raises ValueError if a line has no colon and space.
    with suppress(ValueError):
        return dict([line.split(": ", 1) for line in lines[:-2]])
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, text = line.partition(":")
        if colon:
            headers[name] = text.strip()
    return headers
