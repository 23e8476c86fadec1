"""The working directory: a conversation's own by default, another for the one run that asks for it."""

import re
from pathlib import Path
from typing import Any

import pytest

from moot.domain.errors import BadRequest
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider

CONFIG = PROVIDER_CONFIG


def place(body: dict[str, Any]) -> str:
    """The directory the model was told of, exactly once."""
    (found,) = re.findall(r"Your working directory for this turn is (.*)", body["messages"][0]["content"])
    return str(found)


async def test_without_one_a_conversation_has_a_private_folder(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        await talk.say("ada", "one", sender)
        await talk.say("ada", "two", sender)
        await talk.say("ada", "three", f"{sender}:other")
        await talk.say("bob", "four", sender)
    first, second, other, bob = map(place, provider.bodies())
    assert first == second
    assert len({first, other, bob}) == 3
    for path in map(Path, (first, other, bob)):
        assert path.is_dir()
        assert path.is_relative_to(daemon.home.path / "data")
        assert path.stat().st_mode & 0o077 == 0
        assert path != Path.home()


async def test_a_senders_name_cannot_choose_or_leave_the_folder(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        for name in ("../../../etc", "/etc", "a/b", "..", "~", "x" * 150):
            await talk.say("ada", "hello", name)
    folders = [Path(place(body)) for body in provider.bodies()]
    assert len(set(folders)) == len(folders)
    for folder in folders:
        assert folder.parent == daemon.home.path / "data" / "workspaces"


async def test_an_override_holds_for_one_run_and_does_not_change_the_default(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    async with daemon.client() as talk:
        await talk.say("ada", "one", sender)
        await talk.say("ada", "two", sender, cwd=str(tmp_path))
        await talk.say("ada", "three", sender)
        assert (await talk.history("ada", sender)).cwd == ""
    before, during, after = map(place, provider.bodies())
    assert during == str(tmp_path)
    assert before == after != during


async def test_a_waiting_messages_directory_does_not_touch_the_running_turn(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    title = {"name": "set_title", "arguments": {"title": "T"}}
    provider.program({"match": "^A$", "calls": [title], "hold": True}, {"match": "^A$", "text": "a"})
    async with daemon.client() as talk:
        first = talk.start("ada", "A", sender, cwd=str(one))
        await first.until("start")
        provider.requests(at_least=1)
        second = talk.start("ada", "B", sender, cwd=str(two))
        await second.until("queued")
        provider.release()
        await second.end()
    # Both steps of the first run, then the second run.
    assert [place(body) for body in provider.bodies()] == [str(one), str(one), str(two)]


async def test_a_waiting_message_keeps_its_directory_over_a_crash(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    provider.program({"match": "^A$", "text": "never", "hold": True})
    with running(home) as daemon:
        async with daemon.client() as talk:
            first = talk.start("ada", "A")
            await first.until("start")
            second = talk.start("ada", "B", cwd=str(tmp_path))
            await second.until("queued")
            daemon.kill_9()
    provider.reset()
    with daemon_thread(home) as daemon:
        provider.requests(at_least=1)
    assert place(provider.bodies()[0]) == str(tmp_path)


async def test_a_guest_has_no_tools_and_is_told_of_no_directory(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    async with daemon.client() as talk:
        await talk.say("ada", "Bob?", sender, guest="bob", cwd=str(tmp_path))
    assert "working directory" not in str(provider.bodies()[0])


@pytest.mark.parametrize("cwd", ["relative/path", "/no/such/folder", "/etc/hostname", "~", "."])
async def test_a_directory_that_is_none_is_refused_and_nothing_is_stored(
    daemon: LiveDaemon, provider: Provider, sender: str, cwd: str
) -> None:
    async with daemon.client() as talk:
        with pytest.raises(BadRequest, match="working directory"):
            await talk.say("ada", "hello", sender, cwd=cwd)
        assert await talk.conversations(sender=sender) == []
    assert provider.bodies() == []


async def test_the_command_line_sends_its_own_directory_or_the_one_it_is_given(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    daemon.cli_json("ask", "ada", "hello", "--as", sender)
    daemon.cli_json("ask", "ada", "hello", "--as", sender, "--cwd", str(tmp_path))
    own, given = map(place, provider.bodies())
    assert own == str(Path.cwd())
    assert given == str(tmp_path)


async def test_a_model_that_chooses_tools_by_schema_is_told_of_no_path_it_could_copy_wrong(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    config = PROVIDER_CONFIG.replace("PROVIDER_URL", provider.url)
    home.write_config(config.replace('model = "m"', 'model = "m"\ntools = "schema"'))
    provider.program({"text": '{"tool": "say", "text": "hi"}'})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.say("ada", "one", cwd=str(tmp_path))).text == "hi"
    (body,) = provider.bodies()
    told = body["messages"][0]["content"]
    assert "by its name alone" in told
    assert str(tmp_path) not in told
