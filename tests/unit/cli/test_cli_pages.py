"""A list that is read page by page while it is used: nothing is missing in the end."""

from typing import Any, cast

from moot.cli.commands.memory import _fetch_all_conversations
from moot.wire import moot_pb2 as pb


class Moving:
    """A daemon with five conversations, the last of which is used once the first page was read."""

    def __init__(self) -> None:
        self._used = {f"s{number}": 10.0 - number for number in range(5)}
        self.asked = 0

    async def request(self, message: pb.ClientMessage) -> pb.ServerMessage:
        asked = message.list_conversations
        before = float(asked.cursor) if asked.cursor else 1e9
        left = sorted(((at, sender) for sender, at in self._used.items() if at < before), reverse=True)
        infos = [pb.ConversationInfo(agent="ada", sender=sender, updated_at=at) for at, sender in left[: asked.limit]]
        more = str(infos[-1].updated_at) if len(left) > len(infos) else ""
        self.asked += 1
        self._used["s4"] = 20.0
        return pb.ServerMessage(conversation_list=pb.ConversationList(conversations=infos, next_cursor=more))


async def test_what_is_used_while_pages_are_read_is_listed_all_the_same() -> None:
    moving = Moving()
    found = await _fetch_all_conversations(cast(Any, moving), pb.ListConversationsMsg(limit=2))
    assert sorted((info.sender, info.updated_at) for info in found) == [
        ("s0", 10.0), ("s1", 9.0), ("s2", 8.0), ("s3", 7.0), ("s4", 20.0)
    ]  # fmt: skip


async def test_a_list_that_fits_on_one_page_is_asked_for_once() -> None:
    moving = Moving()
    assert len(await _fetch_all_conversations(cast(Any, moving), pb.ListConversationsMsg(limit=5))) == 5
    assert moving.asked == 1
