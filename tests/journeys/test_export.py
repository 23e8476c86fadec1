"""A conversation leaves as lines of JSON and comes back the same; it is deleted only after a look."""

import json

import pytest

from moot.domain.errors import BadRequest, Conflict, NotFound
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, LiveDaemon
from tests.fake_provider import Provider
from tests.talking import Talking

CONFIG = PROVIDER_CONFIG


async def rich_conversation(talk: Talking, provider: Provider, sender: str) -> None:
    """A guest, a tool, an archive, and something after it."""
    title = {"name": "set_title", "arguments": {"title": "Bread"}}
    provider.program({"text": "Rye."}, {"text": "Wheat!"}, {"calls": [title]}, {"text": "Named."})
    provider.program({"text": "Of bread. Rye and wheat."}, {"text": "Spelt."}, {"text": "Bye."})
    await talk.say("ada", "one", sender)
    await talk.say("ada", "two", sender, guest="bob")
    await talk.say("ada", "three", sender)
    await talk.compact("ada", sender)
    await talk.say("ada", "four", sender, guest="cyd")
    await talk.say("ada", "five", sender)


async def test_the_export_is_the_protocols_jsonl(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    async with daemon.client() as talk:
        await rich_conversation(talk, provider, sender)
        lines = [json.loads(line) for line in (await talk.export("ada", sender)).splitlines()]
    facts, *rest = lines
    assert (facts["agent"], facts["created_by"], facts["title"]) == ("ada", sender, "Bread")
    assert set(facts) >= {"created_at", "uptime_secs"}
    shape = [("compact" if "compact" in line else line["role"], line.get("agent", "")) for line in rest]
    assert shape == [
        ("user", ""),
        ("assistant", ""),
        ("user", ""),
        ("assistant", "bob"),
        ("user", ""),
        ("assistant", ""),
        ("tool", ""),
        ("assistant", ""),
        ("compact", ""),
        ("user", ""),
        ("assistant", "cyd"),
        ("user", ""),
        ("assistant", ""),
    ]
    # The primary's messages have no agent key at all.
    assert "agent" not in rest[1]
    marker = rest[8]
    assert (marker["compact"], marker["title"]) == ("Of bread. Rye and wheat.", "Of bread.")
    assert marker["archived_at"].endswith("Z")


async def test_what_was_exported_can_be_imported_and_is_the_same(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        await rich_conversation(talk, provider, sender)
        text = await talk.export("ada", sender)
        copy = f"{sender}:copy"
        answer = await talk.import_(text, sender=copy, trust=True)
        assert (answer.agent, answer.sender, answer.messages, answer.archives) == ("ada", copy, 12, 1)
        assert list(answer.skipped) == []
        assert await talk.told("ada", copy, all=True) == await talk.told("ada", sender, all=True)
        assert await talk.told("ada", copy) == await talk.told("ada", sender)
        assert (await talk.history("ada", copy)).title == "Bread"
        original, copied = await talk.archives("ada", sender), await talk.archives("ada", copy)
        assert [(each.title, each.summary, each.first_seq, each.last_seq) for each in copied] == [
            (each.title, each.summary, each.first_seq, each.last_seq) for each in original
        ]
        again = await talk.export("ada", copy)
        assert again.splitlines()[1:] == text.splitlines()[1:]
        # It can be recalled and talked on.
        assert [each.number for each in await talk.recall("ada", "wheat", copy)] == [1]
        assert (await talk.say("ada", "six", copy)).outcome == "completed"
    assert provider.faults() == []


async def test_old_markers_envelopes_and_torn_lines_are_read(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    lines = [
        '{"agent":"ada","created_by":"old:1","created_at":"2026-04-03T10:00:00Z","title":"","uptime_secs":3}',
        '{"role":"user","content":"hello"}',
        '{"role":"assistant","content":"from scout","agent":"scout"}',
        '{"compact":"An old summary. More of it."}',
        '{"event":"tool_start","calls":[],"ts":1}',
        '{"role":"system","content":"You are joining a conversation","auto_injected":true}',
        '{"agent":"rook","message":{"role":"assistant","content":"from rook"}}',
        '{"role":"user","content":"and now"}',
        '{"archive_name":"archive-x-1","archived_at":"2026-04-04T10:00:00Z"}',
        '{"role":"assistant","content":"the newest"}',
        '{"role":"user","content":"torn',
    ]
    async with daemon.client() as talk:
        answer = await talk.import_("\n".join(lines), sender=sender)
        assert (answer.messages, answer.archives) == (5, 2)
        assert [note.split(":")[0] for note in answer.skipped] == ["line 11"]
        assert await talk.told("ada", sender, all=True) == [
            ("user", "", "hello"),
            ("assistant", "scout", "from scout"),
            ("assistant", "rook", "from rook"),
            ("user", "", "and now"),
            ("assistant", "", "the newest"),
        ]
        first, second = await talk.archives("ada", sender)
        assert (first.title, first.summary) == ("An old summary.", "An old summary. More of it.")
        assert "archive-x-1" in second.summary
        assert (await talk.say("ada", "go on", sender)).outcome == "completed"
    assert provider.faults() == []


async def test_an_import_over_an_existing_conversation_is_refused(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        await talk.say("ada", "hello", sender)
        before = await talk.told("ada", sender)
        with pytest.raises(Conflict):
            await talk.import_(await talk.export("ada", sender))
        assert await talk.told("ada", sender) == before


async def test_an_import_for_nobody_is_refused(daemon: LiveDaemon, sender: str) -> None:
    line = '{"role":"user","content":"hello"}'
    async with daemon.client() as talk:
        with pytest.raises(BadRequest, match="which agent"):
            await talk.import_(line, sender=sender)
        with pytest.raises(NotFound):
            await talk.import_(line, agent="nobody", sender=sender)
        with pytest.raises(BadRequest, match="is reserved for the daemon"):
            await talk.import_(line, agent="ada", sender="run:1")
        assert await talk.conversations(sender=sender) == []


async def test_an_import_without_a_sender_is_the_default_senders(daemon: LiveDaemon) -> None:
    async with daemon.client() as talk:
        answer = await talk.import_('{"role":"user","content":"hello"}', agent="cyd")
        assert (answer.agent, answer.sender) == ("cyd", "user")
        assert await talk.told("cyd") == [("user", "", "hello")]


async def test_times_that_run_backwards_do_not_change_the_order(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    stamps = ["2031-01-01T00:00:00Z", "1999-01-01T00:00:00Z", "2026-04-03T10:00:00Z", "not a time", "1970-01-01"]
    lines = ['{"agent":"ada","created_at":"2035-01-01T00:00:00Z"}']
    lines += [json.dumps({"role": "user", "content": f"m{n}", "created_at": at}) for n, at in enumerate(stamps)]
    lines.insert(4, '{"compact":"Old times. Odd.","archived_at":"2040-01-01T00:00:00Z"}')
    async with daemon.client() as talk:
        await talk.import_("\n".join(lines), sender=sender)
        await talk.say("ada", "m5", sender)
        told = (await talk.history("ada", sender, all=True)).messages
        assert [message.content for message in told if message.role == "user"] == [f"m{n}" for n in range(6)]
        assert [message.seq for message in told] == list(range(1, 8))
        # Compaction and recall go by place too, whatever the clock says.
        provider.program({"match": "Write the summary now", "text": "New times. Even."})
        await talk.compact("ada", sender)
        assert [(each.first_seq, each.last_seq) for each in await talk.archives("ada", sender)] == [(1, 3), (4, 7)]
        assert len(await talk.recall("ada", "times", sender)) == 2
        assert [info.sender for info in await talk.conversations(sender=sender)] == [sender]


async def test_deleting_shows_what_would_go_and_then_takes_all_of_it(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        await rich_conversation(talk, provider, sender)
        preview = (await talk.ask(delete=pb.DeleteMsg(agent="ada", sender=sender))).deleted
        assert (preview.messages, preview.archives, preview.runs, preview.deleted) == (12, 1, 5, False)
        assert len(await talk.told("ada", sender, all=True)) == 12
        gone = (await talk.ask(delete=pb.DeleteMsg(agent="ada", sender=sender, confirm=True))).deleted
        assert (gone.messages, gone.archives, gone.runs, gone.deleted) == (12, 1, 5, True)
        assert await talk.conversations(sender=sender) == []
        for request in (talk.told("ada", sender), talk.archives("ada", sender), talk.recall("ada", "wheat", sender)):
            with pytest.raises(NotFound):
                await request
        # The pair may be used again, and remembers nothing.
        provider.reset()
        await talk.say("ada", "hello", sender)
        assert len(await talk.told("ada", sender)) == 2
        assert [message["role"] for message in provider.bodies()[0]["messages"]] == ["system", "user"]
        assert await talk.recall("ada", "wheat", sender) == []


async def test_a_conversation_with_a_run_in_flight_is_not_deleted(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": "x", "hold": True})
    async with daemon.client() as talk:
        speech = talk.start("ada", "hello", sender)
        await speech.until("start")
        with pytest.raises(Conflict):
            await talk.ask(delete=pb.DeleteMsg(agent="ada", sender=sender, confirm=True))
        await talk.kill("ada", sender)
        await speech.end()
        assert len(await talk.told("ada", sender)) == 1


async def test_deleting_what_is_not_there_is_an_error(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        with pytest.raises(NotFound):
            await talk.ask(delete=pb.DeleteMsg(agent="ada", sender=sender, confirm=True))


async def test_deleting_one_conversation_leaves_the_others(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    async with daemon.client() as talk:
        for name in (f"{sender}:1", f"{sender}:2"):
            await talk.say("ada", "hello", name)
        await talk.ask(delete=pb.DeleteMsg(agent="ada", sender=f"{sender}:1", confirm=True))
        assert len(await talk.told("ada", f"{sender}:2")) == 2


@pytest.mark.parametrize("text", ["", "not json at all\n{broken", "[1, 2]"])
async def test_a_file_without_a_message_makes_no_conversation(daemon: LiveDaemon, sender: str, text: str) -> None:
    async with daemon.client() as talk:
        with pytest.raises(BadRequest):
            await talk.import_(text, agent="ada", sender=sender)
        with pytest.raises(NotFound):
            await talk.history("ada", sender)
