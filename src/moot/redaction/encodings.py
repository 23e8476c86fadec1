"""Lists the encodings in which a secret may appear: plain, base64, base32, hex, URL-encoded, escaped. Pure."""

import base64
import json
import re
from collections.abc import Iterator
from html import escape
from urllib.parse import quote, quote_plus, unquote

from moot.domain.secret import SHORTEST_SECRET

# Shorter parts would be found in ordinary text by chance.
_SHORTEST_PART = 5
_SHORTEST_LINE = 16
# Lower-case letters match by chance more often than upper-case ones.
_SHORTEST_SMALL = 8
_SHORTEST_PASSWORD = 8
_LOGIN = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://)?([^:/?#@\s]*):([^/?#\s]+)@[^@/?#\s]")
_URL_SAFE = str.maketrans("+/", "-_")


def list_encodings(value: str) -> set[str]:
    """Return every text that reveals the value. For a value of several lines, each longer line reveals it."""
    found: set[str] = set()
    for part in list_parts(value):
        found |= {part, *_list_escaped(part)}
        found.update(shape for shape in _list_encoded(part.encode()) if len(shape) >= _SHORTEST_PART)
    return found


def list_parts(value: str) -> set[str]:
    """Return the value, its longer lines if it has several, and the login if it is an address with one."""
    parts = (value.strip(), *_long_lines(value), *_list_login(value.strip()))
    return {value, *(part for part in parts if len(part) >= SHORTEST_SECRET)}


def encode_twice(value: str) -> Iterator[str]:
    """Yield the value as base64 of base64. If the inner encoding was broken into lines, only parts of it remain."""
    for part in list_parts(value):
        yield from _encode_twice(part.encode())


def _long_lines(value: str) -> list[str]:
    lines = [line.strip() for line in value.splitlines()]
    return [line for line in lines if len(line) >= _SHORTEST_LINE and not line.startswith("-----")] if lines[1:] else []


def _list_login(value: str) -> Iterator[str]:
    """Yield the password of a URL, and the user with it: they are sent, and answered with, apart from the rest."""
    found = _LOGIN.match(value)
    if found is None:
        return
    for user, password in (found.groups(), map(unquote, found.groups())):
        if len(user) + len(password) >= _SHORTEST_PASSWORD:
            yield f"{user}:{password}"
        # The same word as the user's name is not much of a secret, and may be in any text.
        if len(password) >= _SHORTEST_PASSWORD and password != user:
            yield password


def _list_escaped(text: str) -> Iterator[str]:
    for safe in ("", "/"):
        for shape in (quote(text, safe=safe), quote_plus(text, safe=safe)):
            # A URL inside a URL is encoded once more.
            yield from (shape, _lowercase_escapes(shape), quote(shape, safe=safe))
    octets = text.encode().hex()
    every = "".join(f"%{octets[at : at + 2]}" for at in range(0, len(octets), 2))
    yield from (every, every.upper())
    yield from (escape(text), escape(text, quote=False), escape(text).replace("&#x27;", "&#39;"))
    # Errors and logs show values as Python's repr.
    yield from (repr(text)[1:-1], ascii(text)[1:-1], repr(text.encode())[2:-1])
    for ascii_only in (True, False):
        # Arguments of a tool are JSON inside JSON when they are stored.
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield from (once, json.dumps(once, ensure_ascii=ascii_only)[1:-1])
        yield once.replace("/", "\\/")
    units = text.encode("utf-16-be", "surrogatepass").hex()
    codes = [units[at : at + 4] for at in range(0, len(units), 4)]
    yield from ("".join(f"\\u{code}" for code in codes), "".join(f"\\u{code.upper()}" for code in codes))


def _lowercase_escapes(text: str) -> str:
    head, *rest = text.split("%")
    return "%".join((head, *(part[:2].lower() + part[2:] for part in rest)))


def _list_encoded(data: bytes) -> Iterator[str]:
    digits = data.hex()
    yield from (digits, digits.upper())
    # Other separators are handled by the views in `decoded_views`, but not in text that arrives in chunks.
    for apart in (data.hex(" "), data.hex(":"), data.hex(" ", -2), f"{data[:1].hex()} {data[1:].hex(' ', -2)}"):
        yield from (apart, apart.upper())
    for once in _encode_once(data):
        yield from (once, once.translate(_URL_SAFE))
    yield from _encode_twice(data)
    for before in range(5):
        whole = base64.b32encode(bytes(before) + data).decode()[-(-before * 8 // 5) : (before + len(data)) * 8 // 5]
        yield whole
        if len(whole) >= _SHORTEST_SMALL:
            yield whole.lower()


def _encode_once(data: bytes) -> Iterator[str]:
    """Yield, for each alignment in the input, the base64 characters that depend on the secret alone."""
    for before in range(3):
        text = base64.b64encode(bytes(before) + data).decode()
        yield text[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]


def _encode_twice(data: bytes) -> Iterator[str]:
    for once in _encode_once(data):
        for twice in _encode_once(once.encode()):
            yield twice
        for twice in _encode_once(once.translate(_URL_SAFE).encode()):
            yield twice.translate(_URL_SAFE)
