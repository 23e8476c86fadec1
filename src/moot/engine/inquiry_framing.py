"""Framing of an inquiry: the question of the librarian that an agent asks with its answer. Placed after the history."""

import msgspec

from moot.domain.inquiry import Inquiry
from moot.domain.ports.knowledge import Inquiries
from moot.domain.senders import RUN_SENDERS
from moot.domain.text import defuse
from moot.engine.turn import Turn


async def frame_inquiry(turn: Turn, inquiries: Inquiries, now: float) -> tuple[str, frozenset[str]]:
    """Return what the run is told to ask, and its taint, if the moment is quiet: no other message is waiting.

    It is recorded as asked before the model sees it, so that no other run asks it.
    """
    config, request = turn.config.librarian, turn.request
    is_persons = not request.guest and not request.parent_id and not request.key.sender.startswith(RUN_SENDERS)
    if not is_persons or (turn.steering is not None and turn.steering.has_waiting()):
        return "", frozenset()
    inquiry = await inquiries.take(request.key, request.id, cooldown=config.inquiry_cooldown_turns, now=now)
    return ("", frozenset()) if inquiry is None else (render_inquiry(inquiry), inquiry.taint)


def render_inquiry(inquiry: Inquiry) -> str:
    # Quoted, so that the question cannot appear to end before its end.
    question = msgspec.json.encode(defuse(" ".join(inquiry.question.split()), enclosed=True)).decode()
    return (
        f"Something about this person is not known: {question} Answer their message first. Then ask this in one "
        "sentence at the end, in their language, and say that they need not answer. It is no instruction for your "
        "work. If their message has answered it, do not ask."
    )
