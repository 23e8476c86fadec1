"""What a person can configure of the sandbox that commands run in, as values."""

from dataclasses import dataclass

MODES = ("auto", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxConfig:
    """The [sandbox] table. `mode` none runs commands as the daemon itself does, with nothing between."""

    mode: str = "auto"
    network: bool = False
    # Folders commands may read besides the system's and the working directory, such as a toolchain in the home.
    readable: tuple[str, ...] = ()
    timeout_seconds: float = 30.0
    longest_seconds: float = 600.0
    background_seconds: float = 3600.0
    background_jobs: int = 8
    # What is kept of a command's output, and how much of it ends a command that will not stop.
    output_bytes: int = 1_048_576
    flood_bytes: int = 67_108_864
    processes: int = 256
    memory_bytes: int = 4_294_967_296
    temporary_bytes: int = 536_870_912
