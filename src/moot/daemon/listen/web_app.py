"""The web application behind the HTTP listener: health, JSON requests, WebSocket, OpenAI-compatible endpoint.

http.py loads it with the first connection: aiohttp takes longer to import than everything else the daemon needs.
"""

import asyncio
import logging
from functools import partial

from aiohttp import web

from moot.daemon.listen import websocket
from moot.daemon.listen.guard import Guard, add_headers, expect_later, middleware, read_body, require_principal
from moot.daemon.listen.http_connection import KEEPALIVE_SECONDS, LINGERING_SECONDS, HttpConnection
from moot.daemon.listen.openai_api import ChatCompletions, CompletionStop, ask_once, json_response
from moot.daemon.listen.openapi import document
from moot.daemon.listen.responses_api import Responses
from moot.daemon.requests.admission import LARGE_UNREAD, Admission
from moot.daemon.requests.exchange import MetricsSource, Serving
from moot.domain.errors import BadRequest, Busy, NotFound
from moot.wire import json_form
from moot.wire import moot_pb2 as pb
from moot.wire.bounds import MAX_FRAME
from moot.wire.codec import check_client

# Requests with more than one answer.
_STREAMING = frozenset({"stream", "attach", "subscribe_events", "hello"})


async def start_app(serving: Serving, *, port: int) -> web.AppRunner:
    runner = web.AppRunner(
        make_app(serving, port=port),
        access_log=None,
        logger=_quiet_logger(),
        shutdown_timeout=2.0,
        keepalive_timeout=KEEPALIVE_SECONDS,
        lingering_time=LINGERING_SECONDS,
        # A small compressed body can become a large one; the guard rejects them.
        auto_decompress=False,
    )
    await runner.setup()
    return runner


def make_connection(runner: web.AppRunner, admission: Admission) -> HttpConnection:
    if runner.server is None:
        raise RuntimeError("the web application is not set up")
    return HttpConnection(runner.server, admission)


async def stop_app(runner: web.AppRunner, serving: Serving) -> None:
    for connection in serving.connections:
        if isinstance(connection, websocket.Socket | CompletionStop):
            connection.stop()
    await runner.cleanup()


def _quiet_logger() -> logging.Logger:
    """Return a logger that drops errors of invalid HTTP, with which any local process could fill the log.

    Errors of handlers are logged by the guard.
    """
    logger = logging.getLogger(f"{__name__}.garbage")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def make_app(serving: Serving, *, port: int) -> web.Application:
    app = web.Application(middlewares=[middleware(Guard(serving, port))], client_max_size=MAX_FRAME)
    app.on_response_prepare.append(add_headers)
    chat = ChatCompletions(serving)
    app.router.add_get("/healthz", _health)
    app.router.add_get("/openapi.json", _openapi)
    app.router.add_get("/ws", partial(websocket.serve, serving=serving))
    app.router.add_post("/api", partial(_api, serving=serving), expect_handler=expect_later)
    app.router.add_get("/v1/models", chat.models)
    app.router.add_get("/v1/models/{name}", chat.model)
    app.router.add_post("/v1/chat/completions", chat.complete, expect_handler=expect_later)
    responses = Responses(serving, chat)
    app.router.add_post("/v1/responses", responses.create, expect_handler=expect_later)
    app.router.add_get("/v1/responses/{id}", responses.retrieve)
    app.router.add_get("/metrics", partial(_metrics, metrics=serving.metrics))
    return app


async def _health(_request: web.Request) -> web.Response:
    return json_response({"ok": True})


async def _openapi(_request: web.Request) -> web.Response:
    return json_response(document())


async def _metrics(_request: web.Request, metrics: MetricsSource | None) -> web.Response:
    if metrics is None:
        raise NotFound("metrics are off", fix="Set enabled = true in [metrics] and restart the daemon.")
    response = web.Response(body=await metrics.render(), headers={"Content-Type": metrics.content_type})
    # A reader of metrics has no principal, so its connection must not stay open.
    response.force_close()
    return response


async def _api(request: web.Request, serving: Serving) -> web.Response:
    """Answer one ClientMessage in JSON with its one ServerMessage."""
    try:
        text = (await read_body(request, serving.admission.clock)).decode()
    except UnicodeDecodeError:
        raise BadRequest("the body is not UTF-8", fix="Send JSON as UTF-8.") from None
    large = json_form.is_large(text)
    message = await asyncio.to_thread(json_form.decode_client, text) if large else json_form.decode_client(text)
    kind = check_client(message)
    if kind in _STREAMING:
        raise BadRequest(
            f"{kind} answers with many messages", fix="Use the WebSocket at /ws; or send, instead of stream."
        )
    answered = pb.ServerMessage(pong=pb.Pong())
    if kind != "ping":
        answered = await ask_once(serving, message, require_principal(request))
    answered.request_id = message.request_id
    text = json_form.encode(answered)
    if len(text) > LARGE_UNREAD and isinstance(request.protocol, HttpConnection):
        _require_unread_room(serving.admission, request.protocol)
    return web.Response(text=text, content_type="application/json")


def _require_unread_room(admission: Admission, connection: HttpConnection) -> None:
    if not admission.has_unread_room(connection):
        raise Busy("this token has too many answers that it has not read", fix="Read them, then try again.")
