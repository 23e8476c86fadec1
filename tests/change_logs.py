"""A log of file changes for tests that build the file tools themselves."""

import time
from pathlib import Path

from moot.domain.config import FilesConfig
from moot.tools.files.change_log import ChangeLog

SECRET = b"stored-secret"


class ReversingSeal:
    """Seals what has the tests' secret in it by writing it backwards."""

    def has_secret(self, data: bytes) -> bool:
        return SECRET in data

    def close(self, data: bytes, digest: str) -> bytes:
        return data[::-1] + digest.encode()

    def open(self, sealed: bytes, digest: str) -> bytes:
        return sealed.removesuffix(digest.encode())[::-1]


def make_log(folder: Path, config: FilesConfig | None = None) -> ChangeLog:
    return ChangeLog(folder, limits=lambda: config or FilesConfig(), now=time.time, seal=ReversingSeal())
