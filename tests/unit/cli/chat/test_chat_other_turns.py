"""What waits in a conversation, as a chat that loses and finds its connection shows it."""

from moot.cli.chat.mode_switch import ModeSwitch
from moot.cli.chat.other_turns import Introduce, OtherTurns
from moot.cli.chat.queued_message import QueuedMessage
from moot.cli.chat.screen import Screen
from moot.cli.chat.view import RunView
from moot.client.connection import Runnable
from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb


class FakeChat:
    agent, sender, running = "ada", "user", False
    screen: Screen

    def __init__(self) -> None:
        self.own: list[str] = []
        self.mode = ModeSwitch(self)

    def is_following(self, user_seq: int = 0) -> bool:
        return False

    def on_context(self, tokens: int) -> None:
        return

    async def refresh_settings(self) -> None:
        raise AssertionError("nothing is configured here")

    def print_approvals(self) -> None: ...

    async def refresh_asks(self) -> None:
        raise AssertionError("nothing is asked here")

    def list_queued_contents(self) -> list[str]:
        return self.own

    def show_error(self, error: MootError) -> None:
        raise error

    async def request(self, message: pb.ClientMessage) -> pb.ServerMessage:
        raise NotImplementedError

    async def follow(self, view: RunView, message: Runnable, introduce: Introduce | None = None) -> None:
        raise NotImplementedError

    async def refresh_usage(self) -> None:
        raise NotImplementedError


def in_line(content: str, *, typed: str = "") -> RunView:
    """A message of this screen that waits behind another."""
    view = RunView("ada", lambda: 1.0, echo=typed or content)
    view.content = content
    view.take(pb.StreamEvent(queued=pb.QueuedEvent(position=1)))
    return view


def test_a_message_in_line_is_shown_once_when_the_connection_breaks_whether_the_daemon_told_of_it_or_not() -> None:
    for told in ([], ["second"]):
        chat = FakeChat()
        others = OtherTurns(chat)
        others.queued = list(map(QueuedMessage, told))
        chat.own = ["second"]
        assert others.list_queued() == []

        chat.own = []
        others.mark_cut_off(in_line("second", typed="@bob second"))

        assert others.list_queued() == [QueuedMessage("second", 1 if told else 0)]


def test_the_same_words_twice_in_line_stay_twice() -> None:
    others = OtherTurns(FakeChat())
    others.queued = [QueuedMessage("again")]
    for _ in range(2):
        others.mark_cut_off(in_line("again"))

    assert others.list_queued() == [QueuedMessage("again", 1), QueuedMessage("again")]


def test_what_waits_after_coming_back_is_what_the_daemon_says() -> None:
    others = OtherTurns(FakeChat())
    others.queued = [QueuedMessage("second")]
    others.mark_cut_off(in_line("second"))

    others.catch_up(pb.History(), unsent=())

    assert others.list_queued() == []
