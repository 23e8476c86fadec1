"""The tools that run shell commands in the foreground or in the background. They use `sandbox` and `jobs`."""

import asyncio
import os
import re
from typing import Any

import msgspec
from msgspec.structs import replace

from moot.domain.approval import digest
from moot.domain.ask import Binding
from moot.domain.call_shape import CallShape
from moot.domain.config import SandboxConfig
from moot.domain.errors import BadRequest
from moot.domain.plain_words import read_plain_words
from moot.domain.ports.secrets import Secrets
from moot.domain.ports.tool import RunContext, Tool, ToolResult
from moot.domain.prompt import Safety, Sink, ToolSpec
from moot.domain.redaction import Redaction
from moot.domain.safety import Reach
from moot.domain.secret import references, through_environment
from moot.domain.shell import Classify, Level
from moot.domain.visible import one_row
from moot.tools.exec.created_files import CreatedFiles
from moot.tools.exec.jobs import Job, Jobs, make_job_id, source_of_context
from moot.tools.sandbox import view
from moot.tools.sandbox.output_buffer import OutputBuffer
from moot.tools.sandbox.plan import Command
from moot.tools.sandbox.process import Ending, Process
from moot.tools.sandbox.sandbox import Sandbox
from moot.tools.threads import run_in_thread

# Text longer than this is read and cleaned on another thread.
_LONG = 65_536
# How many files are named to the person who is asked.
_NAMED = 3
# What may make several commands of one.
_COMPOUND = re.compile(r"[;&|\n`(]")

_COMMAND = {
    "type": "string",
    "description": "The shell command. Write {{secret:NAME}} where a stored secret belongs.",
}
_ID = {"type": "string", "description": "The id that exec_bg returned."}


def tools(
    *,
    sandbox: Sandbox,
    jobs: Jobs,
    classify: Classify,
    redact: Redaction,
    secrets: Secrets | None,
    created: CreatedFiles,
) -> list[Tool]:
    """Return the tools for commands; `redact` removes every known secret from a text."""
    shell = _CommandRunner(sandbox, classify, redact, secrets, created)
    return [Exec(shell), ExecBackground(shell, jobs), ExecStatus(jobs), ExecStop(jobs)]


class _CommandRunner:
    """The common part of foreground and background commands."""

    def __init__(
        self,
        sandbox: Sandbox,
        classify: Classify,
        redact: Redaction,
        secrets: Secrets | None,
        created: CreatedFiles,
    ) -> None:
        self.config = sandbox.config
        self._sandbox = sandbox
        self._classify = classify
        self._redact = redact
        self._secrets = secrets
        self._created = created

    def now(self) -> float:
        return self._sandbox.clock.now()

    def sinks(self) -> frozenset[Sink]:
        return sandbox_sinks(self.config)

    def taint(self) -> str:
        return sandbox_taint(self.config)

    def where(self) -> str:
        return describe_sandbox(self.config)

    async def reach(self, command: str, context: RunContext) -> Reach:
        is_sandboxed = self.config.mode != "none" and not self.config.network
        destroys = await self._find_destruction(command) or await run_in_thread(self._find_lost, command, context)
        return Reach(is_sandboxed=is_sandboxed, destroys=destroys)

    async def shape(self, command: str, context: RunContext) -> CallShape | None:
        """Return what patterns look at; None if the command is destructive: then only a rule for exactly it applies."""
        if await self._find_destruction(command):
            return None
        return await run_in_thread(_command_shape, command, context.cwd)

    async def _find_destruction(self, command: str) -> str:
        verdict = await run_in_thread(self._classify, command)
        return verdict.reason if verdict.level is Level.DESTRUCTIVE else ""

    def _find_lost(self, command: str, context: RunContext) -> str:
        """Which older files the command deletes or overwrites, in words; empty if none."""
        lost = self._created.find_older(self._classify(command).lost_files, context)
        named = ", ".join(map(one_row, lost[:_NAMED])) + (
            f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        )
        return f"deletes or overwrites {named}" if lost else ""

    def preview(self, command: str, context: RunContext) -> str:
        verdict = self._classify(command)
        doubt = f"\n{verdict.level}: {verdict.reason}" if verdict.level is not Level.OK else ""
        real = view.real_path(context.cwd)
        really = "" if real == context.cwd else f", which resolves to {one_row(real)}"
        return f"{command}\n\nin {one_row(context.cwd)}{really}\n{self.where()}.{doubt}"

    async def start(self, command: str, context: RunContext, *, tool: str, ring: bool) -> tuple[Process, Redaction]:
        values: dict[str, str] = {}
        if references(command):
            if self._secrets is None:
                raise BadRequest("there are no secrets here to refer to", fix="Run the command without {{secret:…}}.")
            values = await self._secrets.resolve(command, context, tool=tool)
        text, environment = through_environment(command, values)
        output = OutputBuffer(self.config.output_bytes, ring=ring)
        await run_in_thread(lambda: self._created.note(self._classify(command).lost_files, context))
        wanted = Command(
            argv=self._sandbox.shell(text),
            cwd=context.cwd,
            environment=environment,
            signed=True,
            search_path=context.search_path,
            held=reviewed_folder_mark(context.agreed),
        )
        return await self._sandbox.start(wanted, output=output), _OutputRedaction(values, self._redact)


def _command_shape(command: str, cwd: str) -> CallShape | None:
    words, real = read_plain_words(command), view.real_path(cwd)
    if words is None:
        return None
    paths = tuple(view.real_path(os.path.join(real, word)) for word in words)
    return CallShape(words=words, paths=paths, cwd=real)


def describe_sandbox(config: SandboxConfig) -> str:
    if config.mode == "none":
        return "It runs without a sandbox"
    reach = "can reach the network" if config.network else "has no network"
    return f"It runs in a sandbox that {reach} and can write only in the working directory and /tmp"


async def sandbox_binding(config: SandboxConfig, cwd: str) -> Binding:
    """Return the binding of a command: its sandbox and folder. If either changes, approval is asked again."""
    reach = "with a network" if config.network else "without a network"
    what = "without a sandbox" if config.mode == "none" else f"in a sandbox {reach}"
    real, mark = await run_in_thread(lambda: (view.real_path(cwd), view.folder_mark(cwd)))
    return Binding(what=what, place="" if real == cwd else real, seen=f"{digest(repr(config))} {mark}")


def reviewed_folder_mark(agreed: Binding | None) -> str:
    """Return the mark of the folder that was shown with a command; empty if there was none."""
    return agreed.seen.rpartition(" ")[2] if agreed is not None else ""


def sandbox_sinks(config: SandboxConfig) -> frozenset[Sink]:
    """Return the sinks of commands: none inside the sandbox without a network."""
    if config.mode == "none":
        return frozenset({Sink.SHELL})
    return frozenset({Sink.EGRESS}) if config.network else frozenset()


def sandbox_taint(config: SandboxConfig) -> str:
    """Return the taint of a command's output: it is untrusted if the command has a network or no sandbox."""
    return "web" if config.network or config.mode == "none" else ""


class _OutputRedaction:
    """Removes the secrets given to this command, then all other known secrets."""

    def __init__(self, values: dict[str, str], redact: Redaction) -> None:
        self._values = sorted(values.items(), key=lambda pair: -len(pair[1]))
        self._redact = redact

    def __call__(self, text: str) -> str:
        for token, value in self._values:
            text = text.replace(value, token)
        return self._redact(text)

    @property
    def margin(self) -> int:
        return max(self._redact.margin, *(2 * len(value) for _, value in self._values), 0)


class _CommandTool:
    """What the gate learns of a command before it is executed."""

    def __init__(self, shell: _CommandRunner) -> None:
        self._shell = shell

    async def preview(self, arguments: dict[str, Any], context: RunContext) -> str:
        return self._shell.preview(arguments["command"], context)

    async def bind(self, _arguments: dict[str, Any], context: RunContext) -> Binding:
        return await sandbox_binding(self._shell.config, context.cwd)

    async def reach(self, arguments: dict[str, Any], context: RunContext) -> Reach:
        return await self._shell.reach(arguments["command"], context)

    async def shape(self, arguments: dict[str, Any], context: RunContext) -> CallShape | None:
        return await self._shell.shape(arguments["command"], context)


class Exec(_CommandTool):
    def __init__(self, shell: _CommandRunner) -> None:
        super().__init__(shell)
        config = shell.config
        self.spec = ToolSpec(
            name="exec",
            group="exec",
            safety=Safety.DANGEROUS,
            sinks=shell.sinks(),
            taint=shell.taint(),
            description="Run a shell command and wait for what it prints. "
            f"{shell.where()}. It is stopped after {config.timeout_seconds:g} seconds unless you say otherwise.",
            parameters={
                "type": "object",
                "properties": {
                    "command": _COMMAND,
                    "timeout": {
                        "type": "integer",
                        "description": f"Seconds to wait, {config.longest_seconds:g} at most.",
                    },
                },
                "required": ["command"],
            },
        )

    def line(self, arguments: dict[str, Any]) -> str:
        return f"$ {arguments.get('command', '')}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        config = self._shell.config
        seconds = float(arguments.get("timeout", config.timeout_seconds))
        if not 0 < seconds <= config.longest_seconds:
            raise BadRequest(f"timeout must be between 1 and {config.longest_seconds:g} seconds")
        process, redact = await self._shell.start(arguments["command"], context, tool="exec", ring=False)
        process.limit(seconds)
        ending = await process.over()
        result = command_result(ending, await read_output(process, redact), seconds)
        return replace(result, is_unexecuted=_is_not_found(arguments["command"], ending))


class ExecBackground(_CommandTool):
    def __init__(self, shell: _CommandRunner, jobs: Jobs) -> None:
        super().__init__(shell)
        self._jobs = jobs
        self.spec = ToolSpec(
            name="exec_bg",
            group="exec",
            safety=Safety.DANGEROUS,
            sinks=shell.sinks(),
            taint=shell.taint(),
            description="Start a shell command in the background and get its id at once; exec_status tells how it is "
            f"doing and exec_stop ends it. {shell.where()}. It ends with the daemon, and after "
            f"{shell.config.background_seconds:g} seconds at the latest.",
            parameters={"type": "object", "properties": {"command": _COMMAND}, "required": ["command"]},
        )

    def line(self, arguments: dict[str, Any]) -> str:
        return f"$ {arguments.get('command', '')} &"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        self._jobs.check_room(context.key)
        command: str = arguments["command"]
        process, redact = await self._shell.start(command, context, tool="exec_bg", ring=True)
        process.limit(self._shell.config.background_seconds)
        job = Job(
            id=make_job_id(),
            command=command,
            process=process,
            started=self._shell.now(),
            redact=redact,
            source=source_of_context(context),
            taint=self._shell.taint(),
        )
        return self._jobs.add(context.key, job).id


class ExecStatus:
    spec = ToolSpec(
        name="exec_status",
        group="exec",
        safety=Safety.SAFE,
        description="Get the state of a background command and its newest output.",
        parameters={"type": "object", "properties": {"id": _ID}, "required": ["id"]},
    )

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def line(self, arguments: dict[str, Any]) -> str:
        return f"state of {arguments.get('id', '')}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        return await _job_result(self._jobs.find(context.key, arguments["id"]))


class ExecStop:
    spec = ToolSpec(
        name="exec_stop",
        group="exec",
        safety=Safety.DANGEROUS,
        description="Stop a background command and everything it started.",
        parameters={"type": "object", "properties": {"id": _ID}, "required": ["id"]},
    )

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def line(self, arguments: dict[str, Any]) -> str:
        return f"stop {arguments.get('id', '')}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        job = self._jobs.find(context.key, arguments["id"])
        await job.process.end()
        return await _job_result(job)


async def _job_result(job: Job) -> ToolResult:
    ending = job.process.ending
    content = msgspec.json.encode(
        {
            "id": job.id,
            "command": job.command,
            "done": ending is not None,
            "exitCode": ending.exit_code if ending is not None else None,
            "error": ending.reason if ending is not None else "",
            "output": await read_output(job.process, job.redact),
            "startTime": job.start_time,
        }
    ).decode()
    return ToolResult(content=content, taint=frozenset({job.taint} - {""}))


async def read_output(process: Process, redact: Redaction) -> str:
    """Return the output of a process, with what the sandbox has to say about it."""
    ending = process.ending
    notes = await process.notes() if ending is not None else []

    def read() -> str:
        text = process.output.text(redact)
        why = process.held.explain(text, ending.exit_code if ending is not None else 0)
        # A note may name files, whose names a command chose.
        message = "\n".join(filter(None, (why, *map(redact, notes))))
        return f"{text.rstrip()}\n{message}\n".lstrip("\n") if message else text

    return await asyncio.to_thread(read) if process.output.total > _LONG else read()


def _is_not_found(command: str, ending: Ending) -> bool:
    """Whether the shell did not find the program, or could not execute it, and nothing else of the command ran."""
    return ending.exit_code in (126, 127) and not _COMPOUND.search(command)


def command_result(ending: Ending, printed: str, seconds: float) -> ToolResult:
    if ending.reason:
        why = {
            "timeout": f"The command was stopped after {seconds:g} seconds.",
            "flood": "The command was stopped because it printed too much.",
        }.get(ending.reason, "The command was stopped.")
        return ToolResult(content=f"{why}\nOutput so far:\n{printed}", is_error=True)
    if ending.exit_code:
        output = next((line.strip() for line in reversed(printed.splitlines()) if line.strip()), "")
        return ToolResult(
            content=f"Command failed with exit code {ending.exit_code}\nOutput:\n{printed}",
            failure=output or f"exit code {ending.exit_code}",
        )
    return ToolResult(content=printed or "The command succeeded and printed nothing.")
