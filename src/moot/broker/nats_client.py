"""NatsClient: nats-py's client, with a shorter way for the messages that JetStream carries. Used by nats_link.py.

Its own way costs a parsed header, an object, a queue and a task for each message; here a subscription may take the
bytes as they were read, and many commands are written at once. Everything else is left to nats-py.
"""

from collections.abc import Callable, Iterable

import nats.errors
from nats.aio.client import Client
from nats.aio.subscription import Subscription

# Is given the subject, the reply subject, the payload and the block of headers, which is empty if there are none.
ReceiveBytes = Callable[[bytes, bytes, bytes, bytes], None]

_VERSION = "NATS/1.0\r\n"
_LINE_END = "\r\n"


class NatsClient(Client):
    """A client that never sends anything without TLS if its address says tls://."""

    def __init__(self) -> None:
        super().__init__()
        # Who takes the messages of a subscription, by its number.
        self._receivers: dict[int, ReceiveBytes] = {}

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


def make_publish_command(subject: str, reply: str, headers: dict[str, str], payload: bytes) -> bytes:
    """Return the command that publishes a message. Raise an error of nats-py if the server would not read it as one."""
    if subject.split() != [subject]:
        raise nats.errors.BadSubjectError
    block = _VERSION + "".join([f"{name}: {text}\r\n" for name, text in headers.items()])
    if block.count("\n") != len(headers) + 1 or block.count("\r") != len(headers) + 1:
        raise nats.errors.BadHeaderError("a header has a line break")
    encoded = f"{block}\r\n".encode()
    size = len(encoded)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (f"{subject} {reply}".encode(), size, size + len(payload), encoded, payload)


def read_header_block(block: bytes) -> dict[str, str]:
    """Return the headers of a message. Lines that are none are left out."""
    headers: dict[str, str] = {}
    for line in block.decode("utf-8", "replace").split(_LINE_END)[1:]:
        name, colon, text = line.partition(":")
        if colon:
            headers[name] = text.strip()
    return headers
