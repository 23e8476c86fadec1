"""`/project` of a chat: shows the AGENTS.md and CLAUDE.md that agents get here, and approves them. Used by `slash`."""

import asyncio
import os
from typing import Protocol

from moot.cli.chat import lines
from moot.cli.chat.chat_context import ChatContext
from moot.cli.connect import find_paths
from moot.cli.markdown.styles import HANG, Line
from moot.cli.project_status import (
    OFF_IN_CONFIG,
    are_instructions_on,
    describe_off,
    describe_off_for_agent,
    read_project,
)
from moot.cli.render import sanitize
from moot.domain.errors import BadRequest
from moot.domain.mcp import join_digests
from moot.domain.project import ProjectFile
from moot.tools.files.project_approvals import ProjectApprovals
from moot.wire import moot_pb2 as pb


class ProjectContext(ChatContext, Protocol):
    """The part of the chat that the command uses."""

    def folder(self) -> str: ...


async def find_off(chat: ProjectContext) -> str:
    """Return which setting leaves the instruction files out of the conversation; empty if they are used."""
    if not await asyncio.to_thread(are_instructions_on):
        return OFF_IN_CONFIG
    message = pb.WorkingDirectoryMsg(agent=chat.agent, sender=chat.sender)
    place = (await chat.request(pb.ClientMessage(working_directory=message))).working_directory
    if place.instructions_off_for_agent:
        return describe_off_for_agent(chat.agent)
    return "" if place.instructions else describe_off(chat.agent, chat.sender)


class ProjectCommand:
    """Approves only texts that it has shown, as they were shown."""

    def __init__(self, chat: ProjectContext) -> None:
        self._chat = chat
        self._shown = ""

    async def run(self, word: str) -> list[Line]:
        if word not in ("", "approve"):
            raise BadRequest(f"unknown: /project {sanitize.line(word)}", fix="Use /project or /project approve.")
        folder = self._chat.folder()
        if folder and (off := await find_off(self._chat)):
            return [lines.render_notice(off)]
        files = (await asyncio.to_thread(read_project, folder, whole=True)).files if folder else ()
        waiting = [file for file in files if not file.is_approved]
        if not waiting:
            names = ", ".join(sanitize.line(file.path) for file in files)
            return [lines.render_notice(f"approved: {names}" if files else "no AGENTS.md or CLAUDE.md is used here")]
        digest = join_digests(file.digest for file in waiting)
        if word and digest == self._shown:
            return self._approve(folder, waiting)
        self._shown = digest
        return [
            *(row for file in waiting for row in _render_text(file)),
            lines.render_notice("/project approve lets agents follow this; until then commands need your approval"),
        ]

    def _approve(self, folder: str, files: list[ProjectFile]) -> list[Line]:
        approvals = ProjectApprovals(find_paths().project_approvals)
        approvals.approve([(os.path.normpath(os.path.join(folder, file.path)), file) for file in files])
        names = ", ".join(sanitize.line(file.path) for file in files)
        return [
            lines.render_notice(f"approved: {names}"),
            lines.dim("Earlier messages stay untrusted until /trust, or /new."),
        ]


def _render_text(file: ProjectFile) -> list[Line]:
    rows: list[Line] = [
        [(f"{HANG} class:dim", "  │ "), ("", row)] for row in sanitize.exact(file.text.removesuffix("\n")).split("\n")
    ]
    return [[("bold", sanitize.exact_line(file.path))], *rows]
