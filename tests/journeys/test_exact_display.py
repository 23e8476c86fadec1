"""What is shown of a call is exactly what it does, on every surface: nothing hidden, nothing collapsed, nothing cut."""

import asyncio
import json
import re
from pathlib import Path

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
