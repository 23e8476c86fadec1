"""The WebSocket listener: the protocol as JSON, one message per text frame."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from aiohttp import WSMessage, WSMsgType, web
from aiohttp.http_websocket import WebSocketReader

from moot.daemon.listen.guard import PRINCIPAL
from moot.daemon.listen.http_connection import HttpConnection
from moot.daemon.principal import Principal
from moot.daemon.requests.admission import HELLO_SECONDS, LARGE_UNREAD, MESSAGE_SECONDS
from moot.daemon.requests.exchange import GREETING_BYTES, TOKEN_FIX, Exchange, LiveReply, Serving
from moot.domain.errors import BadRequest, MootError, Unauthorized
from moot.domain.events import Event, Gap
from moot.domain.ports.clock import Timer
from moot.wire import json_form
from moot.wire import moot_pb2 as pb
from moot.wire.bounds import MAX_FRAME
from moot.wire.codec import slow_error, too_large_error
from moot.wire.events import error_message, notice_json, stream_json

_HEARTBEAT_SECONDS = 30.0
# How long what was written may take to leave at the end.
_CLOSE_SECONDS = 5.0
# How long a client without a principal has to authenticate before its large message is refused.
_UNFINISHED_SECONDS = 1.0
# Beyond this multiple of max_unsent the connection is aborted, because the client does not read.
_HOPELESS = 8


def _ignore() -> None:
    return


class Socket:
    """The sending side of a WebSocket: one task writes the queued messages in order."""

    def __init__(self, serving: Serving, websocket: web.WebSocketResponse, request: web.Request) -> None:
        self._serving = serving
        self.connection = request.protocol if isinstance(request.protocol, HttpConnection) else None
        self._websocket = websocket
        self._transport = request.transport
        self._queue: deque[str] = deque()
        self._unsent = 0
        self._wake = asyncio.Event()
        self._stopping = False
        # Whether an item was refused for lack of room, and who is notified when there is room.
        self._is_full = False
        self.on_drained: Callable[[], None] = _ignore

    def put(self, message: pb.ServerMessage) -> None:
        self._put(json_form.encode(message))

    def put_event(self, event: Event, reply: LiveReply) -> bool:
        return self._push(stream_json(event), reply)

    def put_notice(self, item: Event | Gap, reply: LiveReply) -> bool:
        return self._push(notice_json(item), reply)

    def _push(self, encoded: str, reply: LiveReply) -> bool:
        if self._unsent > self._serving.max_unsent:
            self._is_full = True
            return False
        self._put(json_form.with_request_id(encoded, reply.request_id))
        return True

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    async def write_all(self) -> None:
        """Write queued messages until stopped, then close."""
        while self._queue or not self._stopping:
            if not self._queue:
                self._wake.clear()
                await self._wake.wait()
                continue
            text = self._queue.popleft()
            try:
                await self._websocket.send_str(text)
            except ConnectionError:
                return
            self._count(-len(text))
            if self._is_full and self._unsent <= self._serving.max_unsent // 4:
                self._is_full = False
                self.on_drained()
        await self._websocket.close()

    def _put(self, text: str) -> None:
        if self._stopping:
            return
        self._queue.append(text)
        self._count(len(text))
        self._wake.set()
        if self._unsent > self._serving.max_unsent * _HOPELESS or not self._has_room():
            self.abort()

    def _count(self, size: int) -> None:
        self._unsent += size
        if self.connection is not None:
            self.connection.queued = self._unsent

    def _has_room(self) -> bool:
        """Whether the token may leave more unread, on all its connections."""
        if self._unsent <= LARGE_UNREAD or self.connection is None:
            return True
        return self._serving.admission.has_unread_room(self.connection)


class Bounded:
    """Limits a message to the size of a Hello until the connection is authenticated.

    The limit of the parser itself is fixed, for the messages after that.
    """

    def __init__(self, parser: WebSocketReader, socket: Socket, exchange: Exchange) -> None:
        self._parser = parser
        self._socket = socket
        self._exchange = exchange
        self._clock = exchange.serving.admission.clock
        self._held = 0
        self._timer: Timer | None = None
        # For the rest of a message or frame that has begun; it may have begun with the request itself.
        self._slow_timer: Timer | None = None
        self._set_slow_timer()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._held += len(data)
        if self._exchange.principal is None and self._held > GREETING_BYTES and self._timer is None:
            # A Hello before it may still be processed, so pause and wait for it.
            self._socket.pause()
            self._timer = self._clock.call_later(_UNFINISHED_SECONDS, self._refuse)
        self._set_slow_timer()
        return self._parser.feed_data(data)

    def reset_limit(self) -> None:
        """Reset the limit after a complete message was accepted."""
        self._held = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._socket.resume()

    def cancel_timers(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._cancel_slow_timer()

    def _set_slow_timer(self) -> None:
        connection = self._socket.connection
        if connection is None or connection.frames.is_complete:
            self._cancel_slow_timer()
        elif self._slow_timer is None:
            self._slow_timer = self._clock.call_later(MESSAGE_SECONDS, self._on_slow)

    def _cancel_slow_timer(self) -> None:
        if self._slow_timer is not None:
            self._slow_timer.cancel()
            self._slow_timer = None

    def _refuse(self) -> None:
        self._socket.put(pb.ServerMessage(error=error_message(too_large_error(self._held, GREETING_BYTES))))
        self._socket.stop()

    def _on_slow(self) -> None:
        self._socket.put(pb.ServerMessage(error=error_message(slow_error(MESSAGE_SECONDS))))
        self._socket.stop()

    def feed_eof(self) -> None:
        self._parser.feed_eof()


async def serve(request: web.Request, serving: Serving) -> web.WebSocketResponse:
    """Serve one WebSocket until it closes. Its token is in a header or in Hello."""
    # More than the accepted size: a message that is read completely can be answered with an error.
    websocket = web.WebSocketResponse(max_msg_size=2 * MAX_FRAME, heartbeat=_HEARTBEAT_SECONDS, compress=False)
    socket = Socket(serving, websocket, request)
    exchange = Exchange(serving, socket, principal=None, name="websocket", connection=socket.connection)
    socket.on_drained = exchange.on_drained
    principal: Principal | None = request[PRINCIPAL]
    # Before the first await, so that no revocation of the token is missed.
    if principal is not None:
        exchange.admit(principal)
    try:
        await websocket.prepare(request)
        await _converse(request, websocket, socket, exchange)
    finally:
        exchange.close()
    return websocket


async def _converse(request: web.Request, websocket: web.WebSocketResponse, socket: Socket, exchange: Exchange) -> None:
    serving = exchange.serving
    serving.connections.add(socket)
    writer = serving.tasks.start("websocket writer", socket.write_all())
    # aiohttp has no public API to limit an incomplete message.
    bounded = Bounded(request.protocol._payload_parser, socket, exchange)  # noqa: SLF001
    request.protocol._payload_parser = bounded  # noqa: SLF001
    try:
        await _read_all(websocket, socket, exchange, bounded)
    finally:
        bounded.cancel_timers()
        serving.connections.discard(socket)
        exchange.close()
        socket.stop()
        with suppress(TimeoutError):
            async with serving.admission.clock.timeout(_CLOSE_SECONDS):
                await asyncio.wait([writer])
        writer.cancel()


async def _read_all(websocket: web.WebSocketResponse, socket: Socket, exchange: Exchange, bounded: Bounded) -> None:
    clock = exchange.serving.admission.clock
    until = clock.monotonic() + HELLO_SECONDS
    while True:
        seconds = None if exchange.principal is not None else max(0.001, until - clock.monotonic())
        try:
            async with clock.timeout(seconds):
                message = await websocket.receive()
        except TimeoutError:
            error = Unauthorized("no hello arrived in time", fix=TOKEN_FIX)
            socket.put(pb.ServerMessage(error=error_message(error)))
            return
        if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
            return
        await _accept(message, socket, exchange)
        bounded.reset_limit()
        # Messages that have arrived together are received without waiting; others get their turn between them.
        await asyncio.sleep(0)


async def _decode(text: str) -> pb.ClientMessage:
    if json_form.is_large(text):
        return await asyncio.to_thread(json_form.decode_client, text)
    return json_form.decode_client(text)


async def _accept(message: WSMessage, socket: Socket, exchange: Exchange) -> None:
    try:
        if message.type is WSMsgType.BINARY:
            raise BadRequest("a binary frame", fix="Send each message as JSON in a text frame.")
        limit = MAX_FRAME if exchange.principal is not None else GREETING_BYTES
        if len(message.data) > limit:
            raise too_large_error(len(message.data), limit)
        request = await _decode(message.data)
        greeting = exchange.accept(request)
    except MootError as error:
        socket.put(pb.ServerMessage(error=error_message(error)))
        return
    if greeting is not None:
        await asyncio.wait([greeting])
