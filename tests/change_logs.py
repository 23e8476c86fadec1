"""A log of file changes for tests that build the file tools themselves."""

import time
from pathlib import Path

from moot.domain.config import FilesConfig
from moot.tools.files.change_log import ChangeLog


def make_log(folder: Path, config: FilesConfig | None = None) -> ChangeLog:
    return ChangeLog(folder, limits=lambda: config or FilesConfig(), now=time.time)
