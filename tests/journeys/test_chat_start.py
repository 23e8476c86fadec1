"""What opens: `moot` alone, the first run, and one conversation per project directory."""

import os
from pathlib import Path

from moot.cli.project_sender import derive_sender
from tests.daemon_process import CONFIG as BASE
from tests.daemon_process import Home, LiveDaemon, run_cli
from tests.daemon_thread import daemon_thread
from tests.terminal import terminal

CONFIG = BASE + '[chat]\nagent = "ada"\nhere = true\n'
SCRIPT = '[[rule]]\nreply = "Heard: {user}"\n'
CONTROL_C, CONTROL_D = "\x03", "\x04"


def test_moot_alone_opens_the_configured_chat_of_the_project(daemon: LiveDaemon) -> None:
    here = derive_sender("user", os.getcwd())
    with terminal(daemon.home, columns=60) as person:
        person.wait_on_screen("ada · scripted")
        person.enter("Hello")
        person.wait_for("ada › Heard: Hello")
        person.type(CONTROL_D)
        assert person.wait_for_exit() == 0
    listed = daemon.cli_json("conversations")["data"]
    assert [(each["agent"], each["sender"]) for each in listed] == [("ada", here)]
    assert daemon.cli_json("history", "ada", "--here")["data"]["messages"][0]["content"] == "Hello"
    # A named sender is exactly that one, and `--no-here` the ordinary one.
    with terminal(daemon.home, "chat", "--no-here", "-m", "outside") as person:
        person.wait_for("ada › Heard: outside")
        person.type(CONTROL_D)
        person.wait_for_exit()
    assert daemon.cli_json("history", "ada")["data"]["messages"][0]["content"] == "outside"


def test_a_command_that_is_typed_before_the_chat_is_connected_waits_for_that(daemon: LiveDaemon) -> None:
    with terminal(daemon.home, "chat") as person:
        person.enter("/model")
        person.wait_on_screen("(the agent's own; /model NAME switches it here)")
        assert "not running" not in person.rows.text
        person.type(CONTROL_D)
        assert person.wait_for_exit() == 0


def test_a_directory_conversation_is_the_same_in_subfolders_and_only_there(tmp_path: Path) -> None:
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    (tmp_path / "shop" / "src").mkdir()
    (tmp_path / "other").mkdir()
    top = derive_sender("user", str(tmp_path / "shop"))

    assert derive_sender("user", str(tmp_path / "shop" / "src")) == top
    assert top.startswith("user@shop-")
    assert derive_sender("user", str(tmp_path / "other")) != top
    assert derive_sender("laptop", str(tmp_path / "shop")) == top.replace("user", "laptop")


def test_the_first_run_leads_to_init(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.write_config('[listen]\nhttp = "off"\ntcp = "off"\n')
    with daemon_thread(home):
        (home.path / "config.toml").unlink()
        assert "moot init " in run_cli(home).stdout
        with terminal(home) as person:
            person.wait_for("Moot has no model yet, so it is set up first.")
            person.wait_for("Which one")
            person.type(CONTROL_C)
            assert person.wait_for_exit() == 130


def test_a_near_miss_of_an_agent_or_a_run_is_suggested(daemon: LiveDaemon) -> None:
    assert "Did you mean 'ada'?" in daemon.cli("ask", "adda", "hello").stderr
    assert "Did you mean 'ada'?" in daemon.cli("agents", "show", "Adaa").stderr
    assert "Did you mean" not in daemon.cli("ask", "zebra", "hello").stderr
