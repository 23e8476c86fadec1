"""Markdown in a chat: what it looks like, that streaming changes nothing, and that no text obeys."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.cli.chat import lines
from moot.cli.markdown.code_lines import CodeLines
from moot.cli.markdown.styles import ESCAPE, Line, count_columns
from moot.cli.markdown.text_format import TextFormat, has_links
from moot.cli.render import sanitize

MESSAGE = """\
# The **plan**

Do *this* with `make all`, as [the guide](https://docs.example.org/a?b=c) says.

- **first**: a long item that goes on and on and on and on until it is broken
  - below it
- [x] done
2. second

> quoted words

| Name | Count |
|---|---:|
| apples | 3 |
| 日本 | 12 |

```python
def f(x):
    '''Says
    it.'''
    return x + 1  # more
```
---
**open
closed** at the end"""


def text(shown: list[Line]) -> list[str]:
    return ["".join(piece for style, piece in line if style != ESCAPE) for line in shown]


def render(message: str, *, width: int = 60, links: bool = False) -> list[Line]:
    return lines.render_speech("ada", message, "ada", text_format=TextFormat(lambda: width, True, links))


def stream(message: str, size: int, *, width: int = 60) -> list[Line]:
    body = TextFormat(lambda: width, True).open_message(6)
    shown: list[Line] = []
    for at in range(0, len(message), size):
        shown += body.feed(message[at : at + size])
        body.tail()
    return [*shown, *body.finish()]


def test_blocks_are_rendered_without_their_marks() -> None:
    assert text(render(MESSAGE)) == [
        "ada › ",
        "    The plan",
        "",
        "    Do this with make all, as the guide",
        "    (https://docs.example.org/a?b=c) says.",
        "",
        "    • first: a long item that goes on and on and on and on",
        "      until it is broken",
        "      • below it",
        "    ☑ done",
        "    2. second",
        "",
        "    │ quoted words",
        "",
        "    Name    Count",
        "    ──────  ─────",
        "    apples  3",
        "    日本    12",
        "",
        "    ```python",
        "    def f(x):",
        "        '''Says",
        "        it.'''",
        "        return x + 1  # more",
        "    ```",
        "    ────────────────────────────────────────",
        "    open",
        "    closed at the end",
    ]


def test_styles_mark_emphasis_and_code() -> None:
    shown = [fragment for line in render(MESSAGE) for fragment in line]

    assert ("italic", "this") in shown
    assert ("class:inline-code", "make") in shown
    assert ("bold", "first") in shown
    assert ("class:code ansimagenta", "def") in shown
    assert ("class:code ansigreen", "    it.'''") in shown
    assert ("class:code italic ansibrightblack", "# more") in shown


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("size", [1, 3, 50])
def test_a_streamed_message_looks_like_a_whole_one(size: int, width: int) -> None:
    first, *more = stream(MESSAGE, size, width=width)
    whole = render(MESSAGE, width=width)

    assert [text([first])[0], *("    " + row if row else "" for row in text(more))] == [
        text(whole[:1])[0].removeprefix("ada › "),
        *text(whole[1:]),
    ]
    assert all(count_columns(row) <= width or "example.org" in "".join(text([row])) for row in whole)


def test_incomplete_text_is_shown_in_the_style_it_will_have() -> None:
    body = TextFormat(lambda: 60, True).open_message(6)
    assert body.feed("see **bol") == []
    assert body.tail() == [[("", "see"), ("", " "), ("bold", "bol")]]
    assert body.feed("d** now\n| a | b |\n|---|---|\n| 1 |") == [
        [("", "see"), ("", " "), ("bold", "bold"), ("", " "), ("", "now")]
    ]
    assert text(body.tail()) == ["a  b", "─  ─", "1"]


def test_every_line_of_a_long_answer_is_rendered_once() -> None:
    """The work grows with the text: each line of input is parsed when it ends, and not again."""
    parsed: list[int] = []

    def count(frame: object, event: str, _argument: object) -> None:
        code = getattr(frame, "f_code", None)
        if event == "call" and code is not None and code.co_name in ("parseInline", "get_tokens"):
            parsed.append(1)

    prose = "word **bold** and `code`\n" * 300
    code = "```python\n" + "x = f(1)\n" * 300 + "```\n"
    body = TextFormat(lambda: 60, True).open_message(6)
    sys.setprofile(count)
    try:
        for part in (prose, code, "- item\n" * 300):
            for at in range(0, len(part), 7):
                body.feed(part[at : at + 7])
        body.finish()
    finally:
        sys.setprofile(None)
    assert 900 <= len(parsed) <= 910


def test_links_are_clickable_only_where_known_and_show_where_they_lead() -> None:
    (line,) = render("See [https://bank.example](https://evil.example/x).", width=100, links=True)
    assert (ESCAPE, "\x1b]8;;https://evil.example/x\x1b\\") in line
    assert (ESCAPE, "\x1b]8;;\x1b\\") in line
    assert text([line]) == ["ada › See https://bank.example (evil.example)."]
    (plain,) = render("See [https://bank.example](https://evil.example/x).", width=100)
    assert not any(style == ESCAPE for style, _ in plain)
    assert text([plain]) == ["ada › See https://bank.example (https://evil.example/x)."]
    for address in ("javascript:alert(1)", "file:///etc/passwd", "https://a.example/\x1b\\"):
        assert not any(style == ESCAPE for line in render(f"[x]({address})", links=True) for style, _ in line)
    # A link over several rows is closed at the end of each, so that the indentation is not part of it.
    rows = render(f"[{'word ' * 20}](https://a.example)", width=40, links=True)
    assert all(row[-1] == (ESCAPE, "\x1b]8;;\x1b\\") or "(a.example)" in text([row])[0] for row in rows)


@pytest.mark.parametrize(
    ("environment", "known"),
    [
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/x"}, False),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7200"}, True),
        ({"TERM_PROGRAM": "Apple_Terminal"}, False),
        ({"TERM_PROGRAM": "WezTerm", "FORCE_HYPERLINK": "0"}, False),
        ({"TERM": "xterm", "FORCE_HYPERLINK": "1"}, True),
    ],
)
def test_terminals_that_show_links_are_known(environment: dict[str, str], known: bool) -> None:
    assert has_links(environment) is known


HOSTILE = st.lists(
    st.sampled_from(
        [
            "&#27;",
            "&#x1b;",
            "&#10;",
            "&#13;",
            "&#x202e;",
            "**",
            "`",
            "```",
            "\n",
            "| a |",
            "|---|",
            "- ",
            "> ",
            "# ",
            "[x](",
            ")",
        ]
        + [
            "http://a.b/",
            "\x1b[2J",
            "\x07",
            "\u202e",
            "you › hi",
            "\t",
            "日本",
            "\\",
            "<b>",
            "![",
            "]",
            "_",
            "~~",
            "1. ",
            "    ",
        ]
    ),
    max_size=25,
).map("".join)


@given(HOSTILE, st.integers(20, 60))
def test_no_text_reaches_the_terminal_raw_or_starts_a_row(message: str, width: int) -> None:
    first, *more = render(message, width=width, links=True)

    assert not set("".join(text([first, *more]))) & set("\x1b\x07\u202e\r\n\x9b")
    assert all(row == [] or row[0] == ("", "    ") for row in more)
    assert text([first])[0].startswith("ada › ")
    for line in (first, *more):
        assert all(piece.count("\x1b") == 2 for style, piece in line if style == ESCAPE)


@given(HOSTILE, st.integers(1, 9))
def test_chunks_never_change_what_is_shown(message: str, size: int) -> None:
    clean = sanitize.clean(message)
    assert text(stream(clean, size)) == text(stream(clean, len(clean) + 1))


@pytest.mark.parametrize(
    "language", ["python", "js", "html", "php", "console", "diff", "json", "nonsense", "", "Python"]
)
def test_highlighting_keeps_every_character(language: str) -> None:
    code = CodeLines(language)
    for line in [
        "",
        "  x = 'a' + \"b\"",
        "<?php echo 1;",
        "- gone",
        "+ new",
        "/* open",
        "still */ y",
        "\ufeff#!",
        "a\\",
    ]:
        assert "".join(piece for _, piece in code.peek(line)) == line
        assert "".join(piece for _, piece in code.add(line)) == line
