"""Starts a fake provider in a thread, programs its answers, and returns the requests it received."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any

from tests.fake_provider.server import Server, start


class Provider:
    """A running fake provider, wherever it runs."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.openai_url = f"{self.url}/v1"
        self.anthropic_url = self.url

    def program(self, *answers: dict[str, Any]) -> None:
        """Queue answers; each serves one request."""
        self._call("POST", "/program", list(answers))

    def requests(self, at_least: int = 0, *, seconds: float = 30.0) -> list[dict[str, Any]]:
        """Every request so far, waiting for so many: `path`, `body`, and `faults`, which is empty for a valid one."""
        found = self._call("GET", f"/requests?at_least={at_least}&seconds={seconds}")["requests"]
        return list(found)

    def bodies(self, at_least: int = 0) -> list[dict[str, Any]]:
        return [request["body"] for request in self.requests(at_least)]

    def faults(self) -> list[str]:
        return [fault for request in self.requests() for fault in request["faults"]]

    def active(self) -> int:
        """How many answers are under way."""
        return int(self._call("GET", "/requests")["active"])

    def tells(self, facts: dict[str, Any]) -> None:
        """What it answers to a GET, by path."""
        self._call("POST", "/facts", facts)

    def set_vectors(self, *, length: int = 64, statuses: list[int] | None = None) -> None:
        """How long vectors are, and how the next requests for them are answered: a status each."""
        self._call("POST", "/vectors", {"length": length, "statuses": statuses or []})

    def embedded(self) -> list[str]:
        """Every text that was sent to be embedded, in order."""
        return [
            text for each in self.requests() if each["path"].endswith("/embeddings") for text in each["body"]["input"]
        ]

    def release(self) -> None:
        """Let every held or stalled answer go on."""
        self._call("POST", "/release")

    def reset(self) -> None:
        self._call("POST", "/reset")

    def _call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        finally:
            connection.close()
        if response.status != 200:
            raise AssertionError(f"fake provider: {answer}")
        return answer


class ProviderThread(Provider):
    """A fake provider in this process: it is programmed and read directly, without a request for each look."""

    def __init__(self, port: int, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(port)
        self._server = server
        self._loop = loop

    def program(self, *answers: dict[str, Any]) -> None:
        # Copied as JSON, because the server counts in them.
        self._do(lambda: self._server.program.extend(json.loads(json.dumps(answers))))

    def tells(self, facts: dict[str, Any]) -> None:
        self._do(lambda: self._server.facts.update(facts))

    def release(self) -> None:
        self._do(self._server.release)

    def reset(self) -> None:
        self._do(self._server.reset)

    def requests(self, at_least: int = 0, *, seconds: float = 30.0) -> list[dict[str, Any]]:
        if len(self._server.requests) < at_least:
            waiting = self._server.wait_for_requests(at_least, seconds)
            came = asyncio.run_coroutine_threadsafe(waiting, self._loop).result(seconds + 60)
            assert came, f"fake provider: only {len(self._server.requests)} requests came"
        return list(self._server.requests)

    def active(self) -> int:
        return self._server.active

    def _do(self, action: Callable[[], None]) -> None:
        """Act on the server in its own thread."""

        async def act() -> None:
            action()

        asyncio.run_coroutine_threadsafe(act(), self._loop).result(60)


@contextmanager
def running(*, key: str = "") -> Iterator[Provider]:
    """A provider in a thread with its own event loop."""
    ready = threading.Event()
    box: dict[str, Any] = {}

    async def serve() -> None:
        server = box["server"] = Server(key=key)
        runner, box["port"] = await start(server)
        box["stop"] = asyncio.Event()
        box["loop"] = asyncio.get_running_loop()
        ready.set()
        await box["stop"].wait()
        await runner.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="fake provider", daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield ProviderThread(box["port"], box["server"], box["loop"])
    finally:
        box["loop"].call_soon_threadsafe(box["stop"].set)
        thread.join(30)
