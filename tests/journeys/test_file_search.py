"""An agent finds files by content and by name through a running daemon, without asking anybody."""

import os
from pathlib import Path
from typing import Any

import pytest

from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, eventually
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.talking import Speech

CONFIG = PROVIDER_CONFIG


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments}


def results(speech: Speech) -> list[str]:
    return [result.output for result in speech.of("tool_result")]


async def test_files_are_found_by_content_and_by_name_and_nobody_is_asked(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("import os\n\ndef find_me():\n    pass\n")
    (tmp_path / "src/b.txt").write_text("nothing\n")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "run.log").write_text("find_me\n")
    calls = [call("fs_search", pattern=r"find_\w+"), call("fs_glob", pattern="src/*"), call("fs_list", path="src")]
    provider.program(*({"calls": [each]} for each in calls), {"text": "Found."})
    async with daemon.client() as talk:
        speech = await talk.say("ada", "find it", sender, cwd=str(tmp_path))
    searched, globbed, listed = results(speech)
    assert searched == "src/a.py\n3: def find_me():"
    assert globbed == "src/a.py\nsrc/b.txt"
    assert listed == '[{"name":"a.py","size":35},{"name":"b.txt","size":8}]'
    assert speech.of("approval_opened") == []


async def test_moots_own_files_are_found_by_nobody(home: Home, provider: Provider, sender: str) -> None:
    """Even where the whole home is the working directory, and under another name."""
    folder = home.path / "project"
    folder.mkdir()
    (folder / "open.txt").write_text("PROVIDER needle [models]\n")
    calls = [call("fs_search", pattern="models"), call("fs_search", pattern="models", path="..")]
    with daemon_thread(home) as daemon:
        os.link(home.path / "config.toml", folder / "innocent.toml")
        provider.program(*({"calls": [each]} for each in calls), {"text": "Nothing."})
        async with daemon.client() as talk:
            speech = await talk.say("ada", "find it", sender, cwd=str(folder))
    inside, outside = results(speech)
    assert inside == "open.txt\n1: PROVIDER needle [models]"
    assert "is outside the working directory" in outside


async def test_a_search_that_is_killed_ends_with_its_process(
    home: Home, provider: Provider, sender: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/new\nmv {tmp_path}/new {tmp_path}/pid\nexec sleep 1000\n")
    slow.chmod(0o755)
    monkeypatch.setattr("moot.tools.files.search_tools.find_ripgrep", lambda: str(slow))
    provider.program({"calls": [call("fs_search", pattern="x")]}, {"text": "Again."})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "find it", sender, cwd=str(tmp_path))
            await eventually((tmp_path / "pid").exists)
            await talk.connection.request(pb.ClientMessage(kill=pb.KillMsg(agent="ada", sender=sender)))
            await speech.end()
            assert speech.outcome == "cancelled"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
