"""No command leaves a file with a set-id bit: it would work outside the sandbox, for whoever runs it."""
# ruff: noqa: ASYNC110  a test may wait for what other processes do

import asyncio
import os
import platform
import stat
import tarfile
from pathlib import Path

import pytest

from moot.domain.ports.tool import ToolResult
from moot.tools.sandbox import seccomp, set_id
from tests.escape.exec_kit import Bench
from tests.escape.test_mcp_sandbox import boxed
from tests.escape.test_mcp_sandbox import say as tell_server

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="the sandbox is made of Linux namespaces")

# Every call that is given a mode, made directly: no library is in between to drop a bit.
CALLS = """
import ctypes, os, platform, struct, tempfile
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
AT = -100
def call(name, number, *arguments):
    if number is None:
        return
    ctypes.set_errno(0)
    words = [ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) for a in arguments]
    said = libc.syscall(number, *words)
    print(name, "done" if said >= 0 else os.strerror(ctypes.get_errno()), flush=True)
open("there", "w").close()
file = os.open("there", os.O_RDWR)
for bit in (0o4755, 0o2755, 0o6777):
    tag = b"%o" % bit
    call("chmod", 90 if x86 else None, b"there", bit)
    call("fchmod", 91 if x86 else 52, file, bit)
    call("fchmodat", 268 if x86 else 53, AT, b"there", bit)
    call("fchmodat2", 452, AT, b"there", bit, 0)
    call("open", 2 if x86 else None, b"open" + tag, os.O_CREAT | os.O_RDWR, bit)
    call("creat", 85 if x86 else None, b"creat" + tag, bit)
    call("openat", 257 if x86 else 56, AT, b"openat" + tag, os.O_CREAT | os.O_RDWR, bit)
    call("tmpfile", 257 if x86 else 56, AT, b".", os.O_TMPFILE | os.O_RDWR, bit)
    how = struct.pack("=QQQ", os.O_CREAT | os.O_RDWR, bit, 0)
    call("openat2", 437, AT, b"openat2" + tag, how, len(how))
    call("mknod", 133 if x86 else None, b"mknod" + tag, 0o100000 | bit, 0)
    call("mknodat", 259 if x86 else 33, AT, b"mknodat" + tag, 0o100000 | bit, 0)
    call("mkdir", 83 if x86 else None, b"mkdir" + tag, bit)
    call("mkdirat", 258 if x86 else 34, AT, b"mkdirat" + tag, bit)
    call("io_uring", 425, 8, 0)
    if x86:
        call("x32", 0x40000000 | 90, b"there", bit)
call("whiteout", 259 if x86 else 33, AT, b"whiteout", 0o020644, 0)
"""
TOOLS = (
    "echo x > f; chmod u+s f; chmod 2755 f; chmod 6777 f; cp /bin/true t; install -m 4755 /bin/true i; "
    "mkdir d; chmod g+s d; mkdir -m 2777 e; python3 -c 'import os; os.chmod(\"f\", 0o4755)'; "
    "tar -xpf set.tar; tar -cf - -C /usr/bin passwd | tar -xpf -; cp -p /usr/bin/passwd p; mknod n c 0 0; true"
)


def set_id_files(folder: Path) -> list[str]:
    bits = stat.S_ISUID | stat.S_ISGID
    return [str(path) for path in folder.rglob("*") if path.lstat().st_mode & bits and not path.is_symlink()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    (made.work / "calls.py").write_text(CALLS)
    return made


async def test_no_call_that_is_given_a_mode_sets_a_set_id_bit(bench: Bench) -> None:
    said = await bench.say("umask 0; python3 calls.py")
    lines = [line.partition(" ")[::2] for line in said.splitlines()]
    assert len(lines) >= 25
    absent = {"openat2", "x32"}
    assert {answer for name, answer in lines if name not in absent} == {"Operation not permitted"}, said
    assert {answer for name, answer in lines if name in absent} == {"Function not implemented"}
    assert set_id_files(bench.work) == []


async def test_everyday_programs_fail_to_set_them_and_say_so(bench: Bench) -> None:
    with tarfile.open(bench.work / "set.tar", "w") as archive:
        entry = tarfile.TarInfo("from-archive")
        entry.mode = 0o4755
        archive.addfile(entry)
    said = await bench.say(TOOLS)
    assert said.count("Operation not permitted") >= 6
    assert set_id_files(bench.work) == []


async def test_ordinary_modes_are_set_as_ever(bench: Bench) -> None:
    said = await bench.say(
        "set -e; umask 0; touch f; chmod 755 f; mkdir -m 1777 d; mkfifo -m 600 p; install -m 640 f g; "
        "python3 -c 'import os; os.close(os.open(\"h\", os.O_CREAT, 0o701))'; stat -c '%a %n' f d p g h"
    )
    assert said == "755 f\n1777 d\n600 p\n640 g\n701 h\n"


async def test_a_background_command_and_an_mcp_server_are_held_to_the_same(bench: Bench, tmp_path: Path) -> None:
    await bench.tool("exec_bg")({"command": "python3 calls.py; touch over; sleep 60"}, bench.context())
    async with asyncio.timeout(60):
        while not (bench.work / "over").exists():
            await asyncio.sleep(0.02)
    await bench.jobs.close()
    assert set_id_files(bench.work) == []
    other = tmp_path / "server"
    other.mkdir()
    async with boxed(other) as box:
        (other / "work" / "calls.py").write_text(CALLS)
        said = await tell_server(box, "python3 calls.py")
    assert "Operation not permitted" in said
    assert set_id_files(other / "work") == []


async def test_bits_that_the_filter_did_not_refuse_are_cleared_and_reported(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seccomp, "program", lambda **_: b"")
    said = await bench.say("mkdir -p a/b; echo x > a/b/f; chmod 6755 a/b/f; ln -s /usr/bin/passwd link; echo done")
    assert "done" in said
    assert "cleared the set-id bits of a/b/f" in said
    assert set_id_files(bench.work) == []
    assert stat.S_IMODE((bench.work / "a" / "b" / "f").stat().st_mode) == 0o755


async def test_a_set_id_file_that_was_there_loses_its_bits_only_if_it_was_written(bench: Bench) -> None:
    for name in ("same", "changed"):
        (bench.work / name).write_bytes(b"x" * 4096)
        (bench.work / name).chmod(0o4755)
    while set_id.file_time_ns() <= (bench.work / "changed").stat().st_ctime_ns:  # The clock of files is coarse.
        await asyncio.sleep(0)
    write = 'import mmap; f = open("changed", "r+b"); m = mmap.mmap(f.fileno(), 0); m[0:4] = b"evil"; m.flush()'
    said = await bench.say(f"python3 -c '{write}'")
    assert "cleared the set-id bits of changed" in said
    assert set_id_files(bench.work) == [str(bench.work / "same")]
    assert (bench.work / "changed").read_bytes().startswith(b"evil")


async def test_a_background_command_reports_what_was_cleared(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "program", lambda **_: b"")
    job = await bench.tool("exec_bg")({"command": "echo x > f; chmod 4755 f; chmod 2755 f"}, bench.context())
    async with asyncio.timeout(60):
        await bench.jobs.find(bench.context().key, str(job)).process.over()
    said = await bench.tool("exec_status")({"id": job}, bench.context())
    assert "cleared the set-id bits of f" in str(said)
    assert set_id_files(bench.work) == []


async def test_a_note_about_a_file_has_no_secret_and_no_control_character_in_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seccomp, "program", lambda **_: b"")
    bench.secrets.values["KEY"] = "s3cr3t-canary-value"
    bench.redact.register("KEY", "s3cr3t-canary-value")
    name = "$'\\x1b[2J\\xff\\n'"
    job = await bench.tool("exec_bg")(
        {"command": f"for n in {name} {{{{secret:KEY}}}}; do echo > $n; chmod 4755 $n; done"}, bench.context()
    )
    async with asyncio.timeout(60):
        await bench.jobs.find(bench.context().key, str(job)).process.over()
    said = await bench.tool("exec_status")({"id": job}, bench.context())
    assert isinstance(said, ToolResult)
    assert "cleared the set-id bits" in said.content
    assert "s3cr3t" not in said.content
    assert "\\u001b" not in said.content
    assert set_id_files(bench.work) == []


async def test_no_folder_stays_open_after_commands(bench: Bench) -> None:
    await bench.say("true")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await bench.say("true")
    assert len(os.listdir("/proc/self/fd")) <= before
