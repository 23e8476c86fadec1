"""Starts a fake provider in a thread, programs its answers, and returns the requests it received."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any

from tests.fake_provider.server import start


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


@contextmanager
def running(*, key: str = "") -> Iterator[Provider]:
    """A provider in a thread with its own event loop."""
    ready = threading.Event()
    box: dict[str, Any] = {}

    async def serve() -> None:
        runner, box["port"] = await start(key=key)
        box["stop"] = asyncio.Event()
        box["loop"] = asyncio.get_running_loop()
        ready.set()
        await box["stop"].wait()
        await runner.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="fake provider", daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield Provider(box["port"])
    finally:
        box["loop"].call_soon_threadsafe(box["stop"].set)
        thread.join(30)
