"""moot demo: the tour works with the embedded model, and visibly falls back where it cannot be had."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moot.agents.registry import EMBEDDED_NAMES, Registry
from moot.cli.demo.demo_home import find_demo_home, hold_demo_home, write_agents
from moot.daemon.paths import Paths
from moot.domain.errors import MootError
from moot.models.pull import pull
from tests import fork_server
from tests.daemon_process import Home, call_cli
from tests.terminal import terminal

pytestmark = pytest.mark.timeout(180)

# An index nobody answers at: the model cannot be pulled.
NO_INDEX = {"PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_EXTRA_INDEX_URL": ""}


def demo(home: Home, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return fork_server.run(
        [sys.executable, "-m", "moot", "demo", *arguments],
        env=home.environment(**environment),
        stdin=subprocess.DEVNULL,
        timeout=150,
    )


def test_the_agents_that_come_along_stay_beside_those_of_the_demo(tmp_path: Path) -> None:
    home = Paths.under(tmp_path)
    write_agents(home, "scripted")

    registry = Registry(home.agents)

    found = {agent.name: str(agent.source) for agent in registry.all()}
    assert {found[name] for name in ("writer", "critic", "keeper")} == {"user"}
    assert {found[name] for name in EMBEDDED_NAMES} == {"embedded"}
    assert [agent.warnings for agent in registry.all() if agent.warnings] == []


def test_a_demo_does_not_disturb_one_that_is_running(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    running = find_demo_home(home.environment())

    with hold_demo_home(running):
        second = demo(home, **NO_INDEX)

    assert second.returncode == 1
    assert f"another demo is running in {running.config.parent}" in second.stderr
    assert not running.agents.exists()


def check_tour(data: dict[str, Any]) -> None:
    steps = {step["step"]: step for step in data["steps"]}
    assert list(steps) == ["question", "guest", "approval", "tool", "teammate", "kill", "compact", "recall", "restart"]
    assert (steps["question"]["agent"], steps["question"]["outcome"]) == ("writer", "completed")
    assert (steps["guest"]["agent"], steps["guest"]["outcome"]) == ("critic", "completed")
    assert (steps["approval"]["tool"], steps["tool"]["outcome"]) == ("fs_write", "completed")
    assert (steps["teammate"]["agent"], steps["teammate"]["outcome"]) == ("moot", "completed")
    assert "operator" in steps["teammate"]["content"]
    assert steps["kill"]["outcome"] == "cancelled"
    assert "critic" in [entry["agent"] for entry in steps["recall"]["archive"]["messages"]]
    assert [(entry["role"], entry["agent"]) for entry in data["history"]] == [
        ("user", ""),
        ("assistant", ""),
        ("user", ""),
        ("assistant", "critic"),
        ("user", ""),
    ]


@pytest.fixture
def bare(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def with_model(bare: Home, request: pytest.FixtureRequest) -> Home:
    pytest.importorskip("xllamacpp")
    kept = Path(os.environ.get("MOOT_TEST_DATA") or str(request.config.cache.mkdir("moot-data"))) / "models"
    try:
        pull("smollm2", kept, lambda _: None)
    except MootError as error:
        pytest.skip(f"SmolLM2 cannot be had here: {error.message}")
    models = bare.path / "data" / "models"
    models.parent.mkdir(parents=True)
    models.symlink_to(kept)
    return bare


def test_the_embedded_model_gives_real_answers(with_model: Home) -> None:
    done = demo(with_model, "--json")

    data = json.loads(done.stdout)["data"]
    assert (done.returncode, data["fell_back"], data["model"]) == (0, False, "smollm2")
    check_tour(data)
    # Only what the small model cannot do is scripted, and marked.
    assert data["scripted_steps"] == [3, 4]


def test_without_the_model_it_says_so_and_falls_back(bare: Home) -> None:
    done = demo(bare, "--json", **NO_INDEX)

    data = json.loads(done.stdout)["data"]
    assert (done.returncode, data["fell_back"], data["model"]) == (0, True, "scripted")
    assert "cannot be reached" in data["reason"]
    assert "FALLING BACK" in done.stderr
    check_tour(data)


# How the command is called when it is shown for the first and for the second time.
CALLED = ("moot", "./dev moot")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is shown without the model, twice in one home, by how the command is called."""
    home, said = Home(tmp_path_factory.mktemp("shown") / "home"), {}
    for called in CALLED:
        done = demo(home, MOOT_DEV=called, **NO_INDEX)
        assert done.returncode == 0, done.stderr
        assert call_cli(home, "status").returncode == 69, "a daemon was left behind"
        said[called] = done.stdout
    return said


@pytest.mark.parametrize("called", CALLED)
def test_it_can_be_shown_again_and_leaves_no_daemon_behind(shown: dict[str, str], called: str) -> None:
    assert "9. Everything is still there." in shown[called]
    assert "Scripted answers were shown" in shown[called]
    assert "3. An agent asks before it changes a file. (scripted)" in shown[called]


def test_the_recall_shows_the_guest_by_name(shown: dict[str, str]) -> None:
    step = shown["moot"].partition("7. You search the archives")[2].partition("8. The daemon")[0]
    assert "   writer: " in step
    assert "   critic: " in step
    assert "   you: " in step
    assert "with many chapters. (killed)" in step


@pytest.mark.parametrize("called", CALLED)
def test_what_comes_next_is_named_as_the_person_has_to_type_it(shown: dict[str, str], called: str) -> None:
    after = shown[called].partition("Next:")[2]
    assert f"   {called} init " in after
    assert after.count("moot chat") == after.count(f"{called} chat") == 2


def test_no_word_is_broken_where_the_terminal_ends(bare: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NO_INDEX.items():
        monkeypatch.setenv(name, value)

    with terminal(bare, "demo", columns=50, no_color="1") as person:
        assert person.wait_for_exit(120) == 0

    said = " ".join(person.seen.split())
    assert "The sea keeps coming back to the shore, as if it had forgotten something there." in said
    told = [
        line for line in person.seen.split("\n") if line.startswith("   ") and "/" not in line and "  moot" not in line
    ]
    assert max(map(len, told[:12])) <= 50


@pytest.mark.parametrize("columns", [60, 80])
def test_commands_are_shown_whole_and_what_they_do_beside_or_below_them(
    bare: Home, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    for name, value in NO_INDEX.items():
        monkeypatch.setenv(name, value)

    with terminal(bare, "demo", columns=columns, no_color="1", MOOT_DEV="./dev moot") as person:
        assert person.wait_for_exit(120) == 0

    steps = person.seen.partition("7. You search the archives")[2]
    assert "   ./dev moot recall writer sea" in steps
    # Its home may be anywhere, and a command that is broken cannot be copied.
    assert [line for line in steps.split("\n") if len(line) > columns and "MOOT_HOME=" not in line] == []
    assert "a larger embedded model that can choose tools" in " ".join(steps.split())


def test_the_users_agents_and_configuration_are_not_touched(bare: Home) -> None:
    path = bare.write_agent("writer", "Mine.")
    bare.write_config("queue_bound = 5\n")
    before = {each: each.read_text() for each in (path, bare.path / "config.toml")}

    done = demo(bare, "--json", **NO_INDEX)

    assert done.returncode == 0, done.stderr
    assert {each: each.read_text() for each in before} == before
    assert sorted(each.name for each in (bare.path / "agents").iterdir()) == ["writer"]
    assert json.loads(done.stdout)["data"]["home"] == str(bare.path / "data" / "demo")
