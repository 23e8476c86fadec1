"""Runs the script of a skill in the sandbox, after classifying it."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from moot.domain.ask import Binding
from moot.domain.errors import Forbidden, NotFound
from moot.domain.ports.tool import RunContext, ToolResult
from moot.domain.prompt import Sink
from moot.domain.redaction import Redaction
from moot.domain.shell import Classify, Level
from moot.domain.skill import SKILL_FILE
from moot.tools.exec.exec_tools import (
    command_result,
    read_output,
    reviewed_folder_mark,
    sandbox_binding,
    sandbox_sinks,
    sandbox_taint,
)
from moot.tools.sandbox import view
from moot.tools.sandbox.output_buffer import OutputBuffer
from moot.tools.sandbox.plan import Command
from moot.tools.sandbox.sandbox import Sandbox

_LONGEST = 1_048_576


class ScriptRunner:
    """Runs the scripts of skills. A script is untrusted and is classified before it runs."""

    def __init__(self, *, sandbox: Sandbox, classify_script: Classify, redact: Redaction) -> None:
        self._sandbox = sandbox
        self._classify = classify_script
        self._redact = redact

    @property
    def sinks(self) -> frozenset[Sink]:
        """Return the sinks of a script, the same as for any command."""
        return sandbox_sinks(self._sandbox.config)

    async def bind(self, cwd: str) -> Binding:
        """Return the binding of a script, the same as for any command."""
        return await sandbox_binding(self._sandbox.config, cwd)

    async def __call__(self, path: str, args: Sequence[str], context: RunContext) -> ToolResult:
        folder, script, text = await asyncio.to_thread(_read_script, Path(path))
        verdict = await asyncio.to_thread(self._classify, text)
        if verdict.level is Level.DANGEROUS:
            raise Forbidden(
                f"the script was not run: {verdict.reason}", fix="Read it, and correct it or remove the skill."
            )
        path = f"{view.LENT}/{script}" if self._sandbox.config.mode != "none" else str(folder / script)
        argv = (path, *args) if text.startswith("#!") else ("/bin/sh", path, *args)
        seconds = self._sandbox.config.longest_seconds
        output = OutputBuffer(self._sandbox.config.output_bytes)
        wanted = Command(
            argv=argv,
            cwd=context.cwd,
            lent=str(folder),
            signed=True,
            search_path=context.search_path,
            held=reviewed_folder_mark(context.agreed),
        )
        process = await self._sandbox.start(wanted, output=output)
        process.limit(seconds)
        result = command_result(await process.over(), await read_output(process, self._redact), seconds)
        return replace(result, taint=result.taint | ({sandbox_taint(self._sandbox.config)} - {""}))


def _read_script(path: Path) -> tuple[Path, str, str]:
    """Return the folder of the skill, the path of the script in it, and its text."""
    try:
        real = path.resolve(strict=True)
        with real.open("rb") as file:
            data = file.read(_LONGEST + 1)
    except OSError as error:
        raise NotFound(f"the script cannot be read: {error.strerror}", fix="Look at the skill's files.") from error
    folder = next((parent for parent in real.parents if (parent / SKILL_FILE).exists()), real.parent)
    if len(data) > _LONGEST or not os.access(real, os.X_OK) and data.startswith(b"#!"):
        raise Forbidden("the script is too long to be checked, or is not executable", fix="Make it executable.")
    return folder, str(real.relative_to(folder)), data.decode(errors="replace")
