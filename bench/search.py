"""What a search costs: fs_search on a large tree, beside rg and grep that print what they find in the same tree."""

import asyncio
import os
import shutil
import time
from pathlib import Path

from moot.daemon.clock import SystemClock
from moot.daemon.vault.content_seal import FileContentSeal
from moot.domain.config import FilesConfig
from moot.domain.conversation import ConversationKey
from moot.domain.ports.tool import RunContext
from moot.redaction.redactor import Redactor
from moot.tools.files import file_tools
from moot.tools.files.change_log import ChangeLog
from moot.tools.files.off_limits import OffLimits
from moot.tools.files.ripgrep import find_ripgrep

_FOLDERS = 200
_FILES = 50
_SEARCHES = 5
_LINE = "def handle_{0}(request, response):  # a line as long as most lines of a program are\n"
_PATTERN = r"handle_77\(.*needle"


def grow_tree(top: Path) -> None:
    """10,000 files of 4 kB, one of a hundred with what is looked for."""
    for folder in range(_FOLDERS):
        place = top / f"package{folder}"
        place.mkdir(parents=True)
        for number in range(_FILES):
            lines = [_LINE.format(line) for line in range(50)]
            if number == folder % _FILES and folder % 2 == 0:
                lines.append(_LINE.format(77).replace("as long", "needle"))
            (place / f"module{number}.py").write_text("".join(lines))


async def _nobody(_questions: object) -> str:
    raise RuntimeError("a tool that asks cannot be measured")


async def measure_search(top: Path) -> dict[str, list[float]]:
    """Seconds for each search, by who searched."""
    await asyncio.to_thread(grow_tree, top)
    log = ChangeLog(
        top.parent / "changes",
        limits=FilesConfig,
        now=time.time,
        seal=FileContentSeal(Redactor(), top.parent / "changes.key"),
    )
    tools = {tool.spec.name: tool for tool in file_tools.tools(off_limits=OffLimits(), log=log, clock=SystemClock())}
    context = RunContext(
        run_id="run-search",
        key=ConversationKey("bench", "search"),
        speaker="bench",
        cwd=str(top),
        emit=lambda _event: None,
        ask=_nobody,
    )
    taken: dict[str, list[float]] = {"moot": [], "rg": [], "grep": []}
    for _ in range(_SEARCHES):
        started = time.perf_counter()
        told = await tools["fs_search"]({"pattern": _PATTERN}, context)
        taken["moot"].append(time.perf_counter() - started)
        if "40 more matches" not in str(told):
            raise RuntimeError(f"fs_search found {told!r}")
        taken["rg"].append(await _time([find_ripgrep(), "-n", _PATTERN, "."], top))
        if grep := shutil.which("grep"):
            taken["grep"].append(await _time([grep, "-rnE", _PATTERN, "."], top))
    await asyncio.to_thread(shutil.rmtree, top)
    return taken


async def _time(command: list[str], cwd: Path) -> float:
    started = time.perf_counter()
    child = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, env={"PATH": os.defpath}
    )
    await child.communicate()
    return time.perf_counter() - started
