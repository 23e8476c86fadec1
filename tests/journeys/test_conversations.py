"""Who a conversation is between, when it begins, and what it keeps."""

import asyncio

import pytest

from moot.domain.errors import BadRequest, NotFound
from moot.wire import moot_pb2 as pb
from tests.daemon_process import Home, LiveDaemon
from tests.daemon_thread import daemon_thread

SCRIPT = """
[[rule]]
match = "^call it"
calls = [{ name = "set_title", arguments = { title = "Bread and how to bake it" } }]
after_tool = "Done."

[[rule]]
match = "^nameless"
calls = [{ name = "set_title", arguments = { title = "   " } }]
after_tool = "The tool said: {result}"

[[rule]]
match = "^too long a name"
calls = [
  { name = "set_title", arguments = { title = "a title of more than sixty characters is a tale and not a title" } },
]
after_tool = "The tool said: {result}"

[[rule]]
reply = "You said: {user}"
"""


async def test_a_conversation_is_created_on_first_reference(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        assert await talk.conversations(sender=sender) == []
        said = await talk.say("ada", "hello", sender)
        assert said.outcome == "completed"
        assert said.text == "You said: hello"
        (info,) = await talk.conversations(sender=sender)
        assert (info.agent, info.sender, info.message_count, info.seq) == ("ada", sender, 2, 2)


async def test_a_stream_comes_in_order_and_ends_once(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        said = await talk.say("ada", "one two three", sender)
        assert said.kinds[:2] == ["start", "text_start"]
        assert said.kinds[-2:] == ["text_end", "end"]
        assert set(said.kinds[2:-2]) == {"chunk"}
        assert said.of("start")[0].agent == said.ended.agent == said.of("text_start")[0].agent == "ada"
        assert said.of("start")[0].user_seq == 1
        assert said.ended.provider == "scripted"
        assert said.ended.steps == 1


async def test_start_means_the_message_is_in_the_history(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        speech = talk.start("ada", "hello", sender)
        await speech.until("start")
        assert (await talk.told("ada", sender))[0] == ("user", "", "hello")
        await speech.end()


async def test_send_answers_once_with_the_whole_reply(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        answer = await talk.send("ada", "hello", sender)
        assert (answer.agent, answer.content, answer.outcome) == ("ada", "You said: hello", "completed")
        assert answer.usage.total == answer.usage.prompt + answer.usage.completion > 0


async def test_a_conversation_survives_a_restart(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "call it bread", "user")
            await talk.say("ada", "hello", "user")
            before = await talk.told("ada")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert await talk.told("ada") == before
            assert (await talk.conversations())[0].title == "Bread and how to bake it"
            await talk.say("ada", "again", "user")
            assert await talk.told("ada") == [*before, ("user", "", "again"), ("assistant", "", "You said: again")]
            history = await talk.history("ada")
            assert [message.seq for message in history.messages] == list(range(1, len(before) + 3))


async def test_two_first_messages_at_once_make_one_conversation(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as one, daemon.client() as two:
        speeches = [one.start("ada", "first", sender), two.start("ada", "second", sender)]
        for speech in speeches:
            assert (await speech.end()).outcome == "completed"
        (info,) = await one.conversations(sender=sender)
        assert info.message_count == 4
        contents = [content for _, _, content in await one.told("ada", sender)]
        # Whichever came first, each question is followed by its own answer.
        assert contents[1] == f"You said: {contents[0]}"
        assert contents[3] == f"You said: {contents[2]}"


async def test_one_agent_and_two_senders_are_two_conversations(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        await talk.say("ada", "I am one", f"{sender}:1")
        await talk.say("ada", "I am the other", f"{sender}-1")
        assert [content for role, _, content in await talk.told("ada", f"{sender}:1") if role == "user"] == ["I am one"]
        assert len(await talk.told("ada", f"{sender}-1")) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [("tg:1", "tg-1"), ("Tg:1", "tg:1"), ("é", "e\u0301"), ("a b", "a  b"), ("x", "x "), ("../x", "..-x")],
)
async def test_senders_are_exact_strings(daemon: LiveDaemon, one: str, other: str) -> None:
    async with daemon.client() as talk:
        await talk.say("cyd", f"from {one}", one)
        with pytest.raises(NotFound):
            await talk.told("cyd", other)
        await talk.say("cyd", f"from {other}", other)
        assert len(await talk.told("cyd", one)) == len(await talk.told("cyd", other)) == 2
        for each in (one, other):
            await talk.ask(delete=pb.DeleteMsg(agent="cyd", sender=each, confirm=True))


async def test_one_sender_and_two_agents_are_two_conversations(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        await talk.say("ada", "to ada", sender)
        await talk.say("bob", "to bob", sender)
        assert {info.agent for info in await talk.conversations(sender=sender)} == {"ada", "bob"}
        assert [content for _, _, content in await talk.told("bob", sender)] == ["to bob", "You said: to bob"]


async def test_without_a_sender_the_owner_is_user(daemon: LiveDaemon) -> None:
    async with daemon.client() as talk:
        await talk.say("bob", "who am I")
        assert [info.sender for info in await talk.conversations(agent="bob", sender="user")] == ["user"]
        assert await talk.told("bob") == await talk.told("bob", "user")


@pytest.mark.parametrize("name", ["run:1", "cron:x", "team:a:1", "bg:9"])
async def test_senders_of_the_daemon_are_refused(daemon: LiveDaemon, name: str) -> None:
    async with daemon.client() as talk:
        with pytest.raises(BadRequest, match="is reserved for the daemon"):
            await talk.say("ada", "let me in", name)
        assert await talk.conversations(sender=name) == []


async def test_an_unknown_agent_is_one_error_and_creates_nothing(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        speech = talk.start("nobody", "hello", sender)
        with pytest.raises(NotFound) as refusal:
            await speech.end()
        assert "moot agents" in refusal.value.fix
        assert speech.events == []
        assert await talk.conversations(sender=sender) == []
        with pytest.raises(NotFound):
            await talk.told("nobody", sender)


async def test_set_title_shows_in_listings(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        said = await talk.say("ada", "call it something", sender)
        assert said.of("tool_start")[0].calls[0].name == "set_title"
        (info,) = await talk.conversations(sender=sender)
        assert info.title == "Bread and how to bake it"
        assert (await talk.history("ada", sender)).title == "Bread and how to bake it"


@pytest.mark.parametrize("content", ["nameless", "too long a name"])
async def test_a_title_nobody_could_show_is_refused_to_the_model(daemon: LiveDaemon, sender: str, content: str) -> None:
    async with daemon.client() as talk:
        said = await talk.say("ada", content, sender)
        assert said.of("tool_result")[0].is_error
        assert "title" in said.text
        assert (await talk.history("ada", sender)).title == ""


async def test_history_of_a_primary_carries_no_agent(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        await talk.say("ada", "hello", sender)
        assert await talk.told("ada", sender) == [("user", "", "hello"), ("assistant", "", "You said: hello")]


async def test_many_messages_keep_one_gapless_order(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        speeches = [talk.start("ada", f"message {number}", sender) for number in range(20)]
        async with asyncio.TaskGroup() as group:
            for speech in speeches:
                group.create_task(speech.end())
        history = await talk.history("ada", sender)
        assert [message.seq for message in history.messages] == list(range(1, 41))
        asked = [message.content for message in history.messages if message.role == "user"]
        assert asked == [f"message {number}" for number in range(20)]
        answers = [message.content for message in history.messages if message.role == "assistant"]
        assert answers == [f"You said: message {number}" for number in range(20)]


async def test_no_answer_names_a_conversation_by_anything_but_its_pair() -> None:
    addressed = {"agent", "sender"}
    for name in ("KillMsg", "CompactMsg", "AttachMsg", "ListArchivesMsg"):
        # What is numbered from 200 on says how to answer.
        fields = {field.name for field in getattr(pb, name).DESCRIPTOR.fields if field.number < 200}
        assert fields == addressed
    everything = [field for message in pb.DESCRIPTOR.message_types_by_name.values() for field in message.fields]
    assert not [field.full_name for field in everything if field.name in ("session", "session_id", "conversation_id")]


async def test_the_command_line_shows_the_same_conversation(daemon: LiveDaemon, sender: str) -> None:
    asked = daemon.cli_json("ask", "ada", "hello", "--as", sender)
    assert asked["ok"]
    assert (asked["data"]["agent"], asked["data"]["content"]) == ("ada", "You said: hello")
    shown = daemon.cli_json("history", "ada", "--as", sender)
    assert [(each["seq"], each["role"], each["content"], each["agent"]) for each in shown["data"]["messages"]] == [
        (1, "user", "hello", ""),
        (2, "assistant", "You said: hello", ""),
    ]
