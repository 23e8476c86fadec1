"""The file tools of a daemon. They are in `read_tools`, `search_tools`, `change_tools` and `patch_tool`."""

from collections.abc import Callable

from moot.domain.config import FilesConfig
from moot.domain.ports.clock import Clock
from moot.domain.ports.tool import Tool
from moot.tools.files.change_log import ChangeLog
from moot.tools.files.change_tools import FsDelete, FsEdit, FsMkdir, FsWrite
from moot.tools.files.confined_tool import FileToolDependencies, Redact
from moot.tools.files.off_limits import OffLimits
from moot.tools.files.patch_tool import FsPatch
from moot.tools.files.read_files import ReadFiles
from moot.tools.files.read_tools import FsList, FsRead, FsStat
from moot.tools.files.search_tools import FsGlob, FsSearch


def tools(  # noqa: PLR0913 - what the tools depend on, each by name
    *,
    off_limits: OffLimits,
    clock: Clock,
    config: FilesConfig | None = None,
    redact: Redact = str,
    reads: ReadFiles | None = None,
    log: ChangeLog,
    reads_freely: Callable[[], bool] = lambda: True,
) -> list[Tool]:
    """The file tools. `reads` and `log` outlive them: they are built anew when the configuration changes."""
    dependencies = FileToolDependencies(
        off_limits=off_limits,
        clock=clock,
        limits=config or FilesConfig(),
        redact=redact,
        reads=reads or ReadFiles(),
        log=log,
        reads_freely=reads_freely,
    )
    kinds = (FsRead, FsList, FsSearch, FsGlob, FsWrite, FsEdit, FsPatch, FsMkdir, FsDelete, FsStat)
    return [kind(dependencies) for kind in kinds]
