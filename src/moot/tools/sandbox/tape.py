"""What a command printed: the beginning and the end are kept, the middle is counted."""


class Tape:
    """Keeps at most `keep` bytes: a third from the beginning, the rest the newest. `ring` keeps the newest alone."""

    def __init__(self, keep: int, *, ring: bool = False) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._most_head = 0 if ring else keep // 3
        self._most_tail = keep - self._most_head
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self._most_head - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        # Cut seldom: every cut moves what is kept.
        if len(self._tail) > 2 * self._most_tail:
            del self._tail[: len(self._tail) - self._most_tail]

    @property
    def lost(self) -> int:
        return self.total - len(self._head) - min(len(self._tail), self._most_tail)

    def text(self, *, margin: int = 0) -> str:
        """What was printed, as text. `margin` bytes at each cut are dropped too: half a secret is still one."""
        head, tail, lost = bytes(self._head), bytes(self._tail[-self._most_tail :]), self.lost
        if lost and margin:
            head, tail = head[: max(len(head) - margin, 0)], tail[margin:]
            lost = self.total - len(head) - len(tail)
        if _binary(head + tail[:4096]):
            return f"[{self.total} bytes that are not text]"
        if not lost:
            return (head + tail).decode(errors="replace")
        note = f"[… {lost} bytes left out …]"
        parts = (head.decode(errors="replace"), note, tail.decode(errors="replace"))
        return "\n".join(part for part in parts if part)


def _binary(data: bytes) -> bool:
    """Whether a person could not read this: a NUL, or more than a tenth that is neither UTF-8 nor layout."""
    if not data:
        return False
    if b"\0" in data:
        return True
    sample = data[:65_536]
    odd = sample.decode(errors="replace").count("\ufffd") + sum(sample.count(code) for code in range(1, 7))
    return odd * 10 > len(sample)
