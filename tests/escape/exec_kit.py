"""What the tests of exec share: a sandbox around a folder of a test's own, and the four tools on it."""

import os
from pathlib import Path
from typing import Any

from moot.daemon.clock import SystemClock
from moot.domain.config import SandboxConfig
from moot.domain.conversation import ConversationKey
from moot.domain.errors import NotFound
from moot.domain.ports.tool import RunContext, Tool, ToolResult
from moot.domain.secret import Holder, SecretInfo, references
from moot.redaction.redactor import Redactor
from moot.tools.exec import exec_tools
from moot.tools.exec.created_files import CreatedFiles
from moot.tools.exec.jobs import Jobs
from moot.tools.sandbox.sandbox import Sandbox
from moot.tools.shell.grammar import classify

KEY = ConversationKey("moot", "user")


class FewSecrets:
    """The secrets port over a dict."""

    def __init__(self, values: dict[str, str]) -> None:
        self.values = values

    async def store(self, name: str, value: str, holder: Holder) -> bool:
        self.values[name] = value
        return True

    async def list_for(self, sender: str) -> list[SecretInfo]:
        return []

    async def reference(self, name: str, context: RunContext, *, tool: str) -> str:
        return "{{secret:" + name + "}}"

    async def delete(self, name: str, holder: Holder) -> None:
        del self.values[name]

    async def resolve(self, text: str, context: RunContext, *, tool: str) -> dict[str, str]:
        found = references(text)
        for reference in found:
            if reference.name not in self.values:
                raise NotFound(f"there is no secret {reference.name}")
        return {reference.token: self.values[reference.name] for reference in found}


class Bench:
    """A home for Moot, a folder to work in, and exec on top."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.home = root / "moot"
        self.work = root / "work"
        self.work.mkdir(parents=True)
        self.protected: list[Path] = [self.home / part for part in ("config.toml", "agents", "data", "run", "logs")]
        self.settings = settings
        self.secrets = FewSecrets({})
        self.redact = Redactor()
        self._tools: dict[str, Tool] = {}
        # The PATH of the client.
        self.search_path = ""

    def sandbox(self) -> Sandbox:
        return Sandbox(
            SandboxConfig(**self.settings),
            protected=self.protected,
            workspaces=self.home / "data" / "workspaces",
            clock=SystemClock(),
        )

    def tool(self, name: str) -> Tool:
        if not self._tools:
            self.jobs = Jobs(most=lambda: self.settings.get("background_jobs", 8), publish=lambda _source, _body: None)
            made = exec_tools.tools(
                sandbox=self.sandbox(),
                jobs=self.jobs,
                classify=classify,
                redact=self.redact,
                secrets=self.secrets,
                created=CreatedFiles(lambda _root, _place: False),
            )
            self._tools = {tool.spec.name: tool for tool in made}
        return self._tools[name]

    def context(self, cwd: Path | str = "", *, key: ConversationKey = KEY) -> RunContext:
        return RunContext(
            run_id="run-1",
            key=key,
            speaker="moot",
            cwd=str(cwd or self.work),
            search_path=self.search_path,
            emit=_silent,
            ask=_nobody,
        )

    async def run(self, command: str, *, cwd: Path | str = "", **arguments: Any) -> ToolResult:
        said = await self.tool("exec")({"command": command, **arguments}, self.context(cwd))
        assert isinstance(said, ToolResult)
        return said

    async def say(self, command: str, *, cwd: Path | str = "") -> str:
        return (await self.run(command, cwd=cwd)).content


def _silent(_event: object) -> None:
    return None


async def _nobody(_questions: object) -> str:
    raise NotFound("nobody is asked here")


def marked(mark: str) -> list[int]:
    """The processes of this machine that carry a mark in their command line."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line:
                found.append(int(name))
    return found
