"""A real NATS server on loopback for tests: it can be stopped, killed and started again, and keeps its address."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree

from moot.broker.nats_server import LocalServer


class NatsServer(LocalServer):
    def __init__(self, folder: Path, *options: str) -> None:
        super().__init__(folder)
        self.options = options

    def _list_options(self) -> list[str]:
        # A configuration file says itself where the data is.
        return [*([] if "-c" in self.options else super()._list_options()), *self.options]

    def lose_data(self) -> None:
        """Remove what a stopped server has stored."""
        rmtree(self.folder, ignore_errors=True)


@contextmanager
def nats_server(folder: Path, *options: str) -> Iterator[NatsServer]:
    server = NatsServer(folder, *options)
    server.start()
    try:
        yield server
    finally:
        server.kill()
