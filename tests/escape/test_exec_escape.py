"""Ways out of the sandbox, each tried: none may lead anywhere."""
# ruff: noqa: ASYNC220, ASYNC221, ASYNC240  a test may wait for its own files

import asyncio
import hashlib
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import moot
from moot.domain.errors import Forbidden
from moot.tools.sandbox.output_buffer import OutputBuffer
from moot.tools.sandbox.plan import Command
from tests.escape.exec_kit import Bench, marked

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="the sandbox is made of Linux namespaces")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def furnish(bench: Bench) -> None:
    """Give Moot a home with something in it worth having."""
    (bench.home / "data" / "workspaces" / "one").mkdir(parents=True)
    (bench.home / "data" / "workspaces" / "two").mkdir()
    (bench.home / "data" / "moot.db").write_text("canary-of-the-store")
    (bench.home / "config.toml").write_text("canary-of-the-config")


# ---- files ------------------------------------------------------------------------------------


async def test_nothing_outside_the_working_directory_is_written_by_climbing_out(bench: Bench, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    said = await bench.say("echo x > ../out; echo x > ../../../../../../../../tmp/out; echo x > /usr/out; echo in > in")
    assert "Read-only" in said or "No such file" in said
    assert (bench.work / "in").read_text() == "in\n"
    assert set(tmp_path.iterdir()) - before == set()
    assert not Path("/usr/out").exists()


async def test_a_neighbour_of_the_working_directory_is_not_seen(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "letter").write_text("canary-of-the-next-room")
    said = await bench.say(f"cat ../beside/letter {tmp_path}/beside/letter; ls -A .. {tmp_path}")
    assert "canary" not in said
    assert "beside" not in said.split("letter")[-1]


async def test_a_link_out_of_the_working_directory_leads_nowhere(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("canary-at-the-end-of-a-link")
    (bench.work / "link").symlink_to(tmp_path / "secret")
    (bench.work / "up").symlink_to("..")
    said = await bench.say(
        "cat link up/secret; echo x > link; ln -s / root; cat root/etc/shadow; cd root/proc/1/root && cat etc/shadow"
    )
    assert "canary" not in said
    assert not re.search(r"^root:", said, re.MULTILINE)
    assert (tmp_path / "secret").read_text() == "canary-at-the-end-of-a-link"


async def test_a_working_directory_swapped_for_a_link_while_commands_start_shows_nothing_else(
    bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "treasure").mkdir()
    (tmp_path / "treasure" / "file").write_text("canary-of-the-swap")
    bench.protected.append(tmp_path / "treasure")
    place, other, link = tmp_path / "place", tmp_path / "other", tmp_path / "link"
    place.mkdir()
    link.symlink_to(tmp_path / "treasure")

    def swap(until: float) -> int:
        done = 0
        while time.monotonic() < until:
            os.rename(place, other)
            os.rename(link, place)
            os.rename(place, link)
            os.rename(other, place)
            done += 1
        return done

    async def commands() -> None:
        for _ in range(12):
            try:
                said = await bench.say("cat file; echo x > file; pwd", cwd=place)
            except Exception as error:  # noqa: BLE001  refusing is fine, showing is not
                said = str(error)
            assert "canary" not in said

    async with asyncio.TaskGroup() as group:
        swapping = group.create_task(asyncio.to_thread(swap, time.monotonic() + 1.0))
        group.create_task(commands())
    swaps = swapping.result()
    assert swaps > 100
    assert (tmp_path / "treasure" / "file").read_text() == "canary-of-the-swap"


async def test_standing_at_the_root_nothing_is_writable_and_no_home_is_seen(bench: Bench) -> None:
    furnish(bench)
    said = await bench.say(f"pwd; touch /x; cat {bench.home}/data/moot.db; ls /home /root", cwd="/")
    assert said.splitlines()[2] == "/" or "/\n" in said
    assert "canary" not in said
    assert not Path("/x").exists()


async def test_moots_config_that_does_not_exist_yet_cannot_be_made(bench: Bench, tmp_path: Path) -> None:
    bench.home.mkdir()
    said = await bench.say(
        "cd moot && echo evil > config.toml; mkdir agents; mkdir -p agents/x; ln -s /tmp data; ls -la", cwd=tmp_path
    )
    assert "Read-only" in said
    assert list(bench.home.iterdir()) == []


async def test_moots_home_that_does_not_exist_yet_cannot_be_made(bench: Bench, tmp_path: Path) -> None:
    said = await bench.say(
        "rm -rf moot; mkdir -p moot/agents/x; echo evil > moot/config.toml; echo fine > ok", cwd=tmp_path
    )
    assert "Read-only" in said or "busy" in said
    assert not (bench.home / "config.toml").exists()
    assert not (bench.home / "agents").exists()
    assert (tmp_path / "ok").exists()


async def test_moots_home_cannot_be_moved_away_and_replaced(bench: Bench, tmp_path: Path) -> None:
    furnish(bench)
    deep = Bench(tmp_path / "deep")
    deep.protected = [tmp_path / "deep" / "a" / "b" / "config.toml", tmp_path / "deep" / "a" / "b" / "data"]
    (tmp_path / "deep" / "a" / "b" / "data").mkdir(parents=True)
    for where, one in (("moot", bench), ("a", deep), ("a/b", deep)):
        place = one.work.parent / where
        before = place.stat().st_ino
        await one.say(
            f"mv {where} gone; mv -T {where} {where}2; rm -rf {where}; mkdir -p {where}/b; echo x >{where}/config.toml",
            cwd=one.work.parent,
        )
        assert place.stat().st_ino == before
    assert (bench.home / "config.toml").read_text() == "canary-of-the-config"
    assert not (tmp_path / "deep" / "a" / "b" / "config.toml").exists()


async def test_moots_home_reached_by_a_link_cannot_be_put_elsewhere(bench: Bench, tmp_path: Path) -> None:
    real = tmp_path / "elsewhere"
    real.mkdir()
    (real / "config.toml").write_text("ours")
    project = tmp_path / "project"
    project.mkdir()
    (project / ".moot").symlink_to(real)
    bench.protected = [project / ".moot" / "config.toml", project / ".moot" / "data"]
    await bench.say("rm .moot; mkdir .moot; echo evil > .moot/config.toml", cwd=project)
    assert (project / ".moot").is_symlink()
    assert (real / "config.toml").read_text() == "ours"


async def test_moots_data_is_not_read_from_above_it(bench: Bench, tmp_path: Path) -> None:
    furnish(bench)
    said = await bench.say("cat moot/config.toml moot/data/moot.db; grep -r canary . ; ls moot/data", cwd=tmp_path)
    assert "canary-of" not in said
    assert "moot.db\n" not in said


async def test_a_conversations_own_workspace_is_writable_and_its_neighbours_are_not_seen(bench: Bench) -> None:
    furnish(bench)
    rooms = bench.home / "data" / "workspaces"
    said = await bench.say(
        "echo mine > note; ls ..; cat ../../moot.db ../../../config.toml; ls ../two", cwd=rooms / "one"
    )
    assert (rooms / "one" / "note").read_text() == "mine\n"
    assert "canary" not in said
    assert "two\n" not in said


async def test_moots_own_folders_are_no_working_directory(bench: Bench, tmp_path: Path) -> None:
    furnish(bench)
    (tmp_path / "alias").symlink_to(bench.home / "data")
    for cwd in (bench.home / "data", bench.home / "data" / "workspaces", tmp_path / "alias"):
        with pytest.raises(Forbidden):
            await bench.run("ls", cwd=cwd)


async def test_a_hook_of_a_repository_cannot_be_planted(bench: Bench) -> None:
    subprocess.run(["git", "init", "-q", bench.work], check=True, timeout=20)
    said = await bench.say(
        "echo evil > .git/hooks/pre-commit; mv .git .g; git config core.pager evil; git status --short"
    )
    assert "Read-only" in said or "busy" in said
    assert not (bench.work / ".git" / "hooks" / "pre-commit").exists()
    assert "evil" not in (bench.work / ".git" / "config").read_text()


async def test_nothing_is_put_beside_the_program_where_it_would_be_imported(bench: Bench) -> None:
    """Python imports `sitecustomize` from there whenever Moot starts."""
    beside = Path(moot.__file__).parents[1]
    said = await bench.say(f"test -d {beside}/moot && test ! -w {beside} && echo closed", cwd=beside.parent)
    assert "closed" in said


async def test_the_systems_secrets_are_hidden_even_from_root(bench: Bench) -> None:
    said = await bench.say("cat /etc/shadow /etc/gshadow /etc/sudoers; ls /etc/ssh")
    assert not re.search(r"^root:", said, re.MULTILINE)
    assert "ALL" not in said


# ---- processes --------------------------------------------------------------------------------


async def test_no_open_descriptor_leads_out(bench: Bench) -> None:
    (bench.work.parent / "letter").write_text("canary-behind-a-descriptor")
    said = await bench.say(
        "for d in /proc/*/fd/* /proc/*/cwd /proc/*/root; do cat $d/../letter $d/letter; done 2>/dev/null; "
        "python3 -c 'import os; print(sorted(map(int, os.listdir(\"/proc/self/fd\"))))'"
    )
    # The last is the listing itself.
    assert said == "[0, 1, 2, 3]\n"


async def test_proc_shows_no_process_of_the_machine_and_no_way_into_one(bench: Bench) -> None:
    furnish(bench)
    said = await bench.say(
        f"ls -d /proc/[0-9]* | wc -l; cat /proc/{os.getpid()}/environ; "
        f"cat /proc/1/root{bench.home}/config.toml; cat /proc/1/cwd/../moot/config.toml; "
        "echo 1 > /proc/sys/kernel/printk_ratelimit; echo h > /proc/sysrq-trigger; kill -9 1; echo alive"
    )
    assert int(said.split()[0] if said[0].isdigit() else said.split("Output:")[1].split()[0]) < 8
    assert "canary" not in said
    assert "alive" in said


async def test_a_kernel_setting_cannot_be_written(bench: Bench) -> None:
    setting = Path("/proc/sys/kernel/printk_ratelimit")
    before = setting.read_text()
    said = await bench.say(f"echo 7 > {setting} && echo wrote")
    assert "wrote" not in said
    assert setting.read_text() == before


async def test_no_further_namespace_mount_or_trace_is_possible(bench: Bench) -> None:
    said = await bench.say(
        "unshare -Ur true && echo escaped; unshare -m true && echo escaped; mount -t tmpfs x /tmp && echo escaped; "
        "umount /etc/shadow && echo escaped; chroot / true && echo escaped; mknod d b 8 0 && echo escaped; "
        "nsenter -t 1 -m true && echo escaped; su -c true && echo escaped"
    )
    assert "escaped" not in said


async def test_no_capability_is_left(bench: Bench) -> None:
    said = await bench.say("grep -E 'Cap|NoNewPrivs|Seccomp:' /proc/self/status")
    states = dict(line.split(":\t") for line in said.splitlines())
    assert {states[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert states["NoNewPrivs"] == "1"
    assert states["Seccomp"] == "2"


async def test_children_that_forked_twice_and_hold_the_pipe_end_with_the_command(bench: Bench) -> None:
    mark = f"77{os.getpid()}1"
    said = await bench.say(f"(setsid sleep {mark} &) ; setsid nohup sleep {mark} & disown; echo done")
    assert said == "done\n"
    assert marked(f"sleep\0{mark}") == []


async def test_cancelling_a_command_ends_everything_it_started(bench: Bench) -> None:
    mark = f"77{os.getpid()}2"
    task = asyncio.get_running_loop().create_task(
        bench.say(f"trap '' TERM INT HUP; (setsid sh -c 'trap \"\" TERM; sleep {mark}' &); touch up; sleep {mark}")
    )
    await asyncio.wait_for(_appears(bench.work / "up"), 30)
    await asyncio.wait_for(_seen(f"sleep\0{mark}"), 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(_gone(f"sleep\0{mark}"), 30)


async def test_nothing_survives_when_the_daemon_is_killed(bench: Bench) -> None:
    mark = f"77{os.getpid()}3"
    code = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from tests.escape.exec_kit import Bench\n"
        "bench = Bench(Path(sys.argv[1]))\n"
        "asyncio.run(bench.say(sys.argv[2]))\n"
    )
    command = f"(setsid sh -c 'trap \"\" HUP TERM; sleep {mark}' &); touch up; sleep {mark}"
    root = Path(__file__).resolve().parents[2]
    harness = subprocess.Popen([sys.executable, "-c", code, str(bench.work / "inner"), command], cwd=root)
    try:
        await asyncio.wait_for(_appears(bench.work / "inner" / "work" / "up"), 30)
        await asyncio.wait_for(_seen(f"sleep\0{mark}"), 30)
    finally:
        harness.send_signal(signal.SIGKILL)
        harness.wait(30)
    await asyncio.wait_for(_gone(mark), 2.0)


async def test_a_fork_bomb_is_held(bench: Bench) -> None:
    bench.settings["processes"] = 64
    report = bench.sandbox().describe()
    if not report.process_limit:
        pytest.skip("root without a cgroup to write: nothing can bound processes here")
    code = (
        "import os, time\n"
        "count = 0\n"
        "try:\n"
        "    while count < 500:\n"
        "        if os.fork() == 0:\n"
        "            time.sleep(30)\n"
        "            os._exit(0)\n"
        "        count += 1\n"
        "except OSError as error:\n"
        "    print('held', count < 64, error.errno)\n"
    )
    (bench.work / "bomb.py").write_text(code)
    said = await bench.say("python3 bomb.py")
    assert "held True" in said


async def test_a_command_cannot_use_up_the_memory_by_itself(bench: Bench) -> None:
    bench.settings["memory_bytes"] = 256 * 1024 * 1024
    (bench.work / "eat.py").write_text("x = bytearray(1 << 30)\nprint('ate')\n")
    said = await bench.say("python3 eat.py")
    assert "MemoryError" in said
    assert "ate" not in said.replace("create", "")


# ---- network ----------------------------------------------------------------------------------
# What a command prints is written in two parts, because a traceback of newer versions of Python shows the command.


async def test_no_network_is_reached_not_even_the_machines_own(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        server.settimeout(0.2)
        said = await bench.say(
            f"(echo hi > /dev/tcp/127.0.0.1/{port}) && echo got-there; "
            f'python3 -c \'import socket; socket.create_connection(("127.0.0.1", {port}), 1); print("got-"+"there")\'; '
            "python3 -c 'import socket; s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
            's.sendto(b"x", ("10.255.255.1", 53)); print("sent")\'; '
            "ls /sys/class/net"
        )
        assert "got-there" not in said
        assert "sent\n" not in said
        with pytest.raises(TimeoutError):
            server.accept()


async def test_sockets_that_ignore_network_namespaces_are_refused(bench: Bench) -> None:
    said = await bench.say(
        'python3 -c \'import socket; socket.socket(40, socket.SOCK_STREAM); print("open" + "ed")\'; '
        'python3 -c \'import socket; socket.socket(17, socket.SOCK_RAW); print("open" + "ed")\''
    )
    assert "opened" not in said


async def test_moots_own_socket_is_out_of_reach(bench: Bench, tmp_path: Path) -> None:
    (bench.home / "run").mkdir(parents=True)
    path = bench.home / "run" / "moot.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        said = await bench.say(
            f'python3 -c \'import socket; socket.socket(socket.AF_UNIX).connect("{path}"); print("connect" + "ed")\'',
            cwd=tmp_path,
        )
    assert "connected" not in said


# ---- environment and secrets ------------------------------------------------------------------


async def test_the_daemons_environment_does_not_reach_a_command(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "MOOT_HOME", "LD_PRELOAD_X", "CANARY"):
        monkeypatch.setenv(name, "canary-of-the-environment")
    said = await bench.say("env; cat /proc/self/environ /proc/1/environ | tr '\\0' '\\n'; set")
    assert "canary-of-the-environment" not in said


async def test_a_secret_is_in_the_environment_of_its_command_and_nowhere_else(bench: Bench) -> None:
    bench.secrets.values["KEY"] = "s3cr3t-canary-value"
    said = await bench.say(
        "printf %s {{secret:KEY}} | sha256sum; printf %s \"{{secret:KEY}}\" '{{secret:KEY}}'; "
        "tr '\\0' ' ' < /proc/$$/cmdline; tr '\\0' ' ' < /proc/1/cmdline"
    )
    assert "s3cr3t-canary-value" not in said
    assert said.count("{{secret:KEY}}") == 2
    assert hashlib.sha256(b"s3cr3t-canary-value").hexdigest() in said
    assert "canary" not in await bench.say("env")


async def test_a_secret_with_shell_characters_in_it_stays_one_word(bench: Bench) -> None:
    bench.secrets.values["KEY"] = 'a b\'; touch pwned; "$(touch pwned)" `touch pwned`'
    said = await bench.say("printf '[%s]' {{secret:KEY}} '{{secret:KEY}}' \"{{secret:KEY}}\" | wc -l")
    assert said == "0\n"
    assert not (bench.work / "pwned").exists()


# ---- without a sandbox ------------------------------------------------------------------------


async def test_without_a_sandbox_nothing_a_command_started_survives_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, mode="none")
    mark = f"77{os.getpid()}4"
    said = await bench.say(f"(setsid sleep {mark} &) ; pwd")
    assert said == f"{bench.work}\n"
    await asyncio.wait_for(_gone(f"sleep\0{mark}"), 2.0)
    result = await bench.run(f"(setsid sh -c 'trap \"\" TERM; sleep {mark}' &) ; sleep {mark}", timeout=1)
    assert result.is_error
    await asyncio.wait_for(_gone(f"sleep\0{mark}"), 2.0)


async def test_a_lent_folder_is_read_and_not_written(bench: Bench) -> None:
    furnish(bench)
    lent = bench.home / "data" / "skill"
    lent.mkdir()
    (lent / "run.sh").write_text("#!/bin/sh\ncat /.moot/lent/run.sh | head -1; echo x > /.moot/lent/x; ls ..\n")
    (lent / "run.sh").chmod(0o755)
    sandbox = bench.sandbox()
    process = await sandbox.start(
        Command(argv=("/.moot/lent/run.sh",), cwd=str(bench.work), lent=str(lent)), output=OutputBuffer(10_000)
    )
    process.limit(20)
    await process.over()
    assert process.output.text().startswith("#!/bin/sh")
    assert not (lent / "x").exists()


async def _appears(path: Path) -> None:
    while not path.exists():  # noqa: ASYNC110  the event is another process's
        await asyncio.sleep(0.01)


async def _seen(mark: str) -> None:
    while not marked(mark):  # noqa: ASYNC110  the event is another process's
        await asyncio.sleep(0.01)


async def _gone(mark: str) -> None:
    while marked(mark):  # noqa: ASYNC110  the event is another process's
        await asyncio.sleep(0.01)
