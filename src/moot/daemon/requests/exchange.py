"""One client's requests: authentication, dispatch to handlers, replies, back-pressure. Used by all listeners."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from msgspec import Struct, field

from moot import __version__
from moot.daemon.config.broken_config import ConfigProblem
from moot.daemon.path_mask import PathMask
from moot.daemon.principal import Principal, Principals
from moot.daemon.requests.admission import Admission, OpenConnections, Stoppable
from moot.daemon.requests.reply import MaskedReply, Reply
from moot.domain.errors import BadRequest, Busy, Conflict, MootError, Unauthorized
from moot.domain.events import Event, Gap
from moot.engine.supervisor import Supervisor
from moot.wire import moot_pb2 as pb
from moot.wire.codec import PROTOCOL_VERSION, check_client, request_id_field
from moot.wire.events import error_message

logger = logging.getLogger(__name__)

# Requests that are accepted even if too many others are in flight.
_URGENT = frozenset({"kill", "stop_run", "withdraw", "reply_to_ask"})
_URGENT_ROOM = 64
# Requests whose answers may be large: of each token only a few are prepared at a time.
_LARGE_READS = frozenset(
    {
        "export",
        "get_archive",
        "get_history",
        "get_prompt",
        "get_run",
        "get_run_history",
        "get_trace",
        "get_usage",
        "get_workflow",
        "import_graph",
        "list_archives",
        "list_conversations",
        "list_cron_jobs",
        "list_dead_mail",
        "list_firings",
        "list_runs",
        "list_traces",
        "list_workflow_runs",
        "list_workflows",
        "read_graph",
        "recall",
    }
)
# How long a connection stays open after its token was revoked, to read the error.
REVOKED_GRACE_SECONDS = 2.0

# The most bytes buffered for a connection without a principal; enough for a Hello.
GREETING_BYTES = 64 * 1024
TOKEN_FIX = (
    "Make a token with `moot tokens new NAME` on the daemon's machine; the command reads it from MOOT_TOKEN, any other"
    " client sends it in Hello."
)


def revoked_error() -> Unauthorized:
    return Unauthorized("the token of this connection was revoked", fix="Ask the owner for a new one.")


class ReaderTooSlow(Busy):
    type = "fell_behind"


class RequestHandler(Protocol):
    """Answers requests. `handle` returns after the complete answer, including its stream."""

    def handle(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> Awaitable[None]: ...


class Listener(Protocol):
    """An open listener. `address` is the bound address."""

    @property
    def address(self) -> str: ...

    def stop_accepting(self) -> None:
        """Accept no new connections; open ones are not closed."""
        ...

    async def close(self) -> None:
        """Release all resources, after Serving.close has closed the connections."""
        ...


class MetricsSource(Protocol):
    """Answers GET /metrics. Implemented in daemon/telemetry/metrics_page.py."""

    @property
    def content_type(self) -> str: ...

    def may_read(self, token: str) -> bool: ...

    async def render(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        ...


class Serving(Struct, frozen=True, kw_only=True):
    """What listeners pass to all their connections."""

    handlers: RequestHandler
    tasks: Supervisor
    principals: Principals
    admission: Admission
    in_flight: int = 256
    max_unsent: int = 8 * 1024 * 1024
    # Removes the owner's paths from what others are sent.
    mask: PathMask = field(default_factory=PathMask)
    # Why the configuration file as it is now is not in use.
    find_config_problem: Callable[[], ConfigProblem] = ConfigProblem
    connections: OpenConnections = field(default_factory=OpenConnections)
    # None if metrics are off.
    metrics: MetricsSource | None = None

    async def close(self, *, grace: float = 2.0) -> None:
        """Close every connection after sending what was written; abort those still open after `grace` seconds."""
        for connection in self.connections:
            connection.stop()
        with suppress(TimeoutError):
            async with self.admission.clock.timeout(grace):
                await self.connections.wait_until_none()
        for connection in self.connections:
            connection.abort()


class Outlet(Protocol):
    """The sending side of a connection, for any encoding. Events are refused while too much is unread."""

    def put(self, message: pb.ServerMessage) -> None: ...
    def put_event(self, event: Event, reply: "LiveReply") -> bool: ...
    def put_notice(self, item: Event | Gap, reply: "LiveReply") -> bool: ...
    def stop(self) -> None: ...
    def abort(self) -> None: ...


class LiveReply:
    """A Reply on an Outlet."""

    __slots__ = ("_callbacks", "_outlet", "closed", "drained", "request_id", "suffix")

    def __init__(self, outlet: Outlet, request_id: int) -> None:
        self._outlet = outlet
        self._callbacks: list[Callable[[], None]] = []
        self.drained: Callable[[], None] | None = None
        self.closed = asyncio.Event()
        self.request_id = request_id
        self.suffix = request_id_field(request_id)

    def send(self, message: pb.ServerMessage) -> None:
        if not self.closed.is_set():
            message.request_id = self.request_id
            self._outlet.put(message)

    def fail(self, error: MootError) -> None:
        self.send(pb.ServerMessage(error=error_message(error)))

    def event(self, event: Event) -> bool:
        if self.closed.is_set():
            return False
        return self._outlet.put_event(event, self) or self._fell_behind()

    def notify(self, item: Event | Gap) -> bool:
        return not self.closed.is_set() and self._outlet.put_notice(item, self)

    def on_drain(self, callback: Callable[[], None]) -> None:
        self.drained = callback

    def on_close(self, callback: Callable[[], None]) -> None:
        if self.closed.is_set():
            callback()
        else:
            self._callbacks.append(callback)

    def close(self) -> None:
        self.closed.set()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def _fell_behind(self) -> bool:
        """Report that the stream fell behind, and close it."""
        self.fail(
            ReaderTooSlow(
                "this stream was ended because its events were not read fast enough",
                fix="The run continues: attach to it again, and read faster.",
            )
        )
        self.close()
        return False


def answer_failure(what: str, error: Exception, reply: Reply) -> None:
    """Answer a request with the exception that it raised."""
    if not isinstance(error, MootError):
        logger.error("%s failed", what, exc_info=error)
        error = MootError(
            "internal error while answering this request", fix="See `moot logs --daemon`, or run `moot doctor`."
        )
    reply.send(pb.ServerMessage(error=error_message(error)))


async def answer_request(serving: Serving, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
    if not principal.is_owner:
        reply = MaskedReply(reply, serving.mask, may_approve=principal.may_approve)
    try:
        if message.WhichOneof("message") not in _LARGE_READS:
            await serving.handlers.handle(message, principal, reply)
            return
        async with serving.admission.read_large(principal):
            # The client may be gone when its turn comes.
            if not reply.closed.is_set():
                await serving.handlers.handle(message, principal, reply)
    except Exception as error:  # noqa: BLE001 - whatever it is, the client must hear of it
        answer_failure(str(message.WhichOneof("message")), error, reply)


class Exchange:
    """The requests of one connection: its principal, the requests in flight, and their replies."""

    def __init__(
        self,
        serving: Serving,
        outlet: Outlet,
        *,
        principal: Principal | None,
        name: str,
        connection: Stoppable | None = None,
    ) -> None:
        """`connection` is what was registered at the admission; by default the outlet."""
        self.serving = serving
        self.principal = principal
        self.name = name
        self._outlet = outlet
        self._connection = connection or outlet
        self._replies: set[LiveReply] = set()
        self._in_flight = 0
        self._unwatch: Callable[[], None] | None = None
        self._closed = False

    def accept(self, message: pb.ClientMessage) -> asyncio.Task[None] | None:
        """Start answering a request; errors are sent as its answer.

        Returns the task of a Hello: it decides who the next request is from, so the next must wait for it.
        """
        if self._closed:
            # The client is gone, or its token was revoked.
            return None
        reply = LiveReply(self._outlet, message.request_id)
        try:
            kind = check_client(message)
            if kind == "ping":
                reply.send(pb.ServerMessage(pong=pb.Pong()))
                return None
            self._check(kind)
        except MootError as error:
            reply.fail(error)
            return None
        self._in_flight += 1
        self._replies.add(reply)
        answer = self._answer(kind, message, reply, self.principal)
        task = self.serving.tasks.start(f"{self.name} {kind}", answer)
        return task if kind == "hello" else None

    def _check(self, kind: str) -> None:
        if self.principal is None and kind != "hello":
            raise Unauthorized("authentication is required: send Hello with a token first", fix=TOKEN_FIX)
        room = self.serving.in_flight + (_URGENT_ROOM if kind in _URGENT else 0)
        if self._in_flight >= room:
            raise Busy(
                f"{self._in_flight} requests are in flight on this connection",
                fix="Wait for some answers, or open another connection.",
            )
        if self.principal is not None:
            self.serving.admission.begin_request(self.principal)

    def close(self) -> None:
        """Close all replies after the client has disconnected. Its runs continue."""
        self._closed = True
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        for reply in tuple(self._replies):
            reply.close()
        self._replies.clear()

    def on_drained(self) -> None:
        """Notify subscribers that there is room again after an event was refused."""
        for reply in tuple(self._replies):
            if reply.drained is not None:
                reply.drained()

    def admit(self, principal: Principal) -> None:
        """Assign the connection to a principal, until its token is revoked."""
        # The client may have disconnected, or its earlier token may have been revoked, during the lookup.
        if self._closed:
            return
        if self.principal not in (None, principal) and len(self._replies) > 1:
            # Their streams would go on after the token they were opened with is revoked.
            raise Conflict(
                "requests of another token are in flight on this connection",
                fix="Wait for their answers, or open another connection.",
            )
        self.serving.admission.authenticate(self._connection, principal)
        if self._unwatch is not None:
            self._unwatch()
        self.principal = principal
        self._unwatch = self.serving.principals.watch(principal, self._on_revoked)

    async def _answer(
        self, kind: str, message: pb.ClientMessage, reply: LiveReply, principal: Principal | None
    ) -> None:
        """Answer a request for the principal that the connection had when it was accepted."""
        try:
            if kind == "hello":
                await self._welcome(message.hello, reply)
            elif self.principal is not None:
                await answer_request(self.serving, message, self.principal, reply)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client must hear of it
            answer_failure(f"{self.name} {kind}", error, reply)
        finally:
            self._in_flight -= 1
            self._replies.discard(reply)
            if principal is not None:
                self.serving.admission.end_request(principal)

    async def _welcome(self, hello: pb.Hello, reply: LiveReply) -> None:
        if hello.version > PROTOCOL_VERSION:
            raise BadRequest(
                f"protocol version {hello.version} is not supported; the daemon uses {PROTOCOL_VERSION}",
                fix="Use a client of this daemon's version, or update the daemon.",
            )
        if hello.token:
            self.admit(await self.serving.principals.find(hello.token))
        elif self.principal is None:
            raise Unauthorized("no token", fix=TOKEN_FIX)
        if self._closed or self.principal is None:
            return
        principal = self.principal
        problem = self.serving.find_config_problem() if principal.is_owner else ConfigProblem()
        welcome = pb.Welcome(
            version=PROTOCOL_VERSION,
            daemon_version=__version__,
            principal=principal.name,
            default_sender=principal.default_sender,
            config_problem=problem.reason,
            more_config_errors=problem.more,
        )
        reply.send(pb.ServerMessage(welcome=welcome))

    def _on_revoked(self) -> None:
        self.principal = None
        self.close()
        self._outlet.put(pb.ServerMessage(error=error_message(revoked_error())))
        self._outlet.stop()
        # Otherwise a client that does not read would stay connected.
        self.serving.admission.clock.call_later(REVOKED_GRACE_SECONDS, self._outlet.abort)
