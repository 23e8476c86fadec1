"""The /commands of a chat. Each sends one request to the daemon and returns lines."""

import os
from collections.abc import Sequence
from itertools import zip_longest
from typing import Protocol

from moot.cli.chat import lines
from moot.cli.chat.conversation_commands import COMMANDS as CONVERSATION_COMMANDS
from moot.cli.chat.conversation_commands import ConversationCommands, ConversationContext
from moot.cli.chat.mode_switch import ModeSwitch
from moot.cli.chat.project_command import ProjectCommand, ProjectContext
from moot.cli.chat.rules_command import RulesCommand
from moot.cli.markdown.styles import HANG, Line
from moot.cli.program import hint
from moot.cli.render import numbers, sanitize
from moot.domain.errors import BadRequest
from moot.domain.near_names import find_near
from moot.wire import moot_pb2 as pb

COMMANDS = {
    "help": "list the commands",
    **CONVERSATION_COMMANDS,
    "all": "show or hide the text that an assistant does not send to you",
    "digest": "what happened while you were away",
    "history": "the conversation since the last archive",
    "archives": "list the archives; /archives NUMBER shows one",
    "recall": "search the archives: /recall WORDS",
    "compact": "compact the history into an archive now",
    "kill": "stop the current run (same as Esc)",
    "cwd": "show the working directory; /cwd DIR changes it from the next message on",
    "mode": "show what needs your approval; /mode plan, ask, work or free sets it",
    "auto-approve": "show what is approved without asking; none, reads, edits, commands or default sets it",
    "rules": "list the rules that approvals have written for this agent; /rules rm NUMBER removes one",
    "trust": "trust everything in this conversation so far, also from the web and from files",
    "withdraw": "take back the newest message that waits for its turn",
    "title": "show the conversation's title",
    "usage": "tokens and cost of this conversation",
    "project": "show the AGENTS.md and CLAUDE.md of the project; /project approve approves them",
    "agents": "list the agents you can talk to or invite with @",
    "now": "show a message to the active run at its next step: /now TEXT",
    "later": "queue a message until the active run has ended: /later TEXT",
    "quit": "leave; the current run continues",
}
KEYS = (
    "Enter sends · Alt-Enter starts a new line · messages sent while busy are queued; /now shows one to the run",
    "@NAME TEXT lets that agent answer once as a guest",
    "while a tool waits for your approval: o once, r in this run, c in this conversation, a always,"
    " p all calls like it, d deny or d: REASON, alone on the line, then Enter",
    "Shift-Tab switches the mode: plan, ask, work",
    "Esc or Ctrl-C stops the run · Ctrl-C twice or Ctrl-D leaves",
)
_RECENT = 20
# What is typed behind them would be ignored.
_ALONE = frozenset(
    [
        "new",
        "clear",
        "all",
        "digest",
        "history",
        "compact",
        "kill",
        "trust",
        "withdraw",
        "title",
        "usage",
        "agents",
        "quit",
    ]
)


class CommandContext(ConversationContext, ProjectContext, Protocol):
    """The part of the chat that the commands use."""

    @property
    def mode(self) -> ModeSwitch: ...
    def stop_run(self) -> None: ...
    async def change_folder(self, path: str) -> list[Line]: ...
    async def withdraw(self) -> list[Line]: ...
    def say(self, text: str, *, steer: bool) -> None: ...
    async def show_digest(self, *, again: bool = False) -> None: ...


class SlashCommands:
    def __init__(self, chat: CommandContext) -> None:
        self._chat = chat
        self._conversation = ConversationCommands(chat)
        self._project_command = ProjectCommand(chat)
        self._rules_command = RulesCommand(chat)

    async def run(self, typed: str) -> list[Line]:
        name, _, rest = typed[1:].partition(" ")
        meant = [command for command in COMMANDS if name and command.startswith(name)]
        if name not in COMMANDS and len(meant) != 1:
            several = f"; it could be /{' or /'.join(meant)}" if meant else ""
            near = [] if meant else find_near(name, COMMANDS)
            similar = f"Did you mean /{near[0]}? " if near else ""
            raise BadRequest(
                f"unknown command /{sanitize.name(name)}{several}", fix=f"{similar}/help lists the commands."
            )
        command = name if name in COMMANDS else meant[0]
        if command in _ALONE and rest.strip():
            raise BadRequest(f"/{command} stands alone: {COMMANDS[command]}", fix="Type it without more words.")
        mine = command not in CONVERSATION_COMMANDS
        run = getattr(self, f"_{command.replace('-', '_')}") if mine else getattr(self._conversation, command)
        shown: list[Line] = await run(rest.strip())
        return shown

    def past(self, history: pb.History, messages: Sequence[pb.HistoryMessage]) -> list[Line]:
        """The end of a conversation below its title."""
        shown: list[Line] = []
        if history.title:
            shown.append([("bold", sanitize.line(history.title))])
        recent = messages[-_RECENT:]
        if len(recent) < len(messages):
            shown.append(
                lines.render_divider(
                    hint(f"{len(messages) - len(recent)} earlier messages: moot history {self._chat.agent}")
                )
            )
        elif history.summary_title:
            shown.append(lines.render_divider(f"archived: {history.summary_title}"))
        return shown + lines.render_history(recent, self._chat.agent, self._chat.screen.text_format)

    async def _help(self, _: str) -> list[Line]:
        width = max(map(len, COMMANDS)) + 1
        rows: list[Line] = [[(f"{HANG} bold", f"/{name:<{width}}"), ("", text)] for name, text in COMMANDS.items()]
        return [*rows, *(lines.dim(key) for key in KEYS)]

    async def _history(self, _: str) -> list[Line]:
        history = await self._chat.history()
        shown = self.past(history, history.messages)
        waiting = zip_longest(history.queued, history.queued_guests, fillvalue="")
        queued = [lines.dim(f"⋯ @{guest} {text}" if guest else f"⋯ {text}") for text, guest in waiting]
        return [*shown, *queued] or [lines.render_notice("no messages yet")]

    async def _all(self, _: str) -> list[Line]:
        screen = self._chat.screen
        screen.shows_private = not screen.shows_private
        shown = "shown" if screen.shows_private else "hidden"
        return [lines.render_notice(f"text that is not sent to you is {shown}; /history shows the past")]

    async def _digest(self, _: str) -> list[Line]:
        await self._chat.show_digest(again=True)
        return []

    async def _archives(self, number: str) -> list[Line]:
        agent, sender = self._chat.agent, self._chat.sender
        if number:
            wanted = numbers.read_number(number)
            if wanted is None:
                raise BadRequest(f"{sanitize.line(number)} is not a number", fix="/archives lists them.")
            request = pb.GetArchiveMsg(agent=agent, sender=sender, number=wanted)
            archive = (await self._chat.request(pb.ClientMessage(get_archive=request))).archive
            return self._archive(archive)
        listing = pb.ListArchivesMsg(agent=agent, sender=sender)
        found = (await self._chat.request(pb.ClientMessage(list_archives=listing))).archive_list.archives
        rows: list[Line] = [
            [
                ("bold", f"{info.number:>3} "),
                ("", sanitize.line(info.title)),
                ("class:dim", f"  {info.first_seq}–{info.last_seq}"),
            ]
            for info in found
        ]
        return rows or [lines.render_notice("no archives yet")]

    def _archive(self, archive: pb.ArchiveInfo) -> list[Line]:
        summary: list[Line] = [[("class:dim", line)] for line in sanitize.clean(archive.summary).split("\n")]
        head = lines.render_divider(f"archive {archive.number}: {archive.title}")
        return [
            head,
            *summary,
            *lines.render_history(archive.messages, self._chat.agent, self._chat.screen.text_format),
            lines.render_divider("end of archive"),
        ]

    async def _recall(self, query: str) -> list[Line]:
        if not query:
            raise BadRequest("nothing to search for", fix="/recall WORDS")
        request = pb.RecallMsg(agent=self._chat.agent, sender=self._chat.sender, query=query, limit=3)
        found = (await self._chat.request(pb.ClientMessage(recall=request))).recalled.archives
        return [line for info in found for line in self._archive(info)] or [
            lines.render_notice("no match in the archives")
        ]

    async def _compact(self, _: str) -> list[Line]:
        request = pb.CompactMsg(agent=self._chat.agent, sender=self._chat.sender)
        with self._chat.show_work("compacting, once the conversation is free"):
            answer = (await self._chat.request(pb.ClientMessage(compact=request))).compact
        return self._chat.render_archive(pb.ArchiveInfo(number=answer.number, title=answer.title))

    async def _kill(self, _: str) -> list[Line]:
        self._chat.stop_run()
        return []

    async def _auto_approve(self, level: str) -> list[Line]:
        return await self._chat.mode.set_level(level)

    async def _mode(self, mode: str) -> list[Line]:
        return await self._chat.mode.set(mode)

    async def _cwd(self, directory: str) -> list[Line]:
        request = pb.WorkingDirectoryMsg(agent=self._chat.agent, sender=self._chat.sender)
        here = self._chat.folder()
        if directory:
            request.cwd = _resolve_path(directory, here)
        place = (await self._chat.request(pb.ClientMessage(working_directory=request))).working_directory
        if directory and here:
            return [[("", sanitize.name(place.cwd))], *await self._chat.change_folder(place.cwd)]
        if here:
            return [[("", sanitize.name(here))]]
        # The chat sends no directory, so that of the conversation is used.
        note = "  (the conversation's own folder)" if place.is_own else ""
        if place.is_missing:
            note = "  (does not exist; /cwd DIR sets another)"
        return [[("", sanitize.name(place.cwd)), ("class:dim", note)]]

    async def _withdraw(self, _: str) -> list[Line]:
        return await self._chat.withdraw()

    async def _now(self, text: str) -> list[Line]:
        return self._send(text, "/now TEXT", steer=True)

    async def _later(self, text: str) -> list[Line]:
        return self._send(text, "/later TEXT", steer=False)

    def _send(self, text: str, usage: str, *, steer: bool) -> list[Line]:
        if not text:
            raise BadRequest("there is nothing to send", fix=usage)
        self._chat.say(text, steer=steer)
        return []

    async def _project(self, word: str) -> list[Line]:
        return await self._project_command.run(word)

    async def _rules(self, words: str) -> list[Line]:
        return await self._rules_command.run(words)

    async def _trust(self, _: str) -> list[Line]:
        request = pb.TrustMsg(agent=self._chat.agent, sender=self._chat.sender)
        taint = (await self._chat.request(pb.ClientMessage(trust=request))).trusted.taint
        sources = taint.replace(",", ", ")
        return [lines.render_notice(f"trusted, with text from: {sources}" if taint else "there is no untrusted text")]

    async def _title(self, _: str) -> list[Line]:
        title = (await self._chat.history()).title
        return [[("bold", sanitize.line(title))]] if title else [lines.render_notice("no title yet; the agent sets it")]

    async def _usage(self, _: str) -> list[Line]:
        request = pb.GetUsageMsg(agent=self._chat.agent, sender=self._chat.sender)
        found = (await self._chat.request(pb.ClientMessage(get_usage=request))).usage.usage
        rows: list[Line] = [
            [
                ("bold", sanitize.name(info.model) or "no model"),
                ("", f"  {numbers.format_plural(info.runs, 'run')}, {numbers.format_count(info.prompt)} in, "),
                ("", f"{numbers.format_count(info.completion)} out, "),
                ("", numbers.format_cost(info.cost)),
            ]
            for info in found
        ]
        return rows or [lines.render_notice("no usage yet")]

    async def _agents(self, _: str) -> list[Line]:
        shown: list[Line] = []
        for info in await self._chat.refresh_agents():
            if info.flaw:
                shown += lines.render_error(info.flaw)
            else:
                name = sanitize.name(info.name)
                shown.append(
                    [
                        (f"{HANG} {lines.name_style(info.name, self._chat.agent)}", f"{name:<14} "),
                        ("", sanitize.line(info.description)),
                    ]
                )
        return shown

    async def _quit(self, _: str) -> list[Line]:
        self._chat.screen.quit()
        return []


def _resolve_path(directory: str, start: str) -> str:
    return os.path.abspath(os.path.join(start, os.path.expanduser(directory)))
