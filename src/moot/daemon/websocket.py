"""The protocol as JSON on a WebSocket: one message a text frame, the same requests and the same answers."""

import asyncio
from collections import deque

from aiohttp import WSMessage, WSMsgType, web

from moot.daemon.connection import TOKEN_FIX, Exchange, LiveReply, Serving
from moot.daemon.guard import PRINCIPAL
from moot.daemon.principal import Principal
from moot.domain.errors import BadRequest, MootError, Unauthorized
from moot.wire import json_form
from moot.wire import moot_pb2 as pb
from moot.wire.codec import MAX_FRAME, too_large
from moot.wire.events import CachedEvent, error_message

_GREETING_SECONDS = 30.0
_HEARTBEAT_SECONDS = 30.0
# Answers are bounded by what is in flight, events by max_unsent; past this many times that, nobody is reading.
_HOPELESS = 8


class Socket:
    """The sending side of one WebSocket: what is put here is written by one task, in order."""

    def __init__(self, serving: Serving, websocket: web.WebSocketResponse, transport: asyncio.Transport | None) -> None:
        self._serving = serving
        self._websocket = websocket
        self._transport = transport
        self._queue: deque[str] = deque()
        self._unsent = 0
        self._wake = asyncio.Event()
        self._stopping = False

    def put(self, message: pb.ServerMessage) -> None:
        self._put(json_form.encode(message))

    def put_event(self, event: CachedEvent, reply: LiveReply) -> bool:
        return self._push(event.json, reply)

    def put_feed(self, event: CachedEvent, reply: LiveReply) -> bool:
        return self._push(event.feed_json, reply)

    def _push(self, encoded: str, reply: LiveReply) -> bool:
        if self._unsent > self._serving.max_unsent:
            return False
        self._put(json_form.with_request_id(encoded, reply.request_id))
        return True

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def write_all(self) -> None:
        """Write what is put until stopped, then close."""
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
            self._unsent -= len(text)
        await self._websocket.close()

    def _put(self, text: str) -> None:
        if self._stopping:
            return
        self._queue.append(text)
        self._unsent += len(text)
        self._wake.set()
        if self._unsent > self._serving.max_unsent * _HOPELESS:
            self.abort()


async def serve(request: web.Request, serving: Serving) -> web.WebSocketResponse:
    """Answer one WebSocket until it closes. Its token came as a header, or comes in Hello."""
    # Somewhat more than we take: a message that is read whole can be answered, one that is cut off cannot.
    websocket = web.WebSocketResponse(max_msg_size=2 * MAX_FRAME, heartbeat=_HEARTBEAT_SECONDS, compress=False)
    await websocket.prepare(request)
    socket = Socket(serving, websocket, request.transport)
    exchange = Exchange(serving, socket, principal=None, name="websocket")
    principal: Principal | None = request[PRINCIPAL]
    if principal is not None:
        exchange.admit(principal)
    serving.connections.add(socket)
    writer = serving.tasks.start("websocket writer", socket.write_all())
    try:
        await _read_all(websocket, socket, exchange)
    finally:
        serving.connections.discard(socket)
        exchange.close()
        socket.stop()
        await asyncio.wait([writer], timeout=5)
        writer.cancel()
    return websocket


async def _read_all(websocket: web.WebSocketResponse, socket: Socket, exchange: Exchange) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + _GREETING_SECONDS
    while True:
        patience = None if exchange.principal is not None else max(0.001, until - loop.time())
        try:
            message = await websocket.receive(timeout=patience)
        except TimeoutError:
            error = Unauthorized("no hello came in time", fix=TOKEN_FIX)
            socket.put(pb.ServerMessage(error=error_message(error)))
            return
        if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
            return
        await _accept(message, socket, exchange)


async def _accept(message: WSMessage, socket: Socket, exchange: Exchange) -> None:
    try:
        if message.type is WSMsgType.BINARY:
            raise BadRequest("a binary frame", fix="Send each message as JSON in a text frame.")
        if len(message.data) > MAX_FRAME:
            raise too_large(len(message.data))
        greeting = exchange.accept(json_form.decode_client(message.data))
    except MootError as error:
        socket.put(pb.ServerMessage(error=error_message(error)))
        return
    if greeting is not None:
        await asyncio.wait([greeting])
