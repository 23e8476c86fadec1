"""The redactor: replaces every known secret in text, streams and log records. No I/O."""

import logging
from collections.abc import Iterator, Mapping

from moot.domain.secret import SHORTEST_SECRET
from moot.redaction.decoded_views import (
    FoundSecret,
    find_in_encoded,
    find_in_escapes,
    find_in_hex,
    find_in_lines,
    join_lines,
    list_hex_views,
    remove_escapes,
)
from moot.redaction.encodings import encode_twice, list_encodings, list_parts
from moot.redaction.finder import GRAM, LONG, Finder
from moot.redaction.personal_data import replace_personal

# A shorter key is a dummy, as used for local servers, and may be an ordinary word.
_SHORTEST_KEY = 8
# Longer text is checked in parts: a close look is slow, and few parts need it.
_STRETCH = 32_768
# Two lines of a dump: how much may surround a secret in one.
_AROUND = 160


class Redactor:
    """Knows the secret values, and finds them in the forms of `encodings` and the views of `decoded_views`.

    Values are searched in bytes: half a surrogate pair, which no text should contain, passes unchanged.
    """

    def __init__(self) -> None:
        # A replaced or deleted value stays known, because copies of it may still exist.
        self._values: dict[str, str] = {}
        # Incremented whenever the known values change; 0 while there are none.
        self.edition = 0
        self._shapes: dict[str, set[str]] = {}
        self._names: dict[str, str] = {}
        self._found: dict[bytes, str] = {}
        self._texts = Finder()
        self._digits = Finder()
        self._wide = False
        self._shortest = 0
        self._longest = 0
        self.heads: dict[str, tuple[str, ...]] = {}
        self.stubs: frozenset[str] = frozenset()

    # ---- what is known ---------------------------------------------------------------------------

    def register(self, name: str, value: str) -> None:
        """Replace this value by [SECRET:name] from now on.

        A value too short to be told from ordinary text is ignored.
        """
        self.register_all({name: value})

    def register_key(self, name: str, value: str) -> None:
        """Register a key that the configuration refers to."""
        if len(value) >= _SHORTEST_KEY:
            self.register(name, value)

    def register_all(self, values: Mapping[str, str]) -> None:
        new = {
            value: name for name, value in values.items() if len(value) >= SHORTEST_SECRET and value not in self._values
        }
        if new:
            self._values |= new
            self._prepare()

    def forget(self, name: str) -> None:
        """Forget all values with this name."""
        kept = {value: known for value, known in self._values.items() if known != name}
        if len(kept) < len(self._values):
            self._values = kept
            self._prepare()

    def _prepare(self) -> None:
        self.edition += 1
        self._shapes = {value: self._shapes.get(value) or list_encodings(value) for value in self._values}
        self._names = {}
        for value, name in self._values.items():
            for shape in self._shapes[value]:
                self._names.setdefault(shape, name)
        self._found = {join_lines(_encode(shape)): name for shape, name in reversed(self._names.items())}
        self._wide = any(letter > "\xff" for value in self._values for letter in value)
        self._shortest = min(map(len, self._names), default=0)
        self._longest = max(map(len, self._found), default=0)
        # If it is broken in its first part, the second part is whole, since a line is longer than both.
        hints = (
            _encode(shape[LONG + 1 :])
            for value in self._values
            for shape in encode_twice(value)
            if len(shape) > 2 * LONG
        )
        self._texts = Finder(self._found, hints)
        digits = {
            _encode(part).hex().encode(): name for value, name in self._values.items() for part in list_parts(value)
        }
        self._digits = Finder(digits)
        heads: dict[str, list[str]] = {}
        for shape in self._names:
            heads.setdefault(shape[:GRAM], []).append(shape)
        self.heads = {head: tuple(found) for head, found in heads.items()}
        self.stubs = frozenset(shape[:end] for shape in self._names for end in range(1, min(GRAM, len(shape))))

    # ---- secrets ---------------------------------------------------------------------------------

    def mask_secrets(self, text: str) -> str:
        """Return the text with every known secret replaced by [SECRET:name]."""
        if len(text) < self._shortest or not self._values:
            return text
        data = _encode(text)
        if not self._is_suspicious(data):
            return text
        if len(data) <= 2 * _STRETCH:
            return _decode(self._clean_part(data))
        return _decode(
            b"".join(self._clean_part(part) if self._is_suspicious(part) else part for part in self._split_parts(data))
        )

    __call__ = mask_secrets

    def _split_parts(self, data: bytes) -> Iterator[bytes]:
        """Split long data where no secret can be."""
        start, beside = 0, self.margin
        while len(data) - start > 2 * _STRETCH:
            end = start + _STRETCH
            while end < len(data) and self._is_suspicious(data[max(0, end - beside) : end + beside]):
                end += beside
            yield data[start:end]
            start = end
        yield data[start:]

    def _clean_part(self, data: bytes) -> bytes:
        if self._has_plain(data):
            data = self._mask_spans(data, find_in_lines(data, self._texts))
            if self._has_plain(data):
                data = self._mask_spans(data, find_in_encoded(data, self._texts))
        if self._has_escaped(data):
            data = self._mask_spans(data, find_in_escapes(data, self._texts))
        return self._mask_spans(data, find_in_hex(data, self._digits)) if self._has_hex(data) else data

    def _mask_spans(self, data: bytes, found: list[FoundSecret]) -> bytes:
        pieces: list[bytes] = []
        done = 0
        for each in sorted(found, key=lambda one: (one.start, -one.end)):
            if each.start >= done:
                pieces += (data[done : each.start], f"[SECRET:{self._found[each.text]}]".encode())
            # A span that begins inside another may end after it.
            done = max(done, each.end)
        return b"".join((*pieces, data[done:]))

    @property
    def margin(self) -> int:
        """How many bytes a secret may extend around a position; broken into lines it takes up to twice its length."""
        return 2 * self._longest + _AROUND if self._longest else 0

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the positions of secrets in the text."""
        data = _encode(text)
        found = find_in_lines(data, self._texts) if self._has_plain(data) else []
        return [(len(_decode(data[: each.start])), len(_decode(data[: each.end]))) for each in found]

    def has_secret(self, data: bytes) -> bool:
        """Return whether any form of a secret is in the data."""
        if not self._values or not self._is_suspicious(data):
            return False
        text = data.decode("utf-8", "replace")
        return self.mask_secrets(text) != text

    def _is_suspicious(self, data: bytes) -> bool:
        return self._has_plain(data) or self._has_hex(data) or self._has_escaped(data)

    def _has_plain(self, data: bytes) -> bool:
        return self._texts.suspects(join_lines(data))

    def _has_hex(self, data: bytes) -> bool:
        return any(map(self._digits.suspects, list_hex_views(data)))

    def _has_escaped(self, data: bytes) -> bool:
        return self._texts.suspects(remove_escapes(data, wide=self._wide))

    def find_truncated(self, text: str) -> str:
        """Return the name of the secret whose first half (or more) this is; "" if there is none."""
        shapes = self.heads.get(text[:GRAM], ()) if len(text) >= GRAM else ()
        return next((self._names[each] for each in shapes if each.startswith(text) and 2 * len(text) >= len(each)), "")

    def open_stream(self) -> "RedactedStream":
        return RedactedStream(self)

    # ---- logs -------------------------------------------------------------------------------------

    def for_log(self, text: str) -> str:
        """Return the text for logs and traces: secrets and personal data removed irreversibly."""
        return replace_personal(self.mask_secrets(text), lambda finding: f"[{finding.kind}]")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


class RedactedStream:
    """Redacts text that arrives in chunks. Only a possible beginning of a secret is held back."""

    __slots__ = ("_held", "_redactor")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, text: str) -> str:
        if not self._held and not self._redactor.heads:
            return text
        text = self._held + text
        cut = self._find_unfinished(text)
        if cut == len(text):
            self._held = ""
            return self._redactor.mask_secrets(text)
        # A complete secret must not be split where another might begin.
        cut = next((start for start, end in self._redactor.spans(text) if start < cut < end), cut)
        self._held = text[cut:]
        return self._redactor.mask_secrets(text[:cut])

    def rest(self) -> str:
        """Return the held-back text at the end. A truncated secret is redacted too: half of one reveals it."""
        held, self._held = self._redactor.mask_secrets(self._held), ""
        at = self._find_unfinished(held)
        name = self._redactor.find_truncated(held[at:])
        return f"{held[:at]}[SECRET:{name}]" if name else held

    def _find_unfinished(self, text: str) -> int:
        """Return where the first incomplete secret may begin; the end of the text if there is none."""
        heads, stubs, end = self._redactor.heads, self._redactor.stubs, len(text)
        for at in range(max(0, end - GRAM + 1)):
            shapes = heads.get(text[at : at + GRAM])
            if shapes is not None:
                rest = text[at:]
                if any(len(shape) > len(rest) and shape.startswith(rest) for shape in shapes):
                    return at
        for at in range(max(0, end - GRAM + 1), end):
            if text[at:] in stubs:
                return at
        return end


class LogRedaction(logging.Filter):
    """Removes secrets and personal data from every log record: message, traceback and extra fields."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor
        self._traces = logging.Formatter()

    def filter(self, record: logging.LogRecord) -> bool:
        clean = self._redactor.for_log
        record.msg, record.args = clean(_record_message(record)), None
        if record.exc_info and not record.exc_text:
            record.exc_text = self._traces.formatException(record.exc_info)
        # Another handler could otherwise format the exception itself.
        record.exc_info = None
        for name in ("exc_text", "stack_info", *(record.__dict__.keys() - _RECORD_FIELDS)):
            value = record.__dict__.get(name)
            if value is not None and name != "message":
                record.__dict__[name] = value if isinstance(value, int | float) else clean(str(value))
        return True


_RECORD_FIELDS = frozenset(logging.makeLogRecord({}).__dict__)


def _record_message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):
        # A record whose arguments do not fit its format is a bug, but the line should not be lost.
        return f"{record.msg} {record.args}"
