"""What an agent with the role assistant has sent, as values of the Python client. Used by convert.py."""

from msgspec import Struct

from moot.wire import moot_pb2 as pb


class Attachment(Struct, frozen=True, kw_only=True):
    """A file that a message names, relative to the working directory of the agent."""

    path: str
    size: int


class UserMessage(Struct, frozen=True, kw_only=True):
    """A message to the person; `status` is normal or proactive."""

    text: str
    status: str
    attachments: tuple[Attachment, ...] = ()


def convert_user_message(message: pb.UserMessageInfo) -> UserMessage:
    files = tuple(Attachment(path=each.path, size=each.size) for each in message.attachments)
    return UserMessage(text=message.content, status=message.status, attachments=files)
