"""The HTTP listener: health, JSON requests, WebSocket, OpenAI-compatible endpoint. Loopback only."""

import asyncio
import logging
from functools import partial

from aiohttp import web

from moot.daemon.address import HTTP_PORT, bind, format_address, get_bound_address, parse_listen
from moot.daemon.listen import websocket
from moot.daemon.listen.guard import Guard, add_headers, middleware, require_principal
from moot.daemon.listen.openai_api import ChatCompletions, CompletionStop, ask_once, json_response
from moot.daemon.listen.openapi import document
from moot.daemon.requests.exchange import Serving
from moot.domain.errors import BadRequest
from moot.wire import json_form
from moot.wire import moot_pb2 as pb
from moot.wire.codec import MAX_FRAME, check_client

# These answer with more than one message.
_STREAMING = frozenset({"stream", "attach", "subscribe_events", "hello"})


class HttpListener:
    def __init__(self, address: str, serving: Serving, runner: web.AppRunner, server: asyncio.Server) -> None:
        self._address = address
        self._serving = serving
        self._runner = runner
        self._server = server

    @property
    def address(self) -> str:
        return self._address

    def stop_accepting(self) -> None:
        self._server.close()

    async def close(self) -> None:
        self._server.close()
        for connection in tuple(self._serving.connections):
            if isinstance(connection, websocket.Socket | CompletionStop):
                connection.stop()
        await self._runner.cleanup()


async def listen(configured: str, serving: Serving) -> HttpListener:
    """Listen on the configured host:port, or near the default port. ConfigError when it cannot be."""
    wanted = parse_listen(configured, default_port=HTTP_PORT, setting="listen.http")
    bound = bind(wanted, setting="listen.http")
    host, port = get_bound_address(bound)
    runner = web.AppRunner(make_app(serving, port=port), access_log=None, logger=_quiet_logger(), shutdown_timeout=2.0)
    await runner.setup()
    if runner.server is None:
        raise RuntimeError("the runner was set up and has no server")
    server = await asyncio.get_running_loop().create_server(runner.server, sock=bound, backlog=512)
    return HttpListener(format_address(host, port), serving, runner, server)


def _quiet_logger() -> logging.Logger:
    """Bytes that are not HTTP are answered with 400 and not worth a line: anybody here could fill the log with them.

    What goes wrong in a handler is logged by the guard.
    """
    logger = logging.getLogger(f"{__name__}.garbage")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def make_app(serving: Serving, *, port: int) -> web.Application:
    app = web.Application(middlewares=[middleware(Guard(serving.principals, port))], client_max_size=MAX_FRAME)
    app.on_response_prepare.append(add_headers)
    chat = ChatCompletions(serving)
    app.router.add_get("/healthz", _health)
    app.router.add_get("/openapi.json", _openapi)
    app.router.add_get("/ws", partial(websocket.serve, serving=serving))
    app.router.add_post("/api", partial(_api, serving=serving))
    app.router.add_get("/v1/models", chat.models)
    app.router.add_get("/v1/models/{name}", chat.model)
    app.router.add_post("/v1/chat/completions", chat.complete)
    return app


async def _health(_request: web.Request) -> web.Response:
    return json_response({"ok": True})


async def _openapi(_request: web.Request) -> web.Response:
    return json_response(document())


async def _api(request: web.Request, serving: Serving) -> web.Response:
    """One ClientMessage as JSON in, its one ServerMessage out."""
    try:
        text = (await request.read()).decode()
    except UnicodeDecodeError:
        raise BadRequest("the body is not UTF-8", fix="Send JSON as UTF-8.") from None
    message = json_form.decode_client(text)
    kind = check_client(message)
    if kind in _STREAMING:
        raise BadRequest(
            f"{kind} answers with many messages", fix="Use the WebSocket at /ws; or send, instead of stream."
        )
    answered = pb.ServerMessage(pong=pb.Pong())
    if kind != "ping":
        answered = await ask_once(serving, message, require_principal(request))
    answered.request_id = message.request_id
    return web.Response(text=json_form.encode(answered), content_type="application/json")
