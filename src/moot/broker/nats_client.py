"""NatsClient: nats-py's client, with a shorter way for the messages that JetStream carries. Used by nats_link.py.

Its own way costs a parsed header, an object, a queue and a task for each message; here a subscription may take the
bytes as they were read, and many commands are written and read at once. Everything else is left to nats-py.
"""

from collections.abc import Callable, Iterable, Mapping

import nats.errors
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.protocol.parser import AWAITING_CONTROL_LINE, Parser

# Is given the subject, the reply subject, the payload and the block of headers, which is empty if there are none.
ReceiveBytes = Callable[[bytes, bytes, bytes, bytes], None]

_LINE_END = "\r\n"
_END = b"\r\n"
_MESSAGE, _MESSAGE_WITH_HEADERS = b"MSG", b"HMSG"
# The parts of the line before a message: name, subject, subscription, reply subject, sizes.
_MESSAGE_PARTS = 5
_PARTS_WITH_HEADERS = 6


class _BytesParser(Parser):
    """The parser of nats-py, which gives whole messages of some subscriptions to functions without taking them apart.

    A message that is not complete stays in the buffer until the rest of it was read.
    """

    def __init__(self, client: Client, receivers: dict[int, ReceiveBytes]) -> None:
        super().__init__(client)
        self._receivers = receivers

    async def parse(self, data: bytes = b"") -> None:
        if self.state != AWAITING_CONTROL_LINE:
            await super().parse(data)
            return
        if self.buf:
            data = bytes(self.buf) + data
            self.buf.clear()
        at = 0
        while (line_end := data.find(_END, at)) >= 0:
            parts = data[at:line_end].split(b" ")
            end = self._give(parts, data, line_end + 2)
            if end is None:
                # Something else, which the parser of nats-py reads together with all that follows.
                await super().parse(data[at:])
                return
            if end > len(data):
                break
            at = end
        self.buf.extend(data[at:])

    def _give(self, parts: list[bytes], data: bytes, start: int) -> int | None:
        """Give a message to its function. Return where it ends, also if that was not read yet; None if it is for none.

        Its payload begins at `start`, after its headers if it has some.
        """
        has_headers = parts[0] == _MESSAGE_WITH_HEADERS
        if not has_headers and parts[0] != _MESSAGE:
            return None
        missing = (_PARTS_WITH_HEADERS if has_headers else _MESSAGE_PARTS) - len(parts)
        try:
            receive, size = self._receivers.get(int(parts[2])), int(parts[-1])
            payload_at = start + int(parts[-2]) if has_headers else start
        except (IndexError, ValueError):
            return None
        end = start + size
        if receive is None or missing not in (0, 1) or not start <= payload_at <= end:
            return None
        if end + 2 <= len(data):
            receive(parts[1], b"" if missing else parts[3], data[payload_at:end], data[start:payload_at])
        return end + 2


class NatsClient(Client):
    """A client that never sends anything without TLS if its address says tls://."""

    def __init__(self) -> None:
        super().__init__()
        # Who takes the messages of a subscription, by its number.
        self._receivers: dict[int, ReceiveBytes] = {}
        self._ps = _BytesParser(self, self._receivers)

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


def make_publish_command(subject: str, reply: str, headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return the command that publishes a message. Raise an error of nats-py if the server would not read it as one."""
    if subject.split() != [subject]:
        raise nats.errors.BadSubjectError
    lines = "".join([f"{name}: {text}\r\n" for name, text in headers.items()])
    block = f"NATS/1.0\r\n{lines}\r\n"
    count = len(headers) + 2
    if block.count("\n") != count or block.count("\r") != count:
        raise nats.errors.BadHeaderError("a header has a line break")
    encoded = block.encode()
    size = len(encoded)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (f"{subject} {reply}".encode(), size, size + len(payload), encoded, payload)


def read_header_block(block: bytes) -> dict[str, str]:
    """Return the headers of a message. Lines that are none are left out."""
    headers: dict[str, str] = {}
    # The first line is the version, the last two are empty.
    lines = block.decode("utf-8", "replace").split(_LINE_END)[1:]
    try:
        return {name: text.strip() for name, text in [line.split(":", 1) for line in lines[:-2]]}
    except ValueError:
        pass
    for line in lines:
        name, colon, text = line.partition(":")
        if colon:
            headers[name] = text.strip()
    return headers
