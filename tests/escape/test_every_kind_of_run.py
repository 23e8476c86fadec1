"""Every kind of run × {a tool in scope, out of scope, dangerous, unknown}: one gate, one chain, the same outcome.

KINDS is the table. A door that is added to the daemon and not to it fails `test_every_way_to_make_an_agent_speak…`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from moot.client.connection import connect
from moot.daemon import app
from moot.daemon.paths import Paths
from moot.domain.conversation import ConversationKey
from moot.domain.run import RunRequest
from moot.domain.scope import only
from moot.redaction.redactor import Redactor
from moot.wire import moot_pb2 as pb
from tests.daemon_process import DaemonProcess, Home, eventually, running
from tests.escape.kinds import CALLS, HANDS, KINDS_CONFIG, TOLD, Case, Stage, call, cases_of, counted, deciding
from tests.fake_provider import Provider
from tests.raw_client import tcp_address
from tests.talking import Talking

CONFIG = KINDS_CONFIG

NARROWED = HANDS | {"out of scope": "no such tool"}
NO_HANDS = dict.fromkeys(CALLS, "nothing")

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
        await _post(stage, case, "/api", {"send": said})

    return way


def completed(guest: str = "") -> Way:
    async def way(stage: Stage, case: Case) -> None:
        model = f"ada@{guest}" if guest else "ada"
        messages = [{"role": "user", "content": case.content}]
        await _post(stage, case, "/v1/chat/completions", {"model": model, "user": case.sender, "messages": messages})

    return way


def responded(guest: str = "") -> Way:
    async def way(stage: Stage, case: Case) -> None:
        model = f"ada@{guest}" if guest else "ada"
        await _post(stage, case, "/v1/responses", {"model": model, "user": case.sender, "input": case.content})

    return way


async def _post(stage: Stage, case: Case, path: str, body: dict[str, Any]) -> None:
    """Post a message and wait for the end of its run: the response says only that the run waits for a person."""
    headers = {"Authorization": f"Bearer {await stage.token()}"}
    async with (
        aiohttp.ClientSession() as client,
        client.post(stage.http(path), headers=headers, json=body) as response,
    ):
        assert response.status == 200, await response.text()
    await eventually(lambda: stage.settled(case))


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
    await stage.inside.runtime.runs.submit(request)
    await eventually(lambda: stage.settled(case))


async def woken(stage: Stage, case: Case) -> None:
    """Mail to an idle conversation of an agent that it wakes."""
    path = stage.home.path / "agents" / "ada" / "AGENT.md"
    text = path.read_text(encoding="utf-8")
    if "wake: true" not in text:
        path.write_text(text.replace("---\n", "---\nwake: true\n", 1), encoding="utf-8")
    async with stage.client() as talk:

        async def is_known() -> bool:
            peers = (await talk.ask(list_peers=pb.ListPeersMsg())).peers.peers
            return any(peer.agent_id == "ada" and peer.wake for peer in peers)

        await eventually(is_known)
        await talk.say("ada", "hello", case.sender)
        goals = (await talk.ask(list_goals=pb.ListGoalsMsg(agent="ada"))).goals.goals
        (goal,) = [goal.goal_id for goal in goals if goal.sender == case.sender]
        mail = pb.SendMailMsg(agent="ada", sender=case.sender, content=case.content, goal_id=goal)
        assert (await talk.ask(send_mail=mail)).mail_report.delivered_to

        async def is_answered() -> bool:
            told = (await talk.history("ada", case.sender)).messages
            return any(each.outcome for each in told if each.role == "user" and case.content in each.content)

        await eventually(is_answered)


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


_MADE = ("daemon/requests/talk.py:_request", "engine/request_factory.py:turn", "engine/runs.py:_admit")
_STREAM = (*_MADE, "daemon/requests/talk.py:stream")
_SEND = (*_MADE, "daemon/requests/talk.py:send")
_COMPLETION = (*_STREAM, "daemon/listen/openai_api.py:start_turn")
_BACK = ("store/found_runs.py:_request", "multiagent/runtime.py:recover", "engine/runs.py:resume")


def _held(_slug: str) -> tuple[dict[str, Any], ...]:
    return ({"text": "never", "hold": True},)


def _asks_first(slug: str) -> tuple[dict[str, Any], ...]:
    return ({"calls": [call("fs_write", path=f"first-{slug}.txt", content="x")]},)


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
    "a response": Kind(door="POST /v1/responses", through=_COMPLETION, drive=responded()),
    "a response of a guest": Kind(
        door="POST /v1/responses", through=_COMPLETION, drive=responded("bob"), expected=NO_HANDS
    ),
    "a message in line": Kind(door="unix", through=_STREAM, drive=in_line()),
    "a guest in line": Kind(door="unix", through=_STREAM, drive=in_line("bob"), expected=NO_HANDS),
    "a message in line over a restart": Kind(door="restart", through=_BACK, before=was_in_line(), drive=goes_on),
    "a guest in line over a restart": Kind(
        door="restart",
        through=_BACK,
        before=was_in_line("bob"),
        drive=goes_on,
        expected=NO_HANDS,
    ),
    "a run that waited over a restart": Kind(
        door="restart",
        through=_BACK,
        before=was_asking,
        drive=goes_on,
        prologue=_asks_first,
    ),
    "a message sent again": Kind(
        door="unix", through=_STREAM, before=was_interrupted, drive=sent_again, prologue=_held
    ),
    "a run that mail started": Kind(
        door="unix",
        through=("multiagent/peers/wakes.py:_run_once", "multiagent/peers/wakes.py:_request", "engine/runs.py:_admit"),
        drive=woken,
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
    kind, cases = KINDS[name], cases_of(name.replace(" ", "-"))
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
    async with deciding(stage):
        await _each(stage, cases, kind.drive)
    seen = {case.column: await _seen(stage, kind, case) for case in cases}
    assert seen == kind.expected
    first = len(cases) if kind.prologue is _asks_first else 0
    assert await stage.hook_counts() == counted(kind.expected, first=first)


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
        (said,) = [told for words, told in TOLD.items() if words in result.content]
    else:
        assert bool(made) is (case.column == "dangerous and granted")
        assert history.title == (case.slug if case.column == "in scope" else "")
        said = "ran"
    return f"asked, {said}" if asked else said
