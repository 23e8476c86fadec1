"""The floor: the same requests sent with bare aiohttp, and the cheapest durable conversation one can write."""

import json
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import apsw
import msgspec

# aiohttp advises against large bodies in one write; one write is what is cheapest, and what the daemon does.
warnings.filterwarnings("ignore", message="Sending a large body", category=ResourceWarning)


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []


_decode = msgspec.json.Decoder(_Chunk).decode


@dataclass(frozen=True, slots=True)
class Timed:
    """One turn: seconds to the first token and to the end, and what was said."""

    first: float
    total: float
    text: str
    events: int = 0


class RawClient:
    """Posts a body that is ready, reads the stream as it comes, decodes every event, joins the text."""

    def __init__(self, base: str) -> None:
        self._base = base
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0)
        self._http = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), headers={"Accept-Encoding": "identity"}
        )

    async def turn(self, body: bytes, options: str = "") -> Timed:
        started = time.perf_counter()
        first, held, pieces = 0.0, b"", []
        url = f"{self._base}{options}/v1/chat/completions"
        async with self._http.post(url, data=body, headers={"Content-Type": "application/json"}) as response:
            response.raise_for_status()
            while chunk := await response.content.readany():
                *events, held = (held + chunk).split(b"\n\n")
                for event in events:
                    if event == b"data: [DONE]":
                        continue
                    pieces += [choice.delta.content for choice in _decode(event[6:]).choices if choice.delta.content]
                if pieces and not first:
                    first = time.perf_counter() - started
        return Timed(first, time.perf_counter() - started, "".join(pieces), len(pieces))

    async def last_body(self) -> bytes:
        """What the server was sent last, byte for byte."""
        return await self._get("/last")

    async def body_before(self) -> bytes:
        """What the server was sent before that."""
        return await self._get("/before")

    async def _get(self, path: str) -> bytes:
        async with self._http.get(f"{self._base}{path}") as response:
            return await response.read()

    async def close(self) -> None:
        await self._http.close()


class Ledger:
    """One table of messages, committed with an fsync: what a commit costs here, and what two cost a raw turn."""

    def __init__(self, path: Path) -> None:
        self._db = apsw.Connection(str(path))
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, conversation TEXT, role TEXT, content TEXT)")
        self._db.execute("CREATE INDEX by_conversation ON messages (conversation, id)")

    def commit(self, conversation: str, *messages: tuple[str, str]) -> float:
        started = time.perf_counter()
        self._db.execute("BEGIN IMMEDIATE")
        for role, content in messages:
            self._db.execute(
                "INSERT INTO messages (conversation, role, content) VALUES (?, ?, ?)", (conversation, role, content)
            )
        self._db.execute("COMMIT")
        return time.perf_counter() - started

    def messages(self, conversation: str) -> list[dict[str, str]]:
        rows = self._db.execute(
            "SELECT role, content FROM messages WHERE conversation = ? ORDER BY id", (conversation,)
        )
        return [{"role": role, "content": content} for role, content in rows]

    def close(self) -> None:
        self._db.close()


@dataclass(frozen=True, slots=True)
class DurableTurn:
    """A raw turn with a commit before it and one after, and what those two took."""

    timed: Timed
    commits: tuple[float, float]


async def durable_turn(client: RawClient, ledger: Ledger, body: bytes, content: str) -> DurableTurn:
    """Commits on the loop's own thread: there is no cheaper way."""
    started = time.perf_counter()
    before = ledger.commit("bench", ("user", content))
    told = await client.turn(body)
    after = ledger.commit("bench", ("assistant", told.text))
    return DurableTurn(Timed(before + told.first, time.perf_counter() - started, told.text), (before, after))


async def keeping_turn(client: RawClient, ledger: Ledger, conversation: str, template: dict[str, object]) -> Timed:
    """A turn of a client that keeps its conversation in the table and nowhere else: read, encoded and sent whole.

    The template is a request as the daemon sends it; its messages are replaced. It is encoded with the standard
    library, as aiohttp does it by default. Its commits are not part of this: they are counted beside it.
    """
    started = time.perf_counter()
    request = {**template, "messages": ledger.messages(conversation)}
    told = await client.turn(json.dumps(request).encode())
    spent = time.perf_counter() - started
    return Timed(told.first + spent - told.total, spent, told.text)
