"""Commands in hints are written as this installation is called, also in texts that come from the daemon."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.daemon_process import PROVIDER_CONFIG, Home, call_cli
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.terminal import terminal

CONFIG = (
    PROVIDER_CONFIG
    + """
[models.keyless]
provider = "openai"
base_url = "PROVIDER_URL/v1"
model = "m"
api_key = "secret:NOWHERE"
[security.interceptor]
sensitive_tools = ["set_title"]
"""
)
NAMES = ("ps", "init", "inbox", "models", "project", "skills", "secrets", "trust", "doctor", "history", "rag", "help")
CALLED = "./dev moot"
# A command that cannot be typed here: `moot` and a subcommand, without what comes before it in this installation.
BARE = re.compile(rf"(?<!dev )\bmoot (?:{'|'.join(NAMES)})\b")
CONTROL_D = "\x04"


class CheckoutHome(Home):
    """A home whose commands are called as in a checkout."""

    def environment(self, **extra: str) -> dict[str, str]:
        return super().environment(**extra) | {"MOOT_DEV": CALLED}


def shown(home: Home, *words: str) -> str:
    done = call_cli(CheckoutHome(home.path), *words)
    text = done.stdout + done.stderr
    assert BARE.findall(text) == [], text
    return text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/AGENTS.md").write_text("Be brief.\n")
    return tmp_path / "work"


async def test_no_hint_has_a_command_that_is_not_there(home: Home, provider: Provider, folder: Path) -> None:
    home.write_agent("bob", model="keyless")
    provider.program({"calls": [{"name": "set_title", "arguments": {"title": "T"}}]}, {"text": "Done."})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            waiting = talk.start("ada", "go")
            await waiting.until("approval_opened")
            run_id = daemon.cli_json("ps")["data"][0]["run_id"]
            failed = shown(home, "ask", "bob", "hello")
            assert f"{CALLED} secrets set NOWHERE" in failed
            for words in (["trace"], ["history", "bob"], ["trace", "bob"], ["ps", "-a"], ["models"]):
                text = shown(home, *words)
                if words in (["trace"], ["history", "bob"]):
                    assert f"{CALLED} secrets set NOWHERE" in text, words
            for words in (["ps"], ["show", run_id], ["inbox"], ["status"]):
                text = shown(home, *words)
                if words != ["inbox"]:
                    assert f"{CALLED} inbox" in text, words
            for words in (["rag"], ["peers", "daemons"], ["skills"], ["mcp"]):
                shown(home, *words)
            assert f"{CALLED} project approve" in shown(home, "project", "--cwd", str(folder))
            with terminal(home, "chat", "bob", MOOT_DEV=CALLED) as person:
                await asyncio.to_thread(person.wait_on_screen, "model error")
                person.enter("/model nothing-of-that-name")
                await asyncio.to_thread(person.wait_on_screen, f"{CALLED} models")
                assert BARE.findall(person.rows.text) == []
                person.type(CONTROL_D)
                await asyncio.to_thread(person.wait_for_exit)
            await talk.kill("ada")
            await waiting.end()
