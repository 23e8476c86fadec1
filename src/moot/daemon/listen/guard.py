"""Checks of every HTTP request: Host header, origin, token."""

import logging
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web
from aiohttp.typedefs import Middleware

from moot.daemon.address import format_address
from moot.daemon.listen.http_connection import HttpConnection
from moot.daemon.listen.queued_reply import NotRetryable
from moot.daemon.principal import Principal
from moot.daemon.requests.admission import MESSAGE_SECONDS
from moot.daemon.requests.exchange import Serving, revoked_error
from moot.domain.errors import BadRequest, ConfigError, Forbidden, MootError, NotFound, TooLarge, Unauthorized
from moot.domain.ports.clock import Clock
from moot.wire.bounds import MAX_FRAME

logger = logging.getLogger(__name__)

PRINCIPAL: web.RequestKey[Principal | None] = web.RequestKey("principal")
REVOKED: web.RequestKey[bool] = web.RequestKey("revoked")
OPEN_PATHS = frozenset({"/healthz", "/openapi.json"})

METRICS_PATH = "/metrics"

# A WebSocket may send its token in Hello; until then it has no principal.
_TOKEN_LATER = frozenset({"/ws"})
_FRIENDLY_SITES = frozenset({"same-origin", "none"})
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}
_OPENAI_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WrongType(BadRequest):
    code = 415
    type = "wrong_content_type"


class SlowBody(BadRequest):
    code = 408
    type = "slow_body"


class WrongMethod(BadRequest):
    code = 405
    type = "wrong_method"


class Guard:
    """Middleware of every route. Accepts only hosts of this machine and no foreign origins."""

    def __init__(self, serving: Serving, port: int) -> None:
        self._principals = serving.principals
        self._admission = serving.admission
        self._metrics = serving.metrics
        self._hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"})

    async def check(self, request: web.Request) -> Principal | None:
        self._check_host(request)
        self._check_page(request)
        if request.path in OPEN_PATHS:
            return None
        if request.path == METRICS_PATH and self._metrics is not None:
            # The token for metrics is good for nothing else, and no other token is good for metrics.
            if not self._metrics.may_read(_read_bearer_token(request)):
                raise Unauthorized("this is not the token for metrics", fix="Send the one in data/metrics.token.")
            return None
        principal = await self._principal(request)
        if principal is None and request.path not in _TOKEN_LATER:
            raise Unauthorized(
                "no token", fix="Make one with `moot tokens new NAME` and send it as `Authorization: Bearer TOKEN`."
            )
        if principal is not None and isinstance(request.protocol, HttpConnection):
            self._admission.authenticate(request.protocol, principal)
        if request.method == "POST":
            _check_body_headers(request)
        return principal

    def _check_host(self, request: web.Request) -> None:
        # DNS rebinding: a foreign name may resolve to this machine, so only own names are accepted.
        hosts = request.headers.getall("Host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self._own_names(request):
            raise Forbidden("the Host header does not name this daemon", fix="Connect to 127.0.0.1 or localhost.")

    def _own_names(self, request: web.Request) -> frozenset[str]:
        """Return the accepted host names, including the address of this connection, which cannot be rebound."""
        local = request.transport.get_extra_info("sockname") if request.transport is not None else None
        return self._hosts | {format_address(*local[:2])} if local else self._hosts

    def _check_page(self, request: web.Request) -> None:
        own = {f"http://{name}" for name in self._own_names(request)}
        origins = request.headers.getall("Origin", [])
        sites = request.headers.getall("Sec-Fetch-Site", [])
        if any(origin not in own for origin in origins) or any(site not in _FRIENDLY_SITES for site in sites):
            raise Forbidden(
                "a page of another origin may not talk to this daemon", fix="Use a client that is not a web page."
            )

    def watch(self, request: web.Request) -> Callable[[], None]:
        """Mark the request when its token is revoked; return a function that ends the watch."""
        request[REVOKED] = False
        principal = request[PRINCIPAL]
        if principal is None:
            return lambda: None
        return self._principals.watch(principal, lambda: request.__setitem__(REVOKED, True))

    async def _principal(self, request: web.Request) -> Principal | None:
        token = _read_bearer_token(request)
        return await self._principals.find(token) if token else None


def _read_bearer_token(request: web.Request) -> str:
    """Return the token of the Authorization header; empty if there is no such header."""
    values = request.headers.getall("Authorization", [])
    if not values:
        return ""
    scheme, _, token = values[0].partition(" ")
    if len(values) > 1 or scheme.lower() != "bearer" or not token.strip():
        raise Unauthorized("the Authorization header is not a bearer token", fix="Send `Bearer TOKEN`, once.")
    return token.strip()


def _check_body_headers(request: web.Request) -> None:
    """Reject a body by its headers, before any of it is read."""
    if request.content_type != "application/json":
        raise WrongType("the body is not JSON", fix="Send `Content-Type: application/json`.")
    encodings = request.headers.getall("Content-Encoding", [])
    if any(encoding.strip().lower() != "identity" for encoding in encodings):
        raise WrongType("the body is compressed, which is not supported", fix="Send it without Content-Encoding.")
    if request.content_length is not None and request.content_length > MAX_FRAME:
        raise _body_too_large_error()


def _body_too_large_error() -> TooLarge:
    return TooLarge(f"the body exceeds {MAX_FRAME} bytes", fix="Send less.")


async def read_body(request: web.Request, clock: Clock) -> bytes:
    """Return the body. Its size is limited while it is read, and so is the time from the first byte to the last."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        # Only now, because clients without a token should not send a body at all.
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    try:
        async with clock.timeout(MESSAGE_SECONDS):
            return await request.read()
    except TimeoutError:
        raise SlowBody(
            f"the body did not arrive within {MESSAGE_SECONDS:.0f} seconds", fix="Send it at once."
        ) from None


async def expect_later(_request: web.Request) -> None:
    """Do not ask for the body of a request with `Expect: 100-continue` yet; `read_body` does."""


def middleware(guard: Guard) -> Middleware:
    @web.middleware
    async def check_request(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            request[PRINCIPAL] = await guard.check(request)
            unwatch = guard.watch(request)
            try:
                return await handler(request)
            finally:
                unwatch()
        except MootError as error:
            return error_response(request, error)
        except web.HTTPException as error:
            return error_response(request, _translate_error(request, error))
        except ConnectionError:
            # The client has disconnected, so this response is not delivered.
            return web.Response(status=499)
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            failure = MootError(
                "internal error while answering this request", fix="See `moot logs --daemon`, or run `moot doctor`."
            )
            return error_response(request, failure)

    return check_request


async def add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)
    response.headers.popall("Server", None)


def require_principal(request: web.Request) -> Principal:
    """Return the principal. Raise Unauthorized also if the token was revoked while the body was received."""
    principal = request[PRINCIPAL]
    if request[REVOKED]:
        raise revoked_error()
    if principal is None:
        raise Unauthorized("no token", fix="Send `Authorization: Bearer TOKEN`.")
    return principal


def error_response(request: web.Request, error: MootError) -> web.Response:
    """Return the error as JSON, in OpenAI's format below /v1."""
    body = openai_error(error) if request.path.startswith("/v1/") else plain_error(error)
    response = web.Response(status=error.code, body=msgspec.json.encode(body), content_type="application/json")
    if isinstance(error, Unauthorized):
        response.headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, NotRetryable) or error.type == ConfigError.type:
        # OpenAI's clients retry by default, which cannot help with these errors.
        response.headers["x-should-retry"] = "false"
    return response


def plain_error(error: MootError) -> dict[str, object]:
    return {"error": {"code": error.code, "type": error.type, "message": error.message, "fix": error.fix}}


def openai_error(error: MootError) -> dict[str, object]:
    fallback = "server_error" if error.code >= 500 else "invalid_request_error"
    message = f"{error.message} ({error.fix})" if error.fix else error.message
    kind = _OPENAI_TYPES.get(error.code, fallback)
    return {"error": {"message": message, "type": kind, "param": None, "code": error.type}}


def _translate_error(request: web.Request, error: web.HTTPException) -> MootError:
    match error.status:
        case 404:
            return NotFound(f"no route {request.path}", fix="GET /openapi.json lists the routes.")
        case 405:
            return WrongMethod(f"{request.method} is not supported at {request.path}", fix="See GET /openapi.json.")
        case 413:
            return _body_too_large_error()
        case _:
            return BadRequest(error.reason or "the request is malformed")
