"""Keys, browser profiles and histories in the home folder are for no tool, wherever it stands."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from moot.daemon.clock import SystemClock
from moot.domain.errors import Forbidden, MootError
from moot.domain.ports.tool import RunContext
from moot.tools.files import file_tools
from moot.tools.files.off_limits import OffLimits
from moot.tools.files.private_places import private_places
from tests.change_logs import make_log
from tests.escape.exec_kit import KEY, Bench

CANARY = "canary-of-the-home"
SECRETS = (
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".gnupg/private-keys-v1.d/a.key",
    ".config/gh/hosts.yml",
    ".config/google-chrome/Default/Login Data",
    ".mozilla/firefox/a.default/logins.json",
    ".bash_history",
    ".zsh_history",
    ".local/share/fish/fish_history",
    ".netrc",
    ".docker/config.json",
    ".kube/config",
    ".git-credentials",
    ".local/share/keyrings/login.keyring",
)

LOG = make_log(Path(tempfile.mkdtemp(prefix="moot-log-")))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder as people have it, with something in each private place and something beside them."""
    folder = tmp_path / "people" / "me"
    for name in SECRETS:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CANARY)
    (folder / ".config" / "nvim").mkdir()
    (folder / ".config" / "nvim" / "init.lua").write_text("plain")
    (folder / "notes.txt").write_text("plain")
    monkeypatch.setenv("HOME", str(folder))
    return folder


class FileTools:
    def __init__(self, cwd: Path) -> None:
        made = file_tools.tools(off_limits=OffLimits(private=private_places()), log=LOG, clock=SystemClock())
        self._tools: dict[str, Any] = {tool.spec.name: tool for tool in made}
        self._context = RunContext(run_id="r", key=KEY, speaker="moot", cwd=str(cwd), emit=print, ask=_nobody)

    async def __call__(self, tool: str, **arguments: Any) -> str:
        said = await self._tools[tool](arguments, self._context)
        return said if isinstance(said, str) else str(said.content)


async def _nobody(_questions: object) -> str:
    raise AssertionError


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("above", [0, 1, 2])
async def test_file_tools_do_not_read_write_or_move_what_is_private(home: Path, secret: str, above: int) -> None:
    cwd = [home, home.parent, home.parent.parent][above]
    use = FileTools(cwd)
    path = str((home / secret).relative_to(cwd))
    attempts: list[tuple[str, dict[str, Any]]] = [
        ("fs_read", {"path": path}),
        ("fs_stat", {"path": path}),
        ("fs_write", {"path": path, "content": "mine"}),
        ("fs_edit", {"path": path, "startLine": 1, "endLine": 1, "content": "mine"}),
        ("fs_delete", {"path": path}),
        ("fs_delete", {"path": str(home.relative_to(cwd) / Path(secret).parts[0]), "recursive": True}),
        ("fs_list", {"path": os.path.dirname(path) or "."}),
    ]
    for tool, arguments in attempts:
        try:
            said = await use(tool, **arguments)
        except MootError:
            continue
        # The home itself can be listed; what its entries hold cannot be seen.
        assert tool in ("fs_list", "fs_delete")
        assert CANARY not in said
    assert (home / secret).read_text() == CANARY


@pytest.mark.parametrize("secret", [".ssh/authorized_keys", ".aws/credentials", ".netrc", ".config/gh/hosts.yml"])
async def test_file_tools_do_not_make_what_is_private_where_it_is_not_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    empty = tmp_path / "me"
    empty.mkdir()
    monkeypatch.setenv("HOME", str(empty))
    with pytest.raises(Forbidden):
        await FileTools(empty)("fs_write", path=secret, content="mine")
    assert not (empty / secret).exists()


async def test_file_tools_work_beside_what_is_private(home: Path) -> None:
    use = FileTools(home)
    assert "plain" in await use("fs_read", path="notes.txt")
    assert "plain" in await use("fs_read", path=".config/nvim/init.lua")
    await use("fs_write", path="made.txt", content="made")
    assert (home / "made.txt").read_text() == "made"


@pytest.mark.parametrize("inside", [".ssh", ".config/google-chrome/Default", ".gnupg/private-keys-v1.d"])
async def test_nobody_stands_in_a_private_place(home: Path, bench: Bench, inside: str) -> None:
    with pytest.raises(Forbidden):
        await bench.say("ls", cwd=home / inside)
    with pytest.raises(Forbidden):
        await FileTools(home / inside)("fs_list", path=".")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


@pytest.mark.parametrize("where", ["", ".config", ".local/share", "..", "../.."])
async def test_a_command_sees_nothing_private_wherever_it_stands(home: Path, bench: Bench, where: str) -> None:
    cwd = (home / where).resolve()
    said = await bench.say(f"grep -rs {CANARY} {home} . | wc -l; cat {home}/{SECRETS[0]} {home}/.netrc; true", cwd=cwd)
    assert said.splitlines()[0] == "0"
    assert CANARY not in said


@pytest.mark.parametrize("secret", SECRETS)
async def test_a_command_at_home_neither_reads_nor_changes_what_is_private(
    home: Path, bench: Bench, secret: str
) -> None:
    said = await bench.say(
        f"cat '{secret}'; echo mine > '{secret}'; rm -rf '{secret}'; mv {Path(secret).parts[0]} gone; ln '{secret}' l; "
        "cat l"
    , cwd=home)  # fmt: skip
    assert CANARY not in said
    assert (home / secret).read_text() == CANARY


async def test_a_command_in_a_folder_of_keys_to_be_cannot_put_them_there(home: Path, bench: Bench) -> None:
    await bench.say("mkdir -p op && echo mine > op/config; echo x > gh/hosts.yml", cwd=home / ".config")
    assert not (home / ".config" / "op").exists()


async def test_a_folder_that_the_owner_lends_shows_nothing_private_in_it(home: Path, tmp_path: Path) -> None:
    lending = Bench(tmp_path / "lending", readable=(str(home),))
    said = await lending.say(f"cat {home}/notes.txt {home}/.ssh/id_ed25519 {home}/.bash_history")
    assert "plain" in said
    assert CANARY not in said


async def test_a_link_to_a_private_place_leads_nowhere(home: Path, bench: Bench) -> None:
    project = home / "project"
    project.mkdir()
    (project / "keys").symlink_to(home / ".ssh")
    (home / ".aws").rename(home / "project" / "cloud")
    (home / ".aws").symlink_to(home / "project" / "cloud")
    said = await bench.say("cat keys/id_ed25519 cloud/credentials", cwd=project)
    assert CANARY not in said
    with pytest.raises(Forbidden):
        await FileTools(project)("fs_read", path="cloud/credentials")
    with pytest.raises(Forbidden):
        await FileTools(project)("fs_read", path="keys/id_ed25519")
