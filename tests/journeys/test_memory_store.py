"""A daemon that keeps everything in memory: it works like any other, and forgets everything when it stops."""

from tests.daemon_process import PROVIDER_CONFIG, Home
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider

CONFIG = PROVIDER_CONFIG + '[store]\nkind = "memory"\n'
ASK = {"name": "ask_user", "arguments": {"questions": [{"question": "Which one?"}]}}


async def test_a_daemon_in_memory_talks_asks_and_recalls_and_forgets_everything_when_it_stops(
    home: Home, provider: Provider
) -> None:
    home.write_config(CONFIG.replace("PROVIDER_URL", provider.url))
    provider.program({"text": "Hello."}, {"text": "I am Bob."}, {"calls": [ASK]}, {"text": "That one, then."})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.say("ada", "hi")).text == "Hello."
            assert (await talk.say("ada", "and Bob?", guest="bob")).text == "I am Bob."
            speech = talk.start("ada", "choose")
            await speech.until("ask_user")
            await talk.reply("ada", "that one")
            assert (await speech.end()).text == "That one, then."
            told = await talk.told("ada")
            assert [content for role, _, content in told if role == "user"] == ["hi", "and Bob?", "choose"]
            assert ("assistant", "bob", "I am Bob.") in told
            assert [info.agent for info in await talk.conversations()] == ["ada"]
        for command in ("up", "status"):
            assert "kept in memory only" in " ".join(daemon.cli(command).stdout.split()), command
            assert daemon.cli_json(command)["data"]["store"] == "memory"
        refused = daemon.cli("backup", str(home.path / "copy.db"))
        assert refused.returncode != 0
        assert "keeps everything in memory" in refused.stderr
    assert not list((home.path / "data").glob("*.db*"))

    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert await talk.conversations() == []
            assert (await talk.say("ada", "hi again")).outcome == "completed"
