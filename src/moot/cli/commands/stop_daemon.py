"""Stops the daemon for `moot down`: shows what it waits for and reports what was interrupted."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, suppress

from msgspec import Struct, field

from moot.cli import output
from moot.cli.render import job_lines, numbers, plain_data, run_lines, sanitize
from moot.cli.render.spinner import Spinner
from moot.client import daemon_process
from moot.client.connection import Connection, connect
from moot.daemon.paths import Paths
from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb

# A hanging daemon must not prevent its own shutdown.
_LOOK_SECONDS = 3.0
_NAMED = 5


class Shutdown(Struct, kw_only=True):
    """The active runs when the daemon was told to stop, and how turns ended, by (agent, sender)."""

    stopped: bool = True
    grace: float = 0.0
    runs: list[pb.RunInfo] = field(default_factory=list)
    jobs: list[pb.JobInfo] = field(default_factory=list)
    ends: dict[tuple[str, str], str] = field(default_factory=dict)

    def list_finishing(self) -> list[pb.RunInfo]:
        """Runs that are given time to finish: neither queued nor waiting for a person."""
        return [info for info in self.runs if not info.needs_person and info.condition != "queued"]

    def list_cut_off(self) -> list[pb.RunInfo]:
        """Turns that were interrupted before their end."""
        turns = [info for info in self.runs if info.kind == "turn" and info.condition != "queued"]
        halted = [info for info in turns if self._end(info) in ("", "interrupted")]
        # A run that waits for an approval continues after the next start.
        return [info for info in halted if self._end(info) or not info.needs_person]

    def list_continuing(self) -> list[pb.RunInfo]:
        """Runs that continue at the next start."""
        gone = {info.run_id for info in self.list_cut_off()}
        return [info for info in self.runs if not self._end(info) and info.run_id not in gone]

    def _end(self, info: pb.RunInfo) -> str:
        return self.ends.get((info.root_agent if info.kind == "turn" else info.agent, info.sender), "")


async def stop(home: Paths, *, now: bool, seconds: float) -> Shutdown:
    """Tell the daemon to stop and wait until it has exited, showing what it waits for."""
    with output.progress("Stopping the daemon") as bar:
        async with AsyncExitStack() as stack:
            shutdown, feed = Shutdown(), None
            # Stop the daemon even if it does not report its state.
            with suppress(MootError, TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    connection = await stack.enter_async_context(connect(home.socket))
                    shutdown, feed = await _fetch_live_runs(connection)
            if not now:
                _show_waiting(shutdown, bar)
            return await _wait_until_stopped(home, shutdown, feed, now=now, seconds=seconds)


async def _fetch_live_runs(connection: Connection) -> tuple[Shutdown, AsyncGenerator[pb.AgentEventMsg, None]]:
    # Subscribe before listing the runs, so that no end is missed.
    feed = await connection.subscribe()
    stats = (await connection.request(pb.ClientMessage(get_stats=pb.GetStats()))).stats
    runs = (await connection.request(pb.ClientMessage(list_runs=pb.ListRunsMsg()))).run_list.runs
    jobs = (await connection.request(pb.ClientMessage(list_jobs=pb.ListJobsMsg()))).job_list.jobs
    return Shutdown(grace=stats.drain_seconds, runs=list(runs), jobs=list(jobs)), feed


async def _wait_until_stopped(
    home: Paths, shutdown: Shutdown, feed: AsyncGenerator[pb.AgentEventMsg, None] | None, *, now: bool, seconds: float
) -> Shutdown:
    problem: MootError | None = None
    async with asyncio.TaskGroup() as beside:
        listening = beside.create_task(_record_ends(feed, shutdown)) if feed is not None else None
        try:
            shutdown.stopped = await asyncio.to_thread(daemon_process.stop, home, now=now, seconds=seconds)
        except MootError as error:
            # Raised outside the task group, which would wrap it in an exception group.
            problem = error
            if listening is not None:
                listening.cancel()
    if problem is not None:
        raise problem
    return shutdown


async def _record_ends(feed: AsyncGenerator[pb.AgentEventMsg, None], shutdown: Shutdown) -> None:
    """Record how turns end until the connection closes."""
    try:
        async with aclosing(feed) as events:
            async for event in events:
                if event.kind == pb.DONE:
                    shutdown.ends[event.agent, event.sender] = event.content
    except MootError:
        return


def _show_waiting(shutdown: Shutdown, bar: Spinner) -> None:
    waited = shutdown.list_finishing()
    if not waited:
        return
    what = f"{numbers.format_plural(len(waited), 'run')} to finish: {_render_names(waited)}"
    text = f"Waiting up to {shutdown.grace:g} s for {what}. `moot down --now` does not wait."
    bar.say(output.wrap_prose(text, indent="  "))


def render_shutdown(shutdown: Shutdown) -> str:
    """The summary for a terminal."""
    lines = ["Stopped."]
    if cut_off := shutdown.list_cut_off():
        lines.append(
            f"Interrupted: {_render_names(cut_off)}. Completed steps are kept; send the message again to continue."
        )
    if goes_on := shutdown.list_continuing():
        lines.append(f"Continues at the next start: {_render_names(goes_on)}.")
    if shutdown.jobs:
        named = [
            f"{sanitize.cut_at_word(job_lines.render_command(info), 60)} ({job_lines.render_owner(info)})"
            for info in shutdown.jobs
        ]
        lines.append(f"Ended with it: {_render_first(named)}.")
    return "\n".join(lines)


def shutdown_data(shutdown: Shutdown) -> dict[str, object]:
    """The summary for --json; empty lists are left out."""
    beside = {
        "interrupted": [plain_data.dump_run(info) for info in shutdown.list_cut_off()],
        "goes_on": [plain_data.dump_run(info) for info in shutdown.list_continuing()],
        "commands": [plain_data.dump_job(info) for info in shutdown.jobs],
    }
    return {"stopped": shutdown.stopped} | {name: found for name, found in beside.items() if found}


def _render_names(infos: list[pb.RunInfo]) -> str:
    return _render_first([_render_run(info) for info in infos])


def _render_run(info: pb.RunInfo) -> str:
    doing = f" ({sanitize.line(info.last_action, 60)})" if info.last_action else ""
    return f"{sanitize.line(run_lines.render_owner(info))}{doing}"


def _render_first(named: list[str]) -> str:
    more = len(named) - _NAMED
    return ", ".join(named[:_NAMED]) + (f" and {more} more" if more > 0 else "")
