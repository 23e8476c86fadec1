"""Commands on one run by its id: show, attach, logs, stop."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import click
from msgspec.structs import replace

from moot.cli import output
from moot.cli.commands.memory import render_transcript
from moot.cli.connect import daemon_client, find_paths, send_request
from moot.cli.follow import daemon_log
from moot.cli.follow.follow_run import RunFollower, Target
from moot.cli.follow.goal_mail import find_goal
from moot.cli.name_completion import complete_active_runs, complete_runs
from moot.cli.options import private_option, sender_option
from moot.cli.program import hint
from moot.cli.render import colours, flow, job_lines, numbers, plain_data, sanitize, terminal
from moot.cli.render.run_lines import describe_delivery, describe_state, describe_wait, format_duration
from moot.cli.render.user_messages import list_sent_calls
from moot.client.connection import Connection, Runnable
from moot.domain.errors import BadRequest, NotFound
from moot.domain.senders import OWNED_SENDERS, owner_of
from moot.wire import moot_pb2 as pb

_RUNS = ("arun-", "run-")
_LINE_COLUMNS = 70


def is_run(name: str) -> bool:
    """Whether a name is a run id rather than an agent."""
    return name.startswith(_RUNS)


# ---- show ---------------------------------------------------------------------------------------


@click.command()
@click.argument("run_id", metavar="RUN", shell_complete=complete_runs)
@output.json_option
def show(run_id: str) -> None:
    """Show RUN in full: task, state, usage and result."""
    info, later = asyncio.run(_fetch_run(run_id))
    extra = {"later": [plain_data.dump_message(entry) for entry in later]} if later else {}
    output.emit(plain_data.dump_run(info) | extra, render=lambda _: _render_run(info, later))


async def _fetch_run(run_id: str) -> tuple[pb.RunInfo, list[pb.HistoryMessage]]:
    """Fetch a run; for a background run that has ended, with the reports that arrived afterwards."""
    async with daemon_client() as connection:
        info = (await connection.request(pb.ClientMessage(get_run=pb.GetRunMsg(run_id=run_id)))).run
        if info.kind != "background" or not info.outcome:
            return info, []
        messages = await _LogPrinter(info.run_id, "", 0, shows_private=False).new(connection)
        user_places = [place for place, entry in enumerate(messages) if entry.role == "user"]
        return info, messages[user_places[1] :] if len(user_places) > 1 else []


def _render_run(info: pb.RunInfo, later: Sequence[pb.HistoryMessage]) -> str:
    state, colour = describe_state(info)
    tools = ", ".join((*info.allowed_tools, *(f"{tool} (granted)" for tool in info.granted_tools)))
    limits = ", ".join(f"{field.name} {value}" for field, value in info.limits.ListFields())
    rows = [
        ("run", f"{info.run_id} ({info.kind})"),
        ("agent", " → ".join((*info.chain, info.agent))),
        ("for", _render_conversation(info)),
        ("state", terminal.paint(state, fg=colour)),
        ("waits for", describe_wait(info)),
        ("last action", f"{info.last_action}, {format_duration(info.idle_seconds)} ago" if info.last_action else ""),
        ("time", format_duration(info.seconds)),
        ("used", _render_used(info)),
        ("spawned by", " · ".join(filter(None, (info.parent, info.spawn_reason)))),
        ("tools", tools),
        ("limits", limits),
        ("folder", info.cwd),
        ("began", numbers.format_time(info.started_at)),
        ("ended", numbers.format_time(info.ended_at)),
        ("result", describe_delivery(info)),
        ("error", hint(info.error)),
    ]
    head = [f"{key:12}{value if key == 'state' else sanitize.line(value)}" for key, value in rows if value]
    task = ["", terminal.paint("task", bold=True), _wrap(info.instruction)]
    result = ["", terminal.paint("result", bold=True), _wrap(info.result)] if info.result else []
    after = ["", terminal.paint("afterwards", bold=True), render_transcript(later, info.agent)] if later else []
    return "\n".join([*head, *task, *result, *after])


def _wrap(text: str) -> str:
    return flow.wrap_text(sanitize.clean(text).rstrip(), terminal.row_width(sys.stdout))


def _render_used(info: pb.RunInfo) -> str:
    steps, tokens = numbers.format_plural(info.steps, "step"), numbers.format_count(info.tokens)
    return f"{steps}, {tokens} tokens, {numbers.format_cost(info.cost)}"


def _render_conversation(info: pb.RunInfo) -> str:
    """The conversation of a run; empty for background runs, whose names are generated."""
    if not info.root_sender.startswith(OWNED_SENDERS):
        return f"{info.root_agent} as {info.root_sender}"
    return f"{info.root_agent} as {owner_of(info.root_sender)} (in the background)"


# ---- attach -------------------------------------------------------------------------------------


@click.command()
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
@sender_option
@click.option("--no-stream", is_flag=True, help="Print the answer when it is complete.")
@private_option
@output.json_option
def attach(run: str, sender: str, no_stream: bool, shows_private: bool) -> int:
    """Follow RUN: prints its output so far and then the rest. Ctrl-C leaves; the run continues.

    RUN is a run id or its beginning, or the name of an AGENT for the active run of your conversation with it. Questions
    of the run can be answered here. On a terminal, a line that you type is sent to a background run as a message, which
    it reads at its next step. Exits like `moot run`.
    """
    streaming = sys.stdout.isatty() and not no_stream and not output.wants_json()
    return asyncio.run(_attach(run, sender, streaming=streaming, shows_private=shows_private))


async def _attach(name: str, sender: str, *, streaming: bool, shows_private: bool) -> int:
    async with daemon_client() as connection:
        message, target = await _join_run(connection, name, sender)
        target = replace(target, shows_private=shows_private)
        return await RunFollower(message, target, streaming=streaming).on(connection)


async def _join_run(connection: Connection, name: str, sender: str) -> tuple[Runnable, Target]:
    if not is_run(name):
        return pb.AttachMsg(agent=name, sender=sender), Target(agent=name, sender=sender, stop=None)
    info = (await connection.request(pb.ClientMessage(get_run=pb.GetRunMsg(run_id=name)))).run
    goal = None if info.outcome else await find_goal(connection, info)
    shape = {"run_id": info.run_id}
    target = Target(agent=info.root_agent, sender=info.root_sender, stop=None, shape=shape, goal=goal)
    return pb.AttachRunMsg(run_id=info.run_id), target


# ---- logs ---------------------------------------------------------------------------------------


@click.command()
@click.argument("run", metavar="[RUN]", default="", shell_complete=complete_runs)
@sender_option
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the run has ended.")
@click.option("-n", "last", type=click.IntRange(min=1), help="Only the last N messages or lines.")
@click.option("--daemon", is_flag=True, help="Show the log of the daemon instead: starts, reloads, failures.")
@private_option
@click.option("--level", type=click.Choice(daemon_log.LEVELS), help="With --daemon: only lines of this level or worse.")
@output.json_option
def logs(run: str, daemon: bool, **options: Any) -> None:
    """Show the messages and tool calls of RUN with their authors.

    RUN is a run id, or the name of an AGENT for your conversation with it. With --daemon, show the daemon's log.
    """
    follow, last, level = options["follow"], options["last"], options["level"]
    if daemon == bool(run) or (level and not daemon):
        raise BadRequest("give either a RUN, or --daemon for the daemon's log", fix="`moot ps -a` lists the runs.")
    if daemon:
        daemon_log.show_log(find_paths(), follow=follow, last=last or 50, level=level or "info")
        return
    asyncio.run(
        _LogPrinter(run, options["sender"], last or 0, shows_private=options["shows_private"]).show(follow=follow)
    )


class _LogPrinter:
    """Prints new messages of a run. Events only trigger fetching them."""

    def __init__(self, name: str, sender: str, newest: int, *, shows_private: bool) -> None:
        self._shows_private = shows_private
        # The calls that sent a message to the person.
        self._sent_calls: set[str] = set()
        self._name = name
        self._sender = sender
        self._newest = newest
        self._next = 0
        self._shown: list[pb.HistoryMessage] = []

    async def show(self, *, follow: bool) -> None:
        async with daemon_client() as connection:
            agent, asker = self._name, colours.USER
            if is_run(self._name):
                info = (await connection.request(pb.ClientMessage(get_run=pb.GetRunMsg(run_id=self._name)))).run
                agent, asker = info.agent, info.chain[-1] if info.chain else colours.USER
            await self._print(connection, agent, asker)
            if follow:
                await self._follow(connection, agent, asker)
        if output.wants_json():
            output.emit([plain_data.dump_message(entry, with_private=self._shows_private) for entry in self._shown])

    async def _follow(self, connection: Connection, agent: str, asker: str) -> None:
        try:
            message, _ = await _join_run(connection, self._name, self._sender)
            async with aclosing(connection.stream(message)) as events:
                async for event in events:
                    if event.WhichOneof("event") in ("start", "tool_start", "tool_result", "tools_complete", "end"):
                        await self._print(connection, agent, asker)
        except NotFound:
            # No active run: show the history.
            return

    async def _print(self, connection: Connection, agent: str, asker: str) -> None:
        for entry in await self.new(connection):
            self._sent_calls |= list_sent_calls([entry])
            shown = (
                ""
                if output.wants_json()
                else render_transcript(
                    [entry], agent, asker=asker, with_private=self._shows_private, sent_calls=self._sent_calls
                )
            )
            if shown:
                output.write(shown + "\n")
            self._shown.append(entry)

    async def new(self, connection: Connection) -> list[pb.HistoryMessage]:
        found: list[pb.HistoryMessage] = []
        while True:
            history = await self._page(connection)
            found += history.messages
            if found:
                self._next = found[-1].seq + 1
            self._newest = 0
            if not history.next_seq:
                return found
            self._next = history.next_seq

    async def _page(self, connection: Connection) -> pb.History:
        if is_run(self._name):
            run = pb.GetRunHistoryMsg(run_id=self._name, first_seq=self._next, newest=self._newest)
            return (await connection.request(pb.ClientMessage(get_run_history=run))).history
        request = pb.GetHistoryMsg(agent=self._name, sender=self._sender, first_seq=self._next, newest=self._newest)
        return (await connection.request(pb.ClientMessage(get_history=request))).history


# ---- stop ---------------------------------------------------------------------------------------


@click.command()
@click.argument("run_id", metavar="[RUN]", default="", shell_complete=complete_active_runs)
@click.option("--only", is_flag=True, help="Do not stop the runs it spawned.")
@click.option("--queued", "agent", metavar="AGENT", default="", help="Withdraw your newest waiting message to AGENT.")
@sender_option
@output.json_option
def stop(run_id: str, only: bool, agent: str, sender: str) -> None:
    """Stop RUN and the runs it spawned. Completed steps and messages are kept.

    A RUN that waits for its turn is withdrawn: its message reaches nobody. RUN is also the id of a command in the
    background, as `moot ps` shows it.
    """
    if bool(run_id) == bool(agent):
        raise click.UsageError("Name a RUN, or an agent with --queued.")
    if agent:
        _withdraw(agent, sender)
        return
    if run_id.startswith(job_lines.PREFIX):
        _stop_job(run_id)
        return
    with output.progress("Stopping"):
        message = pb.StopRunMsg(run_id=run_id, only=only)
        stopped = send_request(pb.ClientMessage(stop_run=message)).run_list.runs

    def render(_: Any) -> str:
        lines = [
            f"Stopped {sanitize.name(info.run_id)} ({sanitize.name(info.agent)})" for info in stopped if info.outcome
        ]
        lines += [f"{sanitize.name(info.run_id)} has not stopped yet" for info in stopped if not info.outcome]
        return "\n".join(lines)

    output.emit([plain_data.dump_run(info) for info in stopped], render=render)


def _withdraw(agent: str, sender: str) -> None:
    message = pb.WithdrawMsg(agent=agent, sender=sender)
    withdrawn = send_request(pb.ClientMessage(withdraw=message)).withdrawn
    data = {"run_id": withdrawn.run_id, "content": withdrawn.content}
    output.emit(data, render=lambda _: f"Withdrawn: {sanitize.line(withdrawn.content, _LINE_COLUMNS)}")


def _stop_job(job_id: str) -> None:
    with output.progress("Stopping"):
        message = pb.ClientMessage(stop_job=pb.StopJobMsg(job_id=job_id))
        stopped = send_request(message).job_list.jobs
    lines = [f"Stopped {job_lines.render_command(info)} ({job_lines.render_owner(info)})" for info in stopped]
    output.emit([plain_data.dump_job(info) for info in stopped], render=lambda _: "\n".join(lines))
