"""A model server that costs next to nothing: OpenAI-compatible answers over a bare asyncio protocol.

    python -m bench.mock [--core N]        prints its port, serves until its standard input closes

The path in front of /v1 chooses the answer; bodies are never parsed, only searched for the wish to stream:

    /v1/chat/completions                   sixteen tokens, one write each, as fast as the loop goes
    /l100/n500/g20/v1/chat/completions     100 ms before the first, 500 tokens, 20 ms between two
    /o1/v1/chat/completions                the whole answer in one write, so that it takes one read
    /t1/v1/chat/completions                a call of the tool `echo`, and the tokens once its result is there
    /s100/v1/chat/completions              for who leads a team: spawns a hundred, waits for all, then the tokens
    /d100/v1/chat/completions              the same where a spawn returns what the teammate said: no wait follows

GET /spawned says how long the last spawned teammate took to its first request.
GET /last is the body of the last request, GET /before that of the one before it, GET /stats says how many there were.
"""

import argparse
import asyncio
import json
import os
import re
import socket
import sys
import time
from functools import lru_cache
from typing import cast

TOKENS = 16
_OPTION = re.compile(rb"/([lngtsdo])(\d+)")
_RUN = re.compile(rb"arun-[0-9a-f]{16}")
_LEADS, _WORKS = b"You lead a team", b"You work as a teammate"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n"
_STREAM_HEAD = _HEAD % b"text/event-stream" + b"Transfer-Encoding: chunked\r\n\r\n"
_USAGE = {"prompt_tokens": 64, "completion_tokens": 16, "total_tokens": 80}


def reply_text(tokens: int = TOKENS) -> str:
    """What the server says; every token is different, so a lost or swapped one shows."""
    return " ".join(f"word{number}" for number in range(tokens))


def _event(value: object) -> bytes:
    data = b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def _piece(choices: list[dict[str, object]], **more: object) -> bytes:
    common = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 1, "model": "mock"}
    return _event({**common, "choices": choices, **more})


def _delta(delta: dict[str, str], finish: str | None = None) -> bytes:
    return _piece([{"index": 0, "delta": delta, "finish_reason": finish}])


@lru_cache
def stream_writes(tokens: int) -> tuple[bytes, ...]:
    """The writes of one streamed answer, in order."""
    words = [word if number == 0 else f" {word}" for number, word in enumerate(reply_text(tokens).split(" "))]
    return (
        _STREAM_HEAD + _delta({"role": "assistant", "content": ""}),
        *(_delta({"content": word}) for word in words),
        _delta({}, "stop"),
        _piece([], usage=_USAGE),
        _event(b"[DONE]") + b"0\r\n\r\n",
    )


def _calling(made: list[tuple[str, dict[str, object]]], number: int, *, stream: bool = True) -> tuple[bytes, ...]:
    """The writes of an answer that calls tools."""
    calls = [
        {
            "index": index,
            "id": f"call_{number}_{index}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for index, (name, arguments) in enumerate(made)
    ]
    if not stream:
        return (_whole({"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"),)
    return (
        _STREAM_HEAD + _piece([{"index": 0, "delta": {"role": "assistant", "tool_calls": calls}}]),
        _delta({}, "tool_calls"),
        _piece([], usage=_USAGE),
        _event(b"[DONE]") + b"0\r\n\r\n",
    )


@lru_cache
def whole_answer(tokens: int) -> bytes:
    return _whole({"role": "assistant", "content": reply_text(tokens)}, "stop")


def _whole(message: dict[str, object], finish: str) -> bytes:
    choices = [{"index": 0, "message": message, "finish_reason": finish}]
    value = {"id": "chatcmpl-0", "object": "chat.completion", "created": 1, "model": "mock"}
    return _document(json.dumps({**value, "choices": choices, "usage": _USAGE}).encode())


def _document(body: bytes) -> bytes:
    return _HEAD % b"application/json" + b"Content-Length: %d\r\n\r\n" % len(body) + body


class Tally:
    """What has been asked so far, over all connections."""

    requests = 0
    last = b""
    before = b""
    # When a teammate was asked for, and how long it took to ask something itself.
    spawned_at = 0.0
    spawned = 0.0


class Mock(asyncio.Protocol):
    """One connection. Requests on it are answered one after the other."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._wanted = 0
        self._answering = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not asyncio's, so it is not asked what they are.
        self._transport = cast(asyncio.Transport, transport)
        plug = transport.get_extra_info("socket")
        plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._proceed()

    def _proceed(self) -> None:
        while not self._answering and len(self._received) >= max(self._wanted, 1):
            end = self._received.find(b"\r\n\r\n") + 4
            if end < 4:
                return
            head = bytes(self._received[:end])
            named = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            self._wanted = end + (int(named[1]) if named else 0)
            if len(self._received) < self._wanted:
                return
            body = bytes(memoryview(self._received)[end : self._wanted])
            del self._received[: self._wanted]
            self._wanted = 0
            self._answer(head.split(b" ", 2)[1], body)

    def _answer(self, path: bytes, body: bytes) -> None:
        assert self._transport is not None
        if not path.endswith(b"/chat/completions"):
            self._transport.write(_document(_about(path)))
            return
        Tally.requests += 1
        Tally.before, Tally.last = Tally.last, body
        chosen = {name: int(value) for name, value in _OPTION.findall(path)}
        tokens, gap = chosen.get(b"n", TOKENS), chosen.get(b"g", 0) / 1000
        stream = _wants_stream(body)
        writes = stream_writes(tokens) if stream else (whole_answer(tokens),)
        if chosen.get(b"t") and not _has_result(body):
            writes = _calling([("echo", {"text": "as it is"})], Tally.requests, stream=stream)
        if chosen.get(b"s"):
            writes = _of_team(chosen[b"s"], body) or writes
        if chosen.get(b"d"):
            writes = _of_caller(chosen[b"d"], body, stream=stream) or writes
        if chosen.get(b"o"):
            writes = (b"".join(writes),)
        self._answering = True
        wait = chosen.get(b"l", 0)
        if wait:
            self._loop.call_later(wait / 1000, self._say, writes, 0, gap)
        else:
            self._say(writes, 0, gap)

    def _say(self, writes: tuple[bytes, ...], number: int, gap: float) -> None:
        """Each write has a turn of the loop of its own, as a server that waits for a model has."""
        if self._transport is None:
            return
        self._transport.write(writes[number])
        number += 1
        if number == len(writes):
            self._answering = False
            self._proceed()
        elif gap:
            self._loop.call_later(gap, self._say, writes, number, gap)
        else:
            self._loop.call_soon(self._say, writes, number, gap)


def _wants_stream(body: bytes) -> bool:
    """Clients put it before or after the messages; the middle of a long body is left alone."""
    ends = body[:512] + body[-512:]
    return b'"stream":true' in ends or b'"stream": true' in ends


def _of_team(size: int, body: bytes) -> tuple[bytes, ...]:
    """What whoever leads a team answers: spawns, then a wait for all of them, then words. A teammate has only words."""
    if _works(body):
        return ()
    told = body[body.rfind(b'"role":"user"') :]
    if _LEADS not in body or b'\\"outcome\\"' in told:
        return ()
    runs = list(dict.fromkeys(run.decode() for run in _RUN.findall(told)))
    if runs:
        return _calling([("agent_wait", {"agent_id": ",".join(runs)})], Tally.requests)
    return _spawning(size)


def _of_caller(size: int, body: bytes, *, stream: bool) -> tuple[bytes, ...]:
    """What whoever leads a team answers where the result of a spawn is what the teammate said: spawns, then words."""
    if _works(body) or _LEADS not in body or _has_result(body):
        return ()
    return _spawning(size, stream=stream)


def _works(body: bytes) -> bool:
    """Whether a teammate asks; the first one to do so ends the time since it was asked for."""
    if _WORKS not in body:
        return False
    if Tally.spawned_at:
        Tally.spawned, Tally.spawned_at = time.perf_counter() - Tally.spawned_at, 0.0
    return True


def _spawning(size: int, *, stream: bool = True) -> tuple[bytes, ...]:
    Tally.spawned_at = time.perf_counter()
    return _calling(
        [("agent_spawn", {"instruction": f"Part {part}.", "agent": "planner"}) for part in range(size)],
        Tally.requests,
        stream=stream,
    )


def _has_result(body: bytes) -> bool:
    """Whether a tool's result came after the last thing the user said."""
    return body.rfind(b'"role":"tool"') > body.rfind(b'"role":"user"')


def _about(path: bytes) -> bytes:
    if path == b"/spawned":
        return json.dumps({"seconds": Tally.spawned}).encode()
    if path in (b"/last", b"/before"):
        return Tally.last if path == b"/last" else Tally.before
    return json.dumps({"requests": Tally.requests, "bytes": len(Tally.last)}).encode()


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Mock, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Whoever started it holds the other end: when that one is gone, so is the server.
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="A mock model server for benchmarks.")
    parser.add_argument("--core", type=int, default=-1, help="pin it to this core")
    options = parser.parse_args()
    if options.core >= 0 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {options.core})
    try:
        import uvloop  # noqa: PLC0415 — not there on every system

        factory = uvloop.new_event_loop
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve())


if __name__ == "__main__":
    main()
