"""The server: checks and records each request, then answers it as programmed."""

import asyncio
import json
import re
import socket
import struct
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tests.fake_provider import check_anthropic, check_openai, embed, say

_DIRECTIVE = re.compile(r"\[\[fake (\{.*?\})\]\]", re.DOTALL)
_NO_LINGER = struct.pack("ii", 1, 0)


class Server:
    """Everything the server knows; used on its own event loop only."""

    def __init__(self, *, key: str = "") -> None:
        self.key = key
        self.requests: list[dict[str, Any]] = []
        self.program: list[dict[str, Any]] = []
        # What it says of itself, by path; nothing unless told.
        self.facts: dict[str, Any] = {}
        # How long vectors are, and the answers to the next requests for them: a status each, 200 for vectors.
        self.vector_length = 64
        self.vector_statuses: list[int] = []
        self.active = 0
        self._changed = asyncio.Condition()
        self._released = asyncio.Event()
        # Connections whose next request is not answered.
        self._dropped: list[asyncio.Transport] = []

    def app(self) -> web.Application:
        app = web.Application(client_max_size=256 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._openai)
        app.router.add_post("/v1/messages", self._anthropic)
        app.router.add_post("/v1/embeddings", self._embed)
        app.router.add_post("/vectors", self._set_vectors)
        app.router.add_get("/requests", self._list)
        app.router.add_post("/program", self._add)
        app.router.add_post("/release", self._release)
        app.router.add_post("/reset", self._reset)
        app.router.add_post("/facts", self._learn)
        app.router.add_get("/{path:.*}", self._tell)
        return app

    # ---- control --------------------------------------------------------------------------------

    async def wait_for_requests(self, at_least: int, seconds: float) -> bool:
        """Whether so many requests came in time."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: len(self.requests) >= at_least)
        except TimeoutError:
            return False
        return True

    async def _list(self, request: web.Request) -> web.Response:
        at_least, seconds = int(request.query.get("at_least", "0")), float(request.query.get("seconds", "10"))
        if not await self.wait_for_requests(at_least, seconds):
            return web.json_response({"error": f"only {len(self.requests)} requests came"}, status=408)
        return web.json_response({"requests": self.requests, "active": self.active, "left": len(self.program)})

    async def _add(self, request: web.Request) -> web.Response:
        answers = await request.json()
        self.program.extend(answers if isinstance(answers, list) else [answers])
        return web.json_response({})

    def release(self) -> None:
        self._released.set()
        self._released = asyncio.Event()

    def reset(self) -> None:
        self.requests.clear()
        self.program.clear()
        self.facts.clear()
        self.vector_length, self.vector_statuses = 64, []

    async def _release(self, request: web.Request) -> web.Response:
        self.release()
        return web.json_response({})

    async def _reset(self, request: web.Request) -> web.Response:
        self.reset()
        return web.json_response({})

    async def _learn(self, request: web.Request) -> web.Response:
        self.facts.update(await request.json())
        return web.json_response({})

    async def _tell(self, request: web.Request) -> web.Response:
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return _refuse(401, "authentication_error", "wrong key")
        told = self.facts.get(request.path)
        return web.json_response({} if told is None else told, status=404 if told is None else 200)

    async def _set_vectors(self, request: web.Request) -> web.Response:
        told = await request.json()
        self.vector_length = told.get("length", self.vector_length)
        self.vector_statuses = told.get("statuses", [])
        return web.json_response({})

    # ---- the wires ------------------------------------------------------------------------------

    async def _openai(self, request: web.Request) -> web.StreamResponse:
        allowed = not self.key or request.headers.get("Authorization") == f"Bearer {self.key}"
        return await self._serve(request, check_openai.check, say.openai_events, allowed=allowed)

    async def _anthropic(self, request: web.Request) -> web.StreamResponse:
        allowed = not self.key or request.headers.get("x-api-key") == self.key
        return await self._serve(request, check_anthropic.check, say.anthropic_events, allowed=allowed)

    async def _embed(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body, faults = check_openai.parse_strictly(raw)
        faults += embed.check(body) if body is not None else []
        sent = {"path": request.path, "body": body, "faults": faults, "raw": raw.decode("utf-8", "replace")}
        async with self._changed:
            self.requests.append(sent | {"key": request.headers.get("Authorization", "")})
            self._changed.notify_all()
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return _refuse(401, "authentication_error", f"wrong key: {request.headers.get('Authorization')}")
        if body is None or faults:
            return _refuse(400, "invalid_request_error", "; ".join(faults))
        status = self.vector_statuses.pop(0) if self.vector_statuses else 200
        if status != 200:
            return _refuse(status, "fake", "as programmed")
        return web.json_response(embed.embed(body["input"], self.vector_length))

    async def _serve(
        self,
        request: web.Request,
        check: Callable[[dict[str, Any]], Any],
        say_events: Callable[[dict[str, Any]], list[bytes]],
        *,
        allowed: bool,
    ) -> web.StreamResponse:
        raw = await request.read()
        if request.transport in self._dropped:
            self._dropped.remove(request.transport)
            request.transport.close()
            return web.Response()
        body, faults = check_openai.parse_strictly(raw)
        if body is not None:
            faults += check(body)
        if "messages" in request.path and not request.headers.get("anthropic-version"):
            faults.append("anthropic-version is missing")
        async with self._changed:
            port = request.transport.get_extra_info("peername")[1] if request.transport else 0
            text = raw.decode("utf-8", "replace")
            asked = {"path": request.path, "host": request.host, "body": body, "faults": faults, "raw": text}
            self.requests.append(asked | {"port": port, "login": request.headers.get("Proxy-Authorization", "")})
            self._changed.notify_all()
        if not allowed:
            return _refuse(401, "authentication_error", f"wrong key: {request.headers.get('Authorization')}")
        if body is None or faults:
            return _refuse(400, "invalid_request_error", "; ".join(faults))
        self.active += 1
        try:
            return await self._answer(request, self._choose(body), say_events)
        finally:
            self.active -= 1

    def _choose(self, body: dict[str, Any]) -> dict[str, Any]:
        asked, result = _last_said(body)
        found = _DIRECTIVE.search(asked)
        if found:
            answer: dict[str, Any] = json.loads(found[1])
        else:
            answer = self._next(asked) or {"text": f"tool said: {result}" if result is not None else f"echo: {asked}"}
        if found and result is not None and answer.get("calls"):
            then = answer.get("then", f"tool said: {result}")
            return then if isinstance(then, dict) else {"text": then}
        return _with_run(answer, body)

    def _next(self, asked: str) -> dict[str, Any] | None:
        for place, answer in enumerate(self.program):
            if re.search(answer.get("match", ""), asked):
                answer["repeat"] = answer.get("repeat", 1) - 1
                if answer["repeat"] <= 0:
                    del self.program[place]
                return answer
        return None

    async def _answer(
        self, request: web.Request, answer: dict[str, Any], say_events: Callable[[dict[str, Any]], list[bytes]]
    ) -> web.StreamResponse:
        if answer.get("hold"):
            await self._released.wait()
        await asyncio.sleep(answer.get("delay", 0))
        headers = answer.get("headers", {})
        if "status" in answer or "body" in answer:
            return web.Response(
                status=answer.get("status", 200),
                headers={"Content-Type": answer.get("content_type", "application/json"), **headers},
                body=answer.get("body", '{"error":{"message":"as programmed","type":"fake"}}').encode(
                    "utf-8", "surrogateescape"
                ),
            )
        events = say_events(answer)
        if answer.get("crlf"):
            events = [event.replace(b"\n", b"\r\n") for event in events]
        if "cut_at" in answer or "reset_at" in answer or answer.get("plain_end"):
            return await _break_off(request, answer, b"".join(events))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **headers})
        await response.prepare(request)
        await self._stream(response, answer, events)
        await response.write_eof()
        if answer.get("drops") and request.transport is not None:
            self._dropped.append(request.transport)
        return response

    async def _stream(self, response: web.StreamResponse, answer: dict[str, Any], events: list[bytes]) -> None:
        batch = answer.get("batch", 1)
        stall_after = answer.get("stall_after", len(events))
        for start in range(0, len(events), batch):
            if start >= stall_after:
                await self._released.wait()
            await response.write(b"".join(events[start : start + batch]))
            if answer.get("token_delay"):
                await asyncio.sleep(answer["token_delay"])


def _with_run(answer: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """The answer with `{agent_id}` in its calls replaced by the teammate that was spawned last."""
    if "{agent_id}" not in json.dumps(answer.get("calls", [])):
        return answer
    spawned = re.findall(r"arun-[0-9a-f]{16}", json.dumps(body["messages"]))
    calls = json.loads(json.dumps(answer["calls"]).replace("{agent_id}", spawned[-1] if spawned else ""))
    return {**answer, "calls": calls}


async def _break_off(request: web.Request, answer: dict[str, Any], stream: bytes) -> web.StreamResponse:
    """Write part of the answer past aiohttp, and end the connection."""
    transport = request.transport
    assert transport is not None
    at = answer.get("cut_at", answer.get("reset_at", len(stream)))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    if answer.get("plain_end"):
        transport.write(head + b"Connection: close\r\n\r\n" + stream[:at])
    else:
        transport.write(head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(stream) + stream[:at])
    if "reset_at" in answer:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        transport.abort()
    else:
        transport.close()
    return web.Response()


def _refuse(status: int, kind: str, message: str) -> web.Response:
    return web.json_response({"type": "error", "error": {"type": kind, "message": message}}, status=status)


# What the daemon tells of a turn; nobody said it.
_MAIL = re.compile(r"# PEER MESSAGES\n\n(?:<peer-message [^>]*>\n[^<>]*</peer-message>\n?)+")
_CONTEXT = re.compile(r"(?:\n\n)?<moot>.*?</moot>", re.DOTALL)


def _last_said(body: dict[str, Any]) -> tuple[str, str | None]:
    """The last thing the user said, and the last result if one came after it. Mail that came since is left out."""
    result: str | None = None
    for place in range(len(body["messages"]) - 1, -1, -1):
        message = body["messages"][place]
        content = message["content"]
        if message["role"] == "tool":
            result = content if result is None else result
        elif message["role"] == "user" and isinstance(content, str):
            said = _CONTEXT.sub("", content)
            is_between = body["messages"][place - 1]["role"] == "tool"
            if is_between and not _MAIL.sub("", said).strip():
                continue
            return _MAIL.sub("", said).rstrip() or said, result
        elif message["role"] == "user":
            results = [block.get("content", "") for block in content if block["type"] == "tool_result"]
            texts = [block["text"] for block in content if block["type"] == "text"]
            if texts:
                return _CONTEXT.sub("", "\n\n".join(texts)), result
            result = results[-1] if result is None and results else result
    return "", result


async def start(server: Server, *, port: int = 0) -> tuple[web.AppRunner, int]:
    runner = web.AppRunner(server.app(), access_log=None, handler_cancellation=True, shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner, int(runner.addresses[0][1])
