"""Shows an active run what arrived since its last step. Called by loop.py before each step."""

from moot.domain.events import MailRead
from moot.domain.lost_mail import describe_lost
from moot.domain.mail import MAIL_AUTHOR, join_taint, render_mail
from moot.domain.message import injected_message
from moot.engine.mailboxes import Mailboxes
from moot.engine.steering import show_steered
from moot.engine.turn_state import TurnState
from moot.failpoint import reach


async def show_arrivals(mailboxes: Mailboxes, state: TurnState) -> None:
    """Show mail, then the messages that steer the run; neither without a step that sends them to the model."""
    if state.has_room:
        await _inject_mail(mailboxes, state)
        await show_steered(state.turn, state.progress)


async def _inject_mail(mailboxes: Mailboxes, state: TurnState) -> None:
    """Add unread mail to the history, and what became of mail that is lost. Guests are not shown it.

    It counts as read, or as told, once that is on disk.
    """
    turn, history = state.turn, state.turn.history
    key, run_id = turn.request.key, turn.request.id
    # Mail may have come through another daemon before this one loaded the conversation.
    if turn.request.guest or (history.mail_checked and not mailboxes.may_have_news(key)):
        return
    if turn.steering is not None and turn.steering.has_mail():
        # Mail is shown in its order: what followed is shown after the queued message.
        return
    may_have_lost = not history.mail_checked or mailboxes.may_have_lost(key)
    history.mail_checked = True
    lost = await mailboxes.collect_lost(key, run_id) if may_have_lost else []
    mails = await mailboxes.collect(key, run_id)
    if lost or mails:
        shown = [*describe_lost(lost), *mails]
        message = injected_message(render_mail(shown), author=MAIL_AUTHOR, taint=join_taint(shown))
        state.progress.recorder.write(
            [message], delivers=[*(each.told_id for each in lost), *(mail.id for mail in mails)]
        )
        reach("mail.shown")
        for mail in mails:
            turn.emit(MailRead(mail))
