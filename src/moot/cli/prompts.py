"""Prompts of a command on the terminal: a line, a number, a confirmation. Written to stderr."""

import os
import select
import signal
import sys

import click

_YES, _NO = ("y", "yes"), ("n", "no")


def ask_line(text: str, *, default: str = "") -> str:
    """What the person types, or the default where that is nothing."""
    sys.stderr.write(f"{text} [{default}]: " if default else f"{text}: ")
    sys.stderr.flush()
    return _read_line().strip() or default


def ask_number(text: str, *, default: int, most: int) -> int:
    """A number from 1 to `most`; asked again until it is one."""
    while True:
        typed = ask_line(text, default=str(default))
        if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= most:
            return int(typed)
        sys.stderr.write(f"A number from 1 to {most}, please.\n")


def confirm(text: str, *, default: bool = False) -> bool:
    """Yes or no; asked again until it is one of them."""
    while True:
        typed = ask_line(f"{text} [{'Y/n' if default else 'y/N'}]").lower()
        if not typed:
            return default
        if typed in (*_YES, *_NO):
            return typed in _YES
        sys.stderr.write("y or n, please.\n")


def require_confirmation(text: str) -> None:
    """Go on only with a yes."""
    if not confirm(text):
        raise click.Abort


def _read_line() -> str:
    """One line of stdin. A signal that comes just before the read would otherwise wait until a line is there."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    before = signal.set_wakeup_fd(wake)
    try:
        select.select([sys.stdin, woken], [], [])
        typed = sys.stdin.readline()
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        raise
    finally:
        signal.set_wakeup_fd(before)
        os.close(woken)
        os.close(wake)
    if not typed:
        sys.stderr.write("\n")
        raise click.Abort
    return typed
