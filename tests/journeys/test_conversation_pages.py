"""However many conversations there are, they are listed: page by page for a client, all of them at a terminal."""

import asyncio
from typing import Any

import pytest

from moot.domain.errors import BadRequest
from moot.wire import moot_pb2 as pb
from tests.daemon_process import Home
from tests.daemon_thread import daemon_thread
from tests.raw_client import Raw, raw
from tests.talking import Talking

SCRIPT = '[[rule]]\nreply = "You said: {user}"\n'


async def pages(talk: Talking, **fields: Any) -> list[list[str]]:
    """The senders of each page, to the end."""
    found: list[list[str]] = []
    cursor = ""
    while cursor or not found:
        message = pb.ListConversationsMsg(cursor=cursor, **fields)
        answer = (await talk.ask(list_conversations=message)).conversation_list
        found.append([info.sender for info in answer.conversations])
        cursor = answer.next_cursor
    return found


async def listed(client: Raw, **fields: Any) -> pb.ConversationList:
    answer = await client.ask(pb.ClientMessage(list_conversations=pb.ListConversationsMsg(**fields)))
    return answer.conversation_list


async def test_a_list_is_told_page_by_page_the_last_used_first(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk, raw(daemon) as bot:
            token = (await talk.ask(new_token=pb.NewTokenMsg(name="bot", senders=["odd:*"]))).token_created.token
            await bot.ask(pb.ClientMessage(hello=pb.Hello(version=1, token=token)))
            for number in range(5):
                await talk.say("ada", "hello", f"{'odd' if number % 2 else 'even'}:{number}")
            await talk.say("bob", "hello", "even:0")
            assert await pages(talk) == [["even:0", "even:4", "odd:3", "even:2", "odd:1", "even:0"]]
            assert await pages(talk, limit=4) == [["even:0", "even:4", "odd:3", "even:2"], ["odd:1", "even:0"]]
            # One that ends where the list does is the last.
            assert await pages(talk, limit=3) == [["even:0", "even:4", "odd:3"], ["even:2", "odd:1", "even:0"]]
            assert await pages(talk, limit=2, agent="ada") == [["even:4", "odd:3"], ["even:2", "odd:1"], ["even:0"]]
            assert await pages(talk, limit=1, sender="even:0") == [["even:0"], ["even:0"]]
            # Others' conversations leave no trace in a page, nor do they make it shorter.
            first = await listed(bot, limit=1)
            assert [info.sender for info in first.conversations] == ["odd:3"]
            second = await listed(bot, limit=1, cursor=first.next_cursor)
            assert ([info.sender for info in second.conversations], second.next_cursor) == (["odd:1"], "")
            for cursor in ("x", "0x1p+0", "nan/1", "0x1p+0/-1", f"0x1p+0/{2**63}", "0x1p+999999999/1"):
                with pytest.raises(BadRequest, match="cursor"):
                    await talk.ask(list_conversations=pb.ListConversationsMsg(cursor=cursor))


async def test_the_command_lists_all_of_very_many(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "hello")
    # Many of one moment, as an import makes them.
    home.change(
        "INSERT INTO conversations (agent, sender, created_at, updated_at) VALUES ('ada', ?, 1, ?)",
        [(f"tg:{number}", number // 500) for number in range(2_500)],
    )
    with daemon_thread(home) as daemon:
        found = (await asyncio.to_thread(daemon.cli_json, "conversations"))["data"]
        assert [each["sender"] for each in found][0] == "user"
        assert len({each["sender"] for each in found}) == len(found) == 2_501
        used = [each["updated_at"] for each in found]
        assert used == sorted(used, reverse=True)
        async with daemon.client() as talk:
            # A client that knows nothing of pages is told as many as fit, and these do.
            assert len(await talk.conversations()) == 2_501
