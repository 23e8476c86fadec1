"""Commands on one run by its id: show, attach, logs, wait, stop."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress
from typing import Any

import click

from moot.cli import exits, output
from moot.cli.commands.memory import format_time, render_transcript
from moot.cli.connect import daemon_client, send_request
from moot.cli.exits import Exit
from moot.cli.follow import open_asks
from moot.cli.follow.follow_run import RunFailed, RunFollower, Target, WaitingForPerson
from moot.cli.options import sender_option
from moot.cli.render import colours, job_lines, numbers, plain_data, sanitize
from moot.cli.render.run_lines import describe_delivery, describe_state, describe_wait, format_duration
from moot.cli.render.spinner import Spinner
from moot.client.connection import Connection, Runnable
from moot.client.errors import TimedOut
from moot.domain.errors import MootError, NotFound
from moot.domain.senders import BACKGROUND_SENDER, owner_of
from moot.wire import moot_pb2 as pb

_RUNS = ("arun-", "run-")
# How long one request waits, and how long events that belong together are waited for.
_LONG_SECONDS = 3600.0
_GROUP_SECONDS = 0.05
_LINE_COLUMNS = 70


def is_run(name: str) -> bool:
    """Whether a name means a run and not an agent."""
    return name.startswith(_RUNS)


# ---- show ---------------------------------------------------------------------------------------


@click.command()
@click.argument("run_id", metavar="RUN")
@output.json_option
def show(run_id: str) -> None:
    """Show RUN in full: task, state, usage and result."""
    info, later = asyncio.run(_fetch_run(run_id))
    extra = {"later": [plain_data.message(entry) for entry in later]} if later else {}
    output.emit(plain_data.run(info) | extra, render=lambda _: _render_run(info, later))


async def _fetch_run(run_id: str) -> tuple[pb.RunInfo, list[pb.HistoryMessage]]:
    """The run, and what came in after the end of one in the background: reports of those it left at work."""
    async with daemon_client() as connection:
        info = (await connection.request(pb.ClientMessage(get_run=pb.GetRunMsg(run_id=run_id)))).run
        if info.kind != "background" or not info.outcome:
            return info, []
        messages = await _LogPrinter(info.run_id, "", 0).new(connection)
        asked = [place for place, entry in enumerate(messages) if entry.role == "user"]
        return info, messages[asked[1] :] if len(asked) > 1 else []


def _render_run(info: pb.RunInfo, later: Sequence[pb.HistoryMessage]) -> str:
    told, colour = describe_state(info)
    tools = ", ".join((*info.allowed_tools, *(f"{tool} (granted)" for tool in info.granted_tools)))
    limits = ", ".join(f"{field.name} {value}" for field, value in info.limits.ListFields())
    rows = [
        ("run", f"{info.run_id} ({info.kind})"),
        ("agent", " → ".join((*info.chain, info.agent))),
        ("for", _render_conversation(info)),
        ("state", output.paint(told, fg=colour)),
        ("waits for", describe_wait(info)),
        ("last action", f"{info.last_action}, {format_duration(info.idle_seconds)} ago" if info.last_action else ""),
        ("time", format_duration(info.seconds)),
        ("used", _render_used(info)),
        ("spawned by", " · ".join(filter(None, (info.parent, info.spawn_reason)))),
        ("tools", tools),
        ("limits", limits),
        ("folder", info.cwd),
        ("began", format_time(info.started_at)),
        ("ended", format_time(info.ended_at)),
        ("result", describe_delivery(info)),
        ("error", info.error),
    ]
    head = [f"{key:12}{value if key == 'state' else sanitize.line(value)}" for key, value in rows if value]
    task = ["", output.paint("task", bold=True), sanitize.clean(info.instruction).rstrip()]
    result = ["", output.paint("result", bold=True), sanitize.clean(info.result).rstrip()] if info.result else []
    after = ["", output.paint("afterwards", bold=True), render_transcript(later, info.agent)] if later else []
    return "\n".join([*head, *task, *result, *after])


def _render_used(info: pb.RunInfo) -> str:
    steps, tokens = numbers.format_plural(info.steps, "step"), numbers.format_count(info.tokens)
    return f"{steps}, {tokens} tokens, {numbers.format_cost(info.cost)}"


def _render_conversation(info: pb.RunInfo) -> str:
    """The conversation a person is in; that of work in the background is a name nobody needs."""
    if not info.root_sender.startswith(BACKGROUND_SENDER):
        return f"{info.root_agent} ⇄ {info.root_sender}"
    return f"{info.root_agent} & {owner_of(info.root_sender)} (in the background)"


# ---- attach -------------------------------------------------------------------------------------


@click.command()
@click.argument("run", metavar="RUN")
@sender_option
@click.option("--no-stream", is_flag=True, help="Print the answer when it is complete.")
@output.json_option
def attach(run: str, sender: str, no_stream: bool) -> int:
    """Follow RUN: prints its output so far and then the rest. Ctrl-C leaves; the run continues.

    RUN is a run id, or the name of an AGENT for the active run of your conversation with it. Questions of the run can
    be answered here. Exits like `moot run`.
    """
    streaming = sys.stdout.isatty() and not no_stream and not output.wants_json()
    return asyncio.run(_attach(run, sender, streaming=streaming))


async def _attach(name: str, sender: str, *, streaming: bool) -> int:
    async with daemon_client() as connection:
        message, target = await _join_run(connection, name, sender)
        return await RunFollower(message, target, streaming=streaming).on(connection)


async def _join_run(connection: Connection, name: str, sender: str) -> tuple[Runnable, Target]:
    if not is_run(name):
        return pb.AttachMsg(agent=name, sender=sender), Target(agent=name, sender=sender, stop=None)
    info = (await connection.request(pb.ClientMessage(get_run=pb.GetRunMsg(run_id=name)))).run
    target = Target(agent=info.root_agent, sender=info.root_sender, stop=None, shape={"run_id": info.run_id})
    return pb.AttachRunMsg(run_id=info.run_id), target


# ---- logs ---------------------------------------------------------------------------------------


@click.command()
@click.argument("run", metavar="RUN")
@sender_option
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the run has ended.")
@click.option("-n", "last", type=click.IntRange(min=1), help="Only the last N messages.")
@output.json_option
def logs(run: str, sender: str, follow: bool, last: int | None) -> None:
    """Show the messages and tool calls of RUN with their authors.

    RUN is a run id, or the name of an AGENT for your conversation with it.
    """
    asyncio.run(_LogPrinter(run, sender, last or 0).show(follow=follow))


class _LogPrinter:
    """Prints the messages of a run as they are written. Events only say that there may be more."""

    def __init__(self, name: str, sender: str, newest: int) -> None:
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
            output.emit([plain_data.message(entry) for entry in self._shown])

    async def _follow(self, connection: Connection, agent: str, asker: str) -> None:
        try:
            message, _ = await _join_run(connection, self._name, self._sender)
            async with aclosing(connection.stream(message)) as events:
                async for event in events:
                    if event.WhichOneof("event") in ("start", "tool_start", "tool_result", "tools_complete", "end"):
                        await self._print(connection, agent, asker)
        except NotFound:
            # Nothing runs in the conversation; what was said is shown.
            return

    async def _print(self, connection: Connection, agent: str, asker: str) -> None:
        for entry in await self.new(connection):
            if not output.wants_json():
                output.write(render_transcript([entry], agent, asker=asker) + "\n")
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
        asked = pb.GetHistoryMsg(agent=self._name, sender=self._sender, first_seq=self._next, newest=self._newest)
        return (await connection.request(pb.ClientMessage(get_history=asked))).history


# ---- wait ---------------------------------------------------------------------------------------


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--any", "any_of_them", is_flag=True, help="Wait until one of them has ended instead of all.")
@click.option("--timeout", type=click.FloatRange(min=0), default=None, metavar="S", help="Maximum seconds to wait.")
@output.json_option
def wait(runs: tuple[str, ...], any_of_them: bool, timeout: float | None) -> int:
    """Wait until every RUN has ended, and print the results. Waiting does not affect the runs.

    Exits with 0 if all of them completed, otherwise as the first that did not: 1 failed, 4 denied, 5 ended by a
    limit. 124 if the time is up and a run is still active. 3 if a run waits for you and there is no terminal to
    ask on: answer with `moot inbox`, then wait again.
    """
    message = pb.WaitRunsMsg(run_ids=runs, any=any_of_them, until_asked=not _is_watched())
    with output.progress(f"Waiting for {numbers.format_plural(len(runs), 'run')}") as bar:
        found, askers = asyncio.run(_wait(message, timeout, bar))
    return _print_results(list(found.runs), askers, timed_out=found.timed_out, any_of_them=any_of_them)


def _is_watched() -> bool:
    return sys.stderr.isatty() and not output.wants_json()


async def _wait(
    message: pb.WaitRunsMsg, timeout: float | None, bar: Spinner
) -> tuple[pb.RunList, Sequence[pb.RunInfo]]:
    """What the wait came to, and the runs that ask a person something."""
    async with daemon_client() as connection:
        if not _is_watched():
            return await _wait_for_runs(connection, message, timeout)
        async with aclosing(await connection.subscribe(without_deltas=True)) as events, asyncio.TaskGroup() as tasks:
            changed = asyncio.Event()
            beside = (
                tasks.create_task(_read_events(events, changed), name="read events"),
                tasks.create_task(_show_progress(connection, message, changed, bar), name="show progress"),
            )
            try:
                result: tuple[pb.RunList, Sequence[pb.RunInfo]] | MootError
                result = await _wait_for_runs(connection, message, timeout)
            except MootError as error:
                # Raised outside: a group of tasks would wrap it.
                result = error
            for task in beside:
                task.cancel()
    if isinstance(result, MootError):
        raise result
    return result


async def _wait_for_runs(
    connection: Connection, message: pb.WaitRunsMsg, timeout: float | None
) -> tuple[pb.RunList, Sequence[pb.RunInfo]]:
    deadline = time.monotonic() + timeout if timeout is not None else float("inf")
    while True:
        message.seconds = min(max(0.0, deadline - time.monotonic()), _LONG_SECONDS)
        found, askers = await _look(connection, message)
        if not found.timed_out or time.monotonic() >= deadline:
            return found, askers


async def _look(connection: Connection, message: pb.WaitRunsMsg) -> tuple[pb.RunList, Sequence[pb.RunInfo]]:
    """The runs once the wait is over, and those among them, and below them, that ask a person something."""
    found = (await connection.request(pb.ClientMessage(wait_runs=message))).run_list
    active = [info.run_id for info in found.runs if not info.outcome]
    return found, await open_asks.list_asking_runs(connection, active)


async def _read_events(events: AsyncIterator[pb.AgentEventMsg], changed: asyncio.Event) -> None:
    # A connection that is lost ends the wait with the same error.
    with suppress(MootError):
        async for _ in events:
            changed.set()


async def _show_progress(connection: Connection, message: pb.WaitRunsMsg, changed: asyncio.Event, bar: Spinner) -> None:
    """Show what the runs do and what they ask, now and whenever an event says that something has changed."""
    shown: set[str] = set()
    now = pb.WaitRunsMsg(run_ids=message.run_ids, any=message.any)
    with suppress(MootError):
        while True:
            changed.clear()
            found, askers = await _look(connection, now)
            for info in askers:
                if info.ask_id not in shown:
                    bar.say(sanitize.line(f"{_render_asker(info)} waits for you: {describe_wait(info)}"))
                    shown.add(info.ask_id)
            for first in [*askers, *(info for info in found.runs if not info.outcome)][:1]:
                bar.update(sanitize.line(f"{first.agent}: {describe_wait(first) or first.last_action}", _LINE_COLUMNS))
            await changed.wait()
            # Events come in groups.
            await asyncio.sleep(_GROUP_SECONDS)


def _render_asker(info: pb.RunInfo) -> str:
    return sanitize.line(f"{info.agent} ({info.run_id})")


def _print_results(infos: list[pb.RunInfo], askers: Sequence[pb.RunInfo], *, timed_out: bool, any_of_them: bool) -> int:
    left = [info for info in infos if not info.outcome]
    code, error = _judge(infos)
    if timed_out:
        names = ", ".join(f"{info.run_id} ({describe_state(info)[0]})" for info in left)
        code, error = (
            Exit.TIMED_OUT,
            TimedOut(f"the time is up and these runs are still active: {names}", fix="Wait again."),
        )
    elif left and not (any_of_them and len(left) < len(infos)):
        code, error = Exit.WAITING, _waiting_error(left, askers)
    data = {"runs": [plain_data.run(info) for info in infos], "timed_out": timed_out}
    output.emit(data, render=lambda _: _render_results(infos), error=error)
    if error is not None and not output.wants_json():
        output.print_error(error)
    return int(code)


def _waiting_error(left: Sequence[pb.RunInfo], askers: Sequence[pb.RunInfo]) -> WaitingForPerson:
    """What is asked, by whom, and how to answer it; what was asked a moment ago may have been settled since."""
    first = next(info for info in left if info.needs_person)
    told = [
        f"{'' if info.run_id == first.run_id else f'{_render_asker(info)}: '}{describe_wait(info)}" for info in askers
    ]
    return WaitingForPerson(
        f"{first.run_id} waits for you: " + ("\n".join(told) or describe_wait(first)),
        fix="Answer with `moot inbox`, then wait again.",
    )


def _judge(infos: Sequence[pb.RunInfo]) -> tuple[Exit, MootError | None]:
    for info in infos:
        if info.outcome and info.outcome != "completed":
            error = RunFailed(
                f"{info.run_id} ({info.agent}) ended: {info.outcome}" + (f": {info.error}" if info.error else ""),
                fix=f"See what it did with `moot logs {info.run_id}`.",
            )
            error.type = info.outcome
            return exits.exit_for_outcome(info.outcome, info.limit), error
    return Exit.OK, None


def _render_results(infos: Sequence[pb.RunInfo]) -> str:
    """The result itself where one run was waited for, so that it can go into a file; a line each for several."""
    if len(infos) == 1:
        result = infos[0].result
        return sanitize.clean(result) if sys.stdout.isatty() else result
    rows = [
        [info.run_id, info.agent, describe_state(info)[0], sanitize.line(info.result or info.error)] for info in infos
    ]
    return output.render_table(["RUN", "AGENT", "STATE", "RESULT"], rows)


# ---- stop ---------------------------------------------------------------------------------------


@click.command()
@click.argument("run_id", metavar="[RUN]", default="")
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
            f"Stopped {sanitize.line(info.run_id)} ({sanitize.line(info.agent)})" for info in stopped if info.outcome
        ]
        lines += [f"{sanitize.line(info.run_id)} has not stopped yet" for info in stopped if not info.outcome]
        return "\n".join(lines)

    output.emit([plain_data.run(info) for info in stopped], render=render)


def _withdraw(agent: str, sender: str) -> None:
    message = pb.WithdrawMsg(agent=agent, sender=sender)
    withdrawn = send_request(pb.ClientMessage(withdraw=message)).withdrawn
    data = {"run_id": withdrawn.run_id, "content": withdrawn.content}
    output.emit(data, render=lambda _: f"Withdrawn: {sanitize.line(withdrawn.content, _LINE_COLUMNS)}")


def _stop_job(job_id: str) -> None:
    with output.progress("Stopping"):
        message = pb.ClientMessage(stop_job=pb.StopJobMsg(job_id=job_id))
        stopped = send_request(message).job_list.jobs
    told = [f"Stopped {job_lines.render_command(info)} ({job_lines.render_owner(info)})" for info in stopped]
    output.emit([plain_data.job(info) for info in stopped], render=lambda _: "\n".join(told))
