"""Memory for a key: it is not swapped, not part of a core dump and not inherited. Used by `master_key`.

What Python and the libraries make of a key while they read and use it (text, numbers of the cipher) is freed but not
cleared, except where `wipe` is called.
"""

import ctypes
import mmap
from contextlib import suppress


class KeyMemory:
    """A page of its own with the key. It lives as long as the process: a cipher may read the key at any time."""

    def __init__(self, key: bytes) -> None:
        self._pages = mmap.mmap(-1, mmap.PAGESIZE)
        self._length = len(key)
        for advice in ("MADV_DONTDUMP", "MADV_DONTFORK"):
            if hasattr(mmap, advice):
                with suppress(OSError):
                    self._pages.madvise(getattr(mmap, advice))
        self.is_locked = self._lock()
        self._pages[: self._length] = key

    @property
    def view(self) -> memoryview:
        return memoryview(self._pages)[: self._length].toreadonly()

    def _lock(self) -> bool:
        """Whether the page stays out of swap; a user may lock only a few."""
        try:
            address = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
            return bool(ctypes.CDLL(None).mlock(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE)) == 0)
        except (OSError, AttributeError):
            return False


def wipe(data: bytes | bytearray) -> None:
    """Overwrite a value that nobody else refers to. For bytes this relies on how CPython lays them out."""
    if isinstance(data, bytearray):
        data[:] = bytes(len(data))
    elif len(data) > 1:
        ctypes.memset(id(data) + bytes.__basicsize__ - 1, 0, len(data))
