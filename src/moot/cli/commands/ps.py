"""`moot ps`: lists the active runs and background commands; `--watch` updates the list."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

import click

from moot.cli import output
from moot.cli.connect import daemon_client, run_connected
from moot.cli.render import job_lines, plain_data, run_lines, terminal
from moot.client.connection import Connection
from moot.client.errors import Unreachable
from moot.domain.errors import BadRequest, MootError
from moot.wire import moot_pb2 as pb

# Refresh interval of the displayed times, and how long to collect events before fetching once.
_TICK_SECONDS = 1.0
_GROUP_SECONDS = 0.05
# Pause between two attempts to connect again.
_RETRY_SECONDS = 0.5
# Enter and leave the alternate screen (cursor hidden), move to the top, clear the rest of a row and of the screen.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _REST, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="Include runs that have ended, and turns.")
@click.option(
    "-n",
    "--limit",
    "last",
    type=click.IntRange(1, 500),
    default=None,
    help="Like -a: at most N that have ended, those that ended last. Default: 50.",
)
@click.option("--tree", is_flag=True, help="Show runs below the run that spawned them.")
@click.option("--watch", is_flag=True, help="Keep it up to date, until Ctrl-C. Each below its parent.")
@output.json_option
def ps(everything: bool, last: int | None, tree: bool, watch: bool) -> None:
    """List active runs (turns, teammates, background runs) and background commands.

    With -a also list runs that have ended, ordered by start, newest last.

    Shows state, last action, working time, steps, tokens, cost, and what each run waits for. Ids may be abbreviated
    wherever one is expected.
    """
    message = pb.ListRunsMsg(all=everything or last is not None, limit=last or 0)
    if watch:
        if output.wants_json() or not terminal.is_interactive(sys.stdout):
            raise BadRequest("--watch needs a terminal", fix="Use `moot events` instead.")
        asyncio.run(_watch(message))
        return
    answer, jobs = run_connected(lambda connection: _fetch_runs(connection, message))
    infos = list(answer.runs)
    data = _build_trees(infos) if tree else [plain_data.dump_run(info) for info in infos]
    output.emit([*data, *map(plain_data.dump_job, jobs)], render=lambda _: _render_runs(infos, jobs, nested=tree))
    if answer.more and not output.wants_json():
        output.print_prose("Older runs are not shown; use --limit N to show more.")


async def _fetch_runs(connection: Connection, message: pb.ListRunsMsg) -> tuple[pb.RunList, list[pb.JobInfo]]:
    runs = (await connection.request(pb.ClientMessage(list_runs=message))).run_list
    jobs = (await connection.request(pb.ClientMessage(list_jobs=pb.ListJobsMsg()))).job_list.jobs
    return runs, list(jobs)


def _render_runs(infos: list[pb.RunInfo], jobs: list[pb.JobInfo], *, nested: bool) -> str:
    width = terminal.terminal_width()
    if not infos and not jobs:
        return output.wrap_prose('Nothing is running. Start something: moot run --bg "TASK"', sys.stdout)
    if not width:
        return run_lines.render_table(infos, list(map(job_lines.job_row, jobs)))
    rows = (
        [*run_lines.RunTree(infos, width, nested=nested).rows(), "", run_lines.render_summary(infos)] if infos else []
    )
    beside = job_lines.render_jobs(jobs, width)
    return "\n".join([*rows, *([""] if rows and beside else []), *beside])


def _build_trees(infos: list[pb.RunInfo]) -> list[dict[str, Any]]:
    """The runs as trees for --json: spawned runs are `children` of their parent."""
    found = {info.run_id: plain_data.dump_run(info) | {"children": []} for info in infos}
    tops: list[dict[str, Any]] = []
    for info in infos:
        above = found.get(info.parent)
        (above["children"] if above is not None else tops).append(found[info.run_id])
    return tops


async def _watch(message: pb.ListRunsMsg) -> None:
    """Draw until Ctrl-C, and connect again after every loss. The daemon is started only at the beginning."""
    watch, is_drawing = _Watch(message), False
    try:
        while True:
            try:
                async with (
                    daemon_client(start=not is_drawing) as connection,
                    aclosing(await connection.subscribe(without_deltas=True)) as events,
                ):
                    if not is_drawing:
                        output.write(_ENTER)
                        is_drawing = True
                    await watch.follow(connection, events)
            except Unreachable:
                if not is_drawing:
                    raise
            watch.draw_lost()
            await asyncio.sleep(_RETRY_SECONDS)
    finally:
        if is_drawing:
            output.write(_LEAVE)


class _Watch:
    """Fetches the runs again whenever an event reports a change; in between only the displayed times advance."""

    def __init__(self, message: pb.ListRunsMsg) -> None:
        self._message = message
        self._changed = asyncio.Event()

    async def follow(self, connection: Connection, events: AsyncIterator[pb.AgentEventMsg]) -> None:
        """Draw until the connection ends; raise the reason."""
        async with asyncio.TaskGroup() as tasks:
            drawing = tasks.create_task(self._draw_forever(connection), name="draw runs")
            error = await self._read(events)
            drawing.cancel()
        raise error

    async def _read(self, events: AsyncIterator[pb.AgentEventMsg]) -> MootError:
        """Process events until the connection ends; return the reason."""
        try:
            async for _ in events:
                self._changed.set()
        except MootError as error:
            return error
        raise AssertionError("a subscription ends with an error")

    def draw_lost(self) -> None:
        output.write(_render_screen([], [], "Lost the connection to the daemon; waiting for it."))

    async def _draw_forever(self, connection: Connection) -> None:
        infos: list[pb.RunInfo] = []
        jobs: list[pb.JobInfo] = []
        is_settled = False
        while True:
            is_changed = self._changed.is_set()
            self._changed.clear()
            if is_changed or not is_settled:
                try:
                    answer, jobs = await _fetch_runs(connection, self._message)
                except MootError:
                    # The subscription ends with the same error.
                    return
                infos = list(answer.runs)
            # A run may still be listed just after its end event, so fetch once more.
            is_settled = not is_changed
            output.write(_render_screen(infos, jobs))
            drawn_at = time.monotonic()
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._changed.wait()
                    # Events come in groups; fetch once per group.
                    await asyncio.sleep(_GROUP_SECONDS)
            _age(infos, jobs, time.monotonic() - drawn_at)


def _age(infos: list[pb.RunInfo], jobs: list[pb.JobInfo], seconds: float) -> None:
    for info in infos:
        if not info.outcome:
            info.seconds += seconds
            info.idle_seconds += seconds
    for job in jobs:
        job.seconds += seconds


def _render_screen(infos: list[pb.RunInfo], jobs: list[pb.JobInfo], empty: str = "Nothing is running.") -> str:
    """The whole screen; `empty` stands where there is nothing to list."""
    columns, lines = terminal.measure_window(sys.stdout)
    rows = run_lines.RunTree(infos, columns, nested=True).rows()
    beside = [row for line in job_lines.render_jobs(jobs, columns) for row in line.split("\n")]
    rows = [*rows, *([""] if rows and beside else []), *beside] or [empty]
    head = [run_lines.render_summary(infos) or " ", ""]
    room = max(1, lines - len(head) - 1)
    if len(rows) > room:
        rows = [*rows[: room - 1], terminal.paint(f"… {len(rows) - room + 1} more rows", dim=True)]
    return _HOME + "".join(f"{row}{_REST}\n" for row in [*head, *rows]) + _BELOW
