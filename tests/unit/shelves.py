"""Shared by tests of tools and hooks: a fresh store, a clock that is set, and a run whose calls are made."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from moot.daemon.clock import SystemClock
from moot.domain.ask import Ask, AskKind, Question
from moot.domain.conversation import ConversationKey
from moot.domain.message import assistant
from moot.domain.ports.clock import Clock
from moot.domain.ports.hook import GateCall
from moot.domain.ports.store import Store
from moot.domain.ports.tool import RunContext, Tool, ToolResult
from moot.domain.run import Outcome, Run, RunEnd, RunRequest, RunStatus, Spawn
from moot.engine.asks import Asks
from moot.engine.rules import Rules
from moot.store.asks import SqliteAsks
from moot.store.rules import SqliteRules
from moot.store.sqlite import SqliteStore, open_store

ADA = ConversationKey("ada", "user")
ADA_WITH_EVE = ConversationKey("ada", "eve")
BOB = ConversationKey("bob", "user")
DAY = 86_400.0
Redact = Callable[[str], str]


class SetClock(SystemClock):
    """The time of day as the test says it is, `at`. Timers are the event loop's; what is measured includes moves."""

    def __init__(self, at: float = 1_000_000.0) -> None:
        self.at = self._began = at

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return super().monotonic() + self.at - self._began


def stored(test: Callable[[SqliteStore], Awaitable[None]]) -> Callable[[Path], None]:
    """Run an async test on a fresh store; whatever it did, the store must be sound."""

    async def scenario(path: Path) -> None:
        async with asyncio.timeout(30):
            store = await open_store(path / "moot.db", SystemClock())
            try:
                await test(store)
                assert await store.check() == []
            finally:
                await store.close()

    def run(tmp_path: Path) -> None:
        asyncio.run(scenario(tmp_path))

    run.__name__ = test.__name__
    return run


def teammate_run(
    run_id: str = "arun-1",
    *,
    parent: str = "run-1",
    agent: str = "operator",
    instruction: str = "do",
    root: ConversationKey = ADA,
    at: float = 1.0,
    outcome: Outcome | None = None,
    **spawn: Any,
) -> Run:
    """A run that `parent` has spawned; queued, or ended where an outcome is named."""
    return Run(
        request=RunRequest(
            id=run_id,
            key=ConversationKey(agent, f"run:{run_id}"),
            speaker=agent,
            content=instruction,
            root=root,
            root_id=parent,
            parent_id=parent,
        ),
        status=RunStatus.QUEUED if outcome is None else RunStatus.ENDED,
        created_at=at,
        spawn=Spawn(**{"parent_call": f"call-{run_id}", "chain": (root.agent,), **spawn}),
        end=None if outcome is None else RunEnd(outcome=outcome),
    )


async def talk(store: Store, key: ConversationKey = ADA, *, turns: int = 1) -> None:
    """Have a conversation: two messages a turn."""
    loaded = await store.load(key)
    before = loaded.conversation.last_seq if loaded else 0
    for number in range(before, before + turns):
        run_id = f"{key.agent}-{key.sender}-{number}"
        await store.begin(RunRequest(id=run_id, key=key, speaker=key.agent, content=f"question {number}"), now=1.0)
        end = RunEnd(outcome=Outcome.COMPLETED)
        await store.end(key, run_id, end, [assistant(f"answer {number}")], now=1.0)


def asks_over(
    store: SqliteStore, *, rows: SqliteAsks | None = None, clock: Clock | None = None, redact: Redact = str
) -> Asks:
    """The asks of a daemon on this store; a second one on the same store is a restart."""
    return Asks(
        store=rows or SqliteAsks(store), rules=Rules(SqliteRules(store)), clock=clock or SetClock(), redact=redact
    )


def approval(**changes: Any) -> Ask:
    """An approval of one call of `exec`, or what the changes make of it."""
    given: dict[str, Any] = {
        "id": "ask-run-1-c1",
        "kind": AskKind.APPROVAL,
        "key": ADA,
        "run_id": "run-1",
        "call_id": "c1",
        "speaker": "ada",
        "tool": "exec",
        "arguments": "{}",
        "line": "exec",
        "reason": "it is dangerous",
        "digest": "d",
    }
    return Ask(**(given | changes))


async def _nobody(questions: Sequence[Question]) -> str:
    raise AssertionError(f"nobody was to be asked: {questions}")


def context(key: ConversationKey = ADA, *, taint: frozenset[str] = frozenset(), run_id: str = "run-1") -> RunContext:
    return RunContext(
        run_id=run_id, key=key, speaker=key.agent, cwd="/", emit=lambda _event: None, ask=_nobody, taint=taint
    )


def gate_call(tool: Tool, arguments: dict[str, Any] | None = None, of: RunContext | None = None) -> GateCall:
    return GateCall(id="call-1", tool=tool, arguments=arguments or {}, context=of or context())


def by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    return {tool.spec.name: tool for tool in tools}


async def told(tool: Tool, arguments: dict[str, Any], of: RunContext | None = None) -> Any:
    """What a tool answers, as a value."""
    return json.loads((await answered(tool, arguments, of)).content)


async def answered(tool: Tool, arguments: dict[str, Any], of: RunContext | None = None) -> ToolResult:
    said = await tool(arguments, of or context())
    return said if isinstance(said, ToolResult) else ToolResult(content=said)


class NoSecrets:
    """No call refers to a secret here."""

    async def judge(self, text: str, context: RunContext, *, tool: str, host: str) -> tuple[str, str]:
        return "", ""
