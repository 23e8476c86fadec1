"""The terminal of a chat: input line and toolbar at the bottom, printed lines above. Built on prompt_toolkit.

Not a full-screen program: what was printed stays in the terminal's own scrollback.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.filters import Condition, FilterOrBool, has_completions
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    CompletionsMenu,
    Dimension,
    Float,
    FloatContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.renderer import print_formatted_text
from prompt_toolkit.styles import Style

from moot.cli.chat.notification import FOCUS_OFF, FOCUS_ON, Notifier
from moot.cli.chat.terminal_output import ChatApplication, TerminalOutput
from moot.cli.markdown.styles import STYLE_RULES, Line
from moot.cli.markdown.text_format import TextFormat
from moot.cli.markdown.wrap import wrap_line

_STYLE = Style.from_dict(STYLE_RULES)
_INPUT_ROWS = 8
_MENU_ROWS = 8
_LIVE_ROWS = 16
_TICK_SECONDS = 0.1
# Terminals that know these show what is written between them at once, so that nothing flickers; others ignore them.
_BEGIN_FRAME, _END_FRAME = "\x1b[?2026h", "\x1b[?2026l"
# What a terminal sends when its window gets or loses the focus. The library has no names for them; these keys exist on
# no keyboard. Without a meaning they would be read as Esc, which stops a run.
_FOCUSED, _UNFOCUSED = Keys.F23, Keys.F24
ANSI_SEQUENCES.update({"\x1b[I": _FOCUSED, "\x1b[O": _UNFOCUSED})


class ScreenController(Protocol):
    """Interface of what is behind the screen: receives user actions and provides what to display."""

    @property
    def running(self) -> bool:
        """Whether there is a run to stop."""
        ...

    @property
    def waiting(self) -> bool:
        """Whether the display changes without user input."""
        ...

    def begin(self) -> None:
        """Called at the first character of a line."""
        ...

    def submit(self, text: str) -> None: ...
    def stop_run(self) -> None: ...
    def switch_mode(self) -> None: ...
    def live(self) -> StyleAndTextTuples: ...
    def prompt(self) -> StyleAndTextTuples: ...
    def toolbar(self) -> StyleAndTextTuples: ...


class ScreenOptions(Struct, frozen=True, kw_only=True):
    """What is shown how; the defaults suit every terminal."""

    markdown: bool = False
    # Whether text that an assistant does not send is shown; /all changes it.
    shows_private: bool = False
    links: bool = False
    notify: str = "off"


class Screen:
    """Draws, reads keys and prints. One task prints, so that output is not interleaved."""

    def __init__(
        self,
        controller: ScreenController,
        completer: Completer,
        *,
        options: ScreenOptions = ScreenOptions(),  # noqa: B008 - a frozen value
    ) -> None:
        self._controller = controller
        self.shows_private = options.shows_private
        self.text_format = TextFormat(self.columns, options.markdown, options.links, lambda: self.shows_private)
        self._pending: list[Line] = []
        # Number of lines printed so far.
        self.shown = 0
        self._wake = asyncio.Event()
        self._about_to_quit = False
        self._buffer = Buffer(
            multiline=True,
            completer=completer,
            complete_while_typing=True,
            history=InMemoryHistory(),
            accept_handler=self._accept,
        )
        self._blank = True
        self._buffer.on_text_changed += self._on_line_changed
        self.app = ChatApplication(
            TerminalOutput.open(),
            layout=Layout(self._container()),
            style=_STYLE,
            key_bindings=self._keys(),
            erase_when_done=True,
            min_redraw_interval=0.02,
        )
        self.notifier = Notifier(options.notify, self._write_raw)
        # Esc alone stops a run; it must not wait long for the rest of an Alt- combination.
        self.app.ttimeoutlen = 0.05
        self.app.timeoutlen = 0.25

    async def run(self) -> None:
        """Run until the user quits; then print what is pending."""
        async with asyncio.TaskGroup() as tasks:
            printing = tasks.create_task(self._print_forever(), name="chat printer")
            ticking = tasks.create_task(self._tick(), name="chat ticker")
            try:
                self._write_raw(FOCUS_ON)
                await self.app.run_async()
            finally:
                self._write_raw(FOCUS_OFF)
                printing.cancel()
                ticking.cancel()
        self._print_pending()

    def quit(self) -> None:
        if self.app.is_running:
            self.app.exit()

    def show(self, *lines: Line) -> None:
        """Print lines above the input, in order."""
        self._pending += lines
        self.shown += len(lines)
        self._wake.set()

    def columns(self) -> int:
        """The usable width of a row, without the last column, which terminals treat differently."""
        return max(20, self.app.output.get_size().columns - 1)

    def clear(self) -> None:
        """Clear the window; what was printed before stays in the terminal's scrollback."""
        if self.app.is_running:
            self.app.renderer.clear()

    def _write_raw(self, sequence: str) -> None:
        self.app.output.write_raw(sequence)
        self.app.output.flush()

    def redraw(self) -> None:
        self.app.invalidate()

    def add_to_history(self, text: str) -> None:
        """Add an earlier message to the input history (up arrow), unless it is the newest there."""
        if self._buffer.history.get_strings()[-1:] != [text]:
            self._buffer.history.append_string(text)
            if not self._buffer.text:
                # The line reads its history again.
                self._buffer.reset()

    def restore_input(self, text: str) -> None:
        """Put a message that could not be sent back into the input line if that is empty."""
        if not self._buffer.text:
            self._buffer.text = text
            self._buffer.cursor_position = len(text)

    # ---- drawing ----

    def _container(self) -> FloatContainer:
        live = Window(
            FormattedTextControl(self._controller.live),
            wrap_lines=True,
            dont_extend_height=True,
            height=Dimension(max=_LIVE_ROWS),
        )
        control = BufferControl(self._buffer, input_processors=[BeforeInput(self._controller.prompt)])
        entry = Window(control, wrap_lines=True, dont_extend_height=True, height=self._input_height)
        # Only its text has a background: a row of the whole width would become two when the window gets narrower.
        toolbar = Window(FormattedTextControl(self._toolbar), height=1)
        menu = Float(xcursor=True, ycursor=True, content=CompletionsMenu(max_height=_MENU_ROWS))
        return FloatContainer(HSplit([live, entry, toolbar]), floats=[menu])

    def _input_height(self) -> Dimension:
        # The menu is drawn inside our own rows, so they must be there while it is open.
        least = _MENU_ROWS + 1 if self._buffer.complete_state else 1
        return Dimension(min=least, max=max(_INPUT_ROWS, least))

    def _toolbar(self) -> StyleAndTextTuples:
        if self._about_to_quit:
            return [("class:toolbar", " Ctrl-C again to leave ")]
        return [("class:toolbar", f"{text} ") for _, text, *_ in self._controller.toolbar()]

    async def _tick(self) -> None:
        """Redraw the spinner and its seconds while something is active."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            if self._controller.waiting:
                self.app.invalidate()

    async def _print_forever(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._print_pending()

    def _print_pending(self) -> None:
        """Erase the input rows, print in their place, and redraw them below.

        The terminal stays in raw mode, so that a key pressed meanwhile is not echoed and sends no signal.
        """
        waiting, self._pending = self._pending, []
        fragments: StyleAndTextTuples = [
            fragment for line in waiting for row in wrap_line(line, self.columns()) for fragment in (*row, ("", "\n"))
        ]
        if not fragments:
            return
        drawn = self.app.is_running
        if drawn:
            self.app.follow_size()
            self.app.output.write_raw(_BEGIN_FRAME)
            self.app.renderer.erase()
        print_formatted_text(self.app.output, fragments, _STYLE, color_depth=self.app.color_depth)
        if drawn:
            # Render again instead of reusing the last result, because what is displayed decides what keys mean.
            self.app.render_counter += 1
            with set_app(self.app):
                self.app.renderer.render(self.app, self.app.layout)
            self.app.output.write_raw(_END_FRAME)
            self.app.output.flush()

    # ---- keys ----

    def _on_line_changed(self, buffer: Buffer) -> None:
        if self._blank and buffer.text:
            self._controller.begin()
        self._blank = not buffer.text

    def _accept(self, buffer: Buffer) -> bool:
        self._controller.submit(buffer.text)
        # Clearing the buffer triggers no event.
        self._blank = True
        return False

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        running = Condition(lambda: self._controller.running)
        chosen = has_completions & Condition(self._is_completion_chosen)
        empty = Condition(lambda: not self._buffer.text)
        bindings: list[tuple[tuple[str, ...], FilterOrBool, Callable[[], None]]] = [
            (("enter",), ~chosen, self._enter),
            (("enter",), chosen, self._take_completion),
            (("tab",), True, self._complete),
            (("s-tab",), has_completions, self._buffer.complete_previous),
            (("s-tab",), ~has_completions, self._controller.switch_mode),
            (("escape", "enter"), True, lambda: self._buffer.insert_text("\n")),
            (("escape",), has_completions, self._buffer.cancel_completion),
            (("escape",), running & ~has_completions, self._controller.stop_run),
            (("c-c",), True, self._interrupt),
            (("<sigint>",), True, self._interrupt),
            (("c-d",), empty, self.quit),
            (("c-z",), True, self._suspend),
            ((_FOCUSED,), True, lambda: self._on_focus(True)),
            ((_UNFOCUSED,), True, lambda: self._on_focus(False)),
        ]
        for names, when, act in bindings:
            keys.add(*names, filter=when)(_without_event(act))
        return keys

    def _suspend(self) -> None:
        """Stop this process as Ctrl-Z does elsewhere; `fg` in the shell continues it."""
        run_in_terminal(self._stop_process)

    def _stop_process(self) -> None:
        self._write_raw(FOCUS_OFF)
        # Like the terminal itself: every process of the command.
        os.kill(0, signal.SIGTSTP)
        self._write_raw(FOCUS_ON)

    def _on_focus(self, is_focused: bool) -> None:
        self.notifier.is_focused = is_focused

    def _enter(self) -> None:
        self._about_to_quit = False
        if self._buffer.text.strip():
            self._buffer.validate_and_handle()

    def _complete(self) -> None:
        """Select the next completion or open the menu; a single candidate is inserted."""
        state = self._buffer.complete_state
        if state is None:
            self._buffer.start_completion(insert_common_part=True)
        elif len(state.completions) == 1:
            self._buffer.apply_completion(state.completions[0])
        else:
            self._buffer.complete_next()

    def _take_completion(self) -> None:
        self._buffer.complete_state = None

    def _is_completion_chosen(self) -> bool:
        state = self._buffer.complete_state
        return state is not None and state.current_completion is not None

    def _interrupt(self) -> None:
        """Stop the run, else clear the line, else leave on the second press."""
        if self._controller.running:
            self._controller.stop_run()
        elif self._buffer.text:
            self._buffer.reset()
            self._blank = True
        elif self._about_to_quit:
            self.quit()
        else:
            self._about_to_quit = True
            self.app.invalidate()
            return
        self._about_to_quit = False


def _without_event(act: Callable[[], None]) -> Callable[[KeyPressEvent], None]:
    return lambda _event: act()
