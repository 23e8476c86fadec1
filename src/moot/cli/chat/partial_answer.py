"""Collects the answers to an ask with several questions. Used by `chat_asks`."""

from moot.wire import moot_pb2 as pb


class PartialAnswer:
    """The answers so far to one ask. Kept while the run is followed, discarded for another ask."""

    def __init__(self) -> None:
        self._ask_id = ""
        self._given: list[str] = []

    def is_begun(self, ask_id: str) -> bool:
        return bool(self._given) and ask_id == self._ask_id

    def part(self, ask: pb.AskUserEvent) -> pb.AskQuestion:
        """The next question to answer."""
        return ask.questions[len(self._given) if ask.ask_id == self._ask_id else 0]

    def take(self, ask: pb.AskUserEvent, answer: str) -> list[str]:
        """Store an answer. Return all answers once they are complete, else an empty list."""
        if ask.ask_id != self._ask_id:
            self._ask_id, self._given = ask.ask_id, []
        self._given.append(answer)
        if len(self._given) < len(ask.questions):
            return []
        given, self._given, self._ask_id = self._given, [], ""
        return given
