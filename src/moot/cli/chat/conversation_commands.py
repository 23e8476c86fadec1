"""The /commands that change how the conversation goes on, and those that show what the agent keeps. Used by `slash`."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from moot.cli.chat import lines
from moot.cli.chat.chat_context import ChatContext
from moot.cli.chat.screen import Screen
from moot.cli.markdown.styles import HANG, Line
from moot.cli.program import hint
from moot.cli.render import agent_data, numbers, sanitize
from moot.cli.render.stretches import list_resumable
from moot.domain.errors import BadRequest, NotFound
from moot.wire import moot_pb2 as pb

_MOST_LISTED = 20


COMMANDS = {
    "new": "archive the conversation and begin a new one, without the rules of this conversation",
    "resume": "list earlier conversations; /resume NUMBER continues one",
    "clear": "clear the screen; the conversation stays as it is",
    "model": "show the model; /model NAME switches it here",
    "undo": "undo the newest change of files; /undo redo makes it again",
    "tasks": "the agent's open tasks; /tasks all shows all",
    "memory": "what the agent remembers; /memory WORDS searches",
}


class ConversationContext(ChatContext, Protocol):
    """The part of the chat that these commands use."""

    @property
    def screen(self) -> Screen: ...
    async def history(self) -> pb.History: ...
    async def refresh_agents(self) -> list[pb.AgentInfo]: ...
    def show_notice(self, text: str) -> None: ...
    def render_archive(self, info: pb.ArchiveInfo) -> list[Line]: ...
    def clear_screen(self) -> None: ...
    def show_work(self, text: str) -> AbstractContextManager[None]: ...


class ConversationCommands:
    def __init__(self, chat: ConversationContext) -> None:
        self._chat = chat

    async def new(self, _: str) -> list[Line]:
        with self._chat.show_work("beginning anew, once the conversation is free"):
            opened = await self._open_stretch(0)
        return self._chat.render_archive(_as_archive(opened))

    async def resume(self, number: str) -> list[Line]:
        if not number:
            return self._list(list_resumable(await self._archives()))
        wanted = numbers.read_number(number)
        if not wanted:
            raise BadRequest(f"{sanitize.line(number)} is not a number", fix="/resume lists them.")
        try:
            with self._chat.show_work("resuming, once the conversation is free"):
                opened = await self._open_stretch(wanted)
        except NotFound as error:
            raise NotFound(error.message, fix=error.fix.replace("`moot archives AGENT`", "/resume")) from error
        # Not shown as news of another client as well.
        self._chat.render_archive(_as_archive(opened))
        history = await self._chat.history()
        return [
            lines.render_divider(f"continued: {opened.resumed_title}"),
            *lines.render_history(history.messages[-_MOST_LISTED:], self._chat.agent, self._chat.screen.text_format),
        ]

    async def clear(self, _: str) -> list[Line]:
        self._chat.clear_screen()
        return [lines.dim("screen cleared; /new begins a new conversation")]

    async def model(self, name: str) -> list[Line]:
        message = pb.ConversationModelMsg(agent=self._chat.agent, sender=self._chat.sender)
        if name:
            message.model = "" if name == "default" else name
        answer = (await self._chat.request(pb.ClientMessage(conversation_model=message))).conversation_model
        if not name:
            others = (await self._chat.request(pb.ClientMessage(list_models=pb.ListModelsMsg()))).model_list.models
            ready = ", ".join(sanitize.name(each.name) for each in others if not each.problem)
            return [
                [("bold", sanitize.name(answer.model)), ("class:dim", f"  {_describe_choice(answer)}")],
                lines.dim(f"ready: {ready}"),
            ]
        await self._chat.refresh_agents()
        back = answer.previous or "default"
        return [lines.render_notice(f"{answer.model} from now on; /model {back} switches back")]

    async def undo(self, word: str) -> list[Line]:
        if word not in ("", "redo"):
            raise BadRequest(f"unknown: /undo {sanitize.line(word)}", fix="Use /undo or /undo redo.")
        message = pb.UndoMsg(agent=self._chat.agent, sender=self._chat.sender, redo=word == "redo")
        undone = (await self._chat.request(pb.ClientMessage(undo=message))).undone
        back = "/undo" if word else "/undo redo"
        shown: list[Line] = [[("class:dim", line)] for line in sanitize.exact(undone.diff).split("\n")]
        did = "made again" if word else "undone"
        by = f" by {sanitize.name(undone.by)}" if undone.by not in ("", undone.agent) else ""
        return [*shown, lines.render_notice(f"{did}: {undone.tool}{by} in {undone.cwd}; {back} takes this back")]

    async def tasks(self, word: str) -> list[Line]:
        if word not in ("", "all"):
            raise BadRequest(f"unknown: /tasks {sanitize.line(word)}", fix="Use /tasks or /tasks all.")
        message = pb.ListTasksMsg(agent=self._chat.agent, sender=self._chat.sender, all=word == "all")
        found = (await self._chat.request(pb.ClientMessage(list_tasks=message))).task_list.tasks
        return [_row(*agent_data.render_task(task)) for task in found] or [lines.render_notice("no open tasks")]

    async def memory(self, words: str) -> list[Line]:
        message = pb.ListMemoriesMsg(agent=self._chat.agent, sender=self._chat.sender, query=words)
        found = (await self._chat.request(pb.ClientMessage(list_memories=message))).memory_list
        rows = [_row(*agent_data.render_memory(memory)) for memory in found.memories[:_MOST_LISTED]]
        if len(found.memories) > _MOST_LISTED or found.next_cursor:
            rows.append(lines.dim(hint(f"more: moot memory --agent {self._chat.agent}")))
        nothing = "nothing found" if words else f"{sanitize.name(self._chat.agent)} remembers nothing about you yet"
        return rows or [lines.render_notice(nothing)]

    async def _open_stretch(self, resume: int) -> pb.StretchOpened:
        message = pb.OpenStretchMsg(agent=self._chat.agent, sender=self._chat.sender, resume=resume)
        return (await self._chat.request(pb.ClientMessage(open_stretch=message))).stretch_opened

    async def _archives(self) -> Sequence[pb.ArchiveInfo]:
        message = pb.ListArchivesMsg(agent=self._chat.agent, sender=self._chat.sender)
        try:
            return (await self._chat.request(pb.ClientMessage(list_archives=message))).archive_list.archives
        except NotFound:
            return []

    def _list(self, found: Sequence[pb.ArchiveInfo]) -> list[Line]:
        rows: list[Line] = [
            [
                (f"{HANG} bold", f"{info.number:>3} "),
                ("", sanitize.line(info.title)),
                ("class:dim", f"  {numbers.format_time(info.archived_at)}"),
            ]
            for info in found
        ]
        return rows or [lines.render_notice("no earlier conversations; /new begins one")]


def _as_archive(opened: pb.StretchOpened) -> pb.ArchiveInfo:
    return pb.ArchiveInfo(number=opened.number, title=opened.title, closed=True, resumed=opened.resumed)


def _row(head: str, text: str, note: str) -> Line:
    return [(f"{HANG} bold", f"{head} "), ("", text), ("class:dim", f"  {note}" if note else "")]


def _describe_choice(answer: pb.ConversationModel) -> str:
    if answer.chosen:
        return f"(chosen for this conversation; /model default is {sanitize.name(answer.own)})"
    return "(the agent's own; /model NAME switches it here)"
