"""What git obeys is out of reach of commands and file tools, and no name that changes meanwhile shows anything else."""

import asyncio
import ctypes
import os
import platform
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from moot.domain.errors import Conflict, Forbidden, MootError
from moot.tools.files.off_limits import OffLimits
from moot.tools.sandbox.plan import Command
from moot.tools.sandbox.sandbox import NotStarted, Sandbox
from tests.escape.exec_kit import Bench
from tests.escape.test_files_beneath import FileTools

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="the sandbox is made of Linux namespaces")

_EXCHANGE = 2


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def git(folder: Path, *words: str) -> str:
    name = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    done = subprocess.run(["git", *name, *words], cwd=folder, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout + done.stderr


def repository(folder: Path) -> Path:
    git(folder, "init", "-q", ".")
    (folder / "file").write_text("1")
    git(folder, "add", "file")
    git(folder, "commit", "-qm", "first")
    return folder / ".git"


def swap(one: Path, other: Path) -> None:
    """Exchange two names at once, as a command in the same folder can."""
    library = ctypes.CDLL(None, use_errno=True)
    assert library.renameat2(-100, bytes(one), -100, bytes(other), _EXCHANGE) == 0


async def shown_when(sandbox: Sandbox, bench: Bench, command: str, change: Callable[[], None]) -> str:
    """What a command prints where something is changed after all was looked at and before anything is mounted."""
    printed = bench.work.parent / "printed"
    started: list[asyncio.subprocess.Process] = []

    async def spawn(argv: list[str], kept: list[int], environment: dict[str, str]) -> int:
        change()
        with printed.open("wb") as file:
            started.append(
                await asyncio.create_subprocess_exec(
                    *argv, env=environment, pass_fds=kept, stdout=file, stderr=file, start_new_session=True
                )
            )
        return started[0].pid

    try:
        (await sandbox.launch(Command(argv=("/bin/sh", "-c", command), cwd=str(bench.work)), spawn))()
    except (NotStarted, Conflict):
        for process in started:
            if process.returncode is None:
                process.kill()
    for process in started:
        await asyncio.wait_for(process.wait(), 30)
    return printed.read_text()


async def test_nothing_in_the_working_directory_is_mounted_by_a_name_that_could_change(bench: Bench) -> None:
    repository(bench.work)
    bench.protected = [bench.work / "own" / "config.toml", bench.work / "own" / "data"]
    (bench.work / "own" / "data").mkdir(parents=True)
    seen: list[list[str]] = []

    async def spawn(_argv: list[str], kept: list[int], _environment: dict[str, str]) -> int:
        seen.append(os.pread(kept[-1], 1 << 20, 0).decode().split("\0"))
        raise Conflict("seen enough")

    with pytest.raises(Conflict, match="seen enough"):
        await bench.sandbox().launch(Command(argv=("true",), cwd=str(bench.work)), spawn)
    (words,) = seen
    sources = [words[at + 1] for at, word in enumerate(words) if word in ("--bind", "--ro-bind", "--ro-bind-try")]
    assert "/dev/null" in sources
    assert [source for source in sources if source.startswith(str(bench.work))] == []
    assert str(bench.work / ".git" / "config") in words
    assert str(bench.work / "own" / "data") in words


async def test_a_folder_that_is_lent_and_swapped_for_a_link_shows_nothing_else(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "lent").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "letter").write_text("canary-of-the-loan")
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    bench.settings["readable"] = (str(tmp_path / "lent"),)
    sandbox = bench.sandbox()
    command = f"cat {tmp_path}/lent/letter"

    def change() -> None:
        swap(tmp_path / "lent", tmp_path / "link")

    assert "canary" not in await shown_when(sandbox, bench, command, change)
    with pytest.raises(Forbidden):
        await shown_when(sandbox, bench, command, lambda: None)


async def test_a_lent_folder_in_the_working_directory_cannot_be_replaced_or_written(bench: Bench) -> None:
    lent = bench.work / "deep" / "lent"
    lent.mkdir(parents=True)
    bench.settings["readable"] = (str(lent),)
    await bench.say(
        "mv deep gone; rm -rf deep/lent; mv deep/lent x; ln -s / deep/lent; echo x > deep/lent/x; echo y > y"
    )
    assert lent.is_dir()
    assert not lent.is_symlink()
    assert list(lent.iterdir()) == []
    assert (bench.work / "y").exists()


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("git config user.name Eve", ".git/config"),
        ("git remote add origin https://example.org/x", ".git/config"),
        ("git checkout -q -b new --track master; true", ".git/config"),
        ("git worktree add -q beside", ".git/worktrees"),
        ("echo id > .git/hooks/pre-commit", ".git/hooks"),
        ("cd .git && mv config x", "config"),
        ("mv .git elsewhere", ".git"),
    ],
)
async def test_who_fails_at_what_git_obeys_is_told_why(bench: Bench, command: str, name: str) -> None:
    repository(bench.work)
    git(bench.work, "branch", "-M", "master")
    shown = await bench.say(f"export LC_ALL=C; {command}")
    if name == "config":
        # From inside it has another name; then nothing is said, rather than something wrong.
        assert "The sandbox" not in shown
    else:
        assert f"The sandbox keeps commands from changing {name}: git reads it" in shown


async def test_who_fails_at_something_else_is_told_nothing_of_it(bench: Bench) -> None:
    repository(bench.work)
    for command in (
        "export LC_ALL=C; cat .git/hooks/nothing; cat .git/config; git config --get no.name",
        "echo x > /usr/x; mkdir /usr/.git",
        "git -c user.name=Ada -c user.email=a@example.org commit -q --allow-empty -m second",
        "mkdir own && git init -q own && git -C own config a.b c",
    ):
        assert "The sandbox keeps" not in await bench.say(command)


async def test_a_background_command_is_told_why_too(bench: Bench) -> None:
    repository(bench.work)
    started = await bench.tool("exec_bg")({"command": "LC_ALL=C git config a.b c"}, bench.context())
    job = bench.jobs.find(bench.context().key, str(started))
    await asyncio.wait_for(job.process.over(), 30)
    told = await bench.tool("exec_status")({"id": str(started)}, bench.context())
    assert "The sandbox keeps commands from changing .git/config" in str(told)


@pytest.mark.parametrize("name", [".git", ".git/config", ".git/hooks"])
async def test_names_that_flip_all_the_time_lead_to_nothing_but_plain_refusals(
    bench: Bench, tmp_path: Path, name: str
) -> None:
    repository(bench.work)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "config").write_text("canary-of-the-race")
    link = bench.work / "link"
    link.symlink_to(outside / "config" if name.endswith("config") else outside)
    over = threading.Event()
    flips: list[int] = []

    def flip() -> None:
        while not over.is_set():
            swap(bench.work / name, link)
            flips.append(1)

    flipping = threading.Thread(target=flip)
    flipping.start()
    try:
        for _ in range(6):
            try:
                said = await bench.say("cat .git/config .git/hooks/config; echo x > .git/hooks/planted")
            except MootError as error:
                said = error.sentence
            assert "canary" not in said
            assert "bubblewrap (pip" not in said
    finally:
        over.set()
        flipping.join(30)
    assert len(flips) > 100
    assert sorted(path.name for path in outside.iterdir()) == ["config"]


async def test_a_mount_that_went_astray_ends_the_start(bench: Bench) -> None:
    repository(bench.work)
    sandbox = bench.sandbox()
    ran = bench.work / "ran"

    async def spawn(argv: list[str], kept: list[int], environment: dict[str, str]) -> int:
        # As if the name had been a link at the moment bubblewrap looked it up, and not after.
        words = os.pread(kept[-1], 1 << 20, 0).split(b"\0")
        at = words.index(bytes(bench.work / ".git" / "config"))
        os.ftruncate(kept[-1], 0)
        os.pwrite(kept[-1], b"\0".join(words[: at - 2] + words[at + 1 :]), 0)
        process = await asyncio.create_subprocess_exec(*argv, env=environment, pass_fds=kept, start_new_session=True)
        started.append(process)
        return process.pid

    started: list[asyncio.subprocess.Process] = []
    with pytest.raises(Conflict):
        await sandbox.launch(Command(argv=("/bin/sh", "-c", "touch ran"), cwd=str(bench.work)), spawn)
    await asyncio.wait_for(started[0].wait(), 30)
    assert not ran.exists()


async def test_something_else_mounted_in_the_right_place_ends_the_start(bench: Bench, tmp_path: Path) -> None:
    repository(bench.work)
    (tmp_path / "outside").write_text("canary-of-the-wrong-mount")
    started: list[asyncio.subprocess.Process] = []

    async def spawn(argv: list[str], kept: list[int], environment: dict[str, str]) -> int:
        words = os.pread(kept[-1], 1 << 20, 0).split(b"\0")
        at = words.index(bytes(bench.work / ".git" / "config"))
        words[at - 2 : at] = [b"--ro-bind", bytes(tmp_path / "outside")]
        os.ftruncate(kept[-1], 0)
        os.pwrite(kept[-1], b"\0".join(words), 0)
        started.append(
            await asyncio.create_subprocess_exec(*argv, env=environment, pass_fds=kept, start_new_session=True)
        )
        return started[0].pid

    with pytest.raises(Conflict):
        await bench.sandbox().launch(Command(argv=("/bin/sh", "-c", "cp .git/config ran"), cwd=str(bench.work)), spawn)
    await asyncio.wait_for(started[0].wait(), 30)
    assert not (bench.work / "ran").exists()


async def test_ordinary_work_with_git_goes_on_in_the_sandbox_and_leaves_no_trace(bench: Bench) -> None:
    folder = repository(bench.work)
    before = sorted(str(path.relative_to(folder)) for path in folder.iterdir())
    said = await bench.say(
        "set -e; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; "
        "echo 2 > file; git add file; git commit -qm second; git checkout -q -b side; echo 3 > new; git add new; "
        "git commit -qm third; git checkout -q -; git merge -q side; echo 4 > file; git stash -q; git stash pop -q; "
        "git tag one; git reset -q --hard HEAD~1; git status --short; git log --oneline | wc -l; git branch"
    )
    assert said.split() == ["2", "*", "master", "side"] or said.split() == ["2", "*", "main", "side"]
    assert git(bench.work, "fsck", "--no-dangling") == ""
    assert "one" in git(bench.work, "tag")
    after = {path.name for path in folder.iterdir()}
    assert after.issuperset(before)
    assert after.isdisjoint({"commondir", "modules", "worktrees", "config.worktree"})


async def test_no_other_place_of_settings_can_be_named(bench: Bench, tmp_path: Path) -> None:
    repository(bench.work)
    planted = tmp_path / "planted"
    await bench.say(
        "mkdir .git/common && cp -r .git/objects .git/refs .git/common/ && cat .git/config > .git/common/config && "
        f"printf '[core]\\n fsmonitor = touch {planted}; false\\n' >> .git/common/config; "
        "echo common > .git/commondir; rm -f .git/commondir; mv .git/common/config .git/config; "
        "mv .git/commondir .git/x; echo common > .git/new; mv .git/new .git/commondir"
    )
    assert not (bench.work / ".git" / "commondir").exists()
    git(bench.work, "status", "--short")
    assert not planted.exists()


async def test_what_is_not_there_yet_cannot_be_planted(bench: Bench) -> None:
    folder = repository(bench.work)
    for path in (folder / "hooks").iterdir():
        path.unlink()
    (folder / "hooks").rmdir()
    names = ("hooks/pre-commit", "config.worktree", "modules/x/config", "worktrees/x/commondir", "info/attributes")
    said = await bench.say(
        "".join(f"mkdir -p .git/$(dirname {name}); echo evil > .git/{name}; " for name in names)
        + "rmdir .git/hooks; mv .git/info .git/x; ln -s /tmp .git/hooks; echo over"
    )
    assert "over" in said
    assert [name for name in names if (folder / name).exists()] == []
    assert (folder / "info").is_dir()


async def test_a_repository_elsewhere_in_the_working_directory_is_held_as_well(bench: Bench) -> None:
    folder = repository(bench.work)
    (bench.work / "deep").mkdir()
    real = bench.work / "deep" / "real"
    folder.rename(real)
    (bench.work / ".git").write_text("gitdir: deep/real\n")
    said = await bench.say(
        "echo 'gitdir: evil' > .git; rm .git; mv deep x; echo evil >> deep/real/config; "
        "echo evil > deep/real/hooks/pre-commit; echo evil > deep/real/commondir; git status --short && echo fine"
    )
    assert "fine" in said
    assert (bench.work / ".git").read_text() == "gitdir: deep/real\n"
    assert "evil" not in (real / "config").read_text()
    assert not (real / "hooks" / "pre-commit").exists()
    assert not (real / "commondir").exists()


async def test_the_shared_settings_of_a_worktree_are_held_as_well(bench: Bench) -> None:
    main = bench.work / "main"
    main.mkdir()
    repository(main)
    git(main, "worktree", "add", "-q", str(bench.work / "tree"))
    (bench.work / ".git").write_text((bench.work / "tree" / ".git").read_text())
    said = await bench.say(
        "echo new > new; git add new && echo added; "
        "cd main/.git; echo evil >> config; echo evil > hooks/pre-commit; echo evil > worktrees/tree/commondir"
    )
    assert "evil" not in (main / ".git" / "config").read_text()
    assert not (main / ".git" / "hooks" / "pre-commit").exists()
    assert (main / ".git" / "worktrees" / "tree" / "commondir").read_text() == "../..\n"
    assert "added" in said


async def test_a_bare_repository_is_held_where_it_is_the_working_directory(bench: Bench) -> None:
    git(bench.work, "init", "-q", "--bare", ".")
    await bench.say("echo evil >> config; echo evil > hooks/post-receive; echo evil > commondir; echo fine > fine")
    assert "evil" not in (bench.work / "config").read_text()
    assert not (bench.work / "hooks" / "post-receive").exists()
    assert not (bench.work / "commondir").exists()
    assert (bench.work / "fine").exists()


async def test_a_repository_with_a_link_in_it_is_only_read(bench: Bench) -> None:
    folder = repository(bench.work)
    (folder / "hooks").rename(bench.work / "ours")
    (folder / "hooks").symlink_to("../ours")
    said = await bench.say("git log --oneline | wc -l; echo evil > .git/evil; rm .git/hooks; echo fine > fine")
    assert "1" in said
    assert (folder / "hooks").is_symlink()
    assert not (folder / "evil").exists()
    assert (bench.work / "fine").exists()


async def test_a_repository_that_is_a_link_is_refused_in_plain_words(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (bench.work / ".git").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Forbidden, match=r"\.git is a link"):
        await bench.run("ls")


async def test_what_holds_a_repository_stays_until_the_last_command_is_over(bench: Bench) -> None:
    folder = repository(bench.work)
    context = bench.context()
    job = await bench.tool("exec_bg")(
        {"command": "while [ ! -e go ]; do sleep 0.05; done; echo x > .git/commondir"}, context
    )
    assert await bench.say("cat .git/commondir") == ".\n"
    assert (folder / "commondir").read_text() == ".\n"
    (bench.work / "go").touch()
    async with asyncio.timeout(30):
        while '"done":true' not in str(await bench.tool("exec_status")({"id": job}, context)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert not (folder / "commondir").exists()
    await bench.jobs.close()


# ---- file tools -------------------------------------------------------------------------------

_OBEYED = (
    "config",
    "hooks/pre-commit",
    "commondir",
    "config.worktree",
    "info/attributes",
    "modules/x/config",
    "HOOKS/x",
)


def files(bench: Bench) -> FileTools:
    return FileTools(bench.work, OffLimits())


@pytest.mark.parametrize("way", [".git", "link", "sub/../.git", "deep/link"])
def test_file_tools_leave_alone_what_git_obeys_by_whatever_name(bench: Bench, way: str) -> None:
    folder = repository(bench.work)
    (bench.work / "sub").mkdir()
    (bench.work / "deep").mkdir()
    (bench.work / "link").symlink_to(".git")
    (bench.work / "deep" / "link").symlink_to("../.git")
    before = {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for name in _OBEYED:
        files(bench).every(f"{way}/{name}")
    for tool in ("fs_list", "fs_mkdir", "fs_delete"):
        with pytest.raises(MootError):
            files(bench)(tool, path=f"{way}/hooks")
    assert {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_link_to_the_settings_is_no_way_around(bench: Bench) -> None:
    folder = repository(bench.work)
    (bench.work / "draft").symlink_to(".git/config")
    before = (folder / "config").read_text()
    with pytest.raises(Forbidden):
        files(bench)("fs_write", path="draft", content="evil")
    assert "is off limits" in files(bench).preview("fs_write", path="draft", content="evil")
    assert (folder / "config").read_text() == before


def test_file_tools_neither_make_nor_remove_a_repository(bench: Bench) -> None:
    for name in (".git", ".GIT", "sub/.git"):
        for tool, rest in (("fs_mkdir", {}), ("fs_write", {"content": "gitdir: evil"})):
            with pytest.raises(MootError):
                files(bench)(tool, path=name, **rest)
        with pytest.raises(MootError):
            files(bench)("fs_write", path=f"{name}/config", content="evil")
    (bench.work / ".git").mkdir()
    with pytest.raises(Forbidden):
        files(bench)("fs_write", path=".git/config", content="evil")
    (bench.work / ".git").rmdir()
    folder = repository(bench.work)
    with pytest.raises(Forbidden):
        files(bench)("fs_delete", path=".git")
    assert (folder / "HEAD").exists()


def test_file_tools_still_look_into_a_repository(bench: Bench) -> None:
    repository(bench.work)
    assert "ref: refs/heads/" in files(bench)("fs_read", path=".git/HEAD")
    assert '"name":"hooks"' in files(bench)("fs_list", path=".git")
    (bench.work / "config").write_text("an ordinary file of that name")
    assert "ordinary" in files(bench)("fs_read", path="config")
    (bench.work / "hooks").mkdir()
    assert "Wrote" in files(bench)("fs_write", path="hooks/use.ts", content="x")
