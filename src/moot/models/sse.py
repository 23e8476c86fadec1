"""Decodes server-sent events from raw network reads. Pure."""

from moot.domain.errors import ModelError

MAX_EVENT = 8 * 1024 * 1024
# As a number: `b"\r" in data` first tries its left side as a number, and takes twenty times as long as `13 in data`.
_RETURN = b"\r"[0]
_DATA, _NEXT_DATA = b"data: ", b"\n\ndata: "
# What is held of an event that is longer than this is not copied for every chunk.
_LONG = 64 * 1024
_FIELDS = (b":", b"data:", b"event:", b"id:", b"retry:", b"error:")


class SseDecoder:
    """Decodes events from network reads. Handles both line endings, comments, several data lines and any split.

    Event names are not reported: both APIs repeat the kind inside the data.
    """

    __slots__ = ("_found", "_held", "_limit", "_more", "_more_size", "_returns", "_started", "_tail", "is_document")

    def __init__(self, *, limit: int = MAX_EVENT) -> None:
        self._held = b""
        # What follows after a long `_held` and does not end its event.
        self._more: list[bytes] = []
        self._more_size = 0
        # The last bytes of all that, where a blank line may begin.
        self._tail = b""
        self._limit = limit
        self._returns = False
        self._started = False
        self._found = False
        # The server sent a whole document, or garbage, instead of a stream.
        self.is_document = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of every event that is complete now."""
        held = self._held
        if len(held) > _LONG:
            if not self._may_end_event(chunk):
                self._buffer_more(chunk)
                return []
            data, held = self._join_held() + chunk, b""
        else:
            data = held + chunk if held else chunk
        if not self._started:
            data = self._skip_bom(data)
        if self.is_document:
            self._buffer_rest(data)
            return []
        if self._returns or _RETURN in data:
            data = self._normalize_endings(data)
        # The held-back bytes contain no blank line; only their last bytes can begin one.
        end = data.rfind(b"\n\n", max(0, len(held) - 3))
        if end < 0:
            self._buffer_rest(data)
            return []
        self._buffer_rest(data[end + 2 :])
        found = _split_events(data[:end])
        self._found = self._found or bool(found)
        return found

    def close(self) -> list[bytes]:
        """Return the data of an unterminated last event, or the document that came instead of a stream."""
        held = self._join_held()
        if _RETURN in held and not self.is_document:
            held = self._normalize_endings(held)
        held = held.removesuffix(b"\r")
        value = None if self.is_document else _parse_data(held)
        if self.is_document or (value is None and not self._found and held.strip() and not _is_partial_field(held)):
            self.is_document, value = True, held
        return [] if value is None else [value]

    def _may_end_event(self, chunk: bytes) -> bool:
        """Whether the chunk may complete the event that is held."""
        if self.is_document:
            return False
        return _has_blank_line((self._tail if self._more else self._held[-3:]) + chunk)

    def _buffer_more(self, chunk: bytes) -> None:
        self._more_size += len(chunk)
        if len(self._held) + self._more_size > self._limit:
            raise self._make_size_error()
        self._tail = ((self._tail if self._more else self._held[-3:]) + chunk[-3:])[-3:]
        self._more.append(chunk)

    def _join_held(self) -> bytes:
        """Return everything that is held, and hold nothing any more."""
        held = b"".join((self._held, *self._more)) if self._more else self._held
        self._held, self._more_size = b"", 0
        self._more.clear()
        return held

    def _make_size_error(self) -> ModelError:
        return ModelError(f"The model server sent an event of more than {self._limit} bytes.")

    def _buffer_rest(self, rest: bytes) -> None:
        if len(rest) > self._limit:
            raise self._make_size_error()
        self._held = rest

    def _skip_bom(self, data: bytes) -> bytes:
        """Drop a byte order mark at the start, and check whether this is a stream at all."""
        if len(data) < 3 and b"\xef\xbb\xbf".startswith(data):
            return data
        data = data.removeprefix(b"\xef\xbb\xbf")
        if first := data.lstrip()[:1]:
            self._started = True
            self.is_document = first in (b"{", b"[", b"<")
        return data

    def _normalize_endings(self, data: bytes) -> bytes:
        """Convert every line ending to a newline; a carriage return at the end is held back until more arrives."""
        self._returns = True
        last = data[-1:] == b"\r"
        if last:
            data = data[:-1]
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data + b"\r" if last else data


def _has_blank_line(data: bytes) -> bool:
    if _RETURN in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return b"\n\n" in data


def _split_events(blocks: bytes) -> list[bytes]:
    """Return the data of complete events."""
    if blocks[:6] == _DATA and blocks.count(b"\n") == 2 * blocks.count(_NEXT_DATA):
        # Fast path: each event is one data line, and nothing else. A long answer has thousands.
        return blocks[6:].split(_NEXT_DATA)
    return [value for block in blocks.split(b"\n\n") if (value := _parse_data(block)) is not None]


def _parse_data(block: bytes) -> bytes | None:
    lines = []
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        # llama.cpp reports a failure in a separate field.
        if name in {b"data", b"error"}:
            lines.append(value.removeprefix(b" "))
    return b"\n".join(lines) if lines else None


def _is_partial_field(block: bytes) -> bool:
    """Whether this is the beginning of an event that was cut, or a comment."""
    return any(block.startswith(field) or field.startswith(block) for field in _FIELDS)
