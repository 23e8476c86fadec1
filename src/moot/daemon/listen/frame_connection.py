"""A connection that carries frames: Unix socket or TCP."""

import asyncio
from typing import cast

from moot.daemon.address import get_peer_address
from moot.daemon.principal import Principal
from moot.daemon.requests.admission import HELLO_SECONDS, LARGE_UNREAD, MESSAGE_SECONDS
from moot.daemon.requests.exchange import GREETING_BYTES, TOKEN_FIX, Exchange, LiveReply, Serving
from moot.domain.errors import MootError, Unauthorized
from moot.domain.events import (
    Event,
    Gap,
    RunStarted,
    TextEnded,
    TextStarted,
    ThinkingEnded,
    ThinkingStarted,
    ToolExecuted,
    ToolFinished,
    ToolsCompleted,
    ToolsStarted,
)
from moot.domain.ports.clock import Timer
from moot.wire import moot_pb2 as pb
from moot.wire.bounds import MAX_FRAME
from moot.wire.codec import (
    FrameDecoder,
    decode_client,
    encode_frame,
    join_frame,
    slow_error,
    truncated_error,
)
from moot.wire.events import error_message, notice_bytes, stream_bytes

_LINGER_SECONDS = 5.0
# How many frames of one connection are accepted in one iteration of the event loop.
_FRAMES_AT_ONCE = 32
# Beyond this multiple of max_unsent the connection is aborted, because the client does not read.
_ABORT_FACTOR = 8
# Progress events for display, which may be delayed briefly to share a write with the next text.
_CAN_WAIT = frozenset(
    (
        RunStarted,
        TextStarted,
        TextEnded,
        ThinkingStarted,
        ThinkingEnded,
        ToolsStarted,
        ToolFinished,
        ToolExecuted,
        ToolsCompleted,
    )
)
_MOMENT_SECONDS = 0.005


class Connection(asyncio.Protocol):
    def __init__(self, serving: Serving, *, principal: Principal | None, name: str) -> None:
        self._serving = serving
        self._max_unsent = serving.max_unsent
        self._decoder = FrameDecoder() if principal else FrameDecoder(GREETING_BYTES)
        self._transport: asyncio.Transport | None = None
        self._exchange = Exchange(serving, self, principal=principal, name=name)
        self._hello: asyncio.Task[None] | None = None
        self._clock = serving.admission.clock
        # For the Hello, and for the end of the connection after an error.
        self._timer: Timer | None = None
        # For the rest of a frame that has begun.
        self._frame_timer: Timer | None = None
        self._ignores_input = False
        # Why no input is read: too much is unsent, or accepted frames are left for the next iteration.
        self._is_writing_paused = False
        self._has_backlog = False
        # Whether the client has sent its last byte.
        self._has_ended = False
        self._collected: list[bytes] = []
        self._collected_bytes = 0
        # Whether a flush is scheduled for this iteration of the event loop; the timer of a delayed flush.
        self._is_flush_scheduled = False
        self._flush_timer: Timer | None = None
        # Whether an item was refused for lack of room; its sender is notified when there is room.
        self._is_full = False

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._serving.max_unsent)
        self._serving.connections.add(self)
        if self._exchange.principal is not None:
            return
        if not self._serving.admission.open(self, get_peer_address(self._transport), self._count_unread):
            self._ignores_input = True
            self._transport.abort()
            return
        self._timer = self._clock.call_later(HELLO_SECONDS, self._require_hello)

    def data_received(self, data: bytes) -> None:
        if not self._ignores_input:
            self._decoder.feed(data)
            self._take_frames()

    def _take_frames(self) -> None:
        self._has_backlog = False
        try:
            for _ in range(_FRAMES_AT_ONCE):
                if self._ignores_input or self._hello is not None or (payload := self._decoder.take()) is None:
                    break
                self._wait_for_hello(self._exchange.accept(decode_client(payload)))
            else:
                # Others get their turn before the rest.
                self._has_backlog = True
                asyncio.get_running_loop().call_soon(self._take_frames)
        except MootError as error:
            self.refuse(error)
        if self._has_ended and not self._has_backlog:
            self._end()
            return
        self._update_reading()
        self._expect_rest()

    def _update_reading(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._hello is not None or self._is_writing_paused or self._has_backlog:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _expect_rest(self) -> None:
        """Limit the time for the rest of a frame, however slowly it arrives."""
        has_begun = (
            self._decoder.pending > 0 and not self._ignores_input and self._hello is None and not self._has_backlog
        )
        if has_begun and self._frame_timer is None:
            self._frame_timer = self._clock.call_later(MESSAGE_SECONDS, self._on_slow_frame)
        elif not has_begun and self._frame_timer is not None:
            self._frame_timer.cancel()
            self._frame_timer = None

    def _on_slow_frame(self) -> None:
        self._frame_timer = None
        if self._decoder.pending:
            self.refuse(slow_error(MESSAGE_SECONDS))

    def _wait_for_hello(self, hello: asyncio.Task[None] | None) -> None:
        """Read nothing while a Hello is being processed."""
        if hello is not None:
            self._hello = hello
            hello.add_done_callback(self._on_hello_processed)

    def _on_hello_processed(self, _task: asyncio.Task[None]) -> None:
        self._hello = None
        if self._exchange.principal is not None:
            self._decoder.max_frame = MAX_FRAME
        if self._transport is not None:
            self._take_frames()

    def _require_hello(self) -> None:
        if self._exchange.principal is None:
            self.refuse(Unauthorized("no hello arrived in time", fix=TOKEN_FIX))

    def eof_received(self) -> bool:
        self._has_ended = True
        if not self._has_backlog:
            self._end()
        # The transport is closed by `_end`, after the frames that are left.
        return True

    def _end(self) -> None:
        if self._decoder.pending and not self._ignores_input and self._hello is None:
            self.refuse(truncated_error(self._decoder.pending))
        elif not self._ignores_input:
            self._flush()
            if self._transport is not None:
                self._transport.close()

    def pause_writing(self) -> None:
        # No further requests are read until the client has read its answers.
        self._is_writing_paused = True
        self._update_reading()

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._update_reading()
        self._notify_drained()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        # Frames that were left for the next iteration are dropped.
        self._ignores_input = True
        for timer in (self._timer, self._frame_timer):
            if timer is not None:
                timer.cancel()
        self._serving.admission.close(self)
        self._serving.connections.discard(self)
        self._exchange.close()

    # ---- Outlet

    def put(self, message: pb.ServerMessage) -> None:
        try:
            self._write(encode_frame(message))
        except MootError as error:
            answer = pb.ServerMessage(request_id=message.request_id, error=error_message(error))
            self._write(encode_frame(answer))

    def put_event(self, event: Event, reply: LiveReply) -> bool:
        return self._push(stream_bytes(event), reply.suffix, can_wait=type(event.body) in _CAN_WAIT)

    def put_notice(self, item: Event | Gap, reply: LiveReply) -> bool:
        can_wait = isinstance(item, Event) and type(item.body) in _CAN_WAIT
        return self._push(notice_bytes(item), reply.suffix, can_wait=can_wait)

    def _push(self, payload: bytes, suffix: bytes, *, can_wait: bool = False) -> bool:
        transport = self._transport
        # A closing transport may refuse writes before connection_lost is called.
        if transport is None or transport.is_closing():
            return False
        unsent = transport.get_write_buffer_size() + self._collected_bytes
        if unsent > self._max_unsent:
            self._is_full = True
            return False
        if unsent > LARGE_UNREAD and self._has_too_much_unread(transport):
            transport.abort()
            return False
        self._collect(join_frame(payload, suffix), can_wait=can_wait)
        return True

    def _write(self, frame: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._collect(frame)
        if self._has_too_much_unread(self._transport):
            self._transport.abort()

    def _has_too_much_unread(self, transport: asyncio.Transport) -> bool:
        """Whether the client, or its token on all its connections, leaves too much unread."""
        unsent = transport.get_write_buffer_size() + self._collected_bytes
        if unsent <= LARGE_UNREAD:
            return False
        return unsent > self._serving.max_unsent * _ABORT_FACTOR or not self._serving.admission.has_unread_room(self)

    def _count_unread(self) -> int:
        return self._unsent(self._transport) if self._transport is not None else 0

    def _unsent(self, transport: asyncio.Transport) -> int:
        return transport.get_write_buffer_size() + self._collected_bytes

    def _collect(self, frame: bytes, *, can_wait: bool = False) -> None:
        """Collect the frames of one iteration of the event loop into one write, because writes are expensive.

        A frame that `can_wait` is sent with the next one, or after a few milliseconds.
        """
        if not can_wait:
            if not self._is_flush_scheduled:
                self._is_flush_scheduled = True
                asyncio.get_running_loop().call_soon(self._flush)
        elif not self._collected:
            self._flush_timer = self._clock.call_later(_MOMENT_SECONDS, self._flush)
        self._collected.append(frame)
        self._collected_bytes += len(frame)

    def _flush(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        self._is_flush_scheduled = False
        frames, self._collected, self._collected_bytes = self._collected, [], 0
        if frames and self._transport is not None and not self._transport.is_closing():
            self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))
            # If the socket accepts everything at once, resume_writing is not called, so notify here.
            if self._is_full and self._unsent(self._transport) <= self._max_unsent:
                self._notify_drained()

    def _notify_drained(self) -> None:
        if self._is_full:
            self._is_full = False
            self._exchange.on_drained()

    # ---- ends

    def stop(self) -> None:
        """Close the connection after sending what was written."""
        self._ignores_input = True
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def refuse(self, error: MootError) -> None:
        """Send an error and ignore all further input.

        The socket stays open briefly and discards input: closing it with unread input could discard the error.
        """
        if self._transport is None or self._ignores_input:
            return
        self._ignores_input = True
        self.put(pb.ServerMessage(error=error_message(error)))
        # Answers to requests in flight are dropped.
        self._exchange.close()
        self._flush()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(_LINGER_SECONDS, self.stop)
