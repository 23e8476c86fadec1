"""Buffers the output of a command: keeps the beginning and the end, counts the rest."""

from moot.domain.redaction import Redaction, after_cut, before_cut


class OutputBuffer:
    """Keeps at most `keep` bytes: a third from the beginning, the rest from the end. `ring` keeps only the end."""

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
        # Cut rarely, because every cut copies the kept bytes.
        if len(self._tail) > 2 * self._most_tail:
            del self._tail[: len(self._tail) - self._most_tail]

    @property
    def lost(self) -> int:
        return self.total - len(self._head) - min(len(self._tail), self._most_tail)

    def text(self, redact: Redaction | None = None) -> str:
        """Return the output as text without secrets, including parts of secrets at a cut."""
        redact = redact or _NoRedaction()
        head, tail, lost = bytes(self._head), bytes(self._tail[-self._most_tail :]), self.lost
        if _is_binary(head + tail[:4096]):
            return f"[{self.total} bytes that are not text]"
        if not lost:
            return redact((head + tail).decode(errors="replace"))
        first = before_cut(head.decode(errors="replace"), redact)
        last = after_cut(tail.decode(errors="replace"), redact)
        note = f"[… about {lost} bytes left out …]" if redact.margin else f"[… {lost} bytes left out …]"
        return "\n".join(part for part in (first, note, last) if part)


class _NoRedaction:
    margin = 0

    def __call__(self, text: str) -> str:
        return text


def _is_binary(data: bytes) -> bool:
    """Return whether it is binary: it has a NUL byte, or more than a tenth is neither UTF-8 nor white space."""
    if not data:
        return False
    if b"\0" in data:
        return True
    sample = data[:65_536]
    odd = sample.decode(errors="replace").count("\ufffd") + sum(sample.count(code) for code in range(1, 7))
    return odd * 10 > len(sample)
