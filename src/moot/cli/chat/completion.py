"""Completion of the chat's input line: /commands and @guests at the start of a message, @paths anywhere in it."""

import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from moot.cli.chat.file_index import FileIndex
from moot.cli.chat.outgoing import quote_path
from moot.cli.render import sanitize

# The path that is being typed: after @, at the start or after a space; with a quotation mark it may contain spaces.
_PATH = re.compile(r'(?:^|(?<=\s))@(?P<path>"[^"\n]*|[^\s"]*)$')


class ChatCompleter(Completer):
    """Completes from both tables, read each time because agents can change, and from the files if there are any."""

    def __init__(
        self,
        commands: Mapping[str, str],
        agents: Callable[[], Mapping[str, str]],
        files: FileIndex | None = None,
    ) -> None:
        self._commands = commands
        self._agents = agents
        self._files = files

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

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """The same, or paths if no name fits. They are looked for beside the input, which goes on meanwhile."""
        names = list(self.get_completions(document, complete_event))
        for completion in names:
            yield completion
        path = _PATH.search(document.text_before_cursor)
        if names or path is None or self._files is None:
            return
        typed = path["path"]
        for found in await self._files.find(typed.lstrip('"')):
            yield Completion(
                quote_path(found) + ("" if found.endswith("/") else " "),
                start_position=-len(typed),
                display=f"@{sanitize.name(found)}",
            )
