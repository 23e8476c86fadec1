"""What a process that holds keys has in memory stays there: no core dump, no look into it by another process."""

import ctypes
import json
import os
import platform
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from moot.daemon.vault.key_memory import KeyMemory, wipe
from tests.daemon_process import Home, running
from tests.escape.exec_kit import Bench

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="about what Linux shows of a process")

# Root without capabilities is to other processes of root what any user is to their own.
WORDS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.getuid() == 0 else []
# Tries to look into another process of the same user.
LOOK = """
import ctypes, json, os, sys
pid, libc, seen = int(sys.argv[1]), ctypes.CDLL(None, use_errno=True), []
for name in ("mem", "environ", "maps", "auxv", "fd/0", "map_files", "root", "cwd"):
    try:
        path = f"/proc/{pid}/{name}"
        if name in ("fd/0", "root", "cwd"):
            os.readlink(path)
        elif name == "map_files":
            os.listdir(path)
        else:
            os.close(os.open(path, os.O_RDONLY))
            open(path, "rb").read(1) if name != "mem" else None
        seen.append(name)
    except OSError:
        pass
if libc.ptrace(16, pid, None, None) == 0:
    seen.append("ptrace")
    libc.waitpid(pid, None, 0)
    libc.ptrace(17, pid, None, None)
class Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))
buffer = ctypes.create_string_buffer(8)
mine = Piece(ctypes.cast(buffer, ctypes.c_void_p), 8)
theirs = Piece(int(sys.argv[2], 16), 8)
if libc.process_vm_readv(pid, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0) > 0:
    seen.append("process_vm_readv")
print(json.dumps(seen))
"""


def look_into(pid: int) -> set[str]:
    mapped = ""
    while not mapped:
        # While a program is being loaded, only its stack is there.
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        mapped = next((line for line in lines if " r-" in line), "")
    words = [*WORDS, sys.executable, "-c", LOOK, str(pid), mapped.split("-")[0]]
    return set(json.loads(subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout))


def is_hidden(pid: int) -> bool:
    """Whether its own user cannot look into it; root cannot read what it needs to try."""
    if os.getuid() != 0:
        return not os.access(f"/proc/{pid}/environ", os.R_OK)
    return look_into(pid) == set()


def test_no_process_of_the_same_user_can_look_into_a_daemon_and_it_leaves_no_core_dump(home: Home) -> None:
    other = subprocess.Popen([*WORDS, "sleep", "600"])
    try:
        # So that the attempts are known to work.
        assert not is_hidden(other.pid)
    finally:
        other.kill()
        other.wait()
    with running(home, command=[*WORDS, sys.executable, "-m", "moot", "serve"]) as daemon:
        pid = daemon.process.pid
        assert is_hidden(pid)
        limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
        assert next(line for line in limits if "core file" in line).split()[4:6] == ["1", "1"]
        assert int(Path(f"/proc/{pid}/oom_score_adj").read_text()) <= 0


def test_a_process_that_hides_still_starts_commands(tmp_path: Path) -> None:
    # The kernel takes the files in /proc of such a process away from its user; a command is started with some of them.
    code = (
        "import asyncio, sys\nfrom pathlib import Path\n"
        "from moot.daemon.process_protection import be_ended_last, disable_memory_dumps, hide_memory\n"
        "from tests.escape.exec_kit import Bench\n"
        "disable_memory_dumps(); be_ended_last(); hide_memory()\n"
        "bench = Bench(Path(sys.argv[1]))\n"
        "print(asyncio.run(bench.say('echo fine; cat /proc/self/oom_score_adj')))"
    )
    root = Path(__file__).resolve().parents[2]
    words = [sys.executable, "-c", code, str(tmp_path / "bench")]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "fine\n1000\n\n", done.stderr


def test_a_process_that_crashes_leaves_no_core(tmp_path: Path) -> None:
    code = (
        "from moot.daemon.process_protection import disable_memory_dumps\nimport os\ndisable_memory_dumps()\nos.abort()"
    )
    resource_before = resource.getrlimit(resource.RLIMIT_CORE)
    crashed = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False, timeout=60)
    assert crashed.returncode == -signal.SIGABRT
    assert list(tmp_path.iterdir()) == []
    assert resource.getrlimit(resource.RLIMIT_CORE) == resource_before


async def test_a_command_that_crashes_leaves_no_core_and_cannot_ask_for_one(tmp_path: Path) -> None:
    for settings in ({}, {"mode": "none"}):
        bench = Bench(tmp_path / f"{len(settings)}", **settings)
        said = await bench.say(
            "ulimit -c unlimited; grep 'core file' /proc/self/limits; python3 -c 'import os; os.abort()'"
        )
        assert "not permitted" in said
        assert said.count(" 1 ") >= 2
        assert list(bench.work.iterdir()) == []


def test_a_key_lies_in_memory_that_is_not_dumped_and_not_inherited() -> None:
    memory = KeyMemory(b"k" * 32)
    assert bytes(memory.view) == b"k" * 32
    flags = _flags_of(memory)
    assert {"dd", "dc"} <= flags
    assert ("lo" in flags) == memory.is_locked
    assert memory.is_locked


def _flags_of(memory: KeyMemory) -> set[str]:
    """The flags of the mapping that the key is in, as the kernel lists them."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory._pages))
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split()[0]
        if "-" in first and ":" not in first:
            low, high = (int(part, 16) for part in first.split("-"))
            inside = low <= address < high
        elif inside and first == "VmFlags:":
            return set(line.split()[1:])
    return set()


def test_a_value_is_overwritten_where_it_lies() -> None:
    text, raw = bytearray(b"secret of the vault"), bytes(bytearray(b"secret of the vault"))
    wipe(text)
    wipe(raw)
    assert text == bytearray(19)
    assert raw == bytes(19)
