"""Every function that reads text from outside reads a long one to its end, also one that was made to be slow.

No time is measured or compared. A pass over the text that is repeated for each of its characters does not end: it is
stopped by a limit that a single pass does not come near, and that does not depend on what else the machine does.
"""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from moot.cli.render import sanitize
from moot.daemon.path_mask import PathMask
from moot.domain.masks import map_json_strings
from moot.domain.text import TagStripper, clean, defuse, defuse_behind
from moot.domain.title import clip_title, title_of
from moot.models.sse import SseDecoder
from moot.multiagent.routing.agent_match import find_mentions
from moot.redaction.finder import Finder
from moot.redaction.personal_data import find_personal
from moot.redaction.redactor import Redactor
from moot.retrieval.parsing import find_title, has_private_key
from moot.retrieval.reading.markdown_blocks import cut_markdown
from moot.retrieval.reading.pieces import Section, cut_text
from moot.retrieval.reading.terms import list_terms
from moot.wire.jsonl import import_lines
from moot.wire.strict_json import strict_object

# So long that a quadratic pass does not end, while a linear one needs a fraction of a second.
LENGTH = 300_000
# Of the processor, for all texts of one function.
LIMIT_SECONDS = 12

_redactor = Redactor()
_redactor.register("KEY", "a-secret-value-0123")


def _strip(text: str) -> None:
    stripper = TagStripper()
    stripper.feed(text)
    stripper.finish()


def _strip_chunks(text: str) -> None:
    stripper = TagStripper()
    for start in range(0, len(text), 64):
        stripper.feed(text[start : start + 64])
    stripper.finish()


def _redact_chunks(text: str) -> None:
    stream = _redactor.open_stream()
    for start in range(0, len(text), 64):
        stream.feed(text[start : start + 64])
    stream.rest()


_repeating = Finder([b"< " * 2_000, b"a." * 2_000, b"/" * 4_000])


def _find_repeating(text: str) -> None:
    _repeating.spans(text.encode())


def _read_event(text: str) -> None:
    events = SseDecoder()
    events.feed(b"data: \r\n" + b"x" * 4_000_000)
    data = text.encode()
    for start in range(0, len(data), 8):
        events.feed(data[start : start + 8])
    events.close()


def _import(text: str) -> None:
    line = json.dumps({"role": "user", "content": text})
    import_lines(f"{line}\n{text}", agent="ada", sender="user")


FUNCTIONS: dict[str, Callable[[str], object]] = {
    "defuse": defuse,
    "defuse enclosed": lambda text: defuse(text, enclosed=True),
    "defuse behind": lambda text: defuse_behind("<from ", text),
    "strip": _strip,
    "read an event": _read_event,
    "strip chunks": _strip_chunks,
    "clean": clean,
    "title": title_of,
    "clip title": clip_title,
    "secrets": _redactor.mask_secrets,
    "log": _redactor.for_log,
    "redact chunks": _redact_chunks,
    "repeating secret": _find_repeating,
    "personal data": find_personal,
    "mentions": find_mentions,
    "paths": PathMask(["/home/somebody/.moot"]).apply,
    "strict JSON": lambda text: strict_object(json.dumps({"a": text})),
    "changed JSON": lambda text: map_json_strings(json.dumps({"a": text}), str),
    "import": _import,
    "terminal line": sanitize.line,
    "markdown blocks": lambda text: cut_text(Section(text=f"# a{text}b"), cut_markdown),
    "paragraphs": lambda text: cut_text(Section(text=text)),
    "terms": list_terms,
    "document title": lambda text: find_title("a.md", "markdown", (Section(text=f"# a{text}b"),)),
    "private key": lambda text: has_private_key(f"-----BEGIN PRIVATE KEY-----{text}"),
}
# By function, the beginnings of what it looks for.
TEXTS: dict[str, tuple[str, ...]] = {
    "defuse": ("< ", "‹from "),
    "defuse enclosed": ("< ",),
    "defuse behind": ("‹from ", "/"),
    "strip": ("< ", "<from agent="),
    "read an event": ("x", "x\n", "x\r"),
    "strip chunks": ("<from ",),
    "clean": ("\u200b", "é", "‹from "),
    "title": ("< ", "**a", "[a](", "a. ", "# "),
    "clip title": ("{{ ", " ", "a. "),
    "secrets": ("\n", "\\u0041", "QUJD", "0x41,"),
    "log": ("4-",),
    "redact chunks": ("QUJD",),
    "repeating secret": ("< ", "a.", "/"),
    "personal data": ("a@", "12."),
    "mentions": ("@a", "_", " "),
    "paths": ("/", "/a/"),
    "strict JSON": ("\\", '"', "\\u0041"),
    "changed JSON": ("\\", '"', "{"),
    "import": ("\n", "{", "\\u0041"),
    "terminal line": ("\x1b[", "\x1b]0;"),
    "markdown blocks": ("\n", "```", "| ", "- ", "> ", "#"),
    "paragraphs": ("\n", "a. ", "\t "),
    "terms": ("_", "a.", "\u200b"),
    "document title": ("#", "[](", "`"),
    "private key": (
        "\n",
        " A: ",
        "A: b ",
        "\\n",
        "-----BEGIN PRIVATE KEY-----\n",
        "A",
        f"-----BEGIN PRIVATE KEY-----\n{'A: b ' * 40}\n",
    ),  # fmt: skip
}


@contextmanager
def _limited(seconds: float = LIMIT_SECONDS) -> Iterator[None]:
    """Stop what runs away, also inside of a regular expression."""

    def stop(*_: object) -> None:
        raise AssertionError("it reads the text again and again")

    former = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_long_text_is_read_to_its_end(name: str) -> None:
    with _limited():
        for unit in TEXTS[name]:
            FUNCTIONS[name](unit * (LENGTH // len(unit)))


def _look_from_each_character(text: str) -> None:
    for start in range(len(text)):
        text.find(">", start)


def test_a_quadratic_pass_is_stopped() -> None:
    with pytest.raises(AssertionError, match="again and again"), _limited(0.1):
        _look_from_each_character("< " * LENGTH)
