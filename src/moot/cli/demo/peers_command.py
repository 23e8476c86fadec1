"""Runs `moot demo peers`: starts the server and the daemons, performs peers_tour.py, and stops everything."""

import asyncio
import os
import signal
import sys
import time
from typing import Any

from moot.cli import output
from moot.cli.demo.peers_tour import PeersTour
from moot.cli.demo.two_daemons import DemoModel, TwoDaemons, check_programs, choose_model
from moot.cli.program import hint
from moot.cli.render import sanitize, terminal
from moot.daemon.paths import Paths
from moot.domain.errors import MootError


def show_peers() -> None:
    check_programs()
    began = time.monotonic()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # The same as Ctrl-C: everything is stopped.
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    with TwoDaemons(choose_model(Paths.find(os.environ).config)) as daemons:
        _announce(daemons.model)
        tour = asyncio.run(_run(daemons))
        with output.progress("Stopping the daemons"):
            daemons.stop()
    output.emit(
        {
            "model": daemons.model.name,
            "scripted": bool(daemons.model.reason),
            "answer": tour.answer,
            "messages": list(tour.messages.values()),
            "outage": tour.outage,
            "seconds": round(time.monotonic() - began, 1),
        },
        render=_render_end,
    )


async def _run(daemons: TwoDaemons) -> PeersTour:
    tour = PeersTour(daemons)
    try:
        with output.progress("Starting NATS and two daemons"):
            await daemons.start()
        await tour.run()
    except* MootError as group:
        errors = group
    else:
        return tour
    # One is enough to say what is wrong.
    raise _find_first(errors)


def _find_first(group: BaseExceptionGroup[MootError]) -> MootError:
    error: MootError | BaseExceptionGroup[MootError] = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _announce(model: DemoModel) -> None:
    if output.wants_json():
        return
    text = (
        f"The answers are scripted: {sanitize.clean(model.reason)}."
        if model.reason
        else f"The model {sanitize.name(model.name)} of your configuration answers."
    )
    output.write(output.wrap_prose(text, sys.stdout) + "\n")


def _render_end(data: dict[str, Any]) -> str:
    text = f"That took {data['seconds']:.0f} seconds; nothing is left running. For your own daemons: "
    text += hint("moot help broker")
    scripted = [terminal.paint("Scripted answers were shown, not a model's.", fg="yellow")] if data["scripted"] else []
    return "\n".join(["", output.wrap_prose(text, sys.stdout), *scripted])
