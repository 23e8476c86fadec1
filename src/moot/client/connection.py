"""Client connection to a daemon: concurrent requests, streams and event subscriptions.

`moot.wire` lies below (what a frame looks like), commands and tests lie above.
"""

import asyncio
import errno
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import cast

from moot.client.errors import Unreachable, error_from_wire
from moot.domain.errors import BadRequest, MootError
from moot.wire import moot_pb2 as pb
from moot.wire.codec import PROTOCOL_VERSION, FrameDecoder, decode_server, encode_frame

# sun_path holds 108 bytes and a closing NUL.
_MAX_SOCKET_PATH = 107
_LINGER_SECONDS = 2.0

Runnable = pb.StreamMsg | pb.AttachMsg | pb.AttachRunMsg


class PendingRequest:
    """A request that was sent. Waiting for its answer may be cancelled and begun again until `forget`."""

    def __init__(self, inbox: "asyncio.Queue[pb.ServerMessage | MootError]", forget: Callable[[], None]) -> None:
        self._inbox = inbox
        self.forget = forget

    async def answer(self) -> pb.ServerMessage:
        return _unwrap(await self._inbox.get())


class Connection(asyncio.Protocol):
    """One socket. Every request has its own id, so that answers may come in any order.

    Frames are handed to whoever waits for them from within the loop's own callback, so there is no reader task
    to own. A waiter that is cancelled is forgotten, and what still comes for it is dropped.
    """

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._decoder = FrameDecoder()
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Queue[pb.ServerMessage | MootError]] = {}
        self._lost: MootError | None = None
        # Whether anything was received; if not, the daemon has closed without reading a request.
        self._has_answered = False
        self.closed = asyncio.Event()

    # ---- for callers ----

    async def request(
        self, message: pb.ClientMessage, on_progress: Callable[[pb.StreamEvent], None] | None = None
    ) -> pb.ServerMessage:
        """Send one message and wait for its one answer. Raises the MootError the daemon answered with.

        `on_progress` gets what comes before the answer, if the message asks for it.
        """
        request_id, inbox = self._send(message)
        try:
            while True:
                answer = _unwrap(await inbox.get())
                if on_progress is None or not answer.HasField("stream"):
                    return answer
                on_progress(answer.stream)
        finally:
            self._waiting.pop(request_id, None)

    def send(self, message: pb.ClientMessage) -> PendingRequest:
        """Send one message; its answer can be waited for later."""
        request_id, inbox = self._send(message)
        return PendingRequest(inbox, lambda: self._forget(request_id))

    def post(self, message: pb.ClientMessage) -> None:
        """Send one message without waiting for its answer, for callers that may not wait: a signal, a key."""
        request_id, _ = self._send(message)
        del self._waiting[request_id]

    async def stream(self, message: Runnable) -> AsyncGenerator[pb.StreamEvent, None]:
        """Run or attach, and yield what happens up to and including `end`. Use it under `aclosing`."""
        request_id, inbox = self._send(_wrap_request(message))
        try:
            while True:
                answer = _unwrap(await inbox.get())
                yield answer.stream
                if answer.stream.WhichOneof("event") == "end":
                    return
        finally:
            self._waiting.pop(request_id, None)

    async def subscribe(
        self, *, since: int | None = None, without_deltas: bool = False
    ) -> AsyncGenerator[pb.AgentEventMsg, None]:
        """Every event of the caller's conversations from now on, or after `since`, until the connection closes."""
        _, events = await self.open_subscription(since=since, without_deltas=without_deltas)
        return events

    async def open_subscription(
        self, *, since: int | None = None, without_deltas: bool = False
    ) -> tuple[int, AsyncGenerator[pb.AgentEventMsg, None]]:
        """As `subscribe`, and the number of the newest event."""
        request = pb.SubscribeEvents(since=since, without_deltas=without_deltas)
        request_id, inbox = self._send(pb.ClientMessage(subscribe_events=request))
        try:
            # The first answer says that from here on nothing is missed.
            confirmed = _unwrap(await inbox.get()).pong
        except BaseException:
            self._waiting.pop(request_id, None)
            raise
        return confirmed.seq, self._events(request_id, inbox)

    async def _events(
        self, request_id: int, inbox: "asyncio.Queue[pb.ServerMessage | MootError]"
    ) -> AsyncGenerator[pb.AgentEventMsg, None]:
        try:
            while True:
                yield _unwrap(await inbox.get()).agent_event
        finally:
            self._waiting.pop(request_id, None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def hang_up(self) -> None:
        """Close, and be gone when this returns. What a daemon that does not read has not taken is dropped."""
        self.close()
        try:
            async with asyncio.timeout(_LINGER_SECONDS):
                await self.closed.wait()
        except TimeoutError:
            assert self._transport is not None
            self._transport.abort()

    @property
    def is_lost(self) -> bool:
        return self._lost is not None

    # ---- for the event loop ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are transports in all but their class.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._has_answered = True
        self._decoder.feed(data)
        try:
            while (payload := self._decoder.take()) is not None:
                self._deliver(decode_server(payload))
        except BadRequest as error:
            self._fail(_garbled_error(error))

    def connection_lost(self, exc: Exception | None) -> None:
        reason = f" ({exc})" if exc else ""
        self._fail(_closed_error(reason) if self._has_answered else _overloaded_error(f"it closed at once{reason}"))
        self.closed.set()

    # ---- inside ----

    def _send(self, message: pb.ClientMessage) -> tuple[int, "asyncio.Queue[pb.ServerMessage | MootError]"]:
        if self._lost is not None:
            raise self._lost
        assert self._transport is not None
        request_id = next(self._ids)
        message.request_id = request_id
        frame = encode_frame(message)
        inbox: asyncio.Queue[pb.ServerMessage | MootError] = asyncio.Queue()
        self._waiting[request_id] = inbox
        self._transport.write(frame)
        return request_id, inbox

    def _forget(self, request_id: int) -> None:
        self._waiting.pop(request_id, None)

    def _deliver(self, message: pb.ServerMessage) -> None:
        inbox = self._waiting.get(message.request_id)
        if inbox is not None:
            inbox.put_nowait(message)
        elif message.request_id == 0 and message.HasField("error"):
            # An error about the connection itself: a refused token, a frame it could not read.
            self._fail(_to_error(message.error))

    def _fail(self, error: MootError) -> None:
        if self._lost is None:
            self._lost = error
            for inbox in self._waiting.values():
                inbox.put_nowait(error)
        self.close()


def _wrap_request(message: Runnable) -> pb.ClientMessage:
    if isinstance(message, pb.StreamMsg):
        return pb.ClientMessage(stream=message)
    return (
        pb.ClientMessage(attach=message) if isinstance(message, pb.AttachMsg) else pb.ClientMessage(attach_run=message)
    )


def _closed_error(reason: str) -> MootError:
    return Unreachable(
        f"the daemon closed the connection{reason}",
        fix="Run `moot up`, then try again; `moot history AGENT` shows what was kept.",
    )


def _overloaded_error(reason: str) -> MootError:
    return Unreachable(
        f"the daemon accepted the connection but did not answer: {reason}",
        fix="It may be stopping, or it has too many connections or open files. Try again; then `moot status` and"
        " `moot doctor` show what is open, and `moot down`, `moot up` restart it.",
    )


def _garbled_error(error: BadRequest) -> MootError:
    return Unreachable(
        f"what answers at this address does not speak this version of the protocol: {error.message}",
        fix="Check the address; `moot doctor` shows who listens where.",
    )


def _to_error(error: pb.ErrorMsg) -> MootError:
    return error_from_wire(error.code, error.type, error.message, error.fix)


def _unwrap(answer: pb.ServerMessage | MootError) -> pb.ServerMessage:
    if isinstance(answer, MootError):
        raise answer
    if answer.HasField("error"):
        raise _to_error(answer.error)
    return answer


@asynccontextmanager
async def connect(address: Path | str, *, token: str = "", client: str = "moot") -> AsyncIterator[Connection]:
    """Connect to a socket path or to "host:port", and say hello where a token must be shown."""
    connection = await _open(address)
    try:
        if token:
            hello = pb.Hello(version=PROTOCOL_VERSION, token=token, client=client)
            await connection.request(pb.ClientMessage(hello=hello))
        yield connection
    finally:
        await connection.hang_up()


async def _open(address: Path | str) -> Connection:
    try:
        if isinstance(address, Path):
            return await _open_unix(address)
        return await _open_tcp(address)
    except BlockingIOError as error:
        # The queue of the listening socket is full.
        raise _overloaded_error("too many clients wait to be connected") from error
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise Unreachable(
                f"no connection to the daemon can be opened: {error.strerror}",
                fix="Close other programs, or raise the limit of open files (`ulimit -n`).",
            ) from error
        raise Unreachable(
            f"no daemon answers at {address}: {error.strerror or error}", fix="Start it with `moot up`."
        ) from error


async def _open_unix(path: Path) -> Connection:
    loop = asyncio.get_running_loop()
    if len(os.fsencode(path)) <= _MAX_SOCKET_PATH:
        _, connection = await loop.create_unix_connection(Connection, str(path))
        return connection
    # The directory's descriptor stands in for a path that is too long for the socket call.
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _, connection = await loop.create_unix_connection(Connection, f"/proc/self/fd/{directory}/{path.name}")
        return connection
    finally:
        os.close(directory)


async def _open_tcp(address: str) -> Connection:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise BadRequest(f"{address!r} is not an address", fix="Write it as host:port, such as 127.0.0.1:7787.")
    _, connection = await asyncio.get_running_loop().create_connection(Connection, host.strip("[]"), int(port))
    return connection
