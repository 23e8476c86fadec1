"""A backup of the whole home: made while the daemon runs, restored elsewhere, sealed keys, old or new after a crash."""

import base64
import json
import time
import zipfile
import zlib
from collections.abc import Callable
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


# What is not in a backup, by the first folder or name of a file, and how the help of `moot backup` says it.
LEFT_OUT = {
    "data/vault.key": "the master key",
    "data/identity.key": "the identity for other daemons",
    "data/placeholders.key": "the key of placeholders",
    "data/metrics.token": "the token for metrics",
    "data/models": "models",
    "data/file-changes": "the history for `moot undo`",
    "data/file-changes.key": "the history for `moot undo`",
    "data/demo": "the folders of `moot demo`",
    "data/nats": "`moot nats dev`",
    "data/workspaces": "working folders",
    "before-restore": "what a restore has kept",
    "logs": "logs",
    "skills/sail/link": "links",
}
# What the daemon makes again while it runs.
MADE_AGAIN = ("data/moot.lock", "data/config.last-good.toml", "data/moot.db-wal", "data/moot.db-shm", "run")
STORED_AS = {"data/moot.db": "store.db", "data/project-files.json": "project-files.json"}


def test_every_file_of_a_home_is_in_the_backup_or_the_help_says_that_it_is_not(home: Home, tmp_path: Path) -> None:
    furnish(home)
    (home.path / "workflows").mkdir()
    (home.path / "workflows" / "daily.yaml").write_text("name: daily\nsteps: []\n")
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "AGENTS.md").write_text("Build with make.")
    for name in ("models/x.gguf", "demo/config.toml", "nats/jetstream", "workspaces/ada-0/note", "file-changes/1.json"):
        (home.path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (home.path / "data" / name).write_text("x")
    for name in ("identity.key", "placeholders.key", "metrics.token", "file-changes.key"):
        (home.path / "data" / name).write_text("x")
    (home.path / "before-restore" / "agents.1").mkdir(parents=True)
    (home.path / "before-restore" / "agents.1" / "AGENT.md").write_text("x")
    archive = tmp_path / "home.zip"
    with daemon_thread(home) as daemon:
        daemon.cli("secrets", "set", "DOOR", stdin=SECRET)
        approve = ("project", "approve", "--cwd", str(tmp_path / "app"))
        approved = daemon.cli(*approve, "--digest", daemon.cli(*approve).stderr.rpartition("--digest ")[2].strip())
        assert approved.returncode == 0, approved.stderr
        assert daemon.cli("backup", str(archive)).returncode == 0
        help_text = " ".join(daemon.cli("backup", "--help").stdout.split())
        found = [str(path.relative_to(home.path)) for path in home.path.rglob("*") if not path.is_dir()]
    with zipfile.ZipFile(archive) as packed:
        kept = set(packed.namelist())
    missing = [
        name
        for name in found
        if not any(name == known or name.startswith(f"{known}/") for known in (*LEFT_OUT, *MADE_AGAIN))
        and not {name, f"settings/{name}", STORED_AS.get(name, "")} & kept
    ]
    assert missing == []
    assert [words for words in LEFT_OUT.values() if words not in help_text] == []
    there = Home(tmp_path / "there")
    assert call_cli(there, "restore", str(archive), "--yes").returncode == 0
    with daemon_thread(there) as daemon:
        assert daemon.cli_json("project", "--cwd", str(tmp_path / "app"))["data"]["files"][0]["approved"] is True


def test_what_a_restore_keeps_is_named_by_the_local_time(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "home.zip"
    with daemon_thread(home) as daemon:
        assert daemon.cli("backup", str(archive)).returncode == 0
    # As far from UTC as it gets, so that the hours differ.
    monkeypatch.setenv("TZ", "XXX-12")
    time.tzset()
    try:
        before = time.strftime("%Y%m%d-%H%M%S")
        kept = json.loads(call_cli(home, "restore", str(archive), "--yes", "--json").stdout)["data"]["kept"]
        after = time.strftime("%Y%m%d-%H%M%S")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert before <= kept.partition("before-restore-")[2][: len(before)] <= after


@pytest.mark.parametrize(("name", "options"), [("home.tar.gz", ()), ("home.tgz", ()), ("home.zip", ("--store-only",))])
def test_a_name_that_promises_another_format_is_refused(
    home: Home, tmp_path: Path, name: str, options: tuple[str, ...]
) -> None:
    refused = call_cli(home, "backup", str(tmp_path / name), *options)
    assert "a backup is a" in refused.stderr
    assert not (tmp_path / name).exists()


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


def damage_content(data: bytes) -> bytes:
    # Behind the name and the extra field with the two sizes.
    start = data.index(b"agents/ada/AGENT.md") + len("agents/ada/AGENT.md") + 20
    return data[:start] + b"\xff" * 8 + data[start + 8 :]


AGENT = b"---\nname: ada\ndescription: Ada.\n---\nYou are ada.\n"
DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "content": damage_content,
    "name": lambda data: data.replace(b"agents/ada/AGENT.md", b"agents/ada/AGENT.mx", 1),
    "checksum": lambda data: data.replace(zlib.crc32(AGENT).to_bytes(4, "little"), b"\0\0\0\0"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_archive_is_said_to_be_damaged_and_leaves_nothing(home: Home, tmp_path: Path, name: str) -> None:
    (home.path / "agents" / "ada" / "AGENT.md").write_bytes(AGENT)
    archive = tmp_path / "home.zip"
    with daemon_thread(home) as daemon:
        assert daemon.cli("backup", str(archive)).returncode == 0
    whole = archive.read_bytes()
    archive.write_bytes(DAMAGED[name](whole))
    assert archive.read_bytes() != whole
    before = {path: path.read_bytes() for path in home.path.rglob("*") if path.is_file()}
    refused = call_cli(home, "restore", str(archive), "--yes")
    assert refused.returncode == 2
    assert "'agents/ada/AGENT.md' in the backup is damaged" in refused.stderr
    assert {path: path.read_bytes() for path in home.path.rglob("*") if path.is_file()} == before
