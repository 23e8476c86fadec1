"""Secrets whose master key is lost: set again after a restore without keys, never under a new key by mistake."""

from pathlib import Path

from moot.daemon.vault.master_key import load_key
from tests.daemon_process import CONFIG as PLAIN_CONFIG
from tests.daemon_process import Home, call_cli
from tests.daemon_thread import DaemonThread, daemon_thread
from tests.scripting import script

SCRIPT = script({"reply": "You said: {user}"})
CONFIG = PLAIN_CONFIG + '[vault]\nkey = "file"\n'
NAMES = ("DOOR", "GATE")


def is_readable(daemon: DaemonThread) -> dict[str, bool]:
    return {each["name"]: each["readable"] for each in daemon.cli_json("secrets", "list")["data"]["secrets"]}


def store_both(daemon: DaemonThread) -> None:
    for name in NAMES:
        daemon.cli("secrets", "set", name, stdin=f"value-of-{name}-4711")


def find_problem(daemon: DaemonThread) -> str:
    findings = daemon.cli_json("doctor")["data"]["findings"]
    return " ".join(f"{each['message']} {each['fix']}" for each in findings if each["check"] == "secrets")


def restore_without_key(home: Home, tmp_path: Path) -> Home:
    with daemon_thread(home) as daemon:
        store_both(daemon)
        assert daemon.cli("backup", str(tmp_path / "home.zip")).returncode == 0
    there = Home(tmp_path / "there")
    done = call_cli(there, "restore", str(tmp_path / "home.zip"), "--yes")
    assert "set the secrets again: moot secrets set NAME" in " ".join(done.stdout.split())
    return there


def test_secrets_are_set_again_after_a_restore_without_keys(home: Home, tmp_path: Path) -> None:
    there = restore_without_key(home, tmp_path)
    key = there.path / "data" / "vault.key"
    with daemon_thread(there) as daemon:
        assert is_readable(daemon) == {"DOOR": False, "GATE": False}
        assert daemon.cli("secrets").stdout.count("unreadable") == 2
        assert "set the secrets again: moot secrets set NAME" in find_problem(daemon)
        # Looking at them makes no key: the old one may still be copied here.
        assert not key.exists()
        assert daemon.cli("secrets", "set", "DOOR", stdin="another-value-0815").stdout.startswith("Replaced DOOR.")
        assert is_readable(daemon) == {"DOOR": True, "GATE": False}
        assert "1 stored secret cannot be opened: GATE" in find_problem(daemon)
    with daemon_thread(there) as daemon:
        assert is_readable(daemon) == {"DOOR": True, "GATE": False}
        daemon.cli("secrets", "rm", "GATE", "--yes")
        assert find_problem(daemon) == ""
    assert bytes(load_key(key, "file").view) != bytes(load_key(home.path / "data" / "vault.key", "file").view)
    # The consent of the restore is used up: a key that is lost later is not replaced.
    key.unlink()
    with daemon_thread(there) as daemon:
        refused = daemon.cli("secrets", "set", "DOOR", stdin="a-third-value-0816")
        assert (refused.returncode, key.exists()) == (69, False)


def test_the_key_of_the_old_home_opens_them_and_ends_the_consent(home: Home, tmp_path: Path) -> None:
    there = restore_without_key(home, tmp_path)
    key = there.path / "data" / "vault.key"
    key.touch(mode=0o600)
    key.write_bytes((home.path / "data" / "vault.key").read_bytes())
    with daemon_thread(there) as daemon:
        assert is_readable(daemon) == {"DOOR": True, "GATE": True}
    key.unlink()
    with daemon_thread(there) as daemon:
        assert daemon.cli("secrets", "set", "DOOR", stdin="another-value-0815").returncode == 69
        assert not key.exists()


def test_a_missing_key_is_replaced_only_with_the_flag(home: Home) -> None:
    key = home.path / "data" / "vault.key"
    with daemon_thread(home) as daemon:
        store_both(daemon)
    kept = key.read_bytes()
    key.unlink()
    with daemon_thread(home) as daemon:
        refused = daemon.cli("secrets", "set", "NEW", stdin="value-of-NEW-4711")
        assert refused.returncode == 69
        assert "moot secrets set NAME --new-key" in " ".join(refused.stderr.split())
        assert not key.exists()
        assert daemon.cli("secrets", "set", "NEW", "--new-key", stdin="value-of-NEW-4711").returncode == 0
        assert is_readable(daemon) == {"DOOR": False, "GATE": False, "NEW": True}
    # Nothing was lost: with the old key the old secrets can be read again.
    key.write_bytes(kept)
    with daemon_thread(home) as daemon:
        assert is_readable(daemon) == {"DOOR": True, "GATE": True, "NEW": False}
