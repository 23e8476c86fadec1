"""Follows the frames of a WebSocket to know whether a message is incomplete. Used by http_connection.py."""

# RFC 6455: the bits of the first two bytes of a frame, and the lengths that stand for a longer one.
_FINAL, _CONTROL = 0x80, 0x08
_MASKED, _LENGTH = 0x80, 0x7F
_LENGTH_16, _LENGTH_64 = 126, 127
_MASK_SIZE = 4
# The most fragments of a message, and control frames that arrive at once. Clients send messages in a few large pieces;
# each frame takes time to read, however small it is.
MOST_FRAGMENTS = 4_096
MOST_CONTROLS = 500


class FrameScanner:
    """Reads the headers of frames. Control frames may stand between the fragments of a message."""

    def __init__(self) -> None:
        self._header = b""
        # Bytes of the payload of the current frame that are still to come.
        self._missing = 0
        self._is_fragmented = False
        self._fragments = 0
        self._controls = 0

    @property
    def is_flooded(self) -> bool:
        """Whether there were so many small frames that nothing more is read."""
        return self._fragments > MOST_FRAGMENTS or self._controls > MOST_CONTROLS

    @property
    def is_complete(self) -> bool:
        """Whether the last frame and the last message have arrived completely."""
        return not (self._header or self._missing or self._is_fragmented)

    def feed(self, data: bytes) -> None:
        if self._header:
            data, self._header = self._header + data, b""
        place = self._controls = 0
        while place < len(data) and not self.is_flooded:
            if self._missing:
                taken = min(self._missing, len(data) - place)
                self._missing -= taken
                place += taken
                continue
            size = _header_size(data, place)
            if not size or len(data) - place < size:
                self._header = bytes(data[place:])
                return
            self._begin(data[place : place + size])
            place += size

    def _begin(self, header: bytes) -> None:
        if header[0] & _CONTROL:
            self._controls += 1
        else:
            self._is_fragmented = not header[0] & _FINAL
            self._fragments = self._fragments + 1 if self._is_fragmented else 0
        length = header[1] & _LENGTH
        extended = {_LENGTH_16: 2, _LENGTH_64: 8}.get(length, 0)
        self._missing = int.from_bytes(header[2 : 2 + extended], "big") if extended else length


def _header_size(data: bytes, place: int) -> int:
    """Return the size of the header that begins at `place`; 0 if it is not known yet."""
    if len(data) - place < 2:
        return 0
    second = data[place + 1]
    extended = {_LENGTH_16: 2, _LENGTH_64: 8}.get(second & _LENGTH, 0)
    return 2 + extended + (_MASK_SIZE if second & _MASKED else 0)
