"""What is shown of a call is exactly what it does, on every surface: nothing hidden, nothing collapsed, nothing cut."""

import asyncio
import json
import re
from contextlib import suppress
from pathlib import Path

from moot.client import Approval, Moot
from moot.client.errors import RunFailed
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.journeys.test_teammate_grants import asked, decided
from tests.terminal import terminal

CONFIG = PROVIDER_CONFIG
COMMAND = "echo  a\tb ⏎ pаth \ntouch x "
SHOWN = "echo␣␣a⇥b ⟨U+23CE⟩ p⟨U+0430⟩th␣ ⏎ touch x␣"
HIDDEN = re.compile("[\u00a0\u202e\u200b\u2800\U000e0041\t]")


def call(tool: str, /, **arguments: str) -> dict[str, object]:
    return {"name": tool, "arguments": arguments}


async def test_a_call_is_shown_exactly_on_every_surface(home: Home, provider: Provider, tmp_path: Path) -> None:
    folder = tmp_path / "two  spaces\u200b"
    folder.mkdir()
    provider.program({"calls": [call("exec", command=COMMAND)]}, {"text": "Done."})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "go", cwd=str(folder))
            ask = await asked(speech)
            assert ask.line == f"$ {SHOWN}"
            assert ask.preview.startswith(SHOWN.replace(" ⏎ ", "\n") + "\n\nin ")
            assert "two␣␣spaces⟨U+200B⟩" in ask.preview
            assert SHOWN in ask.rule
            (started,) = speech.of("tool_start")
            assert started.calls[0].line == f"$ {SHOWN}"

            async def cli(*words: str) -> str:
                done = await asyncio.to_thread(daemon.cli, *words)
                assert not HIDDEN.search(done.stdout + done.stderr), words
                return done.stdout + done.stderr

            for words in (["inbox"], ["inbox", "show", ask.ask_id], ["inbox", "approve", ask.ask_id]):
                assert SHOWN in await cli(*words), words
            await cli("ps")
            await cli("status")
            document = await cli("inbox", "show", ask.ask_id, "--json")
            assert json.loads(document[: document.rindex("}") + 1])["data"]["arguments"]["command"] == COMMAND
            for columns in (60, 80, 120):
                with terminal(home, "inbox", "show", ask.ask_id, columns=columns) as person:
                    assert await asyncio.to_thread(person.wait_for_exit) == 0
                assert SHOWN.replace(" ", "") in re.sub(r"[\s│]", "", person.seen), person.seen
                assert not HIDDEN.search(person.seen)
            await decided(talk, ask, "always")
            await speech.end()
            assert SHOWN in await cli("rules")
            assert SHOWN in await cli("history", "ada")
            run_id = ask.ask_id.removeprefix("ask-").partition("-call")[0]
            assert SHOWN in await cli("trace", run_id)


async def test_a_diff_and_a_name_of_a_file_are_shown_exactly(home: Home, provider: Provider, tmp_path: Path) -> None:
    (tmp_path / "a\nb").write_text("one\ntwo\n")
    provider.program(
        {"calls": [call("fs_write", path="a\nb", content="one\r\n\ttwo  \u200b\n    three\n")]}, {"text": "Done."}
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "go", cwd=str(tmp_path))
            ask = await asked(speech)
            rows = ask.preview.split("\n")
            assert "+++ b/a⟨U+2028⟩b" in rows
            assert [row for row in rows if row[:1] == "+"][1:] == [
                "+one⟨U+000D⟩",
                "+⇥two␣␣⟨U+200B⟩",
                "+    three",
            ]
            assert ask.line.startswith("write a ⏎ b")
            await decided(talk, ask, "deny")
            await speech.end()


def _without_layout(text: str) -> str:
    return re.sub(r"[\s│]", "", text)


async def test_a_live_chat_a_run_and_a_python_program_are_shown_a_call_exactly(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    wanted = _without_layout(SHOWN)
    with daemon_thread(home):
        for words in (("chat", "ada"), ("run", "--agent", "ada", "go")):
            provider.program({"calls": [call("exec", command=COMMAND)]}, {"text": "Done."})
            with terminal(home, *words, columns=120) as person:
                if words[0] == "chat":
                    await asyncio.to_thread(person.wait_for, "mode ask")
                    person.enter("go")
                await asyncio.to_thread(person.wait_for, "touch x␣")
                await asyncio.to_thread(person.wait_for_any, "deny", "o/r/c/a")
                # The tool line and the approval.
                assert wanted in _without_layout(person.seen), person.seen
                assert not HIDDEN.search(person.seen)
                person.enter("d")
                await asyncio.to_thread(person.wait_for, "Done.")
                if words[0] == "chat":
                    person.enter("/quit")
                await asyncio.to_thread(person.wait_for_exit)
                assert not HIDDEN.search(person.seen)
        provider.program({"calls": [call("exec", command=COMMAND)]}, {"text": "Done."})

        def use_client() -> list[str]:
            lines: list[str] = []

            def on_approval(approval: Approval) -> bool:
                lines.append(approval.line)
                return False

            with Moot(home=home.path) as client, suppress(RunFailed):
                client.ask("ada", "go", on_approval=on_approval)
            return lines

        assert await asyncio.to_thread(use_client) == [f"$ {SHOWN}"]


async def test_mail_and_goals_are_shown_exactly(home: Home, provider: Provider) -> None:
    body, shown = "pay\u00a0  me\u200b\u202e", "pay⟨U+00A0⟩␣␣me⟨U+200B⟩⟨U+202E⟩"
    provider.program({"text": "Morning."}, {"text": "Evening."})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("bob", body, "some\u2800one")
            await talk.say("bob", "hello")
            with (
                terminal(home, "chat", "bob", columns=100) as chat,
                terminal(home, "peers", "watch", "-n", "2") as watch,
            ):
                await asyncio.to_thread(chat.wait_for, "mode ask")
                await asyncio.to_thread(watch.wait_for, "Following")
                for _ in range(65):
                    await talk.ask(send_mail=pb.SendMailMsg(agent="bob", content=body))
                await asyncio.to_thread(chat.wait_for, f"✉ @user → bob: {shown}")
                await asyncio.to_thread(watch.wait_for_exit)
                assert f"@user → bob  {shown}" in watch.seen
                assert not HIDDEN.search(chat.seen + watch.seen)
        dead, goals = daemon.cli("peers", "dead").stdout, daemon.cli("goals").stdout
    assert shown in dead
    assert "bob as some⟨U+2800⟩one" in goals
    assert not HIDDEN.search(dead + goals)
