"""`moot wait`: waits for runs, shows what they ask, on a terminal also what they do, and prints their results."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress

import click
from msgspec import Struct

from moot.cli import exits, output
from moot.cli.connect import daemon_client
from moot.cli.exits import Exit
from moot.cli.follow import open_asks
from moot.cli.follow.left_teammates import LeftTeammates, find_left_by
from moot.cli.name_completion import complete_runs
from moot.cli.render import numbers, plain_data, sanitize, terminal
from moot.cli.render.run_lines import describe_state, describe_wait
from moot.cli.render.spinner import Spinner
from moot.client.connection import Connection
from moot.client.errors import RunFailed, TimedOut, Unreachable, WaitingForPerson
from moot.domain.errors import Busy, MootError
from moot.wire import moot_pb2 as pb

# How long one request waits, and how long to collect events before fetching once.
_LONG_SECONDS = 3600.0
_GROUP_SECONDS = 0.05
# Pause between two attempts to connect again.
_RETRY_SECONDS = 0.5
_LINE_COLUMNS = 70


class _Waited(Struct, frozen=True):
    """The runs after the wait, which of them or their descendants wait for a person, and what the ended ones left."""

    found: pb.RunList
    askers: Sequence[pb.RunInfo]
    left: LeftTeammates


@click.command()
@click.argument("runs", metavar="RUN...", shell_complete=complete_runs, nargs=-1, required=True)
@click.option("--any", "any_of_them", is_flag=True, help="Wait until one of them has ended instead of all.")
@click.option("--timeout", type=click.FloatRange(min=0), default=None, metavar="S", help="Maximum seconds to wait.")
@output.json_option
def wait(runs: tuple[str, ...], any_of_them: bool, timeout: float | None) -> int:
    """Wait until every RUN has ended, and print the results. Waiting does not affect the runs.

    Exits with 0 if all of them completed, otherwise as the first that did not: 1 failed, 4 denied, 5 ended by a
    limit. 124 if the time is up and a run is still active. 3 if a run, or a teammate that it left behind, waits for
    you and there is no terminal to ask on: answer with `moot inbox`, then wait again. What a teammate asks while others
    continue is printed on stderr, with the command that answers it. On a terminal it waits for a daemon that is gone,
    too; otherwise it exits with 69.
    """
    message = pb.WaitRunsMsg(run_ids=runs, any=any_of_them, until_asked=not _is_watched())
    with output.progress(f"Waiting for {numbers.format_plural(len(runs), 'run')}") as bar:
        waited = asyncio.run(_wait(message, timeout, bar))
    return _print_results(waited, any_of_them=any_of_them)


def _is_watched() -> bool:
    return sys.stderr.isatty() and not output.wants_json()


async def _wait(message: pb.WaitRunsMsg, timeout: float | None, bar: Spinner) -> _Waited:
    """Wait; for a person also across a restart of the daemon. A script learns that it is gone."""
    deadline = time.monotonic() + timeout if timeout is not None else float("inf")
    shown: set[str] = set()
    has_begun = False
    while True:
        try:
            async with daemon_client(start=not has_begun) as connection:
                has_begun = True
                return await _wait_connected(connection, message, deadline, bar, shown)
        except Unreachable:
            if not has_begun or not _is_watched() or time.monotonic() >= deadline:
                raise
        bar.update("lost the connection to the daemon; waiting for it")
        await asyncio.sleep(_RETRY_SECONDS)


async def _wait_connected(
    connection: Connection, message: pb.WaitRunsMsg, deadline: float, bar: Spinner, shown: set[str]
) -> _Waited:
    subscription = await _subscribe(connection)
    if subscription is None:
        return await _wait_for_runs(connection, message, deadline)
    async with aclosing(subscription) as events, asyncio.TaskGroup() as tasks:
        changed = asyncio.Event()
        beside = (
            tasks.create_task(_read_events(events, changed), name="read events"),
            tasks.create_task(_show_progress(connection, message, changed, bar, shown), name="show progress"),
        )
        try:
            result: _Waited | MootError
            result = await _wait_for_runs(connection, message, deadline)
        except MootError as error:
            # Raised outside the task group, which would wrap it in an exception group.
            result = error
        for task in beside:
            task.cancel()
    if isinstance(result, MootError):
        raise result
    return result


async def _subscribe(connection: Connection) -> AsyncGenerator[pb.AgentEventMsg, None] | None:
    """Subscribe to what the runs do; None if this daemon has no room for another subscription of a script."""
    try:
        return await connection.subscribe(without_deltas=True)
    except Busy:
        if _is_watched():
            raise
        return None


async def _wait_for_runs(connection: Connection, message: pb.WaitRunsMsg, deadline: float) -> _Waited:
    while True:
        message.seconds = min(max(0.0, deadline - time.monotonic()), _LONG_SECONDS)
        found, askers = await _look(connection, message)
        if not found.timed_out or time.monotonic() >= deadline:
            completed = [info.run_id for info in found.runs if info.outcome == "completed"]
            return _Waited(found, askers, await find_left_by(connection, completed))


async def _look(connection: Connection, message: pb.WaitRunsMsg) -> tuple[pb.RunList, Sequence[pb.RunInfo]]:
    """Fetch the runs after the wait, and which of them or their descendants wait for a person."""
    found = (await connection.request(pb.ClientMessage(wait_runs=message))).run_list
    active = [info.run_id for info in found.runs if not info.outcome]
    return found, await open_asks.list_asking_runs(connection, active)


async def _read_events(events: AsyncIterator[pb.AgentEventMsg], changed: asyncio.Event) -> None:
    # A lost connection ends the wait request with the same error.
    with suppress(MootError):
        async for _ in events:
            changed.set()


async def _show_progress(
    connection: Connection, message: pb.WaitRunsMsg, changed: asyncio.Event, bar: Spinner, shown: set[str]
) -> None:
    """Show what the runs ask, on a terminal also what they do, at first and whenever an event reports a change.

    `shown` are the asks that have been shown.
    """
    now = pb.WaitRunsMsg(run_ids=message.run_ids, any=message.any, until_asked=message.until_asked)
    with suppress(MootError):
        while True:
            changed.clear()
            found, askers = await _look(connection, now)
            # If nothing but a person helps, the wait is over and its error says the same.
            for info in askers if found.timed_out else ():
                if info.ask_id not in shown:
                    bar.say(output.wrap_prose(_render_ask(info), indent="  "))
                    shown.add(info.ask_id)
            for first in [*askers, *(info for info in found.runs if not info.outcome)][: int(_is_watched())]:
                bar.update(sanitize.line(f"{first.agent}: {describe_wait(first) or first.last_action}", _LINE_COLUMNS))
            await changed.wait()
            # Events come in groups; fetch once per group.
            await asyncio.sleep(_GROUP_SECONDS)


def _render_ask(info: pb.RunInfo) -> str:
    return sanitize.line(f"{_render_asker(info)} waits for you: {describe_wait(info)}")


def _render_asker(info: pb.RunInfo) -> str:
    return sanitize.line(f"{info.agent} ({info.run_id})")


def _print_results(waited: _Waited, *, any_of_them: bool) -> int:
    infos, timed_out = list(waited.found.runs), waited.found.timed_out
    left = [info for info in infos if not info.outcome]
    code, error = _judge(infos)
    if timed_out:
        names = ", ".join(f"{info.run_id} ({describe_state(info)[0]})" for info in left)
        code, error = Exit.TIMED_OUT, _timed_out_error(names, waited.askers)
    elif left and not (any_of_them and len(left) < len(infos)):
        code, error = Exit.WAITING, _waiting_error(left, waited.askers)
    elif error is None and waited.left.asks and not _is_watched():
        code, error = Exit.WAITING, waited.left.error(len(infos) - len(left))
    data = {"runs": [plain_data.dump_run(info) for info in infos], "timed_out": timed_out} | waited.left.data()
    output.emit(data, render=lambda _: _render_results(infos), error=error)
    if error is not None and not output.wants_json():
        output.print_error(error)
    elif error is None and waited.left.asks and _is_watched():
        told = waited.left.error(len(infos) - len(left))
        output.print_note(output.wrap_prose(f"{told.message}\n{told.fix}", indent="  "))
    return int(code)


def _timed_out_error(names: str, askers: Sequence[pb.RunInfo]) -> TimedOut:
    lines = [f"the time is up and these runs are still active: {names}", *map(_render_ask, askers)]
    fix = "Answer with `moot inbox`, then wait again." if askers else "Wait again."
    return TimedOut("\n".join(lines), fix=fix)


def _waiting_error(left: Sequence[pb.RunInfo], askers: Sequence[pb.RunInfo]) -> WaitingForPerson:
    """The error that lists what is asked and how to answer it; asks settled meanwhile are left out."""
    first = next(info for info in left if info.needs_person)
    lines = [
        f"{'' if info.run_id == first.run_id else f'{_render_asker(info)}: '}{describe_wait(info)}" for info in askers
    ]
    return WaitingForPerson(
        f"{first.run_id} waits for you: " + ("\n".join(lines) or describe_wait(first)),
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
    """The bare result of a single run, so that it can be redirected; one line each for several."""
    if len(infos) == 1:
        result = infos[0].result
        return sanitize.clean(result) if sys.stdout.isatty() else result
    rows = [
        [info.run_id, info.agent, describe_state(info)[0], sanitize.line(info.result or info.error)] for info in infos
    ]
    return terminal.render_table(["RUN", "AGENT", "STATE", "RESULT"], rows)
