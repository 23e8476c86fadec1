"""ChatAsks: the open asks of a conversation, wherever they are reported; answers to questions. Used by `controller`.

Asks of followed runs are in their views. Those of teammates are listed; those of runs whose stream was lost are kept.
"""

from collections.abc import Coroutine
from typing import Any, Protocol

from moot.cli.chat import lines
from moot.cli.chat.chat_context import ChatContext
from moot.cli.chat.open_approvals import approval_from_ask, question_from_ask
from moot.cli.chat.partial_answer import PartialAnswer
from moot.cli.chat.run_views import RunViews
from moot.cli.chat.screen import Screen
from moot.cli.chat.view import RunView
from moot.cli.markdown.styles import Line
from moot.cli.render import asker_lines, colours, questions
from moot.domain.errors import BadRequest, MootError
from moot.wire import moot_pb2 as pb


class AskContext(ChatContext, Protocol):
    """The part of the chat that this module uses."""

    @property
    def screen(self) -> Screen: ...
    @property
    def views(self) -> RunViews: ...
    def is_following(self, user_seq: int = 0) -> bool: ...


class ChatAsks:
    def __init__(self, chat: AskContext) -> None:
        self._chat = chat
        # Open asks of runs that the chat does not follow: those of teammates.
        self._listed: dict[str, pb.AskInfo] = {}
        # Closed asks by id and attempt, which a list already requested may still contain.
        self._closed: set[tuple[str, int]] = set()
        # The approvals that were open when the connection was lost.
        self._left_approvals: dict[str, pb.ApprovalEvent] = {}
        # The asks for which the person was called.
        self._called: set[str] = set()
        self._partial_answer = PartialAnswer()

    async def refresh(self) -> None:
        found = (await self._chat.request(pb.ClientMessage(list_asks=pb.ListAsksMsg()))).ask_list.asks
        here = [info for info in found if (info.agent, info.sender) == (self._chat.agent, self._chat.sender)]
        self._listed = {info.ask_id: info for info in here if (info.ask_id, info.attempt) not in self._closed}
        for ask_id in self._listed:
            self.call_person(ask_id)
        self._chat.screen.redraw()

    def close(self, ask_id: str, attempt: int) -> None:
        """Close an ask of a run; the list of open asks is outdated until it is fetched again."""
        self._listed.pop(ask_id, None)
        self._closed.add((ask_id, attempt))

    def keep_left_approvals(self, approvals: dict[str, pb.ApprovalEvent]) -> None:
        """Keep showing the approvals of a run whose stream was lost."""
        self._left_approvals |= approvals

    def forget_left_approvals(self) -> None:
        self._left_approvals = {}

    def call_person(self, ask_id: str) -> None:
        """Call the person once for each ask, wherever it is reported first."""
        if ask_id not in self._called:
            self._called.add(ask_id)
            self._chat.screen.notifier.on_ask(self._chat.agent)

    def list_approvals(self) -> list[pb.ApprovalEvent]:
        followed = [approval for view in self._chat.views for approval in view.approvals.values()]
        known = {approval.ask_id for approval in followed}
        waiting = [info for info in self._listed.values() if info.kind != "question" and info.ask_id not in known]
        known |= {info.ask_id for info in waiting}
        left = [approval for approval in self._left_approvals.values() if approval.ask_id not in known]
        return [*followed, *map(approval_from_ask, waiting), *left]

    def find_question(self) -> pb.AskUserEvent | None:
        followed = next((view.question for view in self._chat.views if view.question is not None), None)
        if followed is not None:
            return followed
        waiting = next((info for info in self._listed.values() if info.kind == "question"), None)
        # A followed run reports its own questions, once its stream has reached one that is partly answered.
        if waiting is None or (self._chat.is_following() and not self._partial_answer.is_begun(waiting.ask_id)):
            return None
        return question_from_ask(waiting)

    def answer(self, ask: pb.AskUserEvent, typed: str) -> Coroutine[Any, Any, None] | None:
        """Show the answer to the next question of an ask. Return what sends the reply once all are answered."""
        question = self._partial_answer.part(ask)
        given = questions.parse_answer(question, typed)
        shown: list[Line] = [[("class:dim", line)] for line in questions.render_question(question)]
        self._chat.screen.show(*shown, *lines.render_speech(colours.USER, given, self._chat.agent))
        answers = self._partial_answer.take(ask, given)
        if not answers:
            return None
        # Answered in this chat; the daemon confirms with `ask_closed`.
        self.close(ask.ask_id, ask.attempt)
        asking = [view for view in self._chat.views if view.question is ask]
        for view in asking:
            view.question = None
        return self._reply(ask, questions.build_reply(ask.questions, answers), asking)

    async def _reply(self, ask: pb.AskUserEvent, content: str, asking: list[RunView]) -> None:
        reply = questions.address_reply(ask, self._chat.agent, self._chat.sender, content)
        try:
            await self._chat.request(pb.ClientMessage(reply_to_ask=reply))
        except MootError as error:
            self._closed.discard((ask.ask_id, ask.attempt))
            if isinstance(error, BadRequest):
                # A refused answer leaves the question open.
                for view in asking:
                    view.question = ask
            self._chat.screen.show(*lines.render_error(error.message, error.fix))

    def render_question(self, ask: pb.AskUserEvent) -> list[Line]:
        """Return the lines of an open question, for the live area."""
        shown = questions.render_prompt(self._partial_answer.part(ask))
        asker: list[Line] = [[("class:notice", line)] for line in asker_lines.render_asker(ask)]
        return [*asker, [("class:question", shown[0])], *([("class:option", line)] for line in shown[1:])]
