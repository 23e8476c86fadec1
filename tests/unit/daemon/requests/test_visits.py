"""The items of a digest as they are sent: however long the messages are, the answer fits into a frame."""

from moot.daemon.requests.pages import PAGE_BYTES
from moot.daemon.requests.visits import list_item_infos
from moot.domain.digest import DigestItem, DigestKind
from moot.domain.user_message import MAX_MESSAGE_BYTES, UserMessage
from moot.wire.bounds import MAX_FRAME


def test_the_newest_messages_are_whole_and_the_others_cut() -> None:
    text = "x" * MAX_MESSAGE_BYTES
    items = [
        DigestItem(kind=DigestKind.MESSAGE, at=float(number), agent="ada", text=text, message=UserMessage(content=text))
        for number in range(200)
    ]
    infos = list_item_infos(items, "ada")
    assert [info.at for info in infos] == [item.at for item in items]
    assert sum(info.ByteSize() for info in infos) < MAX_FRAME
    whole = [info.message.content == text for info in infos]
    assert whole == sorted(whole)
    assert sum(whole) == PAGE_BYTES // (MAX_MESSAGE_BYTES + 1_000)
    assert "the history has all of it" in infos[0].message.content
