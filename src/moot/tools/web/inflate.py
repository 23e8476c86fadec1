"""Bounded decompression of gzip and deflate. Pure."""

import zlib

from moot.domain.errors import Unavailable

_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


class Inflater:
    """Decompresses chunks and never returns more than was asked for."""

    def __init__(self, encoding: str) -> None:
        encoding = encoding.strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise Unavailable("the server used a content encoding that was not requested")
        self._zlib = None if encoding in ("", "identity") else zlib.decompressobj(_GZIP_OR_ZLIB)
        self._may_be_raw = encoding == "deflate"

    def feed(self, chunk: bytes, room: int) -> bytes:
        """Decompress at most `room` bytes of the chunk and discard the rest."""
        if self._zlib is None:
            return chunk[:room]
        try:
            piece = self._zlib.decompress(chunk, room)
            self._may_be_raw = False
            return piece
        except zlib.error as error:
            if not self._may_be_raw:
                raise Unavailable("the server's compressed response is invalid") from error
            # Some servers send raw deflate data without the zlib header.
            self._zlib = zlib.decompressobj(-zlib.MAX_WBITS)
            self._may_be_raw = False
            return self.feed(chunk, room)
