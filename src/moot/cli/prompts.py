"""Prompts of a command on the terminal: a line, a number, a confirmation. Written to stderr."""

import os
import select
import signal
import sys
import termios

import click

from moot.cli import output

_YES, _NO = ("y", "yes"), ("n", "no")


def ask_line(text: str, *, default: str = "") -> str:
    """Prompt for a line; the default if it is empty."""
    sys.stderr.write(f"{text} [{default}]: " if default else f"{text}: ")
    sys.stderr.flush()
    return _read_line().strip() or default


def ask_hidden(text: str) -> str:
    """Prompt for a line that is not shown while it is typed; "" if it is empty."""
    shown = output.wrap_prose(f"{text}:")
    typed = click.prompt(shown, prompt_suffix=" ", hide_input=True, default="", show_default=False, err=True)
    return str(typed).strip()


def ask_number(text: str, *, default: int, most: int) -> int:
    """Prompt for a number from 1 to `most` until one is entered."""
    while True:
        typed = ask_line(text, default=str(default))
        if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= most:
            return int(typed)
        sys.stderr.write(f"A number from 1 to {most}, please.\n")


def confirm(text: str, *, default: bool = False) -> bool:
    """Prompt for yes or no until one is entered."""
    while True:
        typed = ask_line(f"{text} [{'Y/n' if default else 'y/N'}]").lower()
        if not typed:
            return default
        if typed in (*_YES, *_NO):
            return typed in _YES
        sys.stderr.write("y or n, please.\n")


def require_confirmation(text: str) -> None:
    """Raise unless the user confirms."""
    if not confirm(text):
        raise click.Abort


def discard_typed() -> None:
    """Forget what was typed on the terminal and not read yet."""
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _read_line() -> str:
    """Read one line of stdin, interruptible by a signal that arrives just before the read."""
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
