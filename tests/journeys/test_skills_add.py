"""`moot skills add`: skills from folders, archives, addresses and repositories, approved by what was shown."""

import io
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from moot.domain.config import SkillConfig
from moot.domain.errors import Unavailable
from moot.tools.skills.skill_sources import clone_skills
from tests.daemon_process import Home
from tests.daemon_thread import call_cli

SKILL = "---\nname: {name}\ndescription: Says hello.\n---\n\nSay hello.\n"


def put(folder: Path, name: str) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(SKILL.format(name=name))
    (folder / name / "more.txt").write_text("more text\n")
    return folder / name


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "site"
    folder.mkdir()
    with tarfile.open(folder / "skills.tar.gz", "w:gz") as archive:
        data = SKILL.format(name="far").encode()
        entry = tarfile.TarInfo("far/SKILL.md")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_folder_and_an_archive_at_an_address_are_added_once_they_were_shown(
    home: Home, tmp_path: Path, site: str
) -> None:
    greet = put(tmp_path / "elsewhere", "greet")
    refused = call_cli(home, "skills", "add", str(greet))
    assert refused.returncode == 2
    assert "  | Say hello." in refused.stderr
    assert "  | more text" in refused.stderr
    digest = refused.stderr.rpartition("--digest ")[2].strip()
    assert call_cli(home, "skills", "add", str(greet), "--digest", "0" * 64).returncode == 1
    (greet / "more.txt").write_text("changed\n")
    assert call_cli(home, "skills", "add", str(greet), "--digest", digest).returncode == 1
    (greet / "more.txt").write_text("more text\n")
    assert "Added greet: skill_greet." in call_cli(home, "skills", "add", str(greet), "--digest", digest).stdout
    assert "added by you" in call_cli(home, "skills").stdout
    # What is changed afterwards is not what was approved.
    (home.path / "skills" / "greet" / "more.txt").write_text("other")
    assert "not trusted yet" in call_cli(home, "skills").stdout
    # The network is reached only over https, or on this machine where that is allowed.
    assert call_cli(home, "skills", "add", "http://example.org/skills.tar.gz").returncode == 2
    assert call_cli(home, "skills", "add", f"http://{site}/skills.tar.gz").returncode != 0
    home.write_config((home.path / "config.toml").read_text() + f'[web]\nallow_private = ["{site}"]\n')
    shown = call_cli(home, "skills", "add", f"http://{site}/skills.tar.gz")
    digest = shown.stderr.rpartition("--digest ")[2].strip()
    added = call_cli(home, "skills", "add", f"http://{site}/skills.tar.gz", "--digest", digest)
    assert "Added far: skill_far." in added.stdout


def test_skills_of_the_project_and_the_home_are_found_until_they_are_added(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "src").mkdir()
    near = put(project / ".claude/skills", "near")
    monkeypatch.chdir(project / "src")
    listed = call_cli(home, "skills")
    assert f"moot skills add {near}" in " ".join(listed.stdout.split())
    digest = call_cli(home, "skills", "add", str(near)).stderr.rpartition("--digest ")[2].strip()
    assert call_cli(home, "skills", "add", str(near), "--digest", digest).returncode == 0
    assert "not added" not in call_cli(home, "skills").stdout
    # A change is offered, and taken over by the same command; agents keep what was approved until then.
    (near / "more.txt").write_text("changed")
    assert f"changed (moot skills add {near})" in " ".join(call_cli(home, "skills").stdout.split())
    assert call_cli(home, "skills", "add", str(near), "--digest", digest).returncode == 1
    again = call_cli(home, "skills", "add", str(near)).stderr.rpartition("--digest ")[2].strip()
    assert call_cli(home, "skills", "add", str(near), "--digest", again).returncode == 0
    assert "changed" not in call_cli(home, "skills").stdout
    assert (home.path / "skills" / "near" / "more.txt").read_text() == "changed"


def test_a_repository_is_fetched_over_the_given_protocol_alone(tmp_path: Path) -> None:
    repository = tmp_path / "skills.git"
    put(repository, "greet")
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    found = clone_skills(f"file://{repository}", SkillConfig(), protocol="file")
    assert sorted(found) == ["greet/SKILL.md", "greet/more.txt"]
    with pytest.raises(Unavailable, match="not allowed"):
        clone_skills(f"file://{repository}", SkillConfig())
