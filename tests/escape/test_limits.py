"""One limit holds for all the memory of a command, whatever kind it is, and a file does not grow without end."""
# ruff: noqa: ASYNC110, ASYNC240  a test may look at its own files, and wait for what other processes do

import asyncio
import mmap
import os
import platform
from pathlib import Path

import pytest

from moot.tools.sandbox import cgroup
from moot.tools.sandbox.usage import UsageMeter
from tests.escape.exec_kit import Bench
from tests.escape.test_mcp_sandbox import boxed
from tests.escape.test_mcp_sandbox import say as tell_server

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="the sandbox is made of Linux namespaces")

MIB = 1024 * 1024
LIMIT = 64 * MIB
# Each takes three times the limit, in pieces that no limit of a single process sees, and says so if it could.
KINDS = {
    "shared mapping": "m = mmap.mmap(-1, SIZE); fill(m)",
    "many shared mappings": "ms = [mmap.mmap(-1, SIZE // 8) for _ in range(8)]; [fill(m) for m in ms]",
    "shared mapping of /dev/zero": "m = mmap.mmap(os.open('/dev/zero', os.O_RDWR), SIZE); fill(m)",
    "mapped memfd": "f = os.memfd_create('x'); os.ftruncate(f, SIZE); m = mmap.mmap(f, SIZE); fill(m)",
    "written memfds": "fs = [os.memfd_create('x') for _ in range(8)]\n"
    "for f in fs:\n    [os.write(f, bytes(1 << 20)) for _ in range(SIZE // 8 >> 20)]",
    "processes": "for _ in range(6):\n    if not os.fork():\n"
    "        x = bytearray(SIZE // 6); fill(x); time.sleep(25); os._exit(0)\n"
    "assert not any(os.wait()[1] for _ in range(6)), 'ended'",
    "files in /tmp, /var/tmp and /dev/shm": "for n in ('/tmp/a', '/var/tmp/d', '/dev/shm/b', '/dev/c'):\n"
    "    f = open(n, 'wb', 0)\n"
    "    [f.write(bytes(1 << 20)) for _ in range(SIZE // 3 >> 20)]",
    "segments of System V": "import ctypes; c = ctypes.CDLL(None); c.shmat.restype = ctypes.c_void_p\n"
    "i = c.shmget(0, ctypes.c_size_t(SIZE), 0o1600)\nassert i >= 0, 'refused'\n"
    "a = c.shmat(i, None, 0); ctypes.memset(a, 1, SIZE)",
    "a process that hides": "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); m = mmap.mmap(-1, SIZE); fill(m)",
    "a child of a thread": "import threading\ndef child():\n    if not os.fork():\n"
    "        os.setsid(); m = mmap.mmap(-1, SIZE); fill(m); time.sleep(25); os._exit(0)\n"
    "    os._exit(1) if os.wait()[1] else None\n"
    "t = threading.Thread(target=child); t.start(); t.join()",
    "private memory": "x = bytearray(SIZE); fill(x)",
}
PRELUDE = f"""
import mmap, os, time
SIZE = {3 * LIMIT}
def fill(m):
    for at in range(0, len(m), 4096):
        m[at] = 1
"""


@pytest.fixture(params=["cgroup", "watcher"])
def mechanism(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "watcher":
        monkeypatch.setattr(cgroup, "find_parents", lambda: None)
    elif cgroup.find_working_parents() is None:
        pytest.skip("no control group can be made here")
    return str(request.param)


@pytest.fixture
def bench(tmp_path: Path, mechanism: str) -> Bench:
    return Bench(tmp_path, memory_bytes=LIMIT, temporary_bytes=2 * LIMIT)


@pytest.mark.parametrize("kind", KINDS)
async def test_no_kind_of_memory_goes_beyond_the_limit(bench: Bench, kind: str) -> None:
    (bench.work / "eat.py").write_text(f"{PRELUDE}{KINDS[kind]}\ntime.sleep(25)\nprint('a' + 'te')\n")
    said = await bench.say("python3 eat.py")
    assert "ate\n" not in said
    assert not (bench.work / "core").exists()


async def test_who_is_ended_for_its_memory_is_told_and_the_next_command_runs(bench: Bench) -> None:
    (bench.work / "eat.py").write_text(f"{PRELUDE}{KINDS['processes']}\nprint('a' + 'te')\n")
    said = await bench.say("python3 eat.py")
    assert "together they may use 0.0625 GiB of memory" in said
    assert await bench.say("echo fine") == "fine\n"


async def test_the_report_names_what_enforces_the_limits(bench: Bench, mechanism: str) -> None:
    report = bench.sandbox().describe()
    assert report.memory_limit.startswith(mechanism)
    assert f"memory limited by {mechanism}" in report.sentence()
    assert any("control group" in lacking for lacking in report.missing) == (mechanism == "watcher")


async def test_pages_that_children_share_count_once(bench: Bench) -> None:
    code = (
        f"{PRELUDE}x = bytearray({LIMIT // 2}); fill(x)\n"
        "for _ in range(6):\n    if not os.fork():\n        time.sleep(1); os._exit(0)\n"
        "[os.wait() for _ in range(6)]\nprint('fine')\n"
    )
    (bench.work / "share.py").write_text(code)
    assert await bench.say("python3 share.py") == "fine\n"


async def test_a_background_command_has_the_same_limit(bench: Bench) -> None:
    (bench.work / "eat.py").write_text(f"{PRELUDE}{KINDS['processes']}\nopen('ate', 'w')\n")
    job = await bench.tool("exec_bg")({"command": "python3 eat.py"}, bench.context())
    async with asyncio.timeout(60):
        await bench.jobs.find(bench.context().key, str(job)).process.over()
    assert "together they may use" in str(await bench.tool("exec_status")({"id": job}, bench.context()))
    assert not (bench.work / "ate").exists()


async def test_an_mcp_server_has_the_same_limits_and_is_chosen_first(
    tmp_path: Path,
) -> None:
    for sandbox in ("on", "off"):
        (tmp_path / sandbox).mkdir()
        async with boxed(tmp_path / sandbox, sandbox=sandbox) as box:
            assert (await tell_server(box, "cat /proc/self/oom_score_adj")).strip() == "1000"


async def test_a_file_stops_growing_at_its_limit(tmp_path: Path) -> None:
    bench = Bench(tmp_path, file_bytes=4 * MIB)
    said = await bench.say('head -c 20000000 /dev/zero > big; python3 -c \'open("sparse", "w").truncate(1 << 40)\'')
    assert "File too large" in said or "File size limit exceeded" in said
    assert (bench.work / "big").stat().st_size <= 4 * MIB
    assert (bench.work / "sparse").stat().st_size == 0


async def test_nothing_is_written_in_dev_itself_and_devices_work(tmp_path: Path) -> None:
    said = await Bench(tmp_path).say(
        "echo x > /dev/new && echo made; mkdir /dev/d && echo made; "
        + "echo y > /dev/shm/f; cat /dev/shm/f; echo z > /dev/null; echo fine"
    )
    assert "made" not in said
    assert said.endswith("y\nfine\n")


async def test_commands_are_chosen_first_when_memory_runs_out_and_cannot_change_it(tmp_path: Path) -> None:
    for settings in ({}, {"mode": "none"}):
        bench = Bench(tmp_path / f"{len(settings)}", **settings)
        said = await bench.say("cat /proc/self/oom_score_adj; sh -c 'cat /proc/self/oom_score_adj'")
        assert said == "1000\n1000\n"
    bench = Bench(tmp_path / "change")
    assert await bench.say("echo 0 > /proc/self/oom_score_adj; cat /proc/$$/oom_score_adj") != "0\n"
    assert int(Path("/proc/self/oom_score_adj").read_text()) < 1000


async def test_groups_are_removed_when_commands_are_over(tmp_path: Path) -> None:
    parents = cgroup.find_working_parents()
    if parents is None:
        pytest.skip("no control group can be made here")
    before = list_groups(parents)
    await Bench(tmp_path).say("(setsid sleep 60 &); true")
    async with asyncio.timeout(60):
        while list_groups(parents) - before:
            await asyncio.sleep(0.02)


def list_groups(parents: cgroup.Parents) -> set[Path]:
    return {folder for parent in parents.folders.values() for folder in parent.glob(f"moot-{os.getpid()}-*")}


async def test_who_starts_too_many_processes_is_told(bench: Bench) -> None:
    bench.settings["processes"] = 30
    code = "import os, time\nfor _ in range(60):\n    if not os.fork():\n        time.sleep(25)\n        os._exit(0)\n"
    (bench.work / "bomb.py").write_text(f"{code}time.sleep(25)")
    said = await bench.say("python3 bomb.py; echo after")
    limited_by = bench.sandbox().describe().process_limit
    assert ("Resource temporarily unavailable" if limited_by == "rlimit" else "limit of 30 processes") in said


def test_the_meter_counts_a_shared_mapping_and_what_it_is_split_into(tmp_path: Path) -> None:
    meter = UsageMeter(os.getpid(), inside=os.getpid(), folders=())
    before = meter.measure(1 << 60).memory
    with mmap.mmap(-1, 64 * MIB) as shared:
        shared[:] = bytes(64 * MIB)
        assert meter.measure(1 << 60).memory - before > 48 * MIB
        assert meter.measure(0).memory > 48 * MIB
    meter.close()
