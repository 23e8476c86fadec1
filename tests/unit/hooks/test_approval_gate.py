"""What an approval is bound to: the exact arguments, also those nobody may read, and what a doubt does to rules."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from moot.daemon.clock import SystemClock
from moot.domain.approval import Decision, Rule, describe_rules, make_rules
from moot.domain.ask import Ask, AskState
from moot.domain.config import InterceptorConfig
from moot.domain.errors import MootError
from moot.domain.events import AskOpened, EventBody
from moot.domain.message import ToolCall
from moot.domain.ports.hook import GateCall, Hook
from moot.domain.ports.tool import RunContext, ToolResult
from moot.domain.prompt import Safety, Sink, ToolSpec
from moot.domain.redaction import MASK, SECRET_MARK, is_masked, mask_call
from moot.domain.scope import ALL_TOOLS
from moot.domain.shell import Level, Verdict
from moot.engine.asks import Asks
from moot.engine.deadline import Deadline
from moot.engine.gate import Gate
from moot.hooks.approval import ApprovalGate, explain_taint
from moot.hooks.sealed_arguments import SealedArguments
from moot.hooks.security import SecurityFilter
from moot.store.asks import SqliteAsks
from moot.store.sqlite import open_store
from tests.fixed_mode import FixedMode
from tests.unit.daemon.vault.vault_kit import vault_at
from tests.unit.shelves import NoSecrets, approval, asks_over, context, talk

SECRET = {"type": "string", SECRET_MARK: True}


class Login:
    """A tool with a secret at the top, one further down, and one that is no text."""

    spec = ToolSpec(
        name="login",
        description="",
        safety=Safety.DANGEROUS,
        parameters={
            "type": "object",
            "properties": {
                "user": {"type": "string"},
                "auth": {"type": "object", "properties": {"token": SECRET, "kind": {"type": "string"}}},
                "pin": {"type": "integer", SECRET_MARK: True},
            },
            "required": ["user"],
        },
    )

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        self.heard.append(arguments)
        return "in"


@dataclass
class Bench:
    """A daemon's gate and approvals over a store in a folder; a new one on the same folder is a restart."""

    rows: SqliteAsks
    gate: Gate
    asks: Asks
    login: Login
    opened: list[Ask] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    def emit(self, event: EventBody) -> None:
        if isinstance(event, AskOpened):
            self.opened.append(event.ask)
            self.asked.set()

    def start(self, arguments: str, call_id: str = "c1") -> "asyncio.Task[ToolResult]":
        call = ToolCall(id=call_id, name="login", arguments=arguments)
        made = self.gate.box(ALL_TOOLS).execute(
            call, "", replace(context(), emit=self.emit), Deadline(SystemClock(), 20.0), asyncio.Semaphore(8)
        )
        return asyncio.get_running_loop().create_task(made)

    async def stored(self) -> Ask:
        found = await self.rows.find("ask-run-1-c1")
        assert found is not None
        return found


@asynccontextmanager
async def bench(path: Path, *, hooks: Sequence[Hook] = ()) -> AsyncIterator[Bench]:
    async with vault_at(path) as kit:
        store = await open_store(path / "moot.db", SystemClock())
        try:
            if await store.load(context().key) is None:
                await talk(store)
            rows = SqliteAsks(store)
            asks = asks_over(store, rows=rows)
            await asks.start()
            kept = SealedArguments(asks, kit.vault)
            login = Login()
            tools = {"login": login}
            asking = ApprovalGate(
                asks, InterceptorConfig, sealer=kept, find_refusal=_nothing, modes=FixedMode(), tools=lambda: tools
            )
            gate = Gate(tools=lambda: tools, hooks=lambda _: [*hooks, asking], budget=_whole, restore=kept.restore)
            yield Bench(rows, gate, asks, login)
        finally:
            await store.close()


async def _nothing(_call: GateCall) -> None:
    return None


async def _whole(_call: GateCall, result: ToolResult) -> ToolResult:
    return result


EXACT = '{"user": "ada", "auth": {"token": "hush-hush", "kind": "basic"}, "pin": 4711}'


async def waiting(path: Path, arguments: str = EXACT) -> Ask:
    """Ask, and stop as a daemon stops: what is asked stays asked."""
    async with bench(path) as desk:
        task = desk.start(arguments)
        await asyncio.wait_for(desk.asked.wait(), 20)
        desk.asks.suspend()
        task.cancel()
        await asyncio.wait({task})
        return desk.opened[0]


async def test_an_approval_given_with_a_rule_between_a_restart_and_its_call_is_used_up_by_the_call(
    tmp_path: Path,
) -> None:
    """Else the call would be made again after the next crash: an approval that is not used says it was not made."""
    arguments = json.dumps({"user": "ann"})
    async with bench(tmp_path) as desk:
        desk.start(arguments)
        await desk.asked.wait()
        desk.asks.suspend()
    async with bench(tmp_path) as desk:
        await desk.asks.decide("ask-run-1-c1", attempt=1, decision=Decision.RUN, by="owner")
        assert (await desk.start(arguments)).content == "in"
        assert (await desk.stored()).state is AskState.USED
        # The rule holds for the next call.
        assert (await desk.start(arguments, "c2")).content == "in"
        assert [len(desk.login.heard), len(desk.opened)] == [2, 0]


async def test_a_secret_waits_sealed_and_its_call_is_made_with_it_after_a_restart(tmp_path: Path) -> None:
    asked = await waiting(tmp_path)
    masked = mask_call(Login.spec, EXACT)
    assert MASK in masked
    assert "hush" not in asked.arguments + asked.line + asked.preview
    async with bench(tmp_path) as desk:
        stored = await desk.stored()
        assert (stored.state, stored.digest) == (AskState.PENDING, asked.digest)
        assert stored.sealed
        assert b"hush" not in stored.sealed + stored.arguments.encode()
        assert b"4711" not in stored.sealed
        task = desk.start(masked)
        await asyncio.wait_for(desk.asked.wait(), 20)
        assert (desk.opened[0].id, desk.opened[0].attempt) == (asked.id, 1)
        await desk.asks.decide(asked.id, attempt=1, decision=Decision.ONCE, by="owner")
        assert (await asyncio.wait_for(task, 20)).content == "in"
        assert desk.login.heard == [{"user": "ada", "auth": {"token": "hush-hush", "kind": "basic"}, "pin": 4711}]
        # Nothing that was sealed is kept longer than it is needed.
        stored = await desk.stored()
        assert (stored.state, stored.sealed) == (AskState.USED, b"")


@pytest.mark.parametrize("decision", [Decision.DENY, None])
async def test_what_was_sealed_goes_when_the_approval_is_settled(tmp_path: Path, decision: Decision | None) -> None:
    async with bench(tmp_path) as desk:
        task = desk.start(EXACT)
        await asyncio.wait_for(desk.asked.wait(), 20)
        if decision is not None:
            await desk.asks.decide(desk.opened[0].id, attempt=1, decision=decision, by="owner")
            await asyncio.wait_for(task, 20)
        else:
            task.cancel()
            await asyncio.wait({task})
        stored = await desk.stored()
        assert (stored.state, stored.sealed) == (AskState.DENIED if decision else AskState.CANCELLED, b"")
        assert desk.login.heard == []


async def test_the_digest_covers_what_is_masked_and_cannot_be_guessed(tmp_path: Path) -> None:
    first = await waiting(tmp_path / "a")
    other = await waiting(tmp_path / "b")
    assert first.arguments == other.arguments
    # The same arguments under another key.
    assert first.digest != other.digest
    async with bench(tmp_path / "a") as desk:
        task = desk.start(EXACT.replace("hush-hush", "another"))
        await asyncio.wait_for(desk.asked.wait(), 20)
        # The same call with another secret is another question.
        assert (desk.opened[0].id, desk.opened[0].attempt) == (first.id, 2)
        task.cancel()
        await asyncio.wait({task})


@pytest.mark.parametrize("damage", ["UPDATE asks SET sealed = NULL", "UPDATE asks SET sealed = zeroblob(64)"])
async def test_a_secret_that_cannot_be_unsealed_is_told_and_the_approval_is_closed(tmp_path: Path, damage: str) -> None:
    await waiting(tmp_path)
    with closing(sqlite3.connect(tmp_path / "moot.db")) as db, db:
        db.execute(damage)
    async with bench(tmp_path) as desk:
        result = await asyncio.wait_for(desk.start(mask_call(Login.spec, EXACT)), 20)
        assert result.is_error
        assert "secret argument" in result.content
        assert "Make the call again" in result.content
        assert (await desk.stored()).state is AskState.CANCELLED
        assert desk.login.heard == []


async def test_the_mask_written_by_a_model_itself_is_no_value(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        result = await desk.start('{"user": "ada", "pin": "[SECRET]"}')
        assert result.is_error
        assert "[SECRET]" in result.content
        assert desk.opened == []


async def test_a_vault_that_is_closed_keeps_nobody_from_deciding(tmp_path: Path) -> None:
    class Closed:
        async def seal(self) -> Any:
            raise MootError("the keyring is locked")

    async with bench(tmp_path) as desk:
        asked = approval(tool="login", exact="e")
        kept = await SealedArguments(desk.asks, Closed()).seal(asked, {"pin": 1})
    # No rule can be made for it: the value it would be about cannot be told.
    assert kept == replace(asked, exact="")
    assert (make_rules(kept, Decision.ALWAYS), describe_rules(kept)) == ((), "")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"user": "a", "pin": "[SECRET]"}', True),
        ('{"user": "a", "auth": {"token": "[SECRET]", "kind": "b"}}', True),
        ('{"user": "a", "auth": {"token": "[SECRET] and more"}}', False),
        ('{"user": "[SECRET]"}', True),
        ('{"user": "a", "pin": 5}', False),
        ("[SECRET]", False),
        ('["[SECRET]"]', False),
    ],
)
def test_what_was_masked_is_known_by_its_marks(arguments: str, expected: bool) -> None:
    assert is_masked(Login.spec, arguments) is expected


# ---- doubts --------------------------------------------------------------------------------------


class Runner:
    """A tool that runs a script of its own, and asks nobody by itself."""

    spec = ToolSpec(name="skill_x", description="", parameters={"type": "object"}, safety=Safety.SAFE)

    def __init__(self, script: str) -> None:
        self._script = script

    async def script(self) -> str:
        return self._script

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        return "ran"


class Answering:
    """Decides at once, and keeps what it was asked."""

    def __init__(self, commands: Sequence[str] = ()) -> None:
        self.asked: list[Ask] = []
        # Those that rules allow.
        self._commands = commands

    @property
    def rules(self) -> "Answering":
        return self

    async def find(self, ask: Ask, *, exactly: bool = False) -> Rule | None:
        command = json.loads(ask.arguments).get("command")
        is_allowed = command in self._commands if exactly else bool(self._commands)
        return Rule(agent="ada", sender="user", tool=ask.tool, pattern="", bound="x") if is_allowed else None

    async def find_denial_reason(self, ask_id: str) -> str:
        return ""

    def is_carried_over(self, run_id: str, call_id: str) -> bool:
        return False

    async def request_approval(self, ask: Ask, emit: object, *, seconds: float) -> AskState:
        self.asked.append(ask)
        return AskState.DENIED


def judged(text: str) -> Verdict:
    levels = {"fine": Level.OK, "doubtful": Level.ASK, "deadly": Level.DANGEROUS}
    return Verdict(levels[text], f"it is {text}")


class NothingKept:
    async def seal(self, approval: Ask, arguments: dict[str, Any]) -> Ask:
        raise AssertionError(arguments)


async def made(tool: Any, arguments: dict[str, Any], answering: Answering, **config: Any) -> ToolResult:
    policy = InterceptorConfig(policy="none", exempt_tools=("*",), **config)
    name = tool.spec.name
    tools = {name: tool}
    security = SecurityFilter(classify=judged, redact=str, secrets=NoSecrets(), modes=FixedMode())
    hooks: list[Hook] = [
        security,
        ApprovalGate(
            answering,
            lambda: policy,
            sealer=NothingKept(),
            find_refusal=security.find_refusal,
            modes=FixedMode(),
            tools=lambda: tools,
        ),
    ]

    async def lost(run_id: str, call_id: str) -> str:
        raise AssertionError((run_id, call_id))

    toolbox = Gate(tools=lambda: tools, hooks=lambda _: hooks, budget=_whole, restore=lost).box(ALL_TOOLS)
    return await toolbox.execute(
        ToolCall(id="c", name=name, arguments=json.dumps(arguments)),
        "",
        context(),
        Deadline(SystemClock(), 20.0),
        asyncio.Semaphore(8),
    )


class Shell(Runner):
    spec = ToolSpec(name="exec", description="", parameters={"type": "object"}, safety=Safety.SAFE)

    def __init__(self) -> None:
        super().__init__("fine")


@pytest.mark.parametrize(
    ("command", "rules", "asked"),
    [
        ("fine", (), False),
        ("doubtful", (), True),
        ("doubtful", ("fine",), True),
        ("doubtful", ("*",), True),
        ("doubtful", ("doubtful",), False),
    ],
)
async def test_a_doubtful_command_passes_by_a_rule_for_exactly_it_alone(
    command: str, rules: tuple[str, ...], asked: bool
) -> None:
    answering = Answering(rules)
    result = await made(Shell(), {"command": command}, answering)
    assert bool(answering.asked) is asked
    assert result.is_error is asked
    if asked:
        assert answering.asked[0].reason == "it has to be reviewed: it is doubtful"


async def test_a_script_of_a_tools_own_is_judged_like_a_command() -> None:
    answering = Answering()
    assert (await made(Runner("fine"), {}, answering)).content == "ran"
    assert (await made(Runner("deadly"), {}, answering)).is_error
    assert answering.asked == []
    await made(Runner("doubtful"), {}, answering)
    assert [approval.tool for approval in answering.asked] == ["skill_x"]


async def test_a_doubt_is_refused_where_nobody_can_be_asked() -> None:
    answering = Answering()
    result = await made(Shell(), {"command": "doubtful"}, answering, unattended=True)
    assert "nobody to ask" in result.content
    assert answering.asked == []


async def test_with_nobody_to_ask_the_result_says_so_to_the_run() -> None:
    answering = Answering()
    result = await made(Shell(), {"command": "doubtful"}, answering, unattended=True)
    assert result.unasked
    assert not (await made(Shell(), {"command": "doubtful"}, answering)).unasked


@pytest.mark.parametrize(
    ("sinks", "arguments", "reached"),
    [
        ({Sink.EGRESS}, {}, "the network"),
        ({Sink.SHELL}, {}, "a shell without a sandbox"),
        ({Sink.EGRESS, Sink.SHELL}, {}, "the network and a shell without a sandbox"),
        (set(), {"key": "{{secret:bank}}"}, "secrets"),
    ],
)
def test_the_reason_names_what_is_reached_in_words(sinks: set[Sink], arguments: dict[str, Any], reached: str) -> None:
    tool = Runner("")
    tool.spec = replace(tool.spec, sinks=frozenset(sinks))
    strangers = replace(context(), taint=frozenset({"web", "mcp"}))
    call = GateCall(id="c", tool=tool, arguments=arguments, context=strangers)

    assert explain_taint(call) == f"this run has read untrusted text (mcp, web), and this reaches {reached}"
    assert explain_taint(replace(call, context=context())) == ""
