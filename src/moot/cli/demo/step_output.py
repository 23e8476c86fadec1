"""StepOutput: prints the numbered steps of a demo, in the width of the terminal. Base of tour.py and peers_tour.py."""

import sys

from moot.cli import output
from moot.cli.program import hint
from moot.cli.render import colours, sanitize, terminal
from moot.cli.render.flow import Flow

INDENT = "   "
PLAIN_COLUMNS = 80


class StepOutput:
    def __init__(self, *, is_scripted: bool) -> None:
        # Whether no model answers at all, so that every step with an answer is scripted.
        self._is_scripted = is_scripted
        self._number = 0
        self.scripted_steps: list[int] = []

    def _heading(self, text: str, command: str, *, scripted: bool = False, answered: bool = True) -> None:
        self._number += 1
        marked = ""
        if scripted or (self._is_scripted and answered):
            marked = " (scripted)"
            self.scripted_steps.append(self._number)
        head, command = f"{self._number}. {text}{marked}", hint(command)
        columns = terminal.terminal_width() or PLAIN_COLUMNS
        gap = "  " if len(f"{head}  {command}") < columns else f"\n{INDENT}"
        if len(f"{INDENT}{command}") >= columns:
            command = command.replace("; ", f"\n{INDENT}")
        self._write(f"\n{terminal.paint(head, bold=True)}{gap}{terminal.paint(command, dim=True)}\n")

    def _render_name(self, name: str) -> str:
        return terminal.paint(f"   {sanitize.name(name)}: ", fg=colours.name_colour(name, "writer"))

    def _flow(self, name: str) -> Flow:
        """Text after a name, with its other lines indented."""
        return Flow(terminal.terminal_width(), used=sanitize.columns(f"   {sanitize.name(name)}: "), indent=INDENT)

    def _line(self, name: str, text: str) -> None:
        flow = self._flow(name)
        self._write(f"{self._render_name(name)}{flow.feed(sanitize.cut_at_word(text, 160))}{flow.end()}\n")

    def _say(self, text: str) -> None:
        self._write(terminal.paint(output.wrap_prose(INDENT + text, sys.stdout, indent=INDENT), dim=True) + "\n")

    def _write(self, text: str) -> None:
        if not output.wants_json():
            output.write(text)
