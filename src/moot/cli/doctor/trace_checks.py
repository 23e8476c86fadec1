"""Checks of traces for `moot doctor`: failed turns, loops, timeouts, misplaced messages."""

import time
from collections.abc import Iterator
from typing import Any

from moot.cli.doctor import checks
from moot.cli.doctor.checks import Finding
from moot.cli.render import plain_data
from moot.daemon.paths import Paths
from moot.domain.trace import REPORTED_SECONDS
from moot.wire import moot_pb2 as pb

_CHECK = "traces"


def read_health(home: Paths) -> pb.TraceHealth | None:
    """The health report read directly from the store. Only when no daemon has it open."""
    from moot.store import migrate, traces  # noqa: PLC0415 - a broken installation of SQLite is something to find
    from moot.store.connection import Tuning, connect_reader  # noqa: PLC0415

    if not home.store.exists():
        return None
    connection = connect_reader(home.store, Tuning())
    try:
        if migrate.version(connection) != migrate.newest():
            return None
        now = time.time()
        found = traces.health(connection, since=now - REPORTED_SECONDS)
    finally:
        connection.close(True)
    # Error texts may contain secrets that only the daemon could redact.
    failed = [
        pb.TraceInfo(
            run_id=each.run.request.id,
            agent=each.run.request.speaker,
            outcome=each.run.end.outcome if each.run.end else "",
        )
        for each in found.failed
    ]
    return pb.TraceHealth(
        failed=failed, loops=found.loops, timeouts=found.timeouts, reroutes=found.reroutes, leaks=found.leaks
    )


def check_traces(health: pb.TraceHealth) -> Iterator[Finding]:
    for info in health.failed:
        why = f": {info.error}" if info.error else ""
        text = f"{info.run_id} of {info.agent} ended {info.outcome}{why}"
        yield checks.warning(
            _CHECK, text, f"See what happened: moot trace {info.run_id}. `moot doctor --acknowledge` hides it."
        )
    if health.loops:
        text = f"{_render_count(health.loops)} in the last week an agent repeated the same call and was stopped."
        yield checks.warning(_CHECK, text, "See where: moot trace --failed. A larger model, or a clearer task, helps.")
    if health.timeouts:
        text = f"{_render_count(health.timeouts)} in the last week a run exceeded its time limit."
        fix = "See where: moot trace --failed. Raise `seconds` in [limits], or give the run longer."
        yield checks.warning(_CHECK, text, fix)
    if health.reroutes:
        text = f"{_render_count(health.reroutes)} in the last week another agent got work after a teammate had failed."
        yield checks.warning(_CHECK, text, "See why: moot trace --failed. `moot doctor --acknowledge` hides it.")
    for leak in health.leaks:
        fix = "Report this, with the trace; `moot delete` removes the conversation."
        yield checks.error("isolation", f"Data crossed between conversations: {leak}.", fix)
    if not (health.failed or health.leaks or health.loops or health.timeouts or health.reroutes):
        yield checks.ok(_CHECK, "No unacknowledged failed turns in the last week.")


def trace_health_data(health: pb.TraceHealth) -> dict[str, Any]:
    return {
        "failed": [plain_data.dump_trace(info) for info in health.failed],
        "loops": health.loops,
        "timeouts": health.timeouts,
        "reroutes": health.reroutes,
        "leaks": list(health.leaks),
    }


def _render_count(count: int) -> str:
    return "Once" if count == 1 else f"{count} times"
