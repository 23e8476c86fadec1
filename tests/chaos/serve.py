"""The daemon as it ships, with one more tool and two signals for tests.

`note` writes a line to a file, so that its effects can be counted. SIGUSR1 sets a failpoint, SIGUSR2 counts the tasks.
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
from moot.daemon import app
from moot.daemon.hands import Hands
from moot.daemon.paths import Paths
from moot.domain.ports import RunContext, Tool
from moot.domain.prompt import Safety, ToolSpec
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
        # A file of the kernel's: what is written stays written when this process is killed.
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, f"{context.run_id} {arguments['number']}\n".encode())
        finally:
            os.close(handle)
        await asyncio.sleep(arguments.get("pause", 0))
        return f"noted {arguments['number']}"


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


def main() -> int:
    paths = Paths.find(os.environ)
    home = paths.config.parent
    arm_on_signal(home / "fail_at")
    count_on_signal(home / "tasks")
    if synchronous := os.environ.get("MOOT_TEST_SYNCHRONOUS"):
        # A disk that is not waited for: what a test of the order of syncs must be able to see.
        app.open_store = partial(open_store, tuning=Tuning(synchronous=synchronous))  # type: ignore[misc,assignment]
    note = Note(home / "notes.txt")

    built_in = Hands.tools

    def tools_and_note(hands: Hands) -> Mapping[str, Tool]:
        return {**built_in(hands), note.spec.name: note}

    Hands.tools = tools_and_note  # type: ignore[method-assign]
    app.DRAIN_SECONDS = 0.2  # type: ignore[misc]
    return app.serve(paths)


if __name__ == "__main__":
    sys.exit(main())
