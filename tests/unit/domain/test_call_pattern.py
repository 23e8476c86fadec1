"""Patterns of calls: what they cover, and that nothing else does. Words are compared with those of a real shell."""

import shlex
import subprocess

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.domain.call_pattern import CallPattern, Slot, offer_patterns, parse_pattern
from moot.domain.call_shape import CallShape
from moot.domain.errors import BadRequest
from moot.domain.plain_words import read_plain_words

CWD, BOX = "/w", "in a sandbox without a network"
# Everything a shell gives a meaning to, and some of what it does not.
_PIECES = (
    "pytest", "-q", "tests/a.py", "3", " ", "  ", ";", "|", "||", "&&", "&", ">", "<", ">>", "2>&1", "$(x)", "`x`",
    "$x", "${x}", "\n", "\t", "\\", "'", '"', "*", "?", "[a]", "{a,b}", "~", "#", "!", "(", ")", "=", "a=b", "..",
    "-", "--",
    "/etc/passwd", "\r", "\x00", "\u00a0", "\u2028", "é", "$'a'", '$"a"', "<<<", "<(x)", "%1", "@", ":", "then",
    "if", "time",
    "exec", ".",
)  # fmt: skip
COMMANDS = st.lists(st.sampled_from(_PIECES) | st.text(max_size=3), max_size=8).map("".join)


def shape(command: str) -> CallShape | None:
    words = read_plain_words(command)
    if words is None:
        return None
    paths = tuple(_real(word) for word in words)
    return CallShape(words=words, paths=paths, cwd=CWD)


def _real(word: str) -> str:
    parts: list[str] = []
    for part in (word if word.startswith("/") else f"{CWD}/{word}").split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def matches(pattern: CallPattern, command: str) -> bool:
    return pattern.matches("exec", BOX, shape(command))


def offered(command: str) -> CallPattern:
    (found,) = offer_patterns("exec", BOX, shape(command), is_tainted=False)
    return found


@given(COMMANDS)
@settings(max_examples=120)
def test_words_are_exactly_those_that_a_shell_passes_to_one_program(command: str) -> None:
    words = read_plain_words(command)
    if words is None:
        return
    # A function in place of the program: it prints what it gets, and nothing else may run.
    script = "f() { printf '%s\\0' \"$@\"; }; f " + command
    ran = subprocess.run(["bash", "-c", script], capture_output=True, check=False, cwd="/", timeout=20)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert tuple(ran.stdout.decode().split("\0")[:-1]) == words


@given(COMMANDS)
@settings(max_examples=150)
def test_no_text_that_is_not_the_words_of_the_pattern_matches(tail: str) -> None:
    pattern = offered("pytest -q tests/a.py 3")
    command = f"pytest -q tests/{tail}"
    if not matches(pattern, command):
        return
    words = shlex.split(command)
    assert words[:2] == ["pytest", "-q"]
    assert len(words) == 4
    assert _real(words[2]).startswith("/w/")
    assert words[3].isdigit()
    assert not set(command) & set(";|&<>$`\\*?[]{}~#!()\n\r\t\0=")


@given(
    st.lists(st.sampled_from(("pytest", "-q", "tests/a.py", "notes.txt", "7", "x y", "a'b")), min_size=1, max_size=6)
)
def test_what_is_offered_covers_the_call_and_is_written_and_read_back_as_it_is(words: list[str]) -> None:
    command = shlex.join(words)
    found = shape(command)
    for pattern in offer_patterns("exec", BOX, found, is_tainted=False):
        assert pattern.matches("exec", BOX, found)
        assert parse_pattern(pattern.write(), "exec", BOX, found, is_tainted=False) == pattern
        assert msgspec.json.decode(msgspec.json.encode(pattern), type=CallPattern) == pattern


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q tests/a.py; rm -rf x", "pytest -q tests/a.py && x", "pytest -q tests/a.py | tee out",
        "pytest -q $(x)", "pytest -q `x`", "pytest -q tests/a.py > out", "pytest -q tests/a.py &",
        "pytest -q tests/a.py\nrm x",
        "A=1 pytest -q tests/a.py", "pytest -q tests/*.py", "pytest -q ../a.py", "pytest -q /etc/passwd",
        "pytest -q --pdb", "pytest -q tests/a.py --pdb", "pytest tests/a.py", "pytest -q", "pytest -q -p",
        "pytest -q @args",
        "pytest -q x=/etc/passwd", "pytest -q https://example.org/x", "pytest -q host:x/y", "pytest -q 'tests/a b;c'",
        "pytest -q tests/../../etc/passwd", "pytest -q .", "/bin/pytest -q tests/a.py", "python -q tests/a.py",
    ],
)  # fmt: skip
def test_a_pattern_covers_no_other_command(command: str) -> None:
    assert not matches(offered("pytest -q tests/a.py"), command)


def test_a_pattern_covers_other_values_of_the_same_types() -> None:
    pattern = offered("pytest -q tests/a.py")
    assert all(matches(pattern, f"pytest -q {path}") for path in ("tests/b.py", "a/b/c.py::test_x", "'x y'", "/w/x"))
    assert pattern.describe() == f"exec: pytest -q ‹any path below /w› in /w, {BOX}"
    counted = offered("head -n 20 notes.txt")
    assert matches(counted, "head -n 5 other.txt")
    assert not matches(counted, "head -n -5 other.txt")
    # In another directory, in another sandbox, as another tool.
    assert not pattern.matches("exec", "without a sandbox", shape("pytest -q tests/b.py"))
    assert not pattern.matches("exec_bg", BOX, shape("pytest -q tests/b.py"))
    elsewhere = msgspec.structs.replace(pattern, cwd="/other")
    assert not matches(elsewhere, "pytest -q tests/b.py")


def test_a_script_of_an_editor_is_fixed_and_fits_no_path() -> None:
    pattern = offered("sed -i s/a/b/ notes.txt")
    assert pattern.write() == "sed -i s/a/b/ '{path:/w}'"
    assert not matches(pattern, "sed -i 's/a/touch x/e' notes.txt")
    assert not matches(pattern, "sed -i s/a/b/ y/a/b/")
    written = parse_pattern("sed {path:/w} {path:/w}", "exec", BOX, shape("sed a/b c/d"), is_tainted=False)
    assert not matches(written, "sed s/a/b/e c/d")
    assert matches(written, "sed s/a c/d")


def test_a_person_can_write_a_list_of_values() -> None:
    pattern = parse_pattern("make {one:test|lint}", "exec", BOX, shape("make test"), is_tainted=False)
    assert matches(pattern, "make lint")
    assert not matches(pattern, "make install")
    assert pattern.describe() == f"exec: make ‹test or lint› in /w, {BOX}"


@pytest.mark.parametrize(
    "text",
    ["make", "{one:make|x} test", "make {path:/}", "make {path:/etc}", "make {word}", "make 'x", "make {one:a||b}",
     "{host:https://x}", "{path:/w}", "make {number}", ""],
)  # fmt: skip
def test_a_pattern_that_does_not_cover_the_call_or_says_too_much_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_pattern(text, "exec", BOX, shape("make test"), is_tainted=False)


def test_programs_that_run_their_words_have_no_patterns() -> None:
    for command in (
        "bash -c x/y",
        "env x/y",
        "sudo rm x/y",
        "xargs rm x/y",
        "./sh x/y",
        "if x/y",
        "time x/y",
        "cd x/y",
    ):
        assert shape(command) is None, command


def test_edits_below_a_directory_exclude_what_controls_other_programs() -> None:
    found = CallShape(cwd="/w", places=("/w/src/a.py",))
    (pattern,) = offer_patterns("fs_write", "", found, is_tainted=False)
    assert pattern.matches("fs_edit", "", CallShape(cwd="/w/src", places=("/w/src/b.py",)))
    for place in ("/w/.git/hooks/x", "/w/AGENTS.md", "/w2/a", "/w", "/etc/passwd", "/w/sub/.envrc"):
        assert not pattern.matches("fs_edit", "", CallShape(cwd="/w", places=("/w/ok", place))), place
    assert not pattern.matches("fs_delete", "", found)
    assert not pattern.matches("fs_write", "", CallShape(cwd="/w"))
    assert offer_patterns("fs_delete", "", found, is_tainted=False) == ()
    narrow = parse_pattern("{path:/w/src}", "fs_write", "", found, is_tainted=False)
    assert not narrow.matches("fs_write", "", CallShape(cwd="/w", places=("/w/a.py",)))


def test_only_a_pattern_about_a_host_is_offered_to_a_run_that_has_seen_untrusted_text() -> None:
    assert offer_patterns("exec", BOX, shape("pytest a/b"), is_tainted=True) == ()
    page = CallShape(host="https://docs.example")
    (pattern,) = offer_patterns("web_fetch", "", page, is_tainted=True)
    assert pattern.despite_taint
    assert "untrusted text" in pattern.describe()
    assert pattern.matches("web_fetch", "", page)
    for host in ("http://docs.example", "https://docs.example:8443", "https://evil.example", ""):
        assert not pattern.matches("web_fetch", "", CallShape(host=host)), host
    with pytest.raises(BadRequest):
        parse_pattern("{path:/w}", "fs_write", "", CallShape(cwd="/w", places=("/w/a",)), is_tainted=True)


def test_a_slot_of_no_type_accepts_only_its_word() -> None:
    assert Slot(fixed="a").accepts("a", "/w/a")
    assert not Slot(fixed="a").accepts("b", "/w/b")
