"""What an approval and a rule are bound to, what they show of it, and that no secret is kept with what is asked."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from moot.daemon.clock import SystemClock
from moot.domain.approval import LINE, Decision, describe_rules
from moot.domain.ask import Ask, Binding
from moot.domain.config import InterceptorConfig
from moot.domain.events import AskOpened, EventBody
from moot.domain.ids import shorten_ask_id
from moot.domain.message import ToolCall
from moot.domain.ports.hook import GateCall
from moot.domain.ports.tool import RunContext, ToolResult
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.scope import ALL_TOOLS
from moot.domain.shell import Level, Verdict
from moot.engine.asks import Asks
from moot.engine.deadline import Deadline
from moot.engine.gate import Gate
from moot.hooks.approval import ApprovalGate
from moot.hooks.security import SecurityFilter
from moot.store.asks import SqliteAsks
from moot.store.sqlite import open_store
from tests.fixed_mode import FixedMode
from tests.unit.shelves import NoSecrets, asks_over, context, talk

HELD = "zq-held-secret"


def hidden(text: str) -> str:
    return text.replace(HELD, "[SECRET:held]")


async def _whole(_call: GateCall, result: ToolResult) -> ToolResult:
    return result


class NothingKept:
    async def seal(self, approval: Ask, arguments: dict[str, Any]) -> Ask:
        raise AssertionError(arguments)


class Tool:
    """Any tool; what it shows and what it acts on are set from outside."""

    def __init__(self, name: str = "send", *, line: str = "", preview: str = "", bound: Binding | None = None) -> None:
        self.spec = ToolSpec(name=name, description="", parameters={"type": "object"}, safety=Safety.DANGEROUS)
        self._line, self._preview = line, preview
        self.bound = bound or Binding()
        self.agreed: list[tuple[Binding | None, bool]] = []

    def line(self, _arguments: dict[str, Any]) -> str:
        return self._line

    async def preview(self, _arguments: dict[str, Any], _context: RunContext) -> str:
        return self._preview

    async def bind(self, _arguments: dict[str, Any], _context: RunContext) -> Binding:
        return self.bound

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        self.agreed.append((context.agreed, context.granted))
        return "done"


class Silent(Tool):
    """A tool with neither a preview nor a line, as a stranger's may be."""

    preview = None  # type: ignore[assignment]
    line = None  # type: ignore[assignment]


@dataclass
class Desk:
    """A gate over a store in a folder; who is asked decides as told, after `meanwhile`."""

    asks: Asks
    rows: SqliteAsks
    tool: Tool
    decision: Decision = Decision.ONCE
    whole: bool = False
    blocked: tuple[str, ...] = ()
    asked: list[Ask] = field(default_factory=list)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def make(self, arguments: dict[str, Any], *, cwd: str = "/w", run: str = "run-1") -> ToolResult:
        security = SecurityFilter(
            classify=lambda _: Verdict(Level.OK),
            redact=str,
            secrets=NoSecrets(),
            modes=FixedMode(),
            blocked=lambda: self.blocked,
        )
        opened = self.opened
        opened.clear()

        def emit(event: EventBody) -> None:
            if isinstance(event, AskOpened):
                self.asked.append(event.ask)
                opened.set()

        async def refused(run_id: str, call_id: str) -> str:
            raise AssertionError((run_id, call_id))

        gate = Gate(
            tools=lambda: {self.tool.spec.name: self.tool},
            hooks=lambda _: [
                security,
                ApprovalGate(
                    self.asks,
                    InterceptorConfig,
                    sealer=NothingKept(),
                    find_refusal=security.find_refusal,
                    modes=FixedMode(),
                    tools=lambda: {self.tool.spec.name: self.tool},
                ),
            ],
            budget=_whole,
            restore=refused,
        )
        call = ToolCall(id=f"c{len(self.asked)}", name=self.tool.spec.name, arguments=json.dumps(arguments))
        context_ = replace(context(), emit=emit, cwd=cwd, run_id=run)
        task = asyncio.get_running_loop().create_task(
            gate.box(ALL_TOOLS).execute(call, "", context_, Deadline(SystemClock(), 20.0), asyncio.Semaphore(8))
        )
        waiting = asyncio.get_running_loop().create_task(opened.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=20)
        waiting.cancel()
        if opened.is_set():
            await self.decide()
        return await asyncio.wait_for(task, 20)

    async def decide(self) -> None:
        last = self.asked[-1]
        await self.asks.decide(last.id, attempt=last.attempt, decision=self.decision, by="owner", whole=self.whole)


@asynccontextmanager
async def desk(path: Path, tool: Tool, **more: Any) -> AsyncIterator[Desk]:
    store = await open_store(path / "moot.db", SystemClock())
    try:
        if await store.load(context().key) is None:
            await talk(store)
        rows = SqliteAsks(store)
        asks = asks_over(store, rows=rows, redact=hidden)
        await asks.start()
        yield Desk(asks, rows, tool, **more)
    finally:
        await store.close()


async def test_no_secret_is_kept_or_told_with_what_is_asked_not_even_half_of_one(tmp_path: Path) -> None:
    edge = "x" * (LINE - 5)
    tool = Tool(line=f"{edge}{HELD}", preview=f"{'y' * 199_995}{HELD} tail", bound=Binding(place=f"/{HELD}"))
    async with desk(tmp_path, tool) as at:
        await at.make({"value": HELD})
    (asked,) = at.asked
    for text in (asked.line, asked.preview, asked.subject, asked.arguments, describe_rules(asked), asked.reason):
        assert "zq-h" not in text
    assert f"more characters: moot inbox show {shorten_ask_id('ask-run-1-c0')}" in asked.line
    assert f"more characters: moot inbox show {shorten_ask_id('ask-run-1-c0')}" in asked.preview
    for name in ("moot.db", "moot.db-wal"):
        file = tmp_path / name
        assert not file.exists() or b"zq-h" not in file.read_bytes()


async def test_arguments_are_kept_whole_and_a_tool_that_shows_nothing_shows_them(tmp_path: Path) -> None:
    arguments = {"note": "please " * 100, "host": "EVIL"}
    async with desk(tmp_path, Silent()) as at:
        await at.make(arguments)
    (asked,) = at.asked
    assert json.loads(asked.arguments) == arguments
    assert '"host": "EVIL"' in asked.preview
    assert "EVIL" not in asked.line or "more characters" in asked.line


async def test_a_line_shows_where_a_line_ended(tmp_path: Path) -> None:
    async with desk(tmp_path, Tool("exec", line="$ ls # look\n\ntouch \u2028 x")) as at:
        await at.make({"command": "ls"})
    assert at.asked[0].line == "$ ls # look ⏎ ⏎ touch ⟨U+2028⟩ x"


async def test_a_call_is_made_on_what_was_looked_at(tmp_path: Path) -> None:
    bound = Binding(what="as it is", place="/real", seen="s1")
    async with desk(tmp_path, Tool(bound=bound), decision=Decision.ALWAYS) as at:
        await at.make({"a": 1})
        await at.make({"a": 1})
    # The second was let through by the rule: nobody has seen that very call.
    assert at.tool.agreed == [(bound, True), (bound, False)]
    assert len(at.asked) == 1


async def test_what_was_blocked_while_it_waited_is_not_made(tmp_path: Path) -> None:
    class Blocking(Desk):
        async def decide(self) -> None:
            self.blocked = ("se*",)
            await super().decide()

    async with desk(tmp_path, Tool()) as at:
        blocking = Blocking(at.asks, at.rows, at.tool)
        result = await blocking.make({})
    assert result.is_error
    assert "blocked by security policy" in result.content
    assert at.tool.agreed == []


# Each says what is another in the second call, and whether a rule made for the first lets it through.
OTHERS = [
    ("exec", {}, {}, True),
    ("exec", {"arguments": {"command": "ls", "timeout": 5}}, {}, True),
    ("exec", {"arguments": {"command": "ls -l"}}, {}, False),
    ("exec", {"cwd": "/elsewhere"}, {}, False),
    ("exec", {}, {"what": "with a network"}, False),
    ("exec", {}, {"place": "/linked"}, False),
    ("exec", {}, {"seen": "another"}, True),
    ("mcp__x__run", {}, {}, True),
    ("mcp__x__run", {"arguments": {"command": "ls", "host": "evil"}}, {}, False),
    ("mcp__x__run", {"cwd": "/elsewhere"}, {}, False),
    ("mcp__x__run", {}, {"place": "/linked"}, False),
    ("skill_x", {}, {"what": "another script"}, False),
]


@pytest.mark.parametrize(("name", "call", "bound", "allowed"), OTHERS)
async def test_a_rule_lets_through_what_it_says_and_nothing_else(
    tmp_path: Path, name: str, call: dict[str, Any], bound: dict[str, str], allowed: bool
) -> None:
    tool = Tool(name, line="does it", bound=Binding(what="as it is", place="/real", seen="s"))
    async with desk(tmp_path, tool, decision=Decision.ALWAYS) as at:
        await at.make({"command": "ls"})
        tool.bound = replace(tool.bound, **bound)
        at.decision = Decision.DENY
        await at.make(call.get("arguments", {"command": "ls"}), cwd=call.get("cwd", "/w"), run="run-2")
        (rule,) = await at.asks.rules.read()
    assert (len(at.asked) == 1) is allowed
    if name == "exec":
        assert str(rule) == "allow exec: ls in /w at /real, as it is for ada as user"
    else:
        said = f"allow {name}: exactly these arguments (sha256 {rule.bound[:16]}) in /w at /real, as it is: does it"
        assert str(rule) == f"{said} for ada as user"


async def test_any_call_is_allowed_only_where_the_tool_as_a_whole_was_chosen(tmp_path: Path) -> None:
    tool = Tool("fs_write", bound=Binding(what="as it is"))
    async with desk(tmp_path, tool, decision=Decision.ALWAYS, whole=True) as at:
        await at.make({"path": "a"})
        await at.make({"path": "b"}, cwd="/elsewhere", run="run-2")
        assert [str(rule) for rule in await at.asks.rules.read()] == ["allow any fs_write, as it is for ada as user"]
        tool.bound = Binding(what="another by now")
        at.decision = Decision.DENY
        await at.make({"path": "a"})
    assert len(at.asked) == 2


async def test_a_rule_for_one_run_says_so_and_ends_with_it(tmp_path: Path) -> None:
    async with desk(tmp_path, Tool("fs_write"), decision=Decision.RUN, whole=True) as at:
        await at.make({"path": "a"})
        await at.make({"path": "b"})
        assert [str(rule) for rule in await at.asks.rules.read()] == ["allow any fs_write in run run-1"]
        at.decision = Decision.DENY
        await at.make({"path": "a"}, run="run-2")
    assert len(at.asked) == 2


async def test_what_is_asked_is_asked_again_when_anything_shown_with_it_is_another(tmp_path: Path) -> None:
    class Undecided(Desk):
        async def decide(self) -> None:
            pass

    async def stopped(tool: Tool) -> Ask:
        async with desk(tmp_path, tool) as at:
            undecided = Undecided(at.asks, at.rows, at.tool)
            task = asyncio.get_running_loop().create_task(undecided.make({}))
            await asyncio.wait_for(undecided.opened.wait(), 20)
            at.asks.suspend()
            task.cancel()
            await asyncio.wait({task})
            return undecided.asked[0]

    assert (await stopped(Tool(preview="no network"))).attempt == 1
    assert (await stopped(Tool(preview="no network"))).attempt == 1
    again = await stopped(Tool(preview="a network"))
    assert (again.attempt, again.preview) == (2, "a network")
    assert (await stopped(Tool(preview="a network", bound=Binding(seen="another")))).attempt == 3
    assert (await stopped(Tool(preview="a network", bound=Binding(place="/else", seen="another")))).attempt == 4
