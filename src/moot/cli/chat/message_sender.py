"""MessageSender: sends what is typed, keeps what waits for a connection, withdraws messages. Used by `controller`."""

import os
from collections.abc import Coroutine, Mapping
from time import monotonic
from typing import Any, Protocol

from moot.cli.chat import lines
from moot.cli.chat.chat_context import ChatContext
from moot.cli.chat.outgoing import Outgoing, format_typed, parse_outgoing
from moot.cli.chat.screen import Screen
from moot.cli.chat.view import RunView
from moot.cli.connect import caller_search_path
from moot.cli.markdown.styles import Line
from moot.client.connection import Runnable
from moot.client.errors import Unreachable
from moot.domain.errors import MootError, Unavailable
from moot.wire import moot_pb2 as pb

_WITHDRAWN_HINT = lines.dim("the up arrow brings its text back")


class SendingContext(ChatContext, Protocol):
    """The part of the chat that this module uses."""

    @property
    def screen(self) -> Screen: ...
    @property
    def agents(self) -> Mapping[str, str]: ...
    @property
    def is_ready(self) -> bool: ...
    def folder(self) -> str: ...
    def start(self, work: Coroutine[Any, Any, None], name: str) -> None: ...
    def mark_cut_off(self, view: RunView) -> None: ...
    async def follow(self, view: RunView, message: Runnable) -> None: ...


class MessageSender:
    """`guest` answers messages that name nobody. `steers` if a message is shown to the active run, if there is one."""

    def __init__(self, chat: SendingContext, *, guest: str, steers: bool) -> None:
        self._chat = chat
        self._guest = guest
        self._steers = steers
        self.unsent: list[Outgoing] = []

    def list_unsent(self) -> set[str]:
        """Return what agents will receive of the messages that wait for a connection."""
        return {outgoing.content for outgoing in self.unsent}

    def take_unsent(self) -> list[Outgoing]:
        unsent, self.unsent = self.unsent, []
        return unsent

    def say(self, text: str, *, steer: bool | None = None) -> None:
        """Send a message; with `steer`, to the active run if there is one."""
        chat = self._chat
        chat.screen.add_to_history(text)
        outgoing = parse_outgoing(
            text,
            primary=chat.agent,
            guest=self._guest,
            steer=self._steers if steer is None else steer,
            agents=chat.agents,
            is_path=self._is_path,
        )
        if chat.is_ready:
            chat.start(self.send(outgoing), "message")
        else:
            self.unsent.append(outgoing)

    async def send(self, outgoing: Outgoing) -> None:
        """Send a message and show its run to the end."""
        chat = self._chat
        view = RunView(chat.agent, monotonic, echo=outgoing.typed, text_format=chat.screen.text_format)
        view.content, view.steers = outgoing.content, outgoing.steer
        message = pb.StreamMsg(agent=chat.agent, content=outgoing.content, client_message_id=outgoing.id)
        message.steer = outgoing.steer
        for name, value in (("sender", chat.sender), ("guest", outgoing.guest), ("cwd", chat.folder())):
            if value:
                setattr(message, name, value)
        message.search_path = caller_search_path()
        try:
            await chat.follow(view, message)
        except Unreachable:
            if view.acknowledged:
                chat.mark_cut_off(view)
            else:
                self.unsent.append(outgoing)
        except MootError as error:
            if isinstance(error, Unavailable) and view.acknowledged and not view.started:
                # It stays queued in a daemon that stops, and is shown when its run starts.
                chat.mark_cut_off(view)
                chat.screen.show(*lines.render_error(error.message, error.fix))
                return
            chat.screen.show(*view.take_echo(), *lines.render_error(error.message, error.fix))
            if not view.acknowledged:
                chat.screen.restore_input(outgoing.typed)

    async def withdraw(self) -> list[Line]:
        """Withdraw the newest queued message. Its text is the newest of the input history."""
        chat = self._chat
        if self.unsent:
            typed = self.unsent.pop().typed
            chat.screen.add_to_history(typed)
            return [lines.render_withdrawn(typed), _WITHDRAWN_HINT]
        message = pb.WithdrawMsg(agent=chat.agent, sender=chat.sender)
        withdrawn = (await chat.request(pb.ClientMessage(withdraw=message))).withdrawn
        speaker = withdrawn.speaker or chat.agent
        typed = format_typed(withdrawn.content, speaker=speaker, primary=chat.agent, guest=self._guest)
        chat.screen.add_to_history(typed)
        return [_WITHDRAWN_HINT]

    def _is_path(self, path: str) -> bool:
        """Whether the path names something below the working directory."""
        folder = self._chat.folder()
        whole = os.path.normpath(os.path.join(folder, path))
        return bool(folder) and whole.startswith(f"{folder.rstrip('/')}/") and os.path.exists(whole)
