"""The daemon's log: one JSON object a line in a rotating file, and people's lines on standard error."""

import logging
import sys
import time
from logging.handlers import RotatingFileHandler

import msgspec

from moot.daemon.paths import Paths, make_folder

_BYTES = 8 * 1024 * 1024
_KEPT = 4


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def start_logging(paths: Paths) -> None:
    make_folder(paths.logs)
    lines = RotatingFileHandler(paths.log, maxBytes=_BYTES, backupCount=_KEPT, encoding="utf-8")
    lines.setFormatter(_Lines())
    console = logging.StreamHandler(sys.stderr)
    console.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    console.setLevel(logging.WARNING)
    logging.basicConfig(level=logging.INFO, handlers=[lines, console], force=True)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
