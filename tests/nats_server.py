"""A real NATS server on loopback for tests: it can be stopped, killed and started again, and keeps its address."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree

from moot.broker.nats_server import find_server, make_arguments

START_SECONDS = 60.0
_LOOK_SECONDS = 0.005


class NatsServer:
    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.options = options
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, and wait until it accepts connections: it then writes its ports to a file."""
        ports = self.folder / "ports"
        rmtree(ports, ignore_errors=True)
        ports.mkdir(parents=True)
        command = make_arguments(find_server(), self.port or -1, self.folder / "data")
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--ports_file_dir", str(ports), *self.options], stdout=log, stderr=log
            )
        self.port = self._wait_for_port(ports / f"nats-server_{self._process.pid}.ports", self._process)

    def _wait_for_port(self, file: Path, process: subprocess.Popen[bytes]) -> int:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and process.poll() is None:
            try:
                address: str = json.loads(file.read_text())["nats"][0]
            except (OSError, ValueError):
                time.sleep(_LOOK_SECONDS)
                continue
            return int(address.rpartition(":")[2])
        raise AssertionError(f"nats-server did not start:\n{(self.folder / 'log').read_text()}")

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(START_SECONDS)
            self._process = None

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def lose_data(self) -> None:
        """Remove what a stopped server has stored."""
        rmtree(self.folder / "data", ignore_errors=True)


@contextmanager
def nats_server(folder: Path, *options: str) -> Iterator[NatsServer]:
    folder.mkdir(parents=True, exist_ok=True)
    server = NatsServer(folder, *options)
    server.start()
    try:
        yield server
    finally:
        server.kill()
