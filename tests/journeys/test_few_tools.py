"""Models that have no room for every tool, or cannot use any: what they are offered, and who is told."""

import json
import os
from typing import Any

import pytest

from moot.cli.follow import tool_notices
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.terminal import terminal

CONFIG = PROVIDER_CONFIG.replace('model = "m"\nwindow = 100000', 'model = "m"\nwindow = 8192')
OWN = '''
from moot.tools import Safety, tool


@tool(safety=Safety.SAFE)
def word_count(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())
'''


def with_own_tool(home: Home) -> Home:
    os.chmod(home.path, 0o700)
    folder = home.path / "tools"
    folder.mkdir(mode=0o700)
    (folder / "word_count.py").write_text(OWN, encoding="utf-8")
    return home


def changed(home: Home, old: str, new: str) -> None:
    text = (home.path / "config.toml").read_text()
    assert old in text
    home.write_config(text.replace(old, new))


def offered(body: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", [])]


async def test_a_tool_of_ones_own_reaches_a_model_with_a_small_window(home: Home, provider: Provider) -> None:
    provider.program(
        {"calls": [{"name": "word_count", "arguments": {"text": "one two three"}}]}, {"text": "There are three."}
    )
    with daemon_thread(with_own_tool(home)) as daemon:
        async with daemon.client() as talk:
            speech = await talk.say("ada", "Count: one two three", "tg:1")

    assert speech.text == "There are three."
    first, second = map(offered, provider.bodies())
    assert first == second
    assert {"word_count", "fs_read", "exec", "ask_user"} <= set(first)
    assert "import_skill" not in first
    assert provider.faults() == []


async def test_what_an_agents_file_names_reaches_its_model_first(home: Home, provider: Provider) -> None:
    changed(home, "window = 8192", "window = 4096")
    path = home.write_agent("ada")
    path.write_text(path.read_text().replace("name: ada", "name: ada\nprefixes: [import_skill, crypto_hash]"))
    with daemon_thread(with_own_tool(home)) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "hello", "tg:1")
            await talk.say("bob", "hello", "tg:1")

    ada, bob = map(offered, provider.bodies())
    assert {"import_skill", "crypto_hash"} <= set(ada)
    assert "word_count" in bob
    assert "import_skill" not in bob


def test_the_list_of_models_and_the_doctor_say_how_many_tools_are_offered_and_what_to_do(
    home: Home, provider: Provider
) -> None:
    with daemon_thread(with_own_tool(home)) as daemon:
        (found,) = [each for each in daemon.cli_json("models")["data"] if each["name"] == "fake"]
        listed = daemon.cli("models")
        examined = daemon.cli("doctor")

    there, left_out = found["tools_there"], found["tools_left_out"]
    assert 0 < len(left_out) < there
    assert "word_count" not in left_out
    told = f"fake: {there - len(left_out)} of {there} tools are offered, because of its context window (8192)"
    assert told in listed.stderr
    assert "set `window` in [models.fake]" in listed.stderr
    assert "claude:" not in listed.stderr
    assert told in examined.stdout
    assert "set `window` in [models.fake]" in examined.stdout


def test_nobody_searches_the_web_before_somebody_is_named_who_answers(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        daemon.cli("ask", "ada", "hello")
        home.write_config((home.path / "config.toml").read_text() + '\n[web]\nprovider = "duckduckgo"\n')
        daemon.cli("reload")
        daemon.cli("ask", "ada", "hello")

    before, after = map(offered, provider.bodies())
    assert "web_search" not in before
    assert "web_search" in after


def test_where_a_model_cannot_use_tools_that_is_said_once_beside_the_answer(home: Home, provider: Provider) -> None:
    changed(home, 'model = "m"', 'model = "m"\ntools = "none"')
    with daemon_thread(home) as daemon:
        asked = daemon.cli("ask", "ada", "List the files here")
        ran = daemon.cli("run", "--agent", "ada", "List the files here")
        left = daemon.cli("run", "--bg", "--agent", "ada", "List the files here")
        document = daemon.cli("ask", "ada", "hello", "--json")
        guest = daemon.cli("ask", "ada", "hello", "--guest", "bob")
        examined = daemon.cli("doctor")

    assert asked.returncode == ran.returncode == left.returncode == 0
    for done in (asked, ran, left):
        assert done.stderr.count("fake does not support tools, so ada cannot read files or web pages") == 1
        assert "does not support tools" not in done.stdout
        assert "moot init" in done.stderr
    assert json.loads(document.stdout)["data"]["no_tools"] is True
    assert "does not support tools" not in document.stderr + guest.stderr
    # It is a hint, and no fault.
    assert examined.returncode == 0
    assert "fake (default) is ready. It does not support tools" in examined.stdout
    assert "No errors" in examined.stdout


def test_the_list_of_agents_says_which_can_only_chat_because_of_their_model(home: Home, provider: Provider) -> None:
    changed(home, 'model = "m"', 'model = "m"\ntools = "none"')
    with daemon_thread(home) as daemon:
        listed = {each["name"]: each for each in daemon.cli_json("agents")["data"]}
        told = " ".join(daemon.cli("agents").stderr.split())
        shown = daemon.cli("agents", "show", "operator").stdout
        own = daemon.cli("agents", "show", "ada").stdout

    operator, ada = listed["operator"], listed["ada"]
    assert (operator["status"], operator["missing"]) == ("inactive", "its model uses no tools")
    assert operator["description"] == "Can only chat: its model uses no tools."
    # An agent that is more than its tools stays active; what it lacks is said as well.
    assert (ada["status"], ada["missing"], ada["model_tools"]) == ("active", "", "none")
    assert {listed[name]["status"] for name in ("moot", "planner")} == {"active"}
    assert "navigator (no tool named browser_*)" in told
    assert "operator" in told.partition("(its model uses no tools)")[0]
    assert "ada" in told.partition("Without tools, because the model uses none: ")[2]
    assert "inactive, can only chat: its model uses no tools" in shown
    assert "fake · no tools" in own


def test_a_role_without_its_tools_is_told_that_it_can_only_talk(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        assert daemon.cli("ask", "navigator", "Open example.org.").returncode == 0
        told = provider.bodies()[-1]["messages"][0]["content"]
        assert daemon.cli("ask", "operator", "Read a.txt.").returncode == 0
        other = provider.bodies()[-1]["messages"][0]["content"]
    assert "At present you have none of your tools (no tool named browser_*), so you can only talk." in told
    assert "At present" not in other


def test_a_chat_with_a_role_without_its_tools_says_so(home: Home, provider: Provider) -> None:
    with daemon_thread(home), terminal(home, "chat", "navigator") as person:
        person.wait_for("navigator is inactive, it can only chat: no tool named browser_*.")
        person.type("\x04")
        assert person.wait_for_exit() == 0


def test_the_toolbar_of_the_chat_says_that_a_model_cannot_use_tools(home: Home, provider: Provider) -> None:
    changed(home, 'model = "m"', 'model = "m"\ntools = "none"')
    with daemon_thread(home), terminal(home, "chat", "ada") as person:
        person.wait_for("no tools")
        person.enter("hello")
        person.wait_on_screen("ada › echo: hello")
        person.wait_on_screen("m · no tools · mode")
        person.type("\x04")
        assert person.wait_for_exit() == 0


@pytest.mark.parametrize(
    ("agent", "shown"),
    [
        ({"model_tools": "none", "all_tools": True}, "m · no tools"),
        ({"model_tools": "none", "prefixes": ["fs_*"]}, "m · no tools"),
        # One that has no tools anyway misses none.
        ({"model_tools": "none"}, "m"),
        ({"model_tools": "schema", "all_tools": True}, "m"),
        ({"model_tools": "", "all_tools": True}, "m"),
    ],
)
def test_a_model_is_marked_only_where_its_agent_misses_something(agent: dict[str, Any], shown: str) -> None:
    assert tool_notices.model_name(pb.AgentInfo(model="m", **agent)) == shown


def test_where_a_model_can_use_tools_nothing_is_said(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        asked = daemon.cli("ask", "ada", "hello")
        document = daemon.cli_json("ask", "ada", "hello")

    assert asked.stderr == ""
    assert "no_tools" not in document["data"]


# ---- control tools, unknown windows ------------------------------------------------------------------

TEAM = "\n[agent]\nmultiAgent = true\n"
CONTROL = {"agent_spawn", "agent_wait", "agent_stop", "ask_user", "recall", "tool_output_get"}


async def test_control_tools_are_left_out_last(home: Home, provider: Provider) -> None:
    changed(home, "window = 8192", "window = 4096")
    home.write_config((home.path / "config.toml").read_text() + TEAM)
    with daemon_thread(with_own_tool(home)) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "hello", "tg:1")
            await talk.say("ada", "hello", "tg:1")
    for body in provider.bodies():
        assert set(offered(body)) >= CONTROL
    assert provider.faults() == []


def without_window(home: Home) -> Home:
    changed(home, 'model = "m"\nwindow = 8192', 'model = "m"')
    return home


async def test_an_unknown_window_is_asked_of_the_server(home: Home, provider: Provider) -> None:
    provider.tells({"/v1/models": {"data": [{"id": "m", "max_model_len": 5000}]}})
    with daemon_thread(without_window(home)) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "hello", "tg:1")
        (found,) = [each for each in daemon.cli_json("models")["data"] if each["name"] == "fake"]
        assert (found["window"], found["window_is_assumed"]) == (5000, False)
    (body,) = provider.bodies()
    assert CONTROL - {"agent_spawn", "agent_wait", "agent_stop"} <= set(offered(body))
    assert "import_skill" not in offered(body)


async def test_a_window_that_is_known_only_once_the_model_is_loaded_is_asked_for_again(
    home: Home, provider: Provider
) -> None:
    provider.tells({"/v1/models": {"data": [{"id": "m"}]}, "/api/ps": {"models": []}})
    with daemon_thread(without_window(home)) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "hello", "tg:1")
            provider.tells({"/api/ps": {"models": [{"name": "m", "context_length": 5000}]}})
            await talk.say("ada", "again", "tg:1")
        (found,) = [each for each in daemon.cli_json("models")["data"] if each["name"] == "fake"]
        assert found["window"] == 5000
    first, second = map(offered, provider.bodies())
    assert "import_skill" in first
    assert "import_skill" not in second


async def test_a_window_nobody_names_is_assumed_with_a_warning_and_no_tool_is_missing(
    home: Home, provider: Provider
) -> None:
    with daemon_thread(without_window(home)) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "hello", "tg:1")
        (found,) = [each for each in daemon.cli_json("models")["data"] if each["name"] == "fake"]
        listed, examined = daemon.cli("models"), daemon.cli("doctor")
    assert (found["window"], found["window_is_assumed"], found["tools_left_out"]) == (32768, True, [])
    warning = "The context window of fake is unknown: its server does not say. 32768 tokens are assumed"
    for told in (listed.stderr, examined.stdout):
        assert warning in " ".join(told.split())
    assert "import_skill" in offered(provider.bodies()[0])


def test_the_tools_of_an_agent_say_what_its_model_is_not_offered_and_why(home: Home, provider: Provider) -> None:
    changed(home, "window = 8192", "window = 1500")
    path = home.write_agent("ada")
    path.write_text(path.read_text().replace("name: ada", "name: ada\nprefixes: [fs_*, exec*, web_*]"))
    with daemon_thread(home) as daemon:
        shown = daemon.cli("agents", "tools", "ada")
        (found,) = daemon.cli_json("agents", "tools", "ada")["data"]["agents"]
    assert found["left_out"]
    assert not set(found["left_out"]) & {"ask_user", "recall"}
    assert found["left_out_reason"] == "the context window of fake has 1500 tokens; it finds them with tool_search"
    told = " ".join(shown.stdout.split())
    assert f"ada is not offered {', '.join(found['left_out'])}: {found['left_out_reason']}." in told
