"""Every kind of run × {a tool in scope, out of scope, dangerous, unknown}: one gate, one chain, the same outcome.

KINDS is the table. A door that is added to the daemon and not to it fails `test_every_way_to_make_an_agent_speak…`.
"""

import ast
import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import moot
from moot.client.connection import connect
from moot.daemon import app
from moot.daemon.paths import Paths
from moot.domain.conversation import ConversationKey
from moot.domain.run import RunRequest
from moot.domain.scope import only
from moot.hooks.redaction import Redactor
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, DaemonProcess, Home, eventually, running
from tests.fake_provider import Provider
from tests.raw_client import http_address, tcp_address
from tests.talking import Talking

CONFIG = (
    PROVIDER_CONFIG.replace('http = "off"', 'http = "127.0.0.1:0"').replace('tcp = "off"', 'tcp = "127.0.0.1:0"')
    + """
[security.interceptor]
blocked_tools = ["memory_agent_save"]
"""
)
SOURCE = Path(moot.__file__).parent

# ---- the columns: what a model calls, and what must come of it ---------------------------------


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


CALLS: dict[str, Callable[[str], dict[str, Any]]] = {
    "in scope": lambda slug: _call("set_title", title=slug),
    "out of scope": lambda slug: _call("memory_agent_save", key=slug, content=slug),
    "dangerous and granted": lambda slug: _call("fs_write", path=f"{slug}.txt", content=slug),
    "dangerous and denied": lambda slug: _call("fs_write", path=f"{slug}.txt", content=slug),
    "dangerous command": lambda slug: _call("exec", command=f"touch {slug}.txt; rm -rf / --no-preserve-root"),
    "unknown": lambda _slug: _call("launch_rocket", target="moon"),
}
HANDS = {
    "in scope": "ran",
    "out of scope": "blocked",
    "dangerous and granted": "asked, ran",
    "dangerous and denied": "asked, refused by the owner",
    "dangerous command": "refused by the filter",
    "unknown": "no such tool",
}
NARROWED = HANDS | {"out of scope": "no such tool"}
NO_HANDS = dict.fromkeys(CALLS, "nothing")

_TOLD = {
    "blocked by security policy": "blocked",
    "There is no tool": "no such tool",
    "said no": "refused by the owner",
    "blocked by the security filter": "refused by the filter",
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One message whose model makes one call; the sender tells the cases of a kind apart."""

    column: str
    slug: str
    sender: str
    content: str


def _cases(name: str) -> list[Case]:
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


# ---- the ways in ------------------------------------------------------------------------------------


Way = Callable[[Stage, Case], Awaitable[object]]


def streamed(guest: str = "") -> Way:
    async def way(stage: Stage, case: Case) -> None:
        async with stage.client() as talk:
            await talk.say("ada", case.content, case.sender, guest=guest)

    return way


def sent(guest: str = "") -> Way:
    async def way(stage: Stage, case: Case) -> None:
        async with stage.client() as talk:
            await talk.send("ada", case.content, case.sender, guest=guest)

    return way


def over_tcp(guest: str = "") -> Way:
    async def way(stage: Stage, case: Case) -> None:
        assert stage.process is not None
        async with connect(tcp_address(stage.process), token=await stage.token()) as connection:
            await Talking(connection).say("ada", case.content, case.sender, guest=guest)

    return way


def over_websocket(guest: str = "") -> Way:
    async def way(stage: Stage, case: Case) -> None:
        headers = {"Authorization": f"Bearer {await stage.token()}"}
        said = {"agent": "ada", "content": case.content, "sender": case.sender, "guest": guest}
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(stage.http("/ws"), headers=headers) as websocket,
        ):
            await websocket.send_str(json.dumps({"request_id": 1, "stream": said}))
            answer: dict[str, Any] = {}
            while "end" not in answer.get("stream", {}):
                answer = json.loads(await websocket.receive_str(timeout=30))
                assert "error" not in answer, answer

    return way


def over_api(guest: str = "") -> Way:
    async def way(stage: Stage, case: Case) -> None:
        said = {"agent": "ada", "content": case.content, "sender": case.sender, "guest": guest}
        await _post(stage, "/api", {"send": said})

    return way


def completed(guest: str = "") -> Way:
    async def way(stage: Stage, case: Case) -> None:
        model = f"ada@{guest}" if guest else "ada"
        messages = [{"role": "user", "content": case.content}]
        await _post(stage, "/v1/chat/completions", {"model": model, "user": case.sender, "messages": messages})

    return way


async def _post(stage: Stage, path: str, body: dict[str, Any]) -> None:
    headers = {"Authorization": f"Bearer {await stage.token()}"}
    async with (
        aiohttp.ClientSession() as client,
        client.post(stage.http(path), headers=headers, json=body) as response,
    ):
        assert response.status == 200, await response.text()


def in_line(guest: str = "") -> Way:
    """Behind another message of the same conversation, whose model is let go afterwards."""

    async def way(stage: Stage, case: Case) -> None:
        async with stage.client() as talk:
            await _queue(stage, talk, case, guest)
            stage.provider.release()
            await eventually(lambda: stage.settled(case))

    return way


async def _queue(stage: Stage, talk: Talking, case: Case, guest: str) -> None:
    before = len(stage.provider.bodies())
    stage.provider.program({"match": f"^hold {case.slug}$", "text": "held", "hold": True})
    await talk.start("ada", f"hold {case.slug}", case.sender).until("start")
    stage.provider.requests(at_least=before + 1)
    await talk.start("ada", case.content, case.sender, guest=guest).until("queued")


def was_in_line(guest: str = "") -> Way:
    async def way(stage: Stage, case: Case) -> None:
        async with stage.client() as talk:
            await _queue(stage, talk, case, guest)

    return way


async def was_interrupted(stage: Stage, case: Case) -> None:
    """Sent under an id of the client's, and cut off before its model answered."""
    before = len(stage.provider.bodies())
    async with stage.client() as talk:
        await talk.start("ada", case.content, case.sender, client_message_id=case.slug).until("start")
        stage.provider.requests(at_least=before + 1)


async def sent_again(stage: Stage, case: Case) -> None:
    async with stage.client() as talk:
        await talk.say("ada", case.content, case.sender, client_message_id=case.slug)


async def was_asking(stage: Stage, case: Case) -> None:
    """Waiting for its owner when the daemon died; the call of the column comes in the step after."""
    async with stage.client() as talk:
        await talk.start("ada", case.content, case.sender).until("approval_opened")


async def goes_on(stage: Stage, case: Case) -> None:
    await eventually(lambda: stage.settled(case))


async def narrowed(stage: Stage, case: Case) -> None:
    """A request that asks for less than all, as whoever works for another does."""
    assert stage.inside is not None
    request = RunRequest(
        id=f"run-{case.slug}",
        key=ConversationKey("ada", case.sender),
        speaker="ada",
        content=case.content,
        scope=only("set_title", "fs_*", "exec"),
    )
    await stage.inside.runs.submit(request)
    await eventually(lambda: stage.settled(case))


# ---- the table --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Kind:
    """`through` are the places of the source where such a run comes in; `before` happens to a daemon that dies then."""

    door: str
    through: tuple[str, ...]
    drive: Way
    expected: dict[str, str] = field(default_factory=lambda: HANDS)
    before: Way | None = None
    in_process: bool = False
    # What its model says before the step with the call.
    prologue: Callable[[str], tuple[dict[str, Any], ...]] = lambda _slug: ()


_MADE = ("daemon/talk.py:_request", "engine/doors.py:turn", "engine/runs.py:_admit")
_STREAM = (*_MADE, "daemon/talk.py:stream")
_SEND = (*_MADE, "daemon/talk.py:send")
_COMPLETION = (*_STREAM, "daemon/openai_api.py:_turn")
_BACK = ("store/runs.py:_run", "daemon/app.py:recover")


def _held(_slug: str) -> tuple[dict[str, Any], ...]:
    return ({"text": "never", "hold": True},)


def _asks_first(slug: str) -> tuple[dict[str, Any], ...]:
    return ({"calls": [_call("fs_write", path=f"first-{slug}.txt", content="x")]},)


KINDS = {
    "a message": Kind(door="unix", through=_STREAM, drive=streamed()),
    "a message of a guest": Kind(door="unix", through=_STREAM, drive=streamed("bob"), expected=NO_HANDS),
    "a message without a stream": Kind(door="unix", through=_SEND, drive=sent()),
    "a guest without a stream": Kind(door="unix", through=_SEND, drive=sent("bob"), expected=NO_HANDS),
    "a message over TCP": Kind(door="tcp", through=_STREAM, drive=over_tcp()),
    "a guest over TCP": Kind(door="tcp", through=_STREAM, drive=over_tcp("bob"), expected=NO_HANDS),
    "a message on a WebSocket": Kind(door="GET /ws", through=_STREAM, drive=over_websocket()),
    "a guest on a WebSocket": Kind(door="GET /ws", through=_STREAM, drive=over_websocket("bob"), expected=NO_HANDS),
    "a message posted": Kind(door="POST /api", through=_SEND, drive=over_api()),
    "a guest posted": Kind(door="POST /api", through=_SEND, drive=over_api("bob"), expected=NO_HANDS),
    "a completion": Kind(door="POST /v1/chat/completions", through=_COMPLETION, drive=completed()),
    "a completion of a guest": Kind(
        door="POST /v1/chat/completions", through=_COMPLETION, drive=completed("bob"), expected=NO_HANDS
    ),
    "a message in line": Kind(door="unix", through=_STREAM, drive=in_line()),
    "a guest in line": Kind(door="unix", through=_STREAM, drive=in_line("bob"), expected=NO_HANDS),
    "a message in line over a restart": Kind(
        door="restart", through=(*_BACK, "engine/runs.py:resume"), before=was_in_line(), drive=goes_on
    ),
    "a guest in line over a restart": Kind(
        door="restart",
        through=(*_BACK, "engine/runs.py:resume"),
        before=was_in_line("bob"),
        drive=goes_on,
        expected=NO_HANDS,
    ),
    "a run that waited over a restart": Kind(
        door="restart",
        through=(*_BACK, "engine/runs.py:take_up"),
        before=was_asking,
        drive=goes_on,
        prologue=_asks_first,
    ),
    "a message sent again": Kind(
        door="unix", through=_STREAM, before=was_interrupted, drive=sent_again, prologue=_held
    ),
    "a narrowed run": Kind(
        door="inside", through=("engine/runs.py:_admit",), drive=narrowed, expected=NARROWED, in_process=True
    ),
}


# ---- the matrix -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
async def test_each_call_gets_the_outcome_its_scope_and_danger_ask_for(
    home: Home, provider: Provider, name: str
) -> None:
    kind, cases = KINDS[name], _cases(name.replace(" ", "-"))
    for case in cases:
        for answer in (*kind.prologue(case.slug), {"calls": [CALLS[case.column](case.slug)]}, {"text": "done"}):
            provider.program({"match": f"do {case.slug} now", **answer})
    stage = Stage(home=home, provider=provider)
    if kind.before is not None:
        with _process(stage) as process:
            await _each(stage, cases, kind.before)
            process.kill_9()
    if kind.in_process:
        async with _inside(stage):
            await _check(stage, kind, cases)
    else:
        with _process(stage):
            await _check(stage, kind, cases)


@contextmanager
def _process(stage: Stage) -> Iterator[DaemonProcess]:
    with running(stage.home) as process:
        stage.process = process
        yield process


@asynccontextmanager
async def _inside(stage: Stage) -> AsyncIterator[None]:
    async with app.running(Paths.under(stage.home.path), Redactor()) as daemon:
        stage.inside = daemon
        yield


async def _each(stage: Stage, cases: list[Case], way: Way) -> None:
    """One after the other: what a test programs and counts belongs to one case then."""
    for case in cases:
        async with asyncio.timeout(30):
            await way(stage, case)


async def _check(stage: Stage, kind: Kind, cases: list[Case]) -> None:
    owner = asyncio.get_running_loop().create_task(stage.owner())
    try:
        await _each(stage, cases, kind.drive)
    finally:
        owner.cancel()
        await asyncio.wait({owner})
    seen = {case.column: await _seen(stage, kind, case) for case in cases}
    assert seen == kind.expected
    first = len(cases) if kind.prologue is _asks_first else 0
    assert await stage.hook_counts() == _counted(kind.expected, first)


async def _seen(stage: Stage, kind: Kind, case: Case) -> str:
    """What came of a case, by its history and by what it changed."""
    async with stage.client() as talk:
        history = await talk.history("ada", case.sender)
    results = [entry for entry in history.messages if entry.role == "tool"]
    asked = stage.asked[case.sender]
    if kind.prologue is _asks_first:
        first, *results = results
        assert not first.is_error, first.content
        asked -= 1
    made = [*stage.home.path.rglob(f"{case.slug}.txt")]
    if not results:
        assert (asked, made, history.title) == (0, [], "")
        # Its model did call, and was told.
        told = [str(body["messages"]) for body in stage.provider.bodies()]
        assert [text for text in told if case.content in text and "No tool was run" in text]
        return "nothing"
    (result,) = results
    if result.is_error:
        assert (made, history.title) == ([], "")
        (said,) = [told for words, told in _TOLD.items() if words in result.content]
    else:
        assert bool(made) is (case.column == "dangerous and granted")
        assert history.title == (case.slug if case.column == "in scope" else "")
        said = "ran"
    return f"asked, {said}" if asked else said


def _counted(expected: dict[str, str], first: int) -> dict[str, dict[str, int]]:
    """What the hooks of the chain must have counted: nobody gets past one of them."""
    outcomes = Counter(expected.values())
    ran, granted = outcomes["ran"], outcomes["asked, ran"] + first
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


# ---- nothing is missing from the table ----------------------------------------------------------------


_ENTRANCES = (
    "RunRequest",
    "_doors.turn",
    "_runs.submit",
    "_lanes.enter",
    "runs.resume",
    "runs.take_up",
    "pb.StreamMsg",
)


def _places() -> set[str]:
    """Every function of the daemon that makes a request for a run, or lets one in."""
    found: set[str] = set()
    for package in ("daemon", "engine", "store", "hooks", "tools", "models", "agents"):
        for path in sorted((SOURCE / package).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for function in ast.walk(tree):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and _enters(function):
                    found.add(f"{path.relative_to(SOURCE)}:{function.name}")
    return found


def _enters(function: ast.AST) -> bool:
    calls = (ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call))
    return any(call == entrance or call.endswith(f".{entrance}") for call in calls for entrance in _ENTRANCES)


def test_every_way_to_make_an_agent_speak_is_in_the_table() -> None:
    # How teammates go on after a restart is held by their own journeys and by killing teams.
    assert _places() - {"engine/runs.py:go_on"} == {place for kind in KINDS.values() for place in kind.through}


def test_every_door_that_listens_is_in_the_table() -> None:
    doors = {"restart", "inside"}
    for path in (SOURCE / "daemon").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {node.name for node in tree.body if isinstance(node, ast.AsyncFunctionDef)}
        doors |= {path.stem} if "listen" in names and path.stem != "http" else set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("app.router.add_"):
                verb = ast.unparse(node.func).removeprefix("app.router.add_").upper()
                doors.add(f"{verb} {ast.literal_eval(node.args[0])}")
    # What can only be looked at.
    doors -= {"GET /healthz", "GET /openapi.json", "GET /v1/models", "GET /v1/models/{name}"}
    assert doors == {kind.door for kind in KINDS.values()}
