"""Redaction: secrets Moot holds never leave in clear, personal data only where it may. No I/O."""

import logging
import re
from collections.abc import Iterator, Mapping

from moot.domain.secret import SHORTEST_SECRET
from moot.hooks.encodings import encodings
from moot.hooks.personal import replaced

# A shorter key is a placeholder, as local servers take them, and a word that anyone may say.
_SHORTEST_KEY = 8
# Text is looked through in pieces of this many characters; a shape at least this long cannot slip between.
_GRAM = 8
_LONG = 2 * _GRAM - 1
_CHUNKS = re.compile(rf".{{1,{_GRAM}}}", re.DOTALL)
# A longer text is looked at part by part, so that others have a turn between.
_STRETCH = 32_768
_BREAKS = str.maketrans("", "", "\r\n")


class Redactor:
    """Knows the values that must not be seen, and finds them in every shape of `encodings`.

    Looking for nothing must cost next to nothing, however many secrets there are: the text is cut into pieces of eight
    characters and only a piece that is part of some secret makes it look closer.
    """

    def __init__(self) -> None:
        # A value that was replaced or deleted stays known: copies of it may still be about.
        self._values: dict[str, str] = {}
        # How often what is known has changed; 0 while nothing is.
        self.edition = 0
        self._shapes: dict[str, set[str]] = {}
        self._names: dict[str, str] = {}
        self._grams: frozenset[str] = frozenset()
        self._short: tuple[str, ...] = ()
        self._shortest = 0
        self._longest = 0
        self._compiled: re.Pattern[str] | None = None
        self.heads: dict[str, tuple[str, ...]] = {}
        self.stubs: frozenset[str] = frozenset()

    # ---- what is known ---------------------------------------------------------------------------

    def register(self, name: str, value: str) -> None:
        """From now on this value is seen as [SECRET:name]. One that is too short to be told from text is let be."""
        self.register_all({name: value})

    def register_key(self, name: str, value: str) -> None:
        """The same for a key that a configuration refers to."""
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
        """Let go of everything known by this name."""
        kept = {value: known for value, known in self._values.items() if known != name}
        if len(kept) < len(self._values):
            self._values = kept
            self._prepare()

    def _prepare(self) -> None:
        self.edition += 1
        self._shapes = {value: self._shapes.get(value) or encodings(value) for value in self._values}
        self._names = {}
        for value, name in self._values.items():
            for shape in self._shapes[value]:
                self._names.setdefault(shape, name)
                self._names.setdefault(shape.translate(_BREAKS), name)
        flat = {shape.translate(_BREAKS) for shape in self._names}
        self._short = tuple(sorted(shape for shape in flat if len(shape) < _LONG))
        self._shortest = min(map(len, flat), default=0)
        self._longest = max(map(len, self._names), default=0)
        # Wherever the text is cut, one of the pieces lies whole in the first fifteen characters of the shape.
        self._grams = frozenset(
            shape[at : at + _GRAM] for shape in flat if len(shape) >= _LONG for at in range(_LONG - _GRAM + 1)
        )
        # Compiled when first needed: most texts never need it.
        self._compiled = None
        heads: dict[str, list[str]] = {}
        for shape in self._names:
            heads.setdefault(shape[:_GRAM], []).append(shape)
        self.heads = {head: tuple(found) for head, found in heads.items()}
        self.stubs = frozenset(shape[:end] for shape in self._names for end in range(1, min(_GRAM, len(shape))))

    # ---- secrets ---------------------------------------------------------------------------------

    def secrets(self, text: str) -> str:
        """The text with every known secret as [SECRET:name]."""
        if len(text) < self._shortest or not self._values or not self._suspicious(text):
            return text
        if len(text) <= 2 * _STRETCH:
            return self._cleaned(text)
        return "".join(self._cleaned(part) if self._suspicious(part) else part for part in self._stretches(text))

    __call__ = secrets

    def _stretches(self, text: str) -> Iterator[str]:
        """A long text in parts, cut where no secret can stand: looking closely takes long, and few parts need it."""
        start, beside = 0, self.margin
        while len(text) - start > 2 * _STRETCH:
            end = start + _STRETCH
            while end < len(text) and self._suspicious(text[max(0, end - beside) : end + beside]):
                end += beside
            yield text[start:end]
            start = end
        yield text[start:]

    def _cleaned(self, text: str) -> str:
        text = self._pattern().sub(lambda match: f"[SECRET:{self._names[match[0]]}]", text)
        return self._unwrapped(text) if "\n" in text and self._suspicious(text) else text

    @property
    def margin(self) -> int:
        """A secret broken into lines takes up to twice its room."""
        return 2 * self._longest

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where secrets stand in the text."""
        return [match.span() for match in self._pattern().finditer(text)] if self._suspicious(text) else []

    def _suspicious(self, text: str) -> bool:
        if "\n" in text or "\r" in text:
            text = text.translate(_BREAKS)
        if not self._grams.isdisjoint(_CHUNKS.findall(text)):
            return True
        return any(shape in text for shape in self._short)

    def _unwrapped(self, text: str) -> str:
        """Encoded text is often broken into lines, in the middle of a secret: look at it without the breaks."""
        places = [at for at, character in enumerate(text) if character not in "\r\n"]
        pieces: list[str] = []
        done = 0
        for match in self._pattern().finditer(text.translate(_BREAKS)):
            start, end = places[match.start()], places[match.end() - 1] + 1
            pieces += (text[done:start], f"[SECRET:{self._names[match[0]]}]")
            done = end
        return "".join((*pieces, text[done:]))

    def _pattern(self) -> re.Pattern[str]:
        if self._compiled is None:
            shapes = sorted(self._names, key=len, reverse=True)
            # An empty alternation would match everywhere.
            self._compiled = re.compile("|".join(map(re.escape, shapes)) or r"(?!)")
        return self._compiled

    def half_said(self, text: str) -> str:
        """The name of the secret of which this is the first half or more; "" where it is none."""
        shapes = self.heads.get(text[:_GRAM], ()) if len(text) >= _GRAM else ()
        return next((self._names[each] for each in shapes if each.startswith(text) and 2 * len(text) >= len(each)), "")

    def in_pieces(self) -> "RedactedStream":
        return RedactedStream(self)

    # ---- logs -------------------------------------------------------------------------------------

    def for_log(self, text: str) -> str:
        """What logs and traces may hold: no secret, no personal data, and no way back."""
        return replaced(self.secrets(text), lambda finding: f"[{finding.kind}]")


class RedactedStream:
    """Redacts text that comes in pieces. Only what may be the beginning of a secret waits for more."""

    __slots__ = ("_held", "_redactor")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, text: str) -> str:
        if not self._held and not self._redactor.heads:
            return text
        text = self._held + text
        cut = self._open_from(text)
        if cut == len(text):
            self._held = ""
            return self._redactor.secrets(text)
        # A secret that is already whole must not be torn where another might begin.
        cut = next((start for start, end in self._redactor.spans(text) if start < cut < end), cut)
        self._held = text[cut:]
        return self._redactor.secrets(text[:cut])

    def rest(self) -> str:
        """What waited, when no more comes. A secret that was cut off goes too: half of one gives it away."""
        held, self._held = self._redactor.secrets(self._held), ""
        at = self._open_from(held)
        name = self._redactor.half_said(held[at:])
        return f"{held[:at]}[SECRET:{name}]" if name else held

    def _open_from(self, text: str) -> int:
        """Where the first unfinished secret may begin; the end of the text where none does."""
        heads, stubs, end = self._redactor.heads, self._redactor.stubs, len(text)
        for at in range(max(0, end - _GRAM + 1)):
            shapes = heads.get(text[at : at + _GRAM])
            if shapes is not None:
                rest = text[at:]
                if any(len(shape) > len(rest) and shape.startswith(rest) for shape in shapes):
                    return at
        for at in range(max(0, end - _GRAM + 1), end):
            if text[at:] in stubs:
                return at
        return end


class LogRedaction(logging.Filter):
    """Takes secrets and personal data out of every record: its message, its traceback, its extra fields."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor
        self._traces = logging.Formatter()

    def filter(self, record: logging.LogRecord) -> bool:
        clean = self._redactor.for_log
        record.msg, record.args = clean(_message(record)), None
        if record.exc_info and not record.exc_text:
            record.exc_text = self._traces.formatException(record.exc_info)
        # The exception itself could still be formatted by someone else.
        record.exc_info = None
        for name in ("exc_text", "stack_info", *(record.__dict__.keys() - _RECORD_FIELDS)):
            value = record.__dict__.get(name)
            if value is not None and name != "message":
                record.__dict__[name] = value if isinstance(value, int | float) else clean(str(value))
        return True


_RECORD_FIELDS = frozenset(logging.makeLogRecord({}).__dict__)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):
        # A record whose arguments do not fit its text is a mistake, but not one to lose the line for.
        return f"{record.msg} {record.args}"
