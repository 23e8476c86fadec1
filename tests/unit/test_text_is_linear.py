"""Every function that reads text from outside takes time in proportion to the text, also where it was made to be slow.

Processor time of this thread is compared for a text and one of four times its length: a quadratic pass takes sixteen
times as long. Times too short to compare are not.
"""

import json
import time
from collections.abc import Callable

import pytest

from moot.cli.render import sanitize
from moot.daemon.path_mask import PathMask
from moot.domain.masks import map_json_strings
from moot.domain.text import TagStripper, clean, defuse, defuse_behind
from moot.domain.title import clip_title, title_of
from moot.multiagent.routing.agent_match import find_mentions
from moot.redaction.finder import Finder
from moot.redaction.personal_data import find_personal
from moot.redaction.redactor import Redactor
from moot.retrieval.parsing import find_title
from moot.retrieval.reading.markdown_blocks import cut_markdown
from moot.retrieval.reading.pieces import Section, cut_text
from moot.retrieval.reading.terms import list_terms
from moot.wire.jsonl import import_lines
from moot.wire.strict_json import strict_object

LENGTH = 6_000
TIMES = 4
MOST_TIMES = 10.0
# Below this the difference between two runs is chance.
SHORT_SECONDS = 0.02

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


def _import(text: str) -> None:
    line = json.dumps({"role": "user", "content": text})
    import_lines(f"{line}\n{text}", agent="ada", sender="user")


FUNCTIONS: dict[str, Callable[[str], object]] = {
    "defuse": defuse,
    "defuse enclosed": lambda text: defuse(text, enclosed=True),
    "defuse behind": lambda text: defuse_behind("<from ", text),
    "strip": _strip,
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
}
TEXTS = (
    "< ", "<", "<f", "<from ", "<from agent=", "‹from ", "<from ‹", "</from>", "<moot>", "<\u00ad", "\n", " ", "\t ",
    '"', "\\", "\\u0041", "`", "**a", "[", "[](", "[a](", "{", "{{ ", "4 ", "4-", "12.", "a@", "a@b.", "a.", "a. ",
    "@a", "_", "/", "/a/", "0x41,", "41 ", "QUJD", "é", "\u200b", "\x1b[", "\x1b]0;", "# ", "#", "- ", "> ", "```", "|",
    "!",
)  # fmt: skip


def _seconds(function: Callable[[str], object], text: str) -> float:
    start = time.thread_time()
    function(text)
    return time.thread_time() - start


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_time_is_in_proportion_to_the_text(name: str) -> None:
    function = FUNCTIONS[name]
    slow = []
    for unit in TEXTS:
        text = unit * (LENGTH // len(unit))
        if _seconds(function, text * TIMES) < SHORT_SECONDS:
            continue
        # The shortest of several, because others share the processor and its caches.
        once = min(_seconds(function, text) for _ in range(2))
        many = min(_seconds(function, text * TIMES) for _ in range(2))
        if many > SHORT_SECONDS and many > MOST_TIMES * once:
            slow.append((unit, once, many))
    assert slow == []
