"""Times in `--json`: everywhere the same form, Unix time in seconds, under `at` or a name that ends in `_at`."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from moot.cli.main import moot
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home
from tests.daemon_thread import daemon_thread
from tests.scripting import call, say, script

CONFIG = PLAIN + '[security.interceptor]\nmode = "work"\nsensitive_tools = ["set_title"]\n'
SCRIPT = script(
    {"match": "^write", "steps": [call("fs_write", path="a.txt", content="a"), say("Written.")]},
    {"match": "^name", "steps": [call("set_title", title="Boats"), say("Named.")]},
    {"reply": "Heard."},
)
# Each is called once, in this order; RUN and TASK stand for ids, GRAPH and FLOW for files.
CALLED = """
ask ada write|run --agent ada hello|run --agent ada name|inbox list|inbox|rules list|rules|history ada
tasks add ada boat|tasks list|tasks|tasks show TASK|tasks set TASK in_progress|tasks close TASK|memory list
memory|graph import GRAPH|graph facts|graph show ada|graph types|graph conflicts
ps -a|show RUN|wait RUN|logs RUN|trace|trace RUN|conversations list|conversations|new ada|archives ada
recall ada write
cron add --agent ada --every 1h beans count|cron run beans|cron list|cron|cron show beans
cron history|cron pause beans|cron resume beans|cron remove beans|bg list|bg
workflow save FLOW|workflow schedule tea --every 1h|workflow run --bg tea|workflow list|workflow|workflow show tea
workflow history
knowledge save tea "green"|knowledge list|knowledge|knowledge search tea|knowledge show tea|knowledge history tea
knowledge inquiries|learning list|learning|learning stats|learning search tea
rag index GRAPH|rag list|rag|rag search tea
usage|status|goals|peers list|peers dead|peers daemons|peers outbox|digest ada
tokens new phone|tokens list|tokens revoke phone
secrets list|secrets audit|mcp list|mcp|skills list|skills|agents list|agents|agents show ada|agents status
agents tools|agents hooks|agents vocabulary|models list|models|models use ada|mode ada|cwd ada|project|doctor|undo
inbox show ASK|inbox deny ASK
"""
# They print no time, change the machine, or print the same as one that is called.
OTHERS = """
reply|inbox approve|inbox reply|rules rm|trust|project approve|project off|project on|project revoke|kill
bg submit|bg show|bg result|bg cancel|workflow cancel|workflow check|workflow remove
compact|resume|attach|stop|peers mute|peers resend|peers send|peers unmute|peers watch|memory export
graph add|graph clear|graph define|graph export|graph merge|graph promote|graph resolve|graph retract|graph unmerge
knowledge answer|knowledge dismiss|knowledge forget|learning cleanup|rag answer|rag forget
memory forget|memory search|memory show|replay|export|import|delete|backup|restore|up|down|events|reload
service|service install|service status
service uninstall|nats config|nats dev|demo|demo peers|init|models pull|models test
secrets rm|secrets scope|secrets set|mcp add|mcp approve|mcp deny|mcp rm|mcp test|skills add|skills new
skills remove|skills restore|skills show|skills trust|skills validate|agents import|agents keep|agents new
agents validate|help|completion|uninstall
"""


def split_lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.replace("\n", "|").split("|") if line]


def list_commands(command: click.Command, context: click.Context, words: tuple[str, ...] = ()) -> Iterator[str]:
    """The commands that have --json."""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from list_commands(inner, click.Context(inner, info_name=name, parent=context), (*words, name))
    if words and any("--json" in parameter.opts for parameter in command.params):
        yield " ".join(words)


def find_times(data: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(data, dict):
        for name, value in data.items():
            yield from find_times(value, name)
    elif isinstance(data, list):
        for value in data:
            yield from find_times(value, key)
    elif key == "at" or key.endswith("_at") or (isinstance(data, str) and re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:", data)):
        yield key, data


def is_time(value: Any) -> bool:
    """Whether it is a moment of this century in seconds, or none."""
    return value is None or (isinstance(value, float | int) and 1e9 < value < 4e9)


def test_every_time_in_json_is_unix_time_in_seconds(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    called = split_lines(CALLED)
    known = [" ".join(words) for words in split_lines(OTHERS)]
    for command in list_commands(moot, click.Context(moot)):
        is_called = any(words[: len(command.split())] == command.split() for words in called)
        assert is_called != (command in known), f"{command}: name it in CALLED or in OTHERS"
    ids = {"RUN": "", "TASK": "", "ASK": "", "GRAPH": str(tmp_path / "graph.json"), "FLOW": str(tmp_path / "tea.yaml")}
    Path(ids["GRAPH"]).write_text('{"facts": [{"subject": "ada", "predicate": "knows", "object": "bob"}]}')
    Path(ids["FLOW"]).write_text("name: tea\nsteps: [{id: a, prompt: x, agent: ada}]")
    names = set()
    with daemon_thread(home) as daemon:
        for words in called:
            done = daemon.cli_json(*(ids.get(word, word) for word in words))
            assert "data" in done, (words, done)
            data = done["data"]
            if words[:1] == ["run"] and not ids["RUN"]:
                ids["RUN"] = data["run_id"]
            elif words == ["inbox"]:
                ids["ASK"] = data[0]["ask_id"]
            elif words[:2] == ["tasks", "add"]:
                ids["TASK"] = data["id"]
            found = list(find_times(data))
            names |= {name for name, _ in found}
            assert [each for each in found if not is_time(each[1])] == [], words
    assert {"at", "created_at", "started_at", "ended_at", "updated_at", "opened_at", "expires_at"} <= names
