"""Shows what work on a conversation waits for: runs ahead of it, and their open asks. For compact, new and resume."""

from moot.cli.program import hint
from moot.cli.render.spinner import Spinner
from moot.domain.ids import shorten_ask_id
from moot.wire import moot_pb2 as pb


class LaneProgress:
    def __init__(self, bar: Spinner, what: str) -> None:
        self._bar = bar
        self._what = what
        self._told: set[str] = set()

    def __call__(self, event: pb.StreamEvent) -> None:
        place = event.queued
        self._bar.update("Waiting" if place.position else self._what)
        if place.position:
            self._say("Waiting for the active run to end; Ctrl-C before that changes nothing.")
        if place.ask_id:
            self._say(hint(f"The active run waits for you: moot inbox show {shorten_ask_id(place.ask_id)}"))

    def _say(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._bar.say(line)
