"""Messages of an assistant to the person as protocol messages. Used by events.py and handlers. No I/O."""

from moot.domain.text import clean
from moot.domain.user_message import UserMessage
from moot.wire import moot_pb2 as pb


def user_message_info(message: UserMessage) -> pb.UserMessageInfo:
    return pb.UserMessageInfo(
        content=clean(message.content),
        status=message.status,
        attachments=[pb.AttachmentInfo(path=clean(each.path), size=each.size) for each in message.attachments],
        call_id=clean(message.call_id),
    )
