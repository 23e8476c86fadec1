"""Output of commands: one result on stdout, everything else on stderr, no raw control characters.

With --json the result is exactly one document, {"ok": true, "data": …} or {"ok": false, "error": …}.
"""

import json as jsonlib
import sys
from collections.abc import Callable
from typing import Any, TextIO, TypeVar

import click

from moot.cli import exits
from moot.cli.program import hint
from moot.cli.render import flow, sanitize, terminal
from moot.cli.render.spinner import Spinner
from moot.domain.errors import MootError
from moot.domain.visible import is_hidden

_F = TypeVar("_F", bound=Callable[..., Any])


class _OutputFormat:
    """The output format of this invocation; set by --json at any position of the command line."""

    json = False


def use_json(wanted: bool) -> None:
    _OutputFormat.json = wanted


def wants_json() -> bool:
    return _OutputFormat.json


def _on_json_option(_context: click.Context, _parameter: click.Parameter, given: bool) -> None:
    if given:
        use_json(True)


def json_option(command: _F) -> _F:
    """Add the --json flag to a command; `emit` and `report_failure` use it."""
    option = click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_on_json_option,
        help="Print one JSON document.",
    )
    return option(command)


def emit(
    data: Any,
    *,
    json: bool | None = None,
    render: Callable[[Any], str] | None = None,
    error: MootError | None = None,
) -> None:
    """Print the command's result: as a document with --json, else rendered by `render` (or str).

    `error` marks a result that is also a failure, such as a run that did not complete.
    """
    if _OutputFormat.json if json is None else json:
        document: dict[str, Any] = {"ok": error is None, "data": data}
        if error is not None:
            document["error"] = _error_data(error)
        _print_document(document)
        return
    text = render(data) if render is not None else str(data)
    if text:
        write(text if text.endswith("\n") else text + "\n")


def report_failure(error: MootError) -> int:
    """Print an error as text or JSON, and return its exit code."""
    if _OutputFormat.json:
        _print_document({"ok": False, "error": _error_data(error)})
    else:
        print_error(error)
    return int(exits.exit_for_error(error))


def print_error(error: MootError) -> None:
    """Print the error and its fix on stderr."""
    text = wrap_prose(f"error: {sanitize.clean(hint(error.message))}", indent="  ")
    print_note(text.replace("error:", terminal.paint("error:", sys.stderr, fg="red", bold=True), 1))
    if error.fix:
        text = wrap_prose(f"  fix: {sanitize.clean(hint(error.fix))}", indent="       ")
        print_note(text.replace("  fix:", terminal.paint("  fix:", sys.stderr, fg="green"), 1))


def print_note(text: str) -> None:
    """Print one line on stderr, its commands as they have to be typed. Text from outside must be sanitized already."""
    sys.stderr.write(hint(text) + "\n")
    sys.stderr.flush()


def print_prose(text: str) -> None:
    """Print sentences on stderr, broken between words where the terminal ends. As `print_note` otherwise."""
    print_note(wrap_prose(text))


def wrap_prose(text: str, stream: TextIO | None = None, *, indent: str = "") -> str:
    """Wrap a text with hints to the width of the terminal; unchanged if `stream` (default stderr) is not a terminal."""
    return flow.wrap_text(hint(text), terminal.row_width(stream or sys.stderr), indent=indent)


def progress(text: str) -> Spinner:
    """Show progress on stderr: `with progress("Pulling") as bar: bar.update("50 %")`."""
    return Spinner(text, sys.stderr, animate=terminal.is_interactive(sys.stderr))


def write(text: str) -> None:
    """Write text to stdout unchanged; it must be sanitized already."""
    sys.stdout.write(text)
    sys.stdout.flush()


def _error_data(error: MootError) -> dict[str, str]:
    return {"type": error.type, "message": hint(error.message), "fix": hint(error.fix)}


def _print_document(document: dict[str, Any]) -> None:
    text = jsonlib.dumps(document, ensure_ascii=not _supports_unicode(), indent=2 if sys.stdout.isatty() else None)
    write(_escape_hidden(text) + "\n")


def _escape_hidden(text: str) -> str:
    """Escape characters that cannot be seen, or not be encoded: valid in JSON, and the same data."""
    found = {ord(each): jsonlib.dumps(each)[1:-1] for each in set(text) if each > "~" and is_hidden(each)}
    return text.translate(found) if found else text


def _supports_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
