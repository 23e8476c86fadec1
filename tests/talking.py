"""The client of journey tests: short methods for requests, and for waiting for events of a run."""

import asyncio
from contextlib import aclosing
from typing import Any

from moot.client.connection import Connection, Runnable
from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb

PATIENCE = 30.0


class Speech:
    """One run being followed: its events as they came, and ways to wait for more."""

    def __init__(self, connection: Connection, message: Runnable, *, patience: float = PATIENCE) -> None:
        self._patience = patience
        self.events: list[pb.StreamEvent] = []
        self.error: MootError | None = None
        self._news = asyncio.Condition()
        self._over = False
        self._task = asyncio.get_running_loop().create_task(self._follow(connection, message))

    async def _follow(self, connection: Connection, message: Runnable) -> None:
        try:
            async with aclosing(connection.stream(message)) as events:
                async for event in events:
                    await self._note(event)
        except MootError as error:
            self.error = error
        finally:
            self._over = True
            await self._note(None)

    async def _note(self, event: pb.StreamEvent | None) -> None:
        async with self._news:
            if event is not None:
                self.events.append(event)
            self._news.notify_all()

    async def until(self, kind: str, *, count: int = 1) -> Any:
        """Wait for the count-th event of a kind and return it; an error or an early end raises."""
        async with asyncio.timeout(self._patience), self._news:
            await self._news.wait_for(lambda: self._over or len(self.of(kind)) >= count)
        if len(self.of(kind)) < count:
            raise self.error or AssertionError(f"the run ended without {count} × {kind}: {self.kinds}")
        return self.of(kind)[count - 1]

    async def end(self) -> "Speech":
        """Wait for the end; raises the error that took its place."""
        async with asyncio.timeout(self._patience):
            await self._task
        if self.error is not None:
            raise self.error
        return self

    def of(self, kind: str) -> list[Any]:
        return [getattr(event, kind) for event in self.events if event.WhichOneof("event") == kind]

    @property
    def is_over(self) -> bool:
        return self._over

    @property
    def kinds(self) -> list[str]:
        return [str(event.WhichOneof("event")) for event in self.events]

    @property
    def text(self) -> str:
        """What a reader has on the screen: every chunk that was not taken back."""
        kept: list[str] = []
        for event in self.events:
            match event.WhichOneof("event"):
                case "chunk":
                    kept.append(event.chunk.content)
                case "discarded":
                    kept.clear()
        return "".join(kept)

    @property
    def ended(self) -> pb.StreamEnd:
        (end,) = self.of("end")
        return end

    @property
    def outcome(self) -> str:
        return self.ended.outcome


class Talking:
    """A connection with the verbs of the protocol. An empty sender is left to the daemon."""

    def __init__(self, connection: Connection, *, patience: float = PATIENCE) -> None:
        self.connection = connection
        # How long a run may take; a real model takes its time.
        self._patience = patience

    def start(self, agent: str, content: str, sender: str = "", **fields: Any) -> Speech:
        """Send a message and follow its run in the background."""
        message = pb.StreamMsg(agent=agent, content=content, sender=sender, **fields)
        return Speech(self.connection, message, patience=self._patience)

    def attach(self, agent: str, sender: str = "") -> Speech:
        return Speech(self.connection, pb.AttachMsg(agent=agent, sender=sender), patience=self._patience)

    async def say(self, agent: str, content: str, sender: str = "", **fields: Any) -> Speech:
        """Send a message and wait for the whole turn."""
        return await self.start(agent, content, sender, **fields).end()

    async def send(self, agent: str, content: str, sender: str = "", **fields: Any) -> pb.SendResponse:
        return (await self.ask(send=pb.SendMsg(agent=agent, content=content, sender=sender, **fields))).response

    async def ask(self, **message: Any) -> pb.ServerMessage:
        async with asyncio.timeout(PATIENCE):
            return await self.connection.request(pb.ClientMessage(**message))

    async def kill(self, agent: str, sender: str = "") -> pb.ServerMessage:
        return await self.ask(kill=pb.KillMsg(agent=agent, sender=sender))

    async def reply(self, agent: str, content: str, sender: str = "") -> pb.ServerMessage:
        return await self.ask(reply_to_ask=pb.ReplyToAsk(agent=agent, sender=sender, content=content))

    async def compact(self, agent: str, sender: str = "") -> pb.CompactResponse:
        return (await self.ask(compact=pb.CompactMsg(agent=agent, sender=sender))).compact

    async def history(self, agent: str, sender: str = "", *, all: bool = False) -> pb.History:
        return (await self.ask(get_history=pb.GetHistoryMsg(agent=agent, sender=sender, all=all))).history

    async def told(self, agent: str, sender: str = "", *, all: bool = False) -> list[tuple[str, str, str]]:
        """The history as (role, agent, content)."""
        history = await self.history(agent, sender, all=all)
        return [(each.role, each.agent, each.content) for each in history.messages]

    async def archives(self, agent: str, sender: str = "") -> list[pb.ArchiveInfo]:
        listed = await self.ask(list_archives=pb.ListArchivesMsg(agent=agent, sender=sender))
        return list(listed.archive_list.archives)

    async def archive(self, agent: str, number: int, sender: str = "") -> pb.ArchiveInfo:
        return (await self.ask(get_archive=pb.GetArchiveMsg(agent=agent, sender=sender, number=number))).archive

    async def recall(self, agent: str, query: str, sender: str = "", *, limit: int = 0) -> list[pb.ArchiveInfo]:
        found = await self.ask(recall=pb.RecallMsg(agent=agent, sender=sender, query=query, limit=limit))
        return list(found.recalled.archives)

    async def conversations(self, **match: Any) -> list[pb.ConversationInfo]:
        listed = await self.ask(list_conversations=pb.ListConversationsMsg(**match))
        return list(listed.conversation_list.conversations)

    async def active(self, **match: Any) -> list[pb.ActiveConversationInfo]:
        listed = await self.ask(list_active_conversations=pb.ListActiveConversationsMsg(**match))
        return list(listed.active_conversations.conversations)

    async def is_idle(self) -> bool:
        """Whether no run is active and none waits."""
        return not await self.active()

    async def asks_nothing(self) -> bool:
        """Whether nothing waits for a person."""
        return not await self.asks()

    async def asks(self) -> list[pb.AskInfo]:
        return list((await self.ask(list_asks=pb.ListAsksMsg())).ask_list.asks)

    async def export(self, agent: str, sender: str = "") -> str:
        return (await self.ask(export=pb.ExportMsg(agent=agent, sender=sender))).exported.jsonl

    async def import_(self, jsonl: str, *, agent: str = "", sender: str = "", trust: bool = False) -> pb.Imported:
        message = {"import": pb.ImportMsg(agent=agent, sender=sender, jsonl=jsonl, trust=trust)}
        return (await self.ask(**message)).imported

    async def usage(self, **match: Any) -> list[pb.UsageInfo]:
        return list((await self.ask(get_usage=pb.GetUsageMsg(**match))).usage.usage)
