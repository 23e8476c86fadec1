"""Long commands are judged in a process of their own: as others are, and without holding anybody up."""

import threading

import psutil
import pytest

from moot.domain.shell import Level
from moot.tools.shell.grammar import classify

FILLING = "echo another harmless line\n" * 300


def test_a_long_command_is_judged_as_a_short_one() -> None:
    assert classify(FILLING).level is Level.OK
    judged = classify(f"{FILLING}rm -rf /\n")
    assert (judged.level, judged.reason) == (classify("rm -rf /").level, classify("rm -rf /").reason)
    text = "cat > notes.txt <<'EOF'\n" + "a line (with signs) of {a text}; and more\n" * 1000 + "EOF\n"
    assert classify(text).level is Level.OK


@pytest.mark.parametrize("junk", ["a=(", "${"])
def test_junk_that_takes_the_parser_long_is_refused_and_holds_nobody_up(junk: str) -> None:
    before = {child.pid for child in psutil.Process().children()}
    children: set[int] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            children.update(child.pid for child in psutil.Process().children())

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        # A kilobyte of it takes milliseconds; this takes seconds, in which no other thread could run here.
        verdict = classify(junk * (60_000 // len(junk)))
    finally:
        over.set()
        watching.join()
    assert verdict.level is Level.DANGEROUS
    assert children - before
