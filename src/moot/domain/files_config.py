"""How much the file tools take in one call."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesConfig:
    """`read_bytes` holds for a whole file; a window of lines may be cut from a file of `window_bytes`."""

    read_bytes: int = 10_485_760
    window_bytes: int = 67_108_864
    write_bytes: int = 10_485_760
    entries: int = 2_000
