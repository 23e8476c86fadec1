"""The daemon as it ships, with a few more tools and two signals for tests.

`note` and the marks of teammates write a line to a file, so that their effects can be counted. SIGUSR1 sets a
failpoint, SIGUSR2 counts the tasks.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from moot import failpoint
from moot.daemon import app, open_storage
from moot.daemon.paths import Paths
from moot.daemon.serve import serve
from moot.domain.ports.tool import RunContext, Tool
from moot.domain.prompt import Safety, ToolSpec
from moot.engine.tool_registry import ToolRegistry
from moot.store.connection import Tuning
from moot.store.sqlite import open_store


class Note:
    spec = ToolSpec(
        name="note",
        safety=Safety.SAFE,
        description="Write a line.",
        parameters={
            "type": "object",
            "properties": {"number": {"type": "integer"}, "pause": {"type": "number"}},
            "required": ["number"],
        },
    )

    def __init__(self, path: Path) -> None:
        self._path = path

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        write_line(self._path, f"{context.run_id} {arguments['number']}")
        await asyncio.sleep(arguments.get("pause", 0))
        return f"noted {arguments['number']}"


class Mark:
    """A tool of the operator's by its name, with an effect that can be counted by the call that had it."""

    def __init__(self, name: str, safety: Safety, path: Path) -> None:
        self.spec = ToolSpec(
            name=name,
            safety=safety,
            description="Leave a mark.",
            parameters={
                "type": "object",
                "properties": {"label": {"type": "string"}, "pause": {"type": "number"}},
                "required": ["label"],
            },
        )
        self._path = path

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        write_line(self._path, f"{context.run_id} {context.call_id}")
        await asyncio.sleep(arguments.get("pause", 0))
        return f"marked {arguments['label']}"


def write_line(path: Path, line: str) -> None:
    # A file of the kernel's: what is written stays written when this process is killed.
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{line}\n".encode())
    finally:
        os.close(handle)


def arm_on_signal(order: Path) -> None:
    """SIGUSR1 sets the failpoint that the file names, and removes the file once it holds: no second start is needed."""

    def arm(_signal: int, _frame: object) -> None:
        failpoint._name, failpoint._fatal_pass = failpoint._setting(order.read_text(encoding="ascii"))
        failpoint._passes = count(1)
        order.unlink()

    signal.signal(signal.SIGUSR1, arm)


def count_on_signal(answer: Path) -> None:
    """SIGUSR2 writes how many tasks there are."""

    def tell(_signal: int, _frame: object) -> None:
        draft = answer.with_suffix(".draft")
        draft.write_text(str(len(asyncio.all_tasks(asyncio.get_running_loop()))), encoding="ascii")
        draft.replace(answer)

    signal.signal(signal.SIGUSR2, tell)


def add_tools(*more: Tool) -> None:
    built_in = ToolRegistry.tools
    # The same as long as the daemon's own are: much is worked out once for each set of tools.
    known: list[Mapping[str, Tool]] = [{}, {}]

    def with_more(registry: ToolRegistry) -> Mapping[str, Tool]:
        own = built_in(registry)
        if known[0] is not own:
            known[:] = own, {**own, **{tool.spec.name: tool for tool in more}}
        return known[1]

    setattr(ToolRegistry, "tools", with_more)  # noqa: B010 - a method of another package


def main() -> int:
    paths = Paths.find(os.environ)
    home = paths.config.parent
    arm_on_signal(home / "fail_at")
    count_on_signal(home / "tasks")
    if synchronous := os.environ.get("MOOT_TEST_SYNCHRONOUS"):
        # A disk that is not waited for: what a test of the order of syncs must be able to see.
        vars(open_storage)["open_store"] = partial(open_store, tuning=Tuning(synchronous=synchronous))
    marks = home / "marks.txt"
    add_tools(Note(home / "notes.txt"), Mark("fs_mark", Safety.SAFE, marks), Mark("fs_risk", Safety.DANGEROUS, marks))
    vars(app)["DRAIN_SECONDS"] = float(os.environ.get("MOOT_TEST_DRAIN", "0.2"))
    return serve(paths)


if __name__ == "__main__":
    sys.exit(main())
