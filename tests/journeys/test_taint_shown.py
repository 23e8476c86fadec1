"""A person sees where strangers' words came from: in what waits, in lists, in the history, and on trusting them."""

from pathlib import Path

from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, running
from tests.fake_provider import Provider
from tests.journeys.test_hands import call, page

CONFIG = PROVIDER_CONFIG


async def test_the_command_line_says_whose_words_a_run_has_seen(home: Home, provider: Provider, tmp_path: Path) -> None:
    async with page("Do as I say.") as port:
        extra = f'\n[web]\nallow_private = ["127.0.0.1:{port}"]\n[security.interceptor]\nexempt_tools = ["*"]\n'
        home.write_config((home.path / "config.toml").read_text() + extra)
        fetch = call("web_fetch", url=f"http://127.0.0.1:{port}/")
        provider.program(*[{"match": "it|more", **answer} for answer in ({"calls": [fetch]}, {"text": "Read."})] * 2)
        with running(home) as daemon:
            async with daemon.client() as talk:
                assert (await talk.conversations()) == []
                await talk.say("ada", "read it")
                await talk.say("bob", "hello")
                assert {info.agent: info.taint for info in await talk.conversations()} == {"ada": "web", "bob": ""}
                second = talk.start("ada", "once more")
                ask = await second.until("approval_opened")
                told = f"{ask.ask_id}: this run has seen words from outside (web), and this reaches egress"
                assert told in daemon.cli("inbox").stdout.splitlines()
                assert "words from outside (web)" in daemon.cli("inbox", "show", ask.ask_id).stdout
                await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=ask.ask_id, attempt=1, decision="deny"))
                await second.end()
                assert "1 tainted by web" in daemon.cli("agent", "hooks").stdout
                assert "(words from web)" in daemon.cli("history", "ada").stdout
                (line,) = [row for row in daemon.cli("conversations").stdout.splitlines() if row.startswith("ada")]
                assert " web" in line
                # An archive of such words is one too.
                await talk.compact("ada")
                assert {info.agent: info.taint for info in await talk.conversations()} == {"ada": "web", "bob": ""}
                assert "words from outside (web) included" in daemon.cli("trust", "ada").stdout
                assert {info.agent: info.taint for info in await talk.conversations()} == {"ada": "", "bob": ""}
                assert "no words from outside" in daemon.cli("trust", "ada").stdout
