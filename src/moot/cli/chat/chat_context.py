"""ChatContext: what each part of the chat needs of it, the conversation and requests to the daemon."""

from typing import Protocol

from moot.wire import moot_pb2 as pb


class ChatContext(Protocol):
    """The conversation of a chat. Extended by the modules that need more of the chat."""

    @property
    def agent(self) -> str: ...
    @property
    def sender(self) -> str: ...
    async def request(self, message: pb.ClientMessage) -> pb.ServerMessage: ...
