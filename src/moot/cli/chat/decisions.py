"""Prints approvals that no stream prints, and sends decisions, again after a reconnect if the ask is unchanged."""

from collections.abc import Iterable
from typing import Protocol

from moot.cli.chat import lines
from moot.cli.chat.chat_context import ChatContext
from moot.cli.chat.open_approvals import HeldDecision, OpenApprovals, approval_from_ask
from moot.cli.chat.screen import Screen
from moot.cli.chat.view import RunView
from moot.client.errors import Unreachable
from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb


class DecisionContext(ChatContext, Protocol):
    """The part of the chat that this module uses."""

    @property
    def screen(self) -> Screen: ...
    @property
    def views(self) -> Iterable[RunView]: ...
    def show_notice(self, text: str) -> None: ...


class Decisions:
    def __init__(self, chat: DecisionContext, open_approvals: OpenApprovals) -> None:
        self._chat = chat
        self._open_approvals = open_approvals
        self.held: list[HeldDecision] = []

    def print_approvals(self) -> None:
        """Print the approvals of runs that the chat does not follow, whose streams would: those of teammates."""
        screen = self._chat.screen
        for approval in self._open_approvals.list_unprinted():
            shown = lines.render_approval(approval)
            screen.show(*shown)
            self._open_approvals.record_printed(approval, rows=len(shown), at=screen.shown)
        screen.redraw()

    async def send(self, held: HeldDecision) -> None:
        message = held.message
        views = [view for view in self._chat.views if message.ask_id in view.approvals]
        for view in views:
            view.decisions[message.ask_id] = message
        try:
            await self._chat.request(pb.ClientMessage(decide_ask=message))
        except Unreachable:
            # Whether it arrived is not known; the same question takes the same answer, and no other does.
            self.held.append(held)
        except MootError as error:
            self._open_approvals.undo(message)
            for view in views:
                view.decisions.pop(message.ask_id, None)
            self._chat.screen.show(*lines.render_error(error.message, error.fix))
        else:
            if not views:
                # No followed run reports it: a teammate asked whose turn has ended.
                state = "denied" if message.decision == "deny" else "granted"
                self._chat.screen.show(lines.render_decision(held.shown, state, message.decision, message.pattern))

    def give_up(self) -> None:
        """The daemon cannot be reached: nothing was decided."""
        held, self.held = self.held, []
        for each in held:
            self._open_approvals.undo(each.message)

    async def send_again(self, held: HeldDecision) -> None:
        """Send the decision if the open ask is unchanged; otherwise ask again."""
        try:
            found = await self._forms(held.message.ask_id)
        except Unreachable:
            self.held.append(held)
            return
        if any(held.is_same_approval(approval) for approval in found):
            await self.send(held)
            return
        self._open_approvals.undo(held.message)
        why = "has changed since you decided" if found else "is no longer waiting"
        self._chat.show_notice(f"nothing was decided: the call {why}")

    async def _forms(self, ask_id: str) -> list[pb.ApprovalEvent]:
        """An approval as listed and in full; nothing if it is not open."""
        found: list[pb.ApprovalEvent] = []
        for request in (pb.ListAsksMsg(), pb.ListAsksMsg(ask_id=ask_id)):
            infos = (await self._chat.request(pb.ClientMessage(list_asks=request))).ask_list.asks
            found += [approval_from_ask(info) for info in infos if info.ask_id == ask_id]
        return found
