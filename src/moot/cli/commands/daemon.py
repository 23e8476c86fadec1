"""`moot serve`, `up` and `down`: run, start and stop the daemon."""

import asyncio
import gc
import sys
from typing import Any

import click

from moot.cli import output
from moot.cli.commands import stop_daemon
from moot.cli.commands.status import find_port_error, render_store
from moot.cli.commands.stop_daemon import Shutdown
from moot.cli.connect import find_paths, send_request
from moot.cli.exits import Exit
from moot.client import daemon_process
from moot.wire import moot_pb2 as pb


@click.command()
def serve() -> int:
    """Run the daemon in the foreground. SIGTERM drains and stops it, a second one stops it at once."""
    # Collecting garbage during the imports finds almost nothing; the daemon enables it again when ready.
    gc.disable()
    from moot.daemon import process_protection  # noqa: PLC0415 - needed by this command alone
    from moot.daemon.serve import serve as run_daemon  # noqa: PLC0415 - the whole daemon, needed by this command alone

    # In this order: a process that hides cannot change what the kernel thinks of it.
    process_protection.be_ended_last()
    process_protection.hide_memory()
    return int(run_daemon(find_paths()) or 0)


@click.command()
@output.json_option
def up() -> int:
    """Start the daemon in the background and wait until it answers.

    Exits with 78 if it runs but cannot listen on one of its ports.
    """
    home = find_paths()
    already = asyncio.run(_up(home))
    pid = daemon_process.running_pid(home)
    stats = send_request(pb.ClientMessage(get_stats=pb.GetStats()), start=False).stats
    data: dict[str, Any] = {"pid": pid, "started": not already, "socket": str(home.socket), "store": stats.store}
    data["problems"] = list(stats.problems)
    state = "is already running" if already else "is up"
    lines = [
        f"The daemon {state} (pid {pid}), listening on {home.socket}. `moot down` stops it.",
        *render_store(stats),
    ]
    error = find_port_error(stats)
    output.emit(data, render=lambda _: output.wrap_prose("\n".join(lines), sys.stdout, indent="  "), error=error)
    if error is None:
        return int(Exit.OK)
    if not output.wants_json():
        output.print_error(error)
    return int(Exit.BAD_CONFIG)


async def _up(home: Any) -> bool:
    if await daemon_process.is_answering(home):
        return True
    with output.progress("Starting the daemon"):
        await daemon_process.start(home)
    return False


@click.command()
@click.option("--now", is_flag=True, help="Stop at once without letting active runs finish.")
@click.option(
    "--timeout", type=float, default=daemon_process.STOP_SECONDS, show_default=True, help="Seconds to wait for it."
)
@output.json_option
def down(now: bool, timeout: float) -> None:
    """Stop the daemon. Active runs get up to ten seconds to finish.

    Shows what it waits for, and then what was interrupted.
    """
    home = find_paths()
    shutdown = Shutdown(stopped=False)
    if daemon_process.is_locked(home.lock):
        shutdown = asyncio.run(stop_daemon.stop(home, now=now, seconds=timeout))
    output.emit(
        stop_daemon.shutdown_data(shutdown),
        render=lambda _: (
            output.wrap_prose(stop_daemon.render_shutdown(shutdown), sys.stdout, indent="  ")
            if shutdown.stopped
            else "The daemon is not running."
        ),
    )
