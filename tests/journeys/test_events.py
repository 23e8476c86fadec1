"""The subscription: every event of a tree of runs reaches its owner, numbered, and what is missing is announced."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from uuid import UUID

import pytest

from moot.cli.render.plain_data import dump_event
from moot.client.connection import connect
from moot.wire import moot_pb2 as pb
from moot.wire.codec import encode_frame
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import PATIENCE, DaemonProcess, Home, running
from tests.fake_provider import Provider
from tests.raw_client import raw
from tests.scripting import call, lead, made, mate, say, script, spawn, wait
from tests.talking import Talking
from tests.terminal import terminal

CONFIG = (
    PLAIN.replace('tcp = "off"', 'tcp = "127.0.0.1:0"')
    + """
[models.network]
provider = "openai"
base_url = "PROVIDER_URL/v1"
model = "m"
window = 100000
[agent]
multiAgent = true
maxDepth = 2
maxRunning = 1
[security.interceptor]
sensitive_tools = ["set_title"]
exempt_tools = ["exec_bg"]
"""
)
BIG = "x" * 1_000_000
# An answer that nobody has asked for.
UNASKED = json.dumps({"type": "shutdown_response", "request_id": str(UUID(int=7)), "approved": True})
SCRIPT = script(
    lead(
        "^everything",
        {"calls": [made("agent_spawn", agent="operator", instruction=each) for each in ("ask", "name", "background")]},
        wait("{agent_ids}"),
        say("All came back."),
    ),
    lead("^hold", spawn("hold on"), wait(), say("It let go.")),
    mate("^hold", {"calls": [made("ask_user", questions=[{"question": "May I go?"}])]}, say("gone")),
    lead("^nest", spawn("pass it on"), wait(), say("It said: {result}")),
    mate("^pass it on", spawn("say it", agent="librarian"), wait(), say("passed on")),
    mate("^say it", say("said below")),
    mate("^ask", call("ask_user", questions=[{"question": "Which boat?"}]), say("{result}")),
    mate("^name", call("set_title", title="Boats"), say("named")),
    lead("^leave", spawn("leave it running"), wait(), say("Left.")),
    mate("^leave", call("exec_bg", command="sleep 600"), say("started")),
    mate("^background", call("exec_bg", command="true"), say("started")),
    {
        "match": "^report",
        "steps": [{"reply": "Hm. ", **call("send_user_message", message="Here.", status="normal")}, say("")],
    },
    {"match": "^refuse", "steps": [call("send_to_peer", to="bob", message=UNASKED), say("It was refused.")]},
    {"match": "^think", "thinking": "let me see", "reply": "You said: {user}"},
    {"match": "^slowly", "reply": "one two three four five six", "token_seconds": 30.0},
    {"match": "^big", "reply": BIG},
    {"reply": "You said: {user}"},
)

# Mail that is dropped needs another daemon: test_other_daemons.py subscribes to it.
ELSEWHERE = {pb.MAIL_DROPPED}
KINDS = set(pb.AgentEventKind.values()) - {pb.GAP, *ELSEWHERE}
# Kinds that can be of a conversation instead of a run: mail here is sent by a person.
WITHOUT_RUN = {
    pb.COMPACTING,
    pb.COMPACTED,
    pb.MODE_CHANGED,
    pb.RELOADED,
    pb.MAIL_SENT,
    pb.MAIL_DELIVERED,
    pb.MAIL_EVICTED,
}


ENVELOPE = ("seq", "kind", "at", "agent", "sender", "run_id", "parent_id", "root_id")


class Subscriber:
    """Collects the events of one sender's conversations, and approves what they ask."""

    def __init__(self, talk: Talking, events: AsyncGenerator[pb.AgentEventMsg, None], sender: str) -> None:
        self._talk = talk
        self._events = events
        self._sender = sender
        self._changed = asyncio.Condition()
        self.events: list[pb.AgentEventMsg] = []

    async def read(self) -> None:
        async for event in self._events:
            if event.root_sender == self._sender or event.kind == pb.RELOADED:
                async with self._changed:
                    self.events.append(event)
                    self._changed.notify_all()
                await self._approve(event)

    async def until(self, is_there: Callable[[pb.AgentEventMsg], bool], *, count: int = 1) -> None:
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: sum(map(is_there, self.events)) >= count)

    async def until_kind(self, kind: "pb.AgentEventKind", *, teammate: bool = False, count: int = 1) -> None:
        await self.until(lambda event: event.kind == kind and bool(event.parent_id) == teammate, count=count)

    async def _approve(self, event: pb.AgentEventMsg) -> None:
        if event.kind == pb.APPROVAL:
            opened = event.body.approval_opened
            message = pb.DecideAskMsg(ask_id=opened.ask_id, attempt=opened.attempt, decision="once")
            await self._talk.ask(decide_ask=message)


@asynccontextmanager
async def subscribed(daemon: DaemonProcess, sender: str, *, since: int | None = None) -> AsyncIterator[Subscriber]:
    async with daemon.client() as listener, daemon.client() as talk:
        events = await listener.connection.subscribe(since=since)
        reader = Subscriber(talk, events, sender)
        reading = asyncio.get_running_loop().create_task(reader.read())
        try:
            yield reader
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading


async def test_every_kind_of_event_reaches_a_subscriber(daemon: DaemonProcess, provider: Provider, sender: str) -> None:
    daemon.home.write_agent("networked", model="network")
    provider.program(
        {"match": "^again", "status": 503},
        {"match": "^again", "text": "Here I am.", "progress": [(1, 2)]},
        {"match": "Write the summary now", "text": "Boats. And more."},
    )
    async with subscribed(daemon, sender) as reader, daemon.client() as talk:
        # Teammates that queue, ask, need an approval and leave a command running; then a message that queues, and one
        # that is withdrawn.
        turn = talk.start("moot", "everything", sender)
        await reader.until_kind(pb.ASK, teammate=True)
        behind = talk.start("moot", "think again", sender)
        await reader.until_kind(pb.QUEUED)
        taken_back = talk.start("moot", "never mind", sender)
        await reader.until_kind(pb.QUEUED, count=2)
        await talk.ask(withdraw=pb.WithdrawMsg(agent="moot", sender=sender))
        await taken_back.end()
        await talk.reply("moot", "the red one", sender)
        await turn.end()
        await behind.end()
        # A model that fails once and then says how much it has read, text that is not kept, and a compaction.
        assert (await talk.say("networked", "again", sender)).outcome == "completed"
        # A message that is shown to the run that is active.
        title = {"name": "set_title", "arguments": {"title": "Boats"}}
        provider.program({"match": "^busy", "calls": [title], "hold": True})
        busy = talk.start("networked", "busy", sender)
        await busy.until("start")
        await talk.start("networked", "faster", sender, steer=True).until("queued")
        provider.release()
        await busy.end()
        killed = talk.start("ada", "slowly", sender)
        await killed.until("chunk")
        await talk.kill("ada", sender)
        await killed.end()
        await talk.compact("networked", sender)
        await talk.ask(mode=pb.ModeMsg(agent="networked", sender=sender, mode="ask"))
        await reader.until_kind(pb.MODE_CHANGED)
        await talk.ask(reload=pb.ReloadMsg())
        await reader.until_kind(pb.RELOADED)
        # More mail than fits, which is then read.
        for number in range(65):
            mail = pb.SendMailMsg(agent="networked", sender=sender, content=str(number))
            assert (await talk.ask(send_mail=mail)).mail_report.delivered_to
        await talk.say("networked", "read it", sender)
        await reader.until_kind(pb.MAIL_READ)
        await reader.until_kind(pb.COMPACTED)
        # A message to the person beside what an assistant keeps to itself, and one to an agent that is refused.
        daemon.home.write_agent("aide", role="assistant")
        await talk.say("aide", "report", sender)
        await talk.say("bob", "hello", sender)
        await talk.say("ada", "refuse", sender)
        await reader.until_kind(pb.USER_MESSAGE)
        await reader.until_kind(pb.BRIDGE_REFUSED)
        await reader.until_kind(pb.COMMAND_ENDED, teammate=True)

    missing = {pb.AgentEventKind.Name(kind) for kind in KINDS - {event.kind for event in reader.events}}
    assert not missing
    numbers = [event.seq for event in reader.events]
    assert numbers == sorted(set(numbers))
    for event in reader.events:
        assert event.timestamp
        assert bool(event.root_agent) == (event.kind != pb.RELOADED)
        assert bool(event.run_id) == (event.kind not in WITHOUT_RUN)
        assert bool(event.root_id) == bool(event.run_id)
        check_printed(event)


def check_printed(event: pb.AgentEventMsg) -> None:
    """Every kind has the same envelope in `moot events --ndjson`."""
    printed = json.loads(json.dumps(dump_event(event)))
    kind = pb.AgentEventKind.Name(event.kind).lower()
    ids = [event.run_id, event.parent_id, event.root_id]
    values = [event.seq, kind, event.timestamp, event.agent, event.sender, *ids]
    assert [printed[name] for name in ENVELOPE] == values


async def test_events_of_a_tree_carry_the_ids_of_run_parent_and_root(daemon: DaemonProcess, sender: str) -> None:
    async with subscribed(daemon, sender) as reader, daemon.client() as talk:
        await talk.say("moot", "nest", sender)
        await reader.until_kind(pb.DONE)
    by_agent: dict[str, set[tuple[str, str, str, str]]] = {}
    for event in reader.events:
        ids = (event.run_id, event.parent_id, event.root_id, f"{event.root_agent} {event.root_sender}")
        by_agent.setdefault(event.speaker, set()).add(ids)
    ((root, _, _, _),) = by_agent["moot"]
    ((operator, _, _, _),) = by_agent["operator"]
    ((librarian, _, _, _),) = by_agent["librarian"]
    owner = f"moot {sender}"
    assert by_agent["moot"] == {(root, "", root, owner)}
    assert by_agent["operator"] == {(operator, root, root, owner)}
    assert by_agent["librarian"] == {(librarian, operator, root, owner)}
    told = [(event.speaker, event.kind) for event in reader.events if event.kind != pb.TEXT_DELTA]
    # What happens below is between the call that waits for it and its result.
    assert told.index(("operator", pb.SPAWNED)) < told.index(("operator", pb.STARTED))
    assert told.index(("moot", pb.BLOCKED)) < told.index(("operator", pb.DONE)) < told.index(("moot", pb.UNBLOCKED))
    text = [event.content for event in reader.events if event.speaker == "librarian" and event.kind == pb.TEXT_DELTA]
    assert "".join(text) == "said below"


async def test_the_owner_of_a_conversation_alone_receives_what_teammates_do_for_it(daemon: DaemonProcess) -> None:
    async with daemon.client() as owner:
        stats = (await owner.ask(get_stats=pb.GetStats())).stats
        tokens = [
            (await owner.ask(new_token=pb.NewTokenMsg(name=name))).token_created.token for name in ("mine", "yours")
        ]
    received: list[set[str]] = []
    async with connect(stats.tcp, token=tokens[0]) as mine, connect(stats.tcp, token=tokens[1]) as yours:
        subscriptions = [await connection.subscribe(without_deltas=True) for connection in (mine, yours)]
        for connection, content in ((mine, "nest"), (yours, "think")):
            await Talking(connection).say("moot", content)
        for events in subscriptions:
            speakers: set[str] = set()
            async with asyncio.timeout(PATIENCE), aclosing(events):
                async for event in events:
                    assert event.kind not in (pb.TEXT_DELTA, pb.THINKING_DELTA)
                    speakers.add(f"{event.speaker} for {event.root_sender}")
                    if event.kind == pb.DONE and not event.parent_id:
                        break
            received.append(speakers)
    assert received == [{"moot for mine", "operator for mine", "librarian for mine"}, {"moot for yours"}]


WORKFLOW = json.dumps({"name": "demo", "steps": [{"id": "a", "prompt": "think of a step", "agent": "ada"}]})


async def test_the_owner_alone_receives_what_background_runs_schedules_and_workflows_do(daemon: DaemonProcess) -> None:
    async with daemon.client() as owner:
        stats = (await owner.ask(get_stats=pb.GetStats())).stats
        tokens = [
            (await owner.ask(new_token=pb.NewTokenMsg(name=name))).token_created.token for name in ("busy", "idle")
        ]
    kinds: dict[str, set[int]] = {}
    async with connect(stats.tcp, token=tokens[0]) as busy, connect(stats.tcp, token=tokens[1]) as idle:
        events, nothing = [await connection.subscribe() for connection in (busy, idle)]
        talk = Talking(busy)
        await talk.ask(start_run=pb.StartRunMsg(agent="ada", content="think of a run"))
        job = pb.SaveCronJobMsg(agent="ada", name="j", schedule_type="every", schedule="1h", prompt="think of a job")
        await talk.ask(save_cron_job=job)
        await talk.ask(change_cron_job=pb.ChangeCronJobMsg(job="j", action="run"))
        await talk.ask(start_workflow=pb.StartWorkflowMsg(source=WORKFLOW))
        async with asyncio.timeout(PATIENCE), aclosing(events):
            async for event in events:
                assert event.run_id
                assert event.root_id
                kinds.setdefault(event.sender.partition(":")[0], set()).add(event.kind)
                if sum(pb.DONE in found for name, found in kinds.items() if name != "busy") == 3:
                    break
        await Talking(idle).say("ada", "think")
        async with asyncio.timeout(PATIENCE), aclosing(nothing):
            assert (await anext(nothing)).sender == "idle"
    wanted = {pb.SPAWNED, pb.STARTED, pb.TEXT_START, pb.TEXT_DELTA, pb.TEXT_END, pb.DONE}
    assert {name: wanted - found for name, found in kinds.items() if name != "busy"} == dict.fromkeys(
        ("bg", "cron", "workflow"), set()
    )


async def test_a_slow_reader_gets_all_that_is_kept_and_is_told_what_is_not(home: Home) -> None:
    with running(home) as daemon:
        async with daemon.client() as talk, raw(daemon) as slow:
            slow.writer.write(encode_frame(pb.ClientMessage(request_id=1, subscribe_events=pb.SubscribeEvents())))
            assert (await slow.receive()).HasField("pong")
            # More than is sent ahead of the reader, and more than is kept.
            for number in range(30):
                assert (await talk.send("ada", "big", f"sender:{number}")).outcome == "completed"
            received = [(await slow.receive()).agent_event for _ in range(2)]
            while not (received[-1].kind == pb.DONE and received[-1].sender == "sender:29"):
                received.append((await slow.receive()).agent_event)
            (gap,) = [event.gap for event in received if event.kind == pb.GAP]
            numbers = [event.seq for event in received if event.kind != pb.GAP]
            last = numbers[-1]
            assert numbers == [number for number in range(1, last + 1) if not gap.first_seq <= number <= gap.last_seq]
            assert gap.first_seq <= gap.last_seq < last

            # Whoever asks for the missing events gets what is still kept of them, which is what came after.
            again = await talk.connection.subscribe(since=gap.first_seq - 1)
            async with asyncio.timeout(PATIENCE), aclosing(again):
                first = await anext(again)
                assert (first.kind, first.gap.first_seq) == (pb.GAP, gap.first_seq)
                rest = [event.seq async for event in _until_seq(again, last)]
            assert rest == list(range(first.gap.last_seq + 1, last + 1))


async def _until_seq(
    events: AsyncGenerator[pb.AgentEventMsg, None], last: int
) -> AsyncGenerator[pb.AgentEventMsg, None]:
    async for event in events:
        yield event
        if event.seq == last:
            return


async def test_a_client_that_comes_back_goes_on_from_its_last_event(daemon: DaemonProcess, sender: str) -> None:
    async with daemon.client() as talk:
        events = await talk.connection.subscribe()
        async with asyncio.timeout(PATIENCE), aclosing(events):
            await talk.say("ada", "think once", sender)
            first = await anext(events)
    async with daemon.client() as talk:
        await talk.say("ada", "think twice", sender)
    async with subscribed(daemon, sender, since=first.seq) as reader:
        await reader.until_kind(pb.DONE, count=2)
    assert reader.events[0].seq == first.seq + 1
    assert [event.user_seq for event in reader.events if event.kind == pb.STARTED] == [3]


@pytest.mark.parametrize("kill", [False, True])
async def test_after_a_restart_a_client_is_told_the_gap_and_no_number_is_used_again(home: Home, kill: bool) -> None:
    seen: list[int] = []
    gaps: list[pb.GapEvent] = []
    for _ in range(2):
        with running(home) as daemon:
            async with daemon.client() as talk:
                events = await talk.connection.subscribe(since=seen[-1] if seen else 0)
                await talk.say("ada", "think")
                async with asyncio.timeout(PATIENCE), aclosing(events):
                    async for event in events:
                        if event.kind == pb.GAP:
                            gaps.append(event.gap)
                        else:
                            seen.append(event.seq)
                        if event.kind == pb.DONE:
                            break
            if kill:
                daemon.kill_9()
    assert seen == sorted(set(seen))
    ((first, last),) = [(gap.first_seq, gap.last_seq) for gap in gaps]
    before = seen[: seen.index(min(number for number in seen if number > last))]
    assert (first, last) == (before[-1] + 1, seen[len(before)] - 1)


def test_the_command_prints_the_envelope_of_every_event(daemon: DaemonProcess, sender: str) -> None:
    daemon.cli("ask", "moot", "nest", "--as", sender)
    found = daemon.cli("events", "--ndjson", "--since", "0", "-n", "20")
    events = [json.loads(line) for line in found.stdout.splitlines()]
    assert len(events) == 20
    assert all(set(ENVELOPE) <= set(event) for event in events)
    assert [event["seq"] for event in events] == sorted(event["seq"] for event in events)
    text = daemon.cli("events", "--since", "0", "-n", "3").stdout
    assert [line.split()[0] for line in text.splitlines()] == [str(event["seq"]) for event in events[:3]]
    refused = daemon.cli("events", "--since", "-1")
    assert refused.returncode == 2


def test_the_chat_shows_what_teammates_do_while_they_do_it(daemon: DaemonProcess, sender: str) -> None:
    with terminal(daemon.home, "chat", "moot", "--as", sender) as person:
        person.wait_for("Ctrl-D")
        person.enter("hold")
        person.wait_on_screen("↳ operator waiting for you")
        # A chat that is opened later shows it too.
        with terminal(daemon.home, "chat", "moot", "--as", sender) as other:
            other.wait_on_screen("↳ operator waiting for you")
            person.wait_on_screen("answer ›")
            person.enter("yes")
            other.wait_off_screen("↳ operator")
        person.wait_off_screen("↳ operator")
        person.wait_for("It let go.")


def test_watched_runs_change_when_events_say_so(daemon: DaemonProcess, sender: str) -> None:
    with terminal(daemon.home, "ps", "--watch", columns=120) as person:
        person.wait_on_screen("Nothing is running.")
        with terminal(daemon.home, "chat", "moot", "--as", sender) as other:
            other.wait_for("Ctrl-D")
            other.enter("hold")
            person.wait_on_screen("operator")
            other.wait_on_screen("answer ›")
            other.enter("yes")
            other.wait_for("It let go.")
        person.wait_on_screen("Nothing is running.")


def test_a_command_in_the_background_is_watched_to_its_end(daemon: DaemonProcess, sender: str) -> None:
    with terminal(daemon.home, "ps", "--watch", columns=120) as person:
        person.wait_on_screen("Nothing is running.")
        started = daemon.cli("ask", "moot", "leave it", "--as", sender)
        assert started.returncode == 0, started.stderr
        person.wait_on_screen("sleep 600")
        (job,) = [each for each in daemon.cli_json("ps")["data"] if each.get("job_id")]
        assert daemon.cli("stop", job["job_id"]).returncode == 0
        person.wait_off_screen("sleep 600")


def test_watching_goes_on_when_the_daemon_is_back(home: Home) -> None:
    home.furnish(script=SCRIPT)
    with running(home) as daemon, terminal(home, "ps", "--watch", columns=120) as person:
        person.wait_on_screen("Nothing is running.")
        daemon.kill_9()
        person.wait_on_screen("Lost the connection to the daemon")
        with running(home) as again:
            person.wait_on_screen("Nothing is running.")
            assert again.cli("run", "--bg", "slowly", "--agent", "ada").returncode == 0
            person.wait_on_screen("slowly")
        person.wait_on_screen("Lost the connection to the daemon")
        person.type("\x03")
        assert person.wait_for_exit() == 130
