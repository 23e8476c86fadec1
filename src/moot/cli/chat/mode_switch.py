"""The mode and the auto-approve level of a chat: in the toolbar, set by a key, /mode and /auto-approve."""

from moot.cli.chat import lines
from moot.cli.chat.chat_context import ChatContext
from moot.cli.markdown.styles import Line
from moot.wire import moot_pb2 as pb


class ModeSwitch:
    def __init__(self, chat: ChatContext) -> None:
        self._chat = chat
        # The mode that applies; empty until it is known.
        self.name = ""
        self._next = ""
        # The auto-approve level that applies; empty if nothing is approved automatically.
        self.level = ""

    async def refresh(self) -> pb.ModeInfo:
        """Read the mode again."""
        return await self._send(pb.ModeMsg())

    async def switch(self) -> list[Line]:
        """Switch to the next mode and say what it means. The mode free is not among them."""
        return await self.set(self._next) if self._next else self._render(await self.refresh())

    async def set(self, mode: str) -> list[Line]:
        """Set the mode, or only show it if none is given."""
        message = pb.ModeMsg(mode=mode) if mode else pb.ModeMsg()
        return self._render(await self._send(message))

    async def set_level(self, level: str) -> list[Line]:
        """Set the auto-approve level, `default` for that of the agent, or only show it if none is given."""
        message = pb.ModeMsg(auto_approve="" if level == "default" else level) if level else pb.ModeMsg()
        found = await self._send(message)
        return [lines.dim(f"auto-approve {found.auto_approve}: {found.level_meaning}")]

    async def _send(self, message: pb.ModeMsg) -> pb.ModeInfo:
        message.agent, message.sender = self._chat.agent, self._chat.sender
        found = (await self._chat.request(pb.ClientMessage(mode=message))).mode
        self.name, self._next = found.mode, found.next
        self.level = "" if found.auto_approve == "none" else found.auto_approve
        return found

    def _render(self, found: pb.ModeInfo) -> list[Line]:
        warning = [lines.render_notice(found.warning)] if found.warning else []
        return [lines.dim(f"mode {found.mode}: {found.meaning}"), *warning]
