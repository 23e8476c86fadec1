"""The file tools of a daemon. They are in `read_tools`, `search_tools` and `change_tools`."""

from moot.domain.config import FilesConfig
from moot.domain.ports.tool import Tool
from moot.tools.files.change_tools import FsDelete, FsEdit, FsMkdir, FsWrite
from moot.tools.files.confined_tool import Redact
from moot.tools.files.off_limits import OffLimits
from moot.tools.files.read_tools import FsList, FsRead, FsStat
from moot.tools.files.search_tools import FsGlob, FsSearch


def tools(*, off_limits: OffLimits, config: FilesConfig | None = None, redact: Redact = str) -> list[Tool]:
    """The file tools. `off_limits` are the folders and files of Moot itself; `redact` makes secrets marks."""
    limits = config or FilesConfig()
    kinds = (FsRead, FsList, FsSearch, FsGlob, FsWrite, FsEdit, FsMkdir, FsDelete, FsStat)
    return [kind(off_limits, limits, redact) for kind in kinds]
