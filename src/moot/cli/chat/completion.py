"""Completion of the chat's input line: /commands and @guests at the start of a message."""

from collections.abc import Callable, Iterable, Mapping

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from moot.cli.render import sanitize


class ChatCompleter(Completer):
    """Completes from both tables, read each time because agents can change."""

    def __init__(self, commands: Mapping[str, str], agents: Callable[[], Mapping[str, str]]) -> None:
        self._commands = commands
        self._agents = agents

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        typed = document.text_before_cursor
        if not typed or typed[0] not in "/@" or any(character.isspace() for character in typed):
            return
        table = self._commands if typed[0] == "/" else self._agents()
        for name, description in table.items():
            if name.startswith(typed[1:]):
                yield Completion(
                    name + " ",
                    start_position=1 - len(typed),
                    display=f"{typed[0]}{name}",
                    display_meta=sanitize.line(description, 60),
                )
