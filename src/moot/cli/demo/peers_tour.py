"""The steps of `moot demo peers`: agents of two daemons write to each other, also while the broker is down."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any

from moot.cli.demo.step_output import INDENT, StepOutput
from moot.cli.demo.two_daemons import AGENTS, COORDINATOR, DESK, LAPTOP, TwoDaemons
from moot.cli.follow.answer import RunResult
from moot.cli.render import colours, sanitize, terminal
from moot.cli.render.flow import Flow
from moot.client.connection import Connection, connect
from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb

_TURN_SECONDS = 25.0
_WAIT_SECONDS = 15.0
_LOOK_SECONDS = 0.02
_LINE_COLUMNS = 120
_RESEARCHER = f"researcher@{LAPTOP}"
_TASK = (
    f"Get me a sentence about the sea: ask {_RESEARCHER} for a fact, then writer for a sentence with it, then"
    f" critic@{LAPTOP} for an opinion."
)
_HOW = " Write with send_to_peer and a new correlation_id, and wait for each answer with wait_for_peer."
# The sender of a person's message.
_PERSON = "@user"


class PeersTour(StepOutput):
    """Performs the steps and records each message: who wrote to whom, and how often it was read."""

    def __init__(self, daemons: TwoDaemons) -> None:
        super().__init__(is_scripted=bool(daemons.model.reason))
        self._daemons = daemons
        self._connections: dict[str, Connection] = {}
        self._reads: Counter[str] = Counter()
        self.messages: dict[str, dict[str, Any]] = {}
        self.answer = ""
        self.outage: dict[str, Any] = {}

    async def run(self) -> None:
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            following = []
            for name, daemon in self._daemons.daemons.items():
                self._connections[name] = await stack.enter_async_context(connect(daemon.home.socket))
                followed = await stack.enter_async_context(connect(daemon.home.socket))
                events = await stack.enter_async_context(aclosing(await followed.subscribe(without_deltas=True)))
                following.append(tasks.create_task(self._follow(name, events), name=f"events of {name}"))
            await self._meet()
            await self._work()
            await self._lose_broker()
            for task in following:
                task.cancel()
        for mail_id, message in self.messages.items():
            message["reads"] = self._reads[mail_id]
        self._show_result()

    # ---- the steps -----------------------------------------------------------------------------

    async def _meet(self) -> None:
        self._heading("Two daemons find each other through NATS.", "moot peers list", answered=False)
        # An agent can be written to once it has a conversation.
        async with asyncio.TaskGroup() as group:
            for name, agents in AGENTS.items():
                for agent in agents:
                    group.create_task(self._turn(name, agent, "Hello."))
        await self._wait(self._know_each_other, "the daemons did not find each other")
        for name, agents in AGENTS.items():
            listed = [f"{agent} (coordinator)" if agent == COORDINATOR else agent for agent in agents]
            self._line(name, ", ".join(listed))

    async def _work(self) -> None:
        self._heading("A coordinator asks agents of both daemons.", "moot peers watch")
        self._line(colours.USER, _TASK)
        result = await self._turn(DESK, COORDINATOR, _TASK + _HOW)
        self.answer = result.content
        if self._is_scripted:
            await self._wait(self._is_all_read, "a message was not read")
        if result.outcome == "completed":
            self._line(f"{COORDINATOR}@{DESK}", result.content)
        else:
            self._say(sanitize.clean(result.error or f"The coordinator did not finish: {result.outcome}."))

    async def _lose_broker(self) -> None:
        self._heading("NATS is killed. Messages wait, and nothing else does.", "moot peers outbox", answered=False)
        server = self._daemons.server
        await asyncio.to_thread(server.kill)
        await self._wait(self._is_disconnected, "the daemon did not notice that NATS is gone")
        await self._send("writer", "Thank you for the sentence.")
        await self._send(_RESEARCHER, "Thank you for the fact.")
        outbox = (await self._ask(DESK, list_outbox=pb.ListOutboxMsg())).outbox
        waiting = [each.mail.mail_id for each in outbox.mail if not each.published]
        await self._wait(lambda: self._is_read_by("writer"), "the message within the daemon was not read")
        self._say(f"writer has read it. The message to {_RESEARCHER} waits in the store of {DESK}.")
        began = time.monotonic()
        await asyncio.to_thread(server.start)
        await self._wait(lambda: self._has_read(waiting), "the message that waited was not read")
        seconds = time.monotonic() - began
        self._say(f"NATS is started again: {_RESEARCHER} has read it {seconds:.1f} seconds later.")
        self.outage = {"waited": len(waiting), "seconds": round(seconds, 3)}

    def _show_result(self) -> None:
        unread = len(self.messages.keys() - self._reads.keys())
        if any(count > 1 for count in self._reads.values()) or (unread and self._is_scripted):
            raise MootError("a message was lost or read twice", fix="This is a bug in Moot; please report it.")
        self._heading("What survived the restart of NATS: everything.", "moot peers dead", answered=False)
        read = f"each was read exactly once; {self.outage['waited']} had waited"
        # A model may take longer than the demo.
        late = f"; {unread} will be read when the model is ready" if unread else ""
        self._say(f"{len(self.messages)} messages were sent, and {read}{late}.")

    # ---- requests ------------------------------------------------------------------------------

    async def _turn(self, daemon: str, agent: str, content: str) -> RunResult:
        folder = self._daemons.daemons[daemon].home.config.parent / "work"
        message = pb.StreamMsg(agent=agent, content=content, cwd=str(folder))
        message.limits.seconds = _TURN_SECONDS
        result = RunResult()
        connection = self._connections[daemon]
        async with aclosing(connection.stream(message)) as events:
            async for event in events:
                result.take(event)
        return result

    async def _send(self, agent: str, content: str) -> None:
        await self._ask(DESK, send_mail=pb.SendMailMsg(agent=agent, content=content))

    async def _ask(self, daemon: str, **message: Any) -> pb.ServerMessage:
        return await self._connections[daemon].request(pb.ClientMessage(**message))

    # ---- conditions ----------------------------------------------------------------------------

    async def _wait(self, condition: Callable[[], Awaitable[bool]], problem: str) -> None:
        end = time.monotonic() + _WAIT_SECONDS
        while not await condition():
            if time.monotonic() > end:
                raise MootError(problem, fix="Run the demo again. If it repeats, please report it.")
            await asyncio.sleep(_LOOK_SECONDS)

    async def _know_each_other(self) -> bool:
        for name in AGENTS:
            peers = (await self._ask(name, list_peers=pb.ListPeersMsg())).peers.peers
            if sum(1 for peer in peers if peer.daemon and peer.goals) < len(AGENTS[LAPTOP]):
                return False
        return True

    async def _is_disconnected(self) -> bool:
        return not (await self._ask(DESK, get_stats=pb.GetStats())).stats.broker.connected

    async def _is_all_read(self) -> bool:
        return self.messages.keys() <= self._reads.keys()

    async def _has_read(self, mail_ids: Sequence[str]) -> bool:
        return all(mail_id in self._reads for mail_id in mail_ids)

    async def _is_read_by(self, agent: str) -> bool:
        return all(mail_id in self._reads for mail_id, each in self.messages.items() if each["to"].startswith(agent))

    # ---- messages as they are sent -------------------------------------------------------------

    async def _follow(self, daemon: str, events: Any) -> None:
        async for event in events:
            if event.kind == pb.MAIL_SENT:
                self._note_sent(daemon, event.body.mail_sent)
            elif event.kind == pb.MAIL_READ:
                self._reads[event.body.mail_read.mail_id] += 1

    def _note_sent(self, daemon: str, mail: pb.MailInfo) -> None:
        sender = colours.USER if mail.from_agent == _PERSON else _add_daemon(mail.from_agent, daemon)
        receiver = _add_daemon(mail.to_agent, daemon)
        self.messages[mail.mail_id] = {"from": sender, "to": receiver, "text": mail.body}
        self._show_mail(sender, receiver, mail.body)

    def _show_mail(self, sender: str, receiver: str, body: str) -> None:
        """Show who wrote to whom, and the first line of the text."""
        names = [sanitize.name(sender), sanitize.name(receiver)]
        painted = [terminal.paint(name, fg=colours.name_colour(name)) for name in names]
        used = sanitize.columns(f"{INDENT}{names[0]} → {names[1]}: ")
        flow = Flow(terminal.terminal_width(), used=used, indent=2 * INDENT)
        line = flow.feed(sanitize.cut_at_word(body.partition("\n")[0], _LINE_COLUMNS)) + flow.end()
        self._write(f"{INDENT}{painted[0]} → {painted[1]}: {line}\n")


def _add_daemon(agent: str, daemon: str) -> str:
    return agent if "@" in agent else f"{agent}@{daemon}"
