"""The encodings a secret may have, and a scan for them. Independent of the redactor, which it checks."""

import base64
import json
import re
from collections.abc import Iterator
from functools import cache
from urllib.parse import quote

_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def spoken(value: str) -> list[str]:
    """A value as it may be written in one go, also letter by letter."""
    data = value.encode()
    return [
        value,
        base64.b64encode(data).decode(),
        base64.b64encode(b"user:" + data).decode(),
        base64.urlsafe_b64encode(b"x" + data).decode(),
        base64.b64encode(base64.b64encode(data)).decode(),
        base64.b64encode(b'{"auth": "' + base64.b64encode(b"me:" + data) + b'"}').decode(),
        base64.b32encode(data).decode(),
        base64.b32encode(b"abc" + data + b"d").decode().lower(),
        data.hex(),
        data.hex().upper(),
        data.hex(" "),
        data.hex(":").upper(),
        quote(value),
        quote(value, safe=""),
        json.dumps(value),
        json.dumps(json.dumps([value])),
        "".join(f"\\u{ord(each):04x}" for each in value),
    ]


def printed(value: str) -> list[str]:
    """As programs print it: set out in lines and columns, or escaped here and there."""
    data = b"value: " + value.encode() + b" and so on, for as long as it takes to fill a line or two"
    lines = base64.encodebytes(base64.encodebytes(data * 2)).decode()
    return [
        lines,
        base64.b64encode(base64.encodebytes(data * 3)).decode(),
        octal_dump(data),
        columns(data),
        canonical(data),
        re.sub("(.{60})", r"\1\n", data.hex()),
        ",\n    ".join(f"0x{byte:02x}" for byte in data),
        "".join(f"\\x{byte:02x}" for byte in data),
        half_escaped(value),
        json.dumps(half_escaped(value)),
        json.dumps({"content": base64.encodebytes(data).decode()}),
    ]


def half_escaped(value: str) -> str:
    """Inside a JSON string, each other character as an escape."""
    return "".join(f"\\u{ord(each):04x}" if at % 2 or each in '"\\' else each for at, each in enumerate(value))


def octal_dump(data: bytes) -> str:
    """What od -An -tx1 prints."""
    return "".join(f" {data[at : at + 16].hex(' ')}\n" for at in range(0, len(data), 16))


def columns(data: bytes) -> str:
    """What xxd prints."""
    rows = ((at, data[at : at + 16]) for at in range(0, len(data), 16))
    return "".join(f"{at:08x}: {row.hex(' ', -2):39}  {_readable(row)}\n" for at, row in rows)


def canonical(data: bytes) -> str:
    """What hexdump -C prints."""
    rows = ((at, data[at : at + 16]) for at in range(0, len(data), 16))
    return "".join(f"{at:08x}  {row[:8].hex(' '):23}  {row[8:].hex(' '):23}  |{_readable(row)}|\n" for at, row in rows)


def _readable(row: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)


@cache
def traces(body: str) -> tuple[bytes, ...]:
    """What a body of plain letters in the middle of a value is in each of those shapes."""
    return tuple(dict.fromkeys(_list_traces(body)))


def _list_traces(body: str) -> Iterator[bytes]:
    raw = body.encode()
    yield from (raw, raw.hex().encode(), raw.hex().upper().encode())
    for once in _base64(raw):
        yield from (once, once.translate(_URL_SAFE))
        for twice in _base64(once):
            yield from (twice, twice.translate(_URL_SAFE))
    for before in range(5):
        encoded = base64.b32encode(bytes(before) + raw + bytes(5 - (before + len(raw)) % 5))
        inner = encoded[8 if before else 0 : -8]
        yield from (inner, inner.lower())


def _base64(raw: bytes) -> Iterator[bytes]:
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw + bytes(3 - (before + len(raw)) % 3))
        yield encoded[4 if before else 0 : -4]


def looked_at(data: bytes) -> list[bytes]:
    """The same bytes as somebody may read them who wants to know: without breaks, escapes, columns, signs between."""
    broken = re.sub(rb"\\+n", b"\n", data)
    unescaped = re.sub(rb"\\+u00([0-9a-fA-F]{2})", lambda code: bytes.fromhex(code[1].decode()), broken)
    bare = re.sub(rb"(?m)\b[0-9a-f]{6,8}:? +((?:[0-9a-f]{2,4} {1,2})+).*$", rb"\1", broken).replace(b"0x", b"")
    digits = re.sub(rb"[^0-9a-f]", b"", bare.lower())
    texts = [re.sub(rb"[^ -~]", b"", re.sub(rb"(?m)\b[0-9a-f]{8}.{39,53}?  \|?(.{16})\|?$", rb"\1", broken))]
    return [data, broken.replace(b"\n", b""), unescaped, digits, *texts]


def undone(data: bytes) -> Iterator[bytes]:
    """What base64 in these bytes is of. What was broken into lines before it was encoded again is seen only so."""
    for run in re.findall(rb"[A-Za-z0-9+/]{60,}", re.sub(rb"\\+n|\n", b"", data)):
        for lead in range(4):
            body = run[lead:]
            yield base64.b64decode(body[: len(body) // 4 * 4]).replace(b"\n", b"")


def found_in(data: bytes, bodies: dict[str, str]) -> list[str]:
    """Which of the bodies can be read in these bytes, and where."""
    # Together: they are many, and few have anything. No trace has a zero byte.
    views = b"\0".join([*looked_at(data), *undone(data)])
    return [
        f"{name}: {views[max(0, views.find(trace) - 80) : views.find(trace) + 80]!r}"
        for name, body in bodies.items()
        for trace in traces(body)
        if trace in views
    ]
