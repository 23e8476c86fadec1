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
from tests.daemon_process import Home, call_cli

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


def make_repository(folder: Path) -> None:
    """A repository with one skill, which a plain web server can serve."""
    put(folder, "greet")
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"], ["gc", "-q"], ["update-server-info"]):
        subprocess.run([*git, *words], check=True)


def test_a_repository_on_this_machine_is_fetched_where_its_address_is_allowed(
    home: Home, tmp_path: Path, site: str
) -> None:
    make_repository(tmp_path / "site" / "work")
    (tmp_path / "site" / "work" / ".git").rename(tmp_path / "site" / "greet.git")
    address = f"http://{site}/greet.git"
    for unlisted in (address, f"https://{site}/greet.git"):
        refused = call_cli(home, "skills", "add", unlisted)
        assert (refused.returncode, "allow_private" in refused.stderr) == (4, True), refused.stderr
    home.write_config((home.path / "config.toml").read_text() + f'[web]\nallow_private = ["{site}"]\n')
    digest = call_cli(home, "skills", "add", address).stderr.rpartition("--digest ")[2].strip()
    assert "Added greet: skill_greet." in call_cli(home, "skills", "add", address, "--digest", digest).stdout
    # Another address is not fetched instead.
    gone = call_cli(home, "skills", "add", f"http://{site}/none.git")
    assert "cannot be fetched" in gone.stderr


@pytest.mark.parametrize(
    ("source", "https"),
    [
        ("git@example.org:team/skills.git", "https://example.org/team/skills.git"),
        ("ssh://git@example.org:22/team/skills.git", "https://example.org/team/skills.git"),
        ("example.org:team/skills.git", "https://example.org/team/skills.git"),
    ],
)
def test_an_ssh_address_is_refused_with_what_works_instead(home: Home, source: str, https: str) -> None:
    refused = call_cli(home, "skills", "add", source)
    told = " ".join(refused.stderr.split())
    assert refused.returncode == 2
    assert "is an ssh address" in told
    assert https in told
    assert f"git clone {source}" in told


def test_what_is_no_archive_is_said_to_need_git_if_it_is_a_repository(home: Home, site: str) -> None:
    home.write_config((home.path / "config.toml").read_text() + f'[web]\nallow_private = ["{site}"]\n')
    refused = call_cli(home, "skills", "add", f"http://{site}/")
    assert f"http://{site}.git" in " ".join(refused.stderr.split())
    assert "not over git" in " ".join(call_cli(home, "skills", "add", "git://example.org/a.git").stderr.split())


def test_a_repository_is_fetched_over_the_given_protocol_alone(tmp_path: Path) -> None:
    repository = tmp_path / "skills.git"
    make_repository(repository)
    found = clone_skills(f"file://{repository}", SkillConfig(), protocol="file")
    assert sorted(found) == ["greet/SKILL.md", "greet/more.txt"]
    with pytest.raises(Unavailable, match="not allowed"):
        clone_skills(f"file://{repository}", SkillConfig())
