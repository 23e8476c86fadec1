"""The Python examples of the docs, executed as they stand there."""

import io
import os
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.daemon_process import Home, LiveDaemon
from tests.daemon_thread import daemon_thread
from tests.raw_client import tcp_address

DOCS = Path(__file__).resolve().parents[2] / "docs"
CONFIG = """
default_model = "scripted"
[models.scripted]
provider = "scripted"
script = "script.toml"
[listen]
http = "off"
tcp = "127.0.0.1:0"
[security.interceptor]
sensitive_tools = ["set_title"]
"""
SCRIPT = """
[[rule]]
match = "Rename"
calls = [{ name = "set_title", arguments = { title = "Ferry" } }]
after_tool = "The title is set."

[[rule]]
match = "Which colour"
calls = [{ name = "ask_user", arguments = { questions = [
  { question = "Which colour?", options = [{ label = "red" }, { label = "blue" }] } ] } }]
after_tool = "You chose {result}."

[[rule]]
agent = "You are critic"
reply = "I would not call it that."

[[rule]]
reply = "Morning Tide."
"""
# What each example prints, by the heading it stands under, in the order of the page.
PRINTED = {
    "Python": ["Morning Tide."],
    "Ask": ["Morning Tide."],
    "Stream": ["Morning Tide.\ncompleted, 1 steps"],
    "Guests": ["critic I would not call it that."],
    "Approvals and questions": [
        "set_title ", "The title is set.", "You chose red.", "the run waits for an approval: ",
    ],
    "Background runs": ["completed Morning Tide.", "completed I would not call it that."],
    "Events": ["completed"],
    "History": ["user writer Which colour", "tool writer red", "('writer', 'user', "],
    "Another machine": ["Morning Tide."],
    "asyncio": ["Morning Tide. I would not call it that.\nMorning Tide."],
}  # fmt: skip


def sections(page: str) -> dict[str, list[str]]:
    """The examples under each heading."""
    found: dict[str, list[str]] = {}
    heading = ""
    for title, code in re.findall(
        r"^#+ ([^\n]*)$|^```python\n(.*?)^```$", (DOCS / page).read_text("utf-8"), re.M | re.S
    ):
        heading = title or heading
        found.setdefault(heading, []).extend([code] if code else [])
    return {heading: codes for heading, codes in found.items() if codes}


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveDaemon]:
    home = Home(tmp_path_factory.mktemp("home"))
    with daemon_thread(home.furnish(script=SCRIPT, config=CONFIG, agents=("writer", "critic"))) as daemon:
        yield daemon


def test_every_example_does_what_the_page_says(documented: LiveDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, because later ones read what earlier ones have said."""
    token = documented.cli_json("tokens", "new", "laptop")["data"]["token"]
    for name in [name for name in os.environ if name.startswith("MOOT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MOOT_HOME", str(documented.home.path))
    assert set(PRINTED) == set(sections("python.md"))
    for heading, codes in sections("python.md").items():
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as printed:
            patch.setenv("MOOT_TOKEN", token)
            for code in codes:
                exec(compile(code.replace("127.0.0.1:7787", tcp_address(documented)), heading, "exec"), {})
        for text in PRINTED[heading]:
            assert text in printed.getvalue(), f"{heading}: {printed.getvalue()}"


def test_the_example_without_a_library_works(
    documented: LiveDaemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = sections("protocol.md")["Frames"]
    monkeypatch.chdir(documented.home.path)
    exec(compile(code.replace('agent="moot"', 'agent="writer"'), "Frames", "exec"), {})
    assert 'outcome: "completed"' in capsys.readouterr().out
