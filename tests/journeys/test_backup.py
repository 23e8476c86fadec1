"""A backup of the whole home: made while the daemon runs, restored elsewhere, sealed keys, old or new after a crash."""

import base64
import json
import zipfile
from pathlib import Path

import pytest

from moot.daemon.vault.master_key import load_key
from tests.daemon_process import CONFIG as PLAIN_CONFIG
from tests.daemon_process import Home, call_cli, run_cli
from tests.daemon_thread import daemon_thread
from tests.scripting import script

SCRIPT = script({"reply": "You said: {user}"})
SECRET = "swordfish-4711-sesame"
PASSPHRASE = "a long enough passphrase\n"
# A keyring of the machine, if there is one, would keep the key out of the home.
CONFIG = PLAIN_CONFIG + '[vault]\nkey = "file"\n'
TOOL = 'from moot.tools import tool\n\n\n@tool\ndef dice(sides: int) -> str:\n    """Roll."""\n    return "4"\n'


def furnish(home: Home) -> None:
    (home.path / "tools").mkdir()
    (home.path / "tools" / "dice.py").write_text(TOOL)
    (home.path / "skills" / "sail").mkdir(parents=True)
    (home.path / "skills" / "sail" / "SKILL.md").write_text("---\nname: sail\ndescription: Sails.\n---\nSail.\n")
    runner = home.path / "skills" / "sail" / "run.sh"
    runner.write_text("#!/bin/sh\n")
    runner.chmod(0o755)
    (home.path / "skills" / "sail" / "link").symlink_to("/etc/passwd")


def test_a_home_is_restored_under_other_folders_with_its_secrets(home: Home, tmp_path: Path) -> None:
    furnish(home)
    archive = tmp_path / "home.zip"
    with daemon_thread(home) as daemon:
        daemon.cli("ask", "ada", "hello")
        daemon.cli("secrets", "set", "DOOR", stdin=SECRET)
        workspace = home.path / "data" / "workspaces" / "ada-0123456789abcdef"
        workspace.mkdir(parents=True)
        (workspace / "notes.txt").write_text("mine")
        bare = daemon.cli("backup", str(tmp_path / "bare.zip"))
        assert "can be read only with the key in data/vault.key" in bare.stdout
        made = daemon.cli("backup", str(archive), "--workspaces", "--with-keys", "--json", stdin=PASSPHRASE)
        assert json.loads(made.stdout)["data"]["left_out"] == ["skills/sail/link"]
        assert daemon.cli("backup", str(archive)).returncode != 0
    assert archive.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.glob(".*")] == []
    key = bytes(load_key(home.path / "data" / "vault.key", "file").view)
    with zipfile.ZipFile(archive) as packed:
        everything = b"".join(packed.read(name) for name in packed.namelist())
    assert SECRET.encode() not in everything
    assert base64.b64encode(key) not in everything
    assert key not in everything

    # Another user: no MOOT_HOME, each part under an XDG folder of its own.
    there = tmp_path / "there"
    folders = {f"XDG_{name}_HOME": str(there / name.lower()) for name in ("CONFIG", "DATA", "STATE")}
    elsewhere = {"MOOT_HOME": "", "HOME": str(there), "XDG_RUNTIME_DIR": "", **folders}
    wrong = run_cli(home, "restore", str(archive), "--with-keys", "--yes", stdin="not the passphrase", **elsewhere)
    assert "the passphrase is wrong" in wrong.stderr
    assert not (there / "config" / "moot" / "config.toml").exists()
    keyless = run_cli(home, "restore", str(archive), "--yes", **elsewhere)
    assert "The key to the stored secrets is not here" in keyless.stdout
    done = run_cli(home, "restore", str(archive), "--with-keys", "--yes", "--json", stdin=PASSPHRASE, **elsewhere)
    assert json.loads(done.stdout)["data"]["has_key"] is True
    config, data = there / "config" / "moot", there / "data" / "moot"
    assert bytes(load_key(data / "vault.key", "file").view) == key
    assert (config / "tools" / "dice.py").read_text() == TOOL
    assert (config / "skills" / "sail" / "run.sh").stat().st_mode & 0o777 == 0o700
    assert not (config / "skills" / "sail" / "link").exists()
    assert (data / "workspaces" / workspace.name / "notes.txt").read_text() == "mine"
    try:
        history = run_cli(home, "history", "ada", "--json", **elsewhere)
        assert [each["content"] for each in json.loads(history.stdout)["data"]["messages"]] == [
            "hello",
            "You said: hello",
        ]
    finally:
        run_cli(home, "down", "--now", **elsewhere)


@pytest.mark.parametrize(
    ("point", "expected"),
    [("restore.staged", "new"), ("restore.planned", "old"), ("restore.moved:4", "old"), ("restore.exchanged:6", "old")],
)
def test_a_restore_that_is_killed_leaves_the_old_home_or_the_new_one(
    home: Home, tmp_path: Path, point: str, expected: str
) -> None:
    archive = tmp_path / "home.zip"
    with daemon_thread(home) as daemon:
        daemon.cli("ask", "ada", "old")
        assert daemon.cli("backup", str(archive)).returncode == 0
        home.write_agent("ada", description="A new one.")
        home.write_agent("zoe")
        daemon.cli("ask", "ada", "new")
    killed = run_cli(home, "restore", str(archive), "--yes", MOOT_FAIL_AT=point)
    assert killed.returncode < 0
    with daemon_thread(home) as daemon:
        listed = {each["name"]: each["description"] for each in daemon.cli_json("agents", "list")["data"]}
        told = [
            each["content"] for each in daemon.cli_json("history", "ada")["data"]["messages"] if each["role"] == "user"
        ]
        assert told == (["old"] if expected == "old" else ["old", "new"])
        assert ("zoe" in listed, listed["ada"] == "A new one.") == ((expected == "new"),) * 2
        assert not (home.path / "data" / "restore.json").exists()
    if expected == "new":
        # What was unpacked is removed by the next restore, which succeeds.
        assert call_cli(home, "restore", str(archive), "--yes").returncode == 0
        assert not list(home.path.glob("**/.moot-restoring-*"))
        assert (next((home.path / "before-restore").glob("agents.*")) / "zoe" / "AGENT.md").exists()


def test_a_restore_into_a_new_home_keeps_nothing_and_says_so(home: Home, tmp_path: Path) -> None:
    archive = tmp_path / "home.zip"
    with daemon_thread(home) as daemon:
        assert daemon.cli("backup", str(archive)).returncode == 0
    fresh = {"MOOT_HOME": str(tmp_path / "fresh")}
    restored = json.loads(run_cli(home, "restore", str(archive), "--yes", "--json", **fresh).stdout)["data"]
    assert (restored["kept"], restored["kept_folder"], restored["kept_files"]) == ("", "", [])
    assert not (tmp_path / "fresh" / "before-restore").exists()


def entry(name: str, mode: int = 0o100600) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.create_system, made.external_attr = 3, mode << 16
    return made


HOSTILE = {
    "traversal": (entry("agents/../../evil"), "x"),
    "absolute": (entry("/tmp/evil"), "x"),
    "link": (entry("agents/ada", 0o120777), "/etc/passwd"),
    "elsewhere": (entry("data/vault.key"), "x"),
    "nested settings": (entry("settings/a/b.toml"), "x"),
    "backslash": (entry("agents\\..\\evil"), "x"),
    "folder and file": (entry("agents/ada/AGENT.md/x"), "x"),
    "twice": (entry("manifest.json"), "{}"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_changes_nothing(home: Home, tmp_path: Path, name: str) -> None:
    archive = tmp_path / "home.zip"
    made, content = HOSTILE[name]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        manifest = {"form": "moot-home-1", "version": "1", "made_at": "", "key": "none", "folders": ["agents"]}
        packed.writestr(entry("manifest.json"), json.dumps(manifest))
        packed.writestr(entry("store.db"), "x")
        packed.writestr(entry("agents/ada/AGENT.md"), "x")
        made.compress_type = zipfile.ZIP_DEFLATED
        packed.writestr(made, content)
    before = {path: path.read_bytes() for path in home.path.rglob("*") if path.is_file()}
    refused = call_cli(home, "restore", str(archive), "--yes")
    assert refused.returncode != 0
    assert "is not a backup of a home" in refused.stderr
    after = {path: path.read_bytes() for path in home.path.rglob("*") if path.is_file() and path.name != "moot.lock"}
    assert after == before
