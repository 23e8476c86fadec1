"""Shows an active run what arrived since its last step. Called by loop.py before each step."""

from moot.domain.events import MailRead
from moot.domain.mail import MAIL_AUTHOR, join_taint, render_mail
from moot.domain.message import injected_message
from moot.engine.mailboxes import Mailboxes
from moot.engine.turn_state import TurnState
from moot.failpoint import reach


async def inject_mail(mailboxes: Mailboxes, state: TurnState) -> None:
    """Add unread mail to the history. It counts as read once that is on disk. Guests are not shown it."""
    turn, history = state.turn, state.turn.history
    # Mail may have come through another daemon before this one loaded the conversation.
    if turn.request.guest or (history.mail_checked and not mailboxes.may_have_mail(turn.request.key)):
        return
    if turn.steering is not None and turn.steering.has_mail():
        # Mail is shown in its order: what followed is shown after the queued message.
        return
    history.mail_checked = True
    mails = await mailboxes.collect(turn.request.key, turn.request.id)
    if mails:
        message = injected_message(render_mail(mails), author=MAIL_AUTHOR, taint=join_taint(mails))
        state.progress.recorder.write([message], delivers=[mail.id for mail in mails])
        reach("mail.shown")
        for mail in mails:
            turn.emit(MailRead(mail))
