import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from moot.daemon.paths import Paths, make_folder, socket_address
from moot.domain.errors import Unavailable


def test_moot_home_holds_everything(tmp_path: Path) -> None:
    paths = Paths.find({"MOOT_HOME": str(tmp_path), "XDG_CONFIG_HOME": "/elsewhere", "HOME": "/home/someone"})

    assert paths.config == tmp_path / "config.toml"
    assert paths.agents == tmp_path / "agents"
    assert paths.socket == tmp_path / "run" / "moot.sock"
    assert paths.store == tmp_path / "data" / "moot.db"
    assert paths.models == tmp_path / "data" / "models"
    assert paths.workspaces == tmp_path / "data" / "workspaces"
    assert paths.log.parent == tmp_path / "logs"


def test_a_relative_moot_home_does_not_move_with_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    paths = Paths.find({"MOOT_HOME": "here"})
    monkeypatch.chdir("/")

    assert paths.config == tmp_path / "here" / "config.toml"


def test_without_moot_home_the_xdg_folders_are_used() -> None:
    environ = {
        "HOME": "/home/ann",
        "XDG_CONFIG_HOME": "/x/config",
        "XDG_DATA_HOME": "/x/data",
        "XDG_STATE_HOME": "/x/state",
        "XDG_RUNTIME_DIR": "/x/run",
    }

    paths = Paths.find(environ)

    assert str(paths.config) == "/x/config/moot/config.toml"
    assert str(paths.store) == "/x/data/moot/moot.db"
    assert str(paths.socket) == "/x/run/moot/moot.sock"
    assert str(paths.logs) == "/x/state/moot/logs"


def test_unset_and_relative_xdg_variables_fall_back_to_the_home_folder() -> None:
    paths = Paths.find({"HOME": "/home/ann", "XDG_DATA_HOME": "relative"})

    assert str(paths.config) == "/home/ann/.config/moot/config.toml"
    assert str(paths.data) == "/home/ann/.local/share/moot"
    assert str(paths.socket) == "/home/ann/.local/state/moot/run/moot.sock"


def test_finding_paths_creates_nothing(tmp_path: Path) -> None:
    Paths.find({"MOOT_HOME": str(tmp_path / "home")})

    assert list(tmp_path.iterdir()) == []


def test_folders_are_made_for_their_owner_only(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "a" / "b")

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700


def test_a_file_in_the_way_is_said(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")

    with pytest.raises(Unavailable) as caught:
        make_folder(tmp_path / "home" / "run")

    assert "MOOT_HOME" in caught.value.fix


@pytest.fixture
def ordinary() -> Iterator[None]:
    """Root may write anywhere, so that a test run as root takes another user's part."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    yield
    os.seteuid(was)


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o755)
    folder = tmp_path / "home"
    folder.mkdir()
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)


def test_a_read_only_home_is_said(read_only: Path, ordinary: None) -> None:
    for folder in (read_only / "run", read_only):
        with pytest.raises(Unavailable) as caught:
            make_folder(folder)

        assert str(folder) in caught.value.message
        assert "MOOT_HOME" in caught.value.fix


@pytest.fixture
def closed(read_only: Path) -> Path:
    folder = read_only.parent / "closed"
    folder.mkdir(mode=0)
    return folder


def test_a_home_that_may_not_be_entered_is_said(closed: Path, ordinary: None) -> None:
    with pytest.raises(Unavailable):
        make_folder(closed / "home" / "run")


def test_a_socket_works_at_a_path_too_long_for_the_kernel(tmp_path: Path) -> None:
    path = make_folder(tmp_path / ("x" * 60) / ("y" * 60)) / "moot.sock"
    assert len(os.fsencode(path)) > 120

    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        with socket_address(path) as address:
            server.bind(address)
        server.listen()
        with socket_address(path) as address:
            client.connect(address)
        client.sendall(b"hello")
        accepted, _ = server.accept()
        with accepted:
            assert accepted.recv(5) == b"hello"

    assert path.is_socket()


def test_a_missing_folder_of_a_long_socket_path_is_said(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 60) / ("y" * 60) / "moot.sock"

    with pytest.raises(Unavailable), socket_address(path):
        pass
