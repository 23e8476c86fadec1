"""Finds secrets hidden in bytes: broken lines, hex dumps, escapes, base64. Pure. Used by `redactor`.

Each is a view: the same bytes decoded, in which known texts can be found, with a mapping back to the original
positions. Making a view is cheap and done for all input; the mapping is built only if something was found.
"""

import binascii
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from moot.redaction.finder import Finder, Span

BREAKS = b"\r\n"
_BREAKS = re.compile(rb"[\r\n]+")

# However often something was escaped, the backslashes before it are one escape.
_ESCAPES = rb"\\+(?:u%b|x[0-9a-fA-F]{2}|[nr/\"'])|\\{2,}|%%[0-9a-fA-F]{2}|[\r\n]+"
_NARROW = re.compile(_ESCAPES % rb"00[0-9a-fA-F]{2}")
_WIDE = re.compile(_ESCAPES % rb"[0-9a-fA-F]{4}")

_HEX = b"0123456789abcdefABCDEF"
_NOT_HEX = bytes(set(range(256)) - set(_HEX))
_SMALL = bytes.maketrans(b"ABCDEF", b"abcdef")
_BETWEEN = re.compile(rb"[^0-9a-f]+")
# What may be between two bytes in hex: space, at most the rest of a line, and a few signs, as in "0x73,\n    0x65".
_WIDEST_GAP = 160
_LONGEST_LINE = 4096
_MOST_SIGNS = 4

# A line of a dump, as xxd, hexdump -C and od write it: the offset, the bytes, and often the bytes as text.
_LINE = (
    rb"\n(?:(%b:[ \t]+)([0-9a-fA-F]{2,16}(?: [0-9a-fA-F]{2,16})*)((?:  [^\n]*)?[ \t\r]*)"
    rb"|(%b[ \t]+)([0-9a-fA-F]{2}(?:[ \t]{1,2}[0-9a-fA-F]{2})*)((?:[ \t]+[|>][^\n]*)?[ \t\r]*))(?=\n|\Z)"
)
_OFFSET = rb"[ \t]*(?:0x[0-9a-fA-F]{4,16}|[0-9a-fA-F]{6,16})"
_DUMP = re.compile(_LINE % (_OFFSET, _OFFSET))
# The first line of a dump may follow other text on the same line.
_AFTER_WORDS = rb"(?:%b|[^\n]{1,64}?\b[0-9a-fA-F]{6,16})" % _OFFSET
_FIRST_OF_DUMP = re.compile(_LINE % (_AFTER_WORDS, _AFTER_WORDS))

_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{16,}")
_STANDARD = bytes.maketrans(b"-_", b"+/")


class DecodedView(Struct, frozen=True, kw_only=True):
    """Decoded bytes. `starts` and `ends` map each byte to its position in the original."""

    data: bytes
    starts: Sequence[int]
    ends: Sequence[int]

    def original_span(self, span: Span) -> Span:
        return self.starts[span[0]], self.ends[span[1] - 1]


class FoundSecret(Struct, frozen=True):
    """A known text, and the start and end of its encoded form."""

    text: bytes
    start: int
    end: int


def _decode_view(data: bytes, pattern: re.Pattern[bytes], read: Callable[[bytes], bytes]) -> DecodedView:
    """Decode every match of the pattern; return the result with its mapping to the original."""
    pieces: list[bytes] = []
    starts: list[int] = []
    ends: list[int] = []
    done = 0
    for match in pattern.finditer(data):
        start, end = match.span()
        plain = read(match[0])
        pieces += (data[done:start], plain)
        starts += (*range(done, start), *[start] * len(plain))
        ends += (*range(done + 1, start + 1), *[end] * len(plain))
        done = end
    pieces.append(data[done:])
    starts += range(done, len(data))
    ends += range(done + 1, len(data) + 1)
    return DecodedView(data=b"".join(pieces), starts=starts, ends=ends)


# ---- lines -----------------------------------------------------------------------------------------


def join_lines(data: bytes) -> bytes:
    """Remove line breaks, because encoded text is often broken into lines inside a secret."""
    return data.translate(None, BREAKS)


def find_in_lines(data: bytes, finder: Finder) -> list[FoundSecret]:
    view = _decode_view(data, _BREAKS, lambda _: b"")
    return _to_original(view, finder.spans(view.data))


def _to_original(view: DecodedView, spans: list[Span]) -> list[FoundSecret]:
    return [FoundSecret(view.data[span[0] : span[1]], *view.original_span(span)) for span in spans]


# ---- escapes ---------------------------------------------------------------------------------------


def remove_escapes(data: bytes, *, wide: bool) -> bytes:
    """Return the bytes with all escapes decoded; empty if there are none.

    Any character may be escaped, even if it need not be. Unless `wide`, escapes of non-Latin letters are left, since
    whole texts are written in them.
    """
    if b"%" not in data and not any(mark in data for mark in (b"\\u" if wide else b"\\u00", b"\\x", b"\\n")):
        return b""
    return (_WIDE if wide else _NARROW).sub(lambda match: _unescape(match[0]), data)


def find_in_escapes(data: bytes, finder: Finder) -> list[FoundSecret]:
    view = _decode_view(data, _WIDE, _unescape)
    return _to_original(view, finder.spans(view.data))


@lru_cache(maxsize=4096)
def _unescape(escape: bytes) -> bytes:
    code = escape.lstrip(b"\\")
    match code[:1]:
        case b"u":
            return chr(int(code[1:], 16)).encode("utf-8", "surrogatepass")
        case b"x" | b"%":
            return bytes((int(code[1:], 16),))
        case b"n" | b"r" | b"\n" | b"\r":
            return b""
        case _:
            return code or b"\\"


# ---- hex -------------------------------------------------------------------------------------------


def list_hex_views(data: bytes) -> Iterator[bytes]:
    """Yield only the hex digits, joined: once of the whole data, once without the frame of a dump."""
    yield _keep_digits(data)
    bare = _strip_dump_frame(data)
    if bare != data:
        yield _keep_digits(bare)


def find_in_hex(data: bytes, finder: Finder) -> list[FoundSecret]:
    found: list[FoundSecret] = []
    for each in (data, _strip_dump_frame(data)):
        view = _decode_view(each.replace(b"0x", b"  ").translate(_SMALL), _BETWEEN, lambda _: b"")
        spans = [span for span in finder.spans(view.data) if _is_byte_sequence(each, view, span)]
        found += (replace(one, end=_dump_line_end(data, one.end)) for one in _to_original(view, spans))
    return found


def _keep_digits(data: bytes) -> bytes:
    return data.replace(b"0x", b"  ").translate(_SMALL, _NOT_HEX)


def _strip_dump_frame(data: bytes) -> bytes:
    """Blank out the offsets and text of a dump; everything else keeps its position."""
    data = b"\n" + data
    bare = bytearray(data)
    done = 0
    for line in _DUMP.finditer(data):
        if line.start() != done:
            first = _FIRST_OF_DUMP.match(data, max(done, data.rfind(b"\n", 0, line.start())))
            if first is not None and first.end() == line.start():
                _strip_dump_line(bare, first)
        _strip_dump_line(bare, line)
        done = line.end()
    return bytes(bare[1:])


def _strip_dump_line(bare: bytearray, line: re.Match[bytes]) -> None:
    for frame in (1, 3, 4, 6):
        start, end = line.span(frame)
        bare[start:end] = b" " * (end - start)


def _is_byte_sequence(data: bytes, view: DecodedView, span: Span) -> bool:
    """Whether these digits are consecutive bytes, and not scattered digits."""
    places = view.starts[span[0] : span[1]]
    if any(places[at] + 1 != places[at + 1] for at in range(0, len(places), 2)):
        return False
    gaps = (data[places[at] + 1 : places[at + 1]] for at in range(1, len(places) - 1, 2))
    return all(len(gap) <= _WIDEST_GAP and len(b"".join(gap.split())) <= _MOST_SIGNS for gap in gaps)


def _dump_line_end(data: bytes, end: int) -> int:
    """Return the end of the dump line at `end`: the rest of the line may show the same bytes as text."""
    start = data.rfind(b"\n", 0, end) + 1
    line = _FIRST_OF_DUMP.match(b"\n" + data[start : start + _LONGEST_LINE])
    return end if line is None else max(end, start + line.end() - 1)


# ---- base64 ----------------------------------------------------------------------------------------


def find_in_encoded(data: bytes, finder: Finder) -> list[FoundSecret]:
    """Find known texts after decoding base64 once; they may be base64 themselves, and broken into lines."""
    view = _decode_view(data, _BREAKS, lambda _: b"")
    found: list[FoundSecret] = []
    for run in _BASE64.finditer(view.data):
        for lead in range(4):
            # The start of the encoding is unknown, since letters may precede it; all four alignments are tried.
            encoded = run[0][lead:].translate(_STANDARD)
            decoded = binascii.a2b_base64(encoded + b"A" * (-len(encoded) % 4))
            for one in find_in_lines(decoded, finder) if finder.suspects(join_lines(decoded)) else ():
                start, end = (run.start() + lead + at for at in (one.start * 4 // 3, -(-one.end * 4 // 3)))
                found.append(FoundSecret(one.text, *view.original_span((start, min(end, run.end())))))
    return found
