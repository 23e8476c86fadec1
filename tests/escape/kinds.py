"""What the tables of kinds of runs share: the calls that models make, the daemon they are made on, and its owner."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from moot.client.connection import connect
from moot.daemon import app
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, DaemonProcess, Home
from tests.fake_provider import Provider
from tests.raw_client import http_address
from tests.talking import Talking

KINDS_CONFIG = (
    PROVIDER_CONFIG.replace('http = "off"', 'http = "127.0.0.1:0"').replace('tcp = "off"', 'tcp = "127.0.0.1:0"')
    + """
[security.interceptor]
blocked_tools = ["memory_agent_save"]
"""
)

# ---- the columns: what a model calls, and what must come of it ---------------------------------


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


CALLS: dict[str, Callable[[str], dict[str, Any]]] = {
    "in scope": lambda slug: call("set_title", title=slug),
    "out of scope": lambda slug: call("memory_agent_save", key=slug, content=slug),
    "dangerous and granted": lambda slug: call("fs_write", path=f"{slug}.txt", content=slug),
    "dangerous and denied": lambda slug: call("fs_write", path=f"{slug}.txt", content=slug),
    "dangerous command": lambda slug: call("exec", command=f"touch {slug}.txt; rm -rf / --no-preserve-root"),
    "unknown": lambda _slug: call("launch_rocket", target="moon"),
}
HANDS = {
    "in scope": "ran",
    "out of scope": "blocked",
    "dangerous and granted": "asked, ran",
    "dangerous and denied": "asked, refused by the owner",
    "dangerous command": "refused by the filter",
    "unknown": "no such tool",
}

TOLD = {
    "blocked by security policy": "blocked",
    "There is no tool": "no such tool",
    "owner denied": "refused by the owner",
    "blocked by the security filter": "refused by the filter",
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One message whose model makes one call; the sender tells the cases of a kind apart."""

    column: str
    slug: str
    sender: str
    content: str


def cases_of(name: str) -> list[Case]:
    slugs = {column: f"{name}-{column}".replace(" ", "-") for column in CALLS}
    return [
        Case(column=column, slug=slug, sender=f"test:{slug}", content=f"do {slug} now")
        for column, slug in slugs.items()
    ]


# ---- the daemon a kind is driven on ---------------------------------------------------------------


@dataclass(kw_only=True)
class Stage:
    home: Home
    provider: Provider
    process: DaemonProcess | None = None
    inside: app.Daemon | None = None
    asked: Counter[str] = field(default_factory=Counter)
    _token: str = ""

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Talking]:
        async with connect(self.home.socket) as connection:
            yield Talking(connection)

    async def token(self) -> str:
        if not self._token:
            async with self.client() as talk:
                made = await talk.ask(new_token=pb.NewTokenMsg(name="bot", senders=["test:*"]))
            self._token = made.token_created.token
        return self._token

    def http(self, path: str) -> str:
        assert self.process is not None
        return f"{http_address(self.process)}{path}"

    async def settled(self, case: Case) -> bool:
        async with self.client() as talk:
            if not await talk.conversations(sender=case.sender):
                return False
            told = (await talk.history("ada", case.sender)).messages
        outcomes = [each.outcome for each in told if each.role == "user" and each.content == case.content]
        return bool(outcomes) and outcomes[-1] not in ("", "interrupted")

    async def owner(self) -> None:
        """Decides whatever waits, once: no where the case says so, else yes."""
        done: set[tuple[str, int]] = set()
        async with self.client() as talk:
            while True:
                for ask in await talk.asks():
                    if (ask.ask_id, ask.attempt) not in done:
                        done.add((ask.ask_id, ask.attempt))
                        self.asked[ask.sender] += 1
                        first = "first-" in ask.line
                        decision = "deny" if ask.sender.endswith("denied") and not first else "once"
                        message = pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision=decision)
                        await talk.ask(decide_ask=message)
                await asyncio.sleep(0.02)

    async def hook_counts(self) -> dict[str, dict[str, int]]:
        async with self.client() as talk:
            hooks = (await talk.ask(list_hooks=pb.ListHooksMsg())).hook_list.hooks
        return {hook.name: dict(hook.counts) for hook in hooks}


@asynccontextmanager
async def deciding(stage: Stage) -> AsyncIterator[None]:
    """An owner who looks into the inbox meanwhile."""
    owner = asyncio.get_running_loop().create_task(stage.owner())
    try:
        yield
    finally:
        owner.cancel()
        await asyncio.wait({owner})


def counted(expected: dict[str, str], *, first: int = 0, spawned: int = 0) -> dict[str, dict[str, int]]:
    """What the hooks of the chain must have counted: nobody gets past one of them."""
    outcomes = Counter(expected.values())
    ran, granted = outcomes["ran"] + spawned, outcomes["asked, ran"] + first
    denied = outcomes["asked, refused by the owner"]
    counts = {
        "SecurityFilter": {
            "passed": ran + granted + denied,
            "blocked": outcomes["blocked"],
            "dangerous": outcomes["refused by the filter"],
        },
        "AccessControl": {"passed": ran + granted + denied},
        "ApprovalGate": {"passed": ran, "asked": granted + denied, "granted": granted, "denied": denied},
        "EventPublisher": {"published": ran + granted},
    }
    return {hook: {what: count for what, count in each.items() if count} for hook, each in counts.items()}
