"""The steps of the demo, in order. Each is executed against a running daemon."""

import asyncio
import time
from collections.abc import Iterable
from contextlib import aclosing, suppress
from typing import Any

from moot.cli import output
from moot.cli.demo.demo_home import KEEPER, work_folder
from moot.cli.demo.step_output import INDENT, PLAIN_COLUMNS, StepOutput
from moot.cli.follow.answer import RunResult
from moot.cli.render import approvals, calls, colours, plain_data, sanitize, terminal
from moot.client import daemon_process
from moot.client.connection import Connection, connect
from moot.daemon.paths import Paths
from moot.domain.agent import ROOT
from moot.domain.errors import MootError, NotFound
from moot.wire import moot_pb2 as pb

SENDER = "demo"
_TURN_SECONDS = 30.0
_CHUNKS_BEFORE_KILL = 12
# The columns before and after a call.
_CALL_MARGIN = 6


class NoAnswer(MootError):
    """The model did not answer the first question; another model may."""


class Tour(StepOutput):
    """Talks to the daemon at `home` and records what happened, for --json and the final checks."""

    def __init__(self, home: Paths, *, is_scripted: bool = False) -> None:
        super().__init__(is_scripted=is_scripted)
        self._home = home
        self.steps: list[dict[str, Any]] = []
        self.history: list[dict[str, Any]] = []

    async def run(self) -> None:
        async with connect(self._home.socket) as connection:
            await self._delete_previous(connection)
            await self._question(connection)
            await self._guest(connection)
            await self._tool(connection)
            await self._teammate(connection)
            await self._kill(connection)
            await self._compact(connection)
            await self._recall(connection)
            before = await self._fetch_history(connection)
        await self._restart()
        async with connect(self._home.socket) as connection:
            self.history = await self._fetch_history(connection)
        self._show_history()
        if self.history != before:
            raise MootError("the history changed over the restart", fix="This is a bug in Moot; please report it.")

    async def _delete_previous(self, connection: Connection) -> None:
        for agent in ("writer", KEEPER, ROOT):
            delete = pb.DeleteMsg(agent=agent, sender=SENDER, confirm=True)
            with suppress(NotFound):
                await connection.request(pb.ClientMessage(delete=delete))

    async def _question(self, connection: Connection) -> None:
        self._heading("You talk to an agent by its name.", "moot ask writer …")
        answer = await self._turn(connection, "Write one sentence about the sea.")
        if answer.outcome == "model_error":
            raise NoAnswer(answer.error)
        self._record("question", answer)

    async def _guest(self, connection: Connection) -> None:
        self._heading("You bring in a second agent, as a guest.", "moot ask writer … --guest critic")
        self._record("guest", await self._turn(connection, "What do you think of that sentence?", guest="critic"))

    async def _tool(self, connection: Connection) -> None:
        self._heading("An agent asks before it changes a file.", "moot ask keeper …", scripted=True)
        answer = await self._turn(connection, "Write today's weather into the logbook.", agent=KEEPER)
        self._record("tool", answer)

    async def _teammate(self, connection: Connection) -> None:
        self._heading("An agent gives work to a teammate.", "moot ask moot …; moot ps --tree", scripted=True)
        answer = await self._turn(connection, "What does the logbook say? Let somebody read it.", agent=ROOT)
        self._record("teammate", answer)

    async def _kill(self, connection: Connection) -> None:
        self._heading("You stop an answer you do not want.", "moot kill writer, or Ctrl-C")
        text = "Tell a very long story about a lighthouse keeper, with many chapters."
        answer = await self._turn(connection, text, kill_after=_CHUNKS_BEFORE_KILL)
        killed = answer.outcome == "cancelled"
        self._say("Stopped. Your message is kept, the incomplete answer is not." if killed else "It had already ended.")
        self._record("kill", answer)

    async def _compact(self, connection: Connection) -> None:
        self._heading("You compact the history into an archive.", "moot compact writer")
        with output.progress("Compacting"):
            compacted = await connection.request(pb.ClientMessage(compact=pb.CompactMsg(agent="writer", sender=SENDER)))
        self._say(f"Archive {compacted.compact.number}: {sanitize.line(compacted.compact.title)}")
        self.steps.append({"step": "compact", "number": compacted.compact.number, "title": compacted.compact.title})

    async def _recall(self, connection: Connection) -> None:
        self._heading(
            "You search the archives, and see who said what.",
            "moot recall writer sea; moot archives writer 1",
            answered=False,
        )
        message = pb.RecallMsg(agent="writer", sender=SENDER, query="sea", limit=3)
        found = (await connection.request(pb.ClientMessage(recall=message))).recalled.archives
        if not found:
            raise MootError("recall found nothing in the archive", fix="This is a bug in Moot; please report it.")
        # Recall returns only matching messages; the archive has all, including the guest's.
        whole = pb.GetArchiveMsg(agent="writer", sender=SENDER, number=found[0].number)
        archive = (await connection.request(pb.ClientMessage(get_archive=whole))).archive
        self._say(f"Found in archive {archive.number}:")
        self._show_messages(plain_data.dump_message(entry) for entry in archive.messages)
        self.steps.append(
            {
                "step": "recall",
                "archives": [plain_data.dump_archive(each) for each in found],
                "archive": plain_data.dump_archive(archive),
            }
        )

    async def _restart(self) -> None:
        self._heading("The daemon restarts.", "moot down; moot up", answered=False)
        began = time.monotonic()
        stopped = await asyncio.to_thread(daemon_process.stop, self._home, now=False)
        pid = await daemon_process.start(self._home)
        seconds = time.monotonic() - began
        self._say(f"Back after {seconds:.1f} seconds, as pid {pid}.")
        self.steps.append({"step": "restart", "stopped": stopped, "pid": pid, "seconds": round(seconds, 3)})

    def _show_history(self) -> None:
        self._heading("Everything is still there.", "moot history writer --all", answered=False)
        self._show_messages(self.history)

    def _show_messages(self, entries: Iterable[dict[str, Any]]) -> None:
        for entry in entries:
            note = " (killed)" if entry.get("outcome") == "cancelled" else ""
            self._line(self._speaker(entry), entry["content"] + note)

    async def _fetch_history(self, connection: Connection) -> list[dict[str, Any]]:
        message = pb.GetHistoryMsg(agent="writer", sender=SENDER, all=True)
        history = await connection.request(pb.ClientMessage(get_history=message))
        return [plain_data.dump_message(entry) for entry in history.history.messages]

    # ---- one turn ------------------------------------------------------------------------------

    async def _turn(
        self, connection: Connection, content: str, *, agent: str = "writer", guest: str = "", kill_after: int = 0
    ) -> RunResult:
        self._line(colours.USER, content)
        message = pb.StreamMsg(agent=agent, content=content, sender=SENDER, cwd=str(work_folder(self._home)))
        message.limits.seconds = _TURN_SECONDS
        if guest:
            message.guest = guest
        answer, chunks = RunResult(), 0
        speaker = guest or agent
        flow = self._flow(speaker)
        with output.progress(f"{speaker} is thinking") as bar:
            async with aclosing(connection.stream(message)) as events:
                async for event in events:
                    answer.take(event)
                    if event.HasField("tool_start"):
                        bar.hide()
                        self._show_calls(event.tool_start)
                    elif event.HasField("approval_opened"):
                        bar.hide()
                        self._approve(connection, event.approval_opened)
                    elif event.HasField("chunk"):
                        bar.hide()
                        self._write(
                            (self._render_name(speaker) if not chunks else "")
                            + flow.feed(sanitize.clean(event.chunk.content))
                        )
                        chunks += 1
                        if chunks == kill_after:
                            connection.post(pb.ClientMessage(kill=pb.KillMsg(agent="writer", sender=SENDER)))
        self._write(flow.end() + "\n" if chunks else "")
        if answer.error and answer.outcome != "cancelled":
            self._say(sanitize.clean(answer.error))
        return answer

    def _show_calls(self, started: pb.ToolStartEvent) -> None:
        for call in started.calls:
            self._say(f"⚒ {calls.render_call(call, _columns())}")

    def _approve(self, connection: Connection, approval: pb.ApprovalEvent) -> None:
        """Show what a person would be asked, and allow it in their place."""
        for line in approvals.render_approval(
            approval, width=(terminal.terminal_width() or PLAIN_COLUMNS) - _CALL_MARGIN
        ):
            self._write("".join(f"{INDENT}{row}\n" for row in line.split("\n")))
        self._say("You would be asked here; the demo allows it once.")
        decided = pb.DecideAskMsg(ask_id=approval.ask_id, attempt=approval.attempt, decision="once")
        connection.post(pb.ClientMessage(decide_ask=decided))
        self.steps.append({"step": "approval", "tool": approval.tool, "line": approval.line})

    def _record(self, step: str, answer: RunResult) -> None:
        self.steps.append({"step": step, "agent": answer.agent, "content": answer.content, "outcome": answer.outcome})

    def _speaker(self, entry: dict[str, Any]) -> str:
        if entry["role"] == "user":
            return colours.USER
        return str(entry["agent"]) or "writer"


def _columns() -> int:
    """Return the columns for a call or an approval."""
    return (terminal.terminal_width() or PLAIN_COLUMNS) - _CALL_MARGIN
