"""Runs the daemon as a process of its own: its log, its event loop, and the signals that stop and reload it."""

import asyncio
import logging
import os
import signal
import sys

from moot import __version__
from moot.daemon.app import Daemon, describe_addresses, serve_until
from moot.daemon.descriptors import raise_descriptor_limit
from moot.daemon.interpreter import tune_interpreter
from moot.daemon.log import NOT_ON_CONSOLE, start_logging
from moot.daemon.paths import Paths
from moot.daemon.readiness import ReadinessNotifier
from moot.domain.errors import MootError
from moot.redaction.redactor import LogRedaction, Redactor

logger = logging.getLogger(__name__)


def serve(paths: Paths) -> int:
    """Run the daemon in the foreground until a signal ends it."""
    raise_descriptor_limit()
    redactor = Redactor()
    start_logging(paths, LogRedaction(redactor))
    try:
        import uvloop  # noqa: PLC0415 — not there on every system

        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    except ImportError:
        runner = asyncio.Runner()
    with runner:
        try:
            return runner.run(_serve(paths, redactor))
        except MootError as error:
            logger.error("the daemon ends: %s. %s", error.message, error.fix, extra=NOT_ON_CONSOLE)
            raise


async def _serve(paths: Paths, redactor: Redactor) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    notifier = ReadinessNotifier()
    logger.info("moot %s starts (pid %d, %s)", __version__, os.getpid(), paths.config.parent)

    def on_signal() -> None:
        if stop.is_set():
            # Exit immediately: what was acknowledged is on disk, the rest is reported as interrupted at the next start.
            os._exit(0)
        logger.info("stopping: a signal was received")
        notifier.notify("STOPPING=1")
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)

    def on_ready(daemon: Daemon) -> None:
        loop.add_signal_handler(
            signal.SIGHUP, lambda: daemon.supervisor.start("reload", daemon.reloader.reload_quietly())
        )
        tune_interpreter()
        ready = describe_addresses(daemon)
        logger.info("%s", ready)
        notifier.notify("READY=1", ready)
        sys.stdout.write(f"{ready}\n")
        sys.stdout.flush()

    await serve_until(stop, paths, redactor, on_ready)
    logger.info("stopped")
    return 0
