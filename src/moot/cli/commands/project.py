"""`moot project`: shows and approves the instruction files (AGENTS.md, CLAUDE.md) that agents get."""

import os
import sys
from typing import Any

import click

from moot.cli import output, prompts
from moot.cli.command_group import CommandGroup
from moot.cli.commands.ask import working_folder
from moot.cli.connect import find_paths, run_connected, send_request
from moot.cli.options import conversation_arguments, cwd_option
from moot.cli.program import hint
from moot.cli.project_status import (
    OFF_IN_CONFIG,
    are_instructions_on,
    describe_off,
    describe_off_for_agent,
    read_project,
)
from moot.cli.render import sanitize, terminal
from moot.client.connection import Connection
from moot.domain.errors import BadRequest, Conflict
from moot.domain.mcp import join_digests
from moot.domain.project import Project, ProjectFile
from moot.tools.files.project_approvals import ProjectApprovals
from moot.wire import moot_pb2 as pb

_CWD = cwd_option("A folder of the project. Default: the current one.")


@click.group(cls=CommandGroup, invoke_without_command=True)
@_CWD
@output.json_option
@click.pass_context
def project(context: click.Context, cwd: str) -> None:
    """Show which AGENTS.md and CLAUDE.md agents get here: list, approve, revoke, on, off.

    They are read from the folder up to the root of its git repository, nearest first. A file that you have not approved
    is untrusted text: after it, commands and calls that could leave this machine need your approval.
    """
    if context.invoked_subcommand is None:
        found = read_project(working_folder(cwd))
        is_on = are_instructions_on()
        off = run_connected(_list_off) if is_on else []
        output.emit(
            {**_project_data(found), "instructions": is_on, "off": [{"agent": a, "sender": s} for a, s in off]},
            render=lambda _: _render(found, off) if is_on else _as_sentence(OFF_IN_CONFIG),
        )


@project.command()
@_CWD
@click.option("--digest", default="", help="Approve without being asked, if the texts have this digest.")
@output.json_option
def approve(cwd: str, digest: str) -> None:
    """Approve the instruction files as they are now. They are shown first; a change needs a new approval."""
    folder = working_folder(cwd)
    if not are_instructions_on():
        raise Conflict(OFF_IN_CONFIG, fix="Turn them on there first.")
    waiting = _list_waiting(read_project(folder, whole=True))
    shown = join_digests(file.digest for file in waiting)
    if digest and waiting and digest != shown:
        raise Conflict("the files do not match the digest", fix="Look at them with `moot project approve`.")
    if waiting and not digest:
        output.print_note("\n".join(_render_text(file) for file in waiting))
        if output.wants_json() or not sys.stdin.isatty():
            raise BadRequest(
                f"nothing was approved: there is no terminal to confirm on; the digest of the texts is {shown}",
                fix=f"Read them, then add --digest {shown}",
            )
        prompts.require_confirmation("Let agents follow these instructions?")
    if waiting:
        _approvals().approve([(os.path.normpath(os.path.join(folder, file.path)), file) for file in waiting])
    names = [file.path for file in waiting]
    text = f"Approved: {_join(names)}. Where they were read before, commands still ask until `moot trust AGENT`."
    output.emit(
        {"approved": names}, render=lambda _: output.wrap_prose(text, sys.stdout) if names else "Nothing waits."
    )


@project.command()
@_CWD
@output.json_option
def revoke(cwd: str) -> None:
    """Take back the approval of the instruction files here."""
    files = [file for file in read_project(working_folder(cwd), whole=True).files if file.is_approved]
    _approvals().revoke([file.digest for file in files])
    names = [file.path for file in files]
    output.emit({"revoked": names}, render=lambda _: f"Revoked: {_join(names)}." if names else "Nothing was approved.")


@project.command()
@conversation_arguments
@output.json_option
def off(agent: str, sender: str) -> None:
    """Leave the instruction files out of the conversation with AGENT."""
    _switch(agent, sender, used=False)


@project.command()
@conversation_arguments
@output.json_option
def on(agent: str, sender: str) -> None:
    """Include the instruction files in the conversation with AGENT, which is the default."""
    _switch(agent, sender, used=True)


def _switch(agent: str, sender: str, *, used: bool) -> None:
    message = pb.WorkingDirectoryMsg(agent=agent, sender=sender, instructions=used)
    place = send_request(pb.ClientMessage(working_directory=message)).working_directory
    text = "are used" if place.instructions else "are not used"
    note = f"Project instructions {text} in this conversation, from the next message on."
    if used and place.instructions_off_for_agent:
        note = _as_sentence(describe_off_for_agent(agent))
    output.emit({"agent": agent, "instructions": place.instructions}, render=lambda _: note)


def _approvals() -> ProjectApprovals:
    return ProjectApprovals(find_paths().project_approvals)


async def _list_off(connection: Connection) -> list[tuple[str, str]]:
    """Return the agent and sender of each conversation for which instruction files are turned off."""
    request = pb.ClientMessage(list_conversations=pb.ListConversationsMsg())
    found: list[tuple[str, str]] = []
    while True:
        page = (await connection.request(request)).conversation_list
        found += [(each.agent, each.sender) for each in page.conversations if each.instructions_off]
        if not page.next_cursor:
            return list(dict.fromkeys(found))
        request.list_conversations.cursor = page.next_cursor


def _render(found: Project, off: list[tuple[str, str]]) -> str:
    notes = [_as_sentence(describe_off(*conversation)) for conversation in off]
    rows = [[file.path, f"{file.size} bytes{', cut' if file.is_cut else ''}", _state(file)] for file in found.files]
    if not rows:
        return "\n".join(["No AGENTS.md or CLAUDE.md is used here.", *notes])
    waiting = any(not file.is_approved for file in found.files)
    advice = ["", hint("Read and approve them with `moot project approve`.")] if waiting else []
    return "\n".join(
        [terminal.render_table(["FILE", "SIZE", "STATE"], rows), *advice, *(["", *notes] if notes else [])]
    )


def _as_sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _render_text(file: ProjectFile) -> str:
    return "\n".join(
        [sanitize.exact_line(file.path), *(f"  | {line}" for line in sanitize.exact(file.text).split("\n"))]
    )


def _state(file: ProjectFile) -> str:
    return "approved" if file.is_approved else "not approved: untrusted text"


def _join(names: list[str]) -> str:
    return ", ".join(map(sanitize.line, names))


def _project_data(found: Project) -> dict[str, Any]:
    files = [
        {"path": file.path, "size": file.size, "cut": file.is_cut, "approved": file.is_approved, "digest": file.digest}
        for file in found.files
    ]
    waiting = _list_waiting(found)
    # What `approve --digest` takes.
    digest = join_digests(file.digest for file in waiting) if waiting else ""
    return {"files": files, "branch": found.branch, "digest": digest}


def _list_waiting(found: Project) -> list[ProjectFile]:
    """Return the files that wait for an approval."""
    return [file for file in found.files if not file.is_approved]
