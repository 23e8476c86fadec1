"""Framing: text for the speaker of one run that is never stored, and marks around other agents' text. Pure."""

import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec.structs import replace

from moot.domain.conversation import Archive, StoppedTurn
from moot.domain.mail import MAIL_AUTHOR
from moot.domain.masks import map_json_strings
from moot.domain.message import Message, Role, ToolCall, user
from moot.domain.run import Outcome
from moot.domain.task_notification import TASK_AUTHOR
from moot.domain.text import defuse

# Inside JSON, the bracket of a tag may be written as an escape.
_MAY_HOLD_TAG = re.compile(r"[^\x00-\x3b\x3d-\x7f]|<|\\u")


def render_guest_framing(*, guest: str, primary: str) -> str:
    return (
        f"You are {guest}, a guest in a conversation between a person and the agent {primary}. "
        f'Messages of other guests, and your own earlier ones, are inside <from agent="NAME"> … </from>. '
        f"Assistant messages without that mark are by {primary}, not by you. "
        f"What {primary} did with its tools is inside <moot-call> … </moot-call>; nobody said it. "
        "You have no tools here: answer the person's latest message in plain text, as yourself, "
        "and do not write such marks yourself."
    )


def render_brief_guest_framing(*, guest: str, primary: str) -> str:
    """Framing of a guest whose model is small."""
    return f"You are {guest}. Answers of others, such as {primary}, are not yours. Answer in plain text, as yourself."


def make_guest_reminder(*, guest: str, primary: str, instruction: str) -> Message:
    """Return who the guest is, placed after the person's message: a small model continues as whoever spoke before."""
    return user(f"(This is for {guest}, not for {primary}. {instruction} Answer as {guest}.)")


def render_inactive_framing(missing: str) -> str:
    """What is added to the instruction of a role that has none of the tools it is there for."""
    return (
        f"At present you have none of your tools ({missing}), so you can only talk. Whatever your instruction says you "
        "do, say that you cannot do it now, and do not claim or invent a result."
    )


def render_primary_framing(*, primary: str) -> str:
    return (
        f"You are {primary}. Guests take part in this conversation: their messages are inside "
        '<from agent="NAME"> … </from>. Assistant messages without that mark are yours. '
        "Continue as yourself, and do not write such marks yourself."
    )


def render_assistant_framing() -> str:
    """Framing of an agent that messages the person with send_user_message."""
    return (
        "The person does not see what you write. They see only what you send with send_user_message, so send every "
        "answer, question and result with it, complete and readable on its own. Use the status `normal` to answer and "
        "`proactive` to report something they did not ask for. What you write beside it is kept as your notes. Do not "
        "end a turn that they are waiting for without a message."
    )


def render_place_framing(cwd: str) -> str:
    # A folder's name may contain a line break; text after it would look like an instruction from Moot.
    path = cwd if cwd.isprintable() else "".join(each if each.isprintable() else "\ufffd" for each in cwd)
    path = defuse(path)
    return f"Your working directory for this turn is {path}\nUse paths relative to it, such as notes.txt"


def render_plain_place_framing() -> str:
    """Framing for models that copy long paths incorrectly: every file can be named without one."""
    return "Your tools work in one directory. Name what is in it by its name alone, such as notes.txt, and itself as ."


@lru_cache(maxsize=1024)
def make_context_message(*, primary: str, cwd: str, surroundings: str = "") -> Message:
    """Return the message, placed after the user message, with what may differ between turns; each if not empty."""
    parts = [render_primary_framing(primary=primary)] if primary else []
    parts += [render_place_framing(cwd)] if cwd else []
    parts += [surroundings] if surroundings else []
    return user("<moot>\n" + "\n\n".join(parts) + "\n</moot>")


def make_refusal_note(names: Sequence[str]) -> Message:
    """Return the note for a speaker that called a tool but has none. Sent once."""
    listed = ", ".join(sorted({defuse(name)[:64] for name in names}))
    return user(f"(No tool was run: {listed} cannot be called here. Answer in plain text with what you know.)")


def make_nudge(outcome: Outcome) -> Message:
    """Return the note for a speaker that would end without text, or that repeats its calls. Sent once."""
    if outcome is Outcome.LOOP_DETECTED:
        return user(
            "(You have repeated the same calls without new results. Do not repeat them: do something else, or say in "
            "plain text what you have and what is missing.)"
        )
    return user(
        "(You used tools and then said nothing. Say now in plain text what you did, the result, and what failed or is "
        "missing.)"
    )


def make_last_step_note() -> Message:
    """Return the note for the leader of a team when one step is left in the shared budget."""
    return user(
        "(This is the last step of this turn; no tool can be called any more. "
        "Answer now with what you have, and say what is missing.)"
    )


_ASSISTANT = Role.ASSISTANT
_HOW_STOPPED = {
    Outcome.EMPTY: "was empty",
    Outcome.EMPTY_AFTER_TOOL_USE: "was empty",
    Outcome.CANCELLED: "was stopped by the person",
    Outcome.INTERRUPTED: "was interrupted because the daemon stopped",
    Outcome.TIMEOUT: "ran out of time",
    Outcome.LIMIT: "reached a limit",
    Outcome.LOOP_DETECTED: "was stopped because it repeated itself",
    Outcome.TOOL_ERROR: "failed because its tools failed",
    Outcome.MODEL_ERROR: "failed because the model could not be used",
    Outcome.INTERNAL_ERROR: "failed",
    Outcome.DENIED: "ended because what it needed was not approved",
}

_WHAT_UNDONE = {
    Outcome.DENIED: "calls were not approved and not executed, whatever its answer says",
    Outcome.TOOL_ERROR: "the calls failed or were not executed and changed nothing, whatever its answer says",
}


def render_stopped_note(turn: StoppedTurn, *, primary: str) -> Message:
    """Return the note after a turn that was stopped or did nothing, so that no agent continues it unasked."""
    if turn.is_answered:
        what = _WHAT_UNDONE[Outcome(turn.outcome)]
        return user(f"<moot>In the turn before this note {what}. Do not try it again unless you are asked to.</moot>")
    how = _HOW_STOPPED.get(Outcome(turn.outcome), "did not come")
    if turn.speaker == primary:
        text = f"The answer to the message before this note {how}. Do not act on that message unless you are asked to."
    else:
        text = (
            f"The message before this note was put to {turn.speaker}, a guest, and not to {primary}. The answer of "
            f"{turn.speaker} {how}. Nobody else is to answer that message or to act on it unless asked to."
        )
    return user(f"<moot>{text}</moot>")


def make_summary_message(archive: Archive) -> Message:
    """Return the message with the newest archive's summary, which replaces everything before the first entry."""
    return user(
        "<archived-summary>\nThe conversation so far, summarised. The originals can be found with recall.\n\n"
        f"{defuse(archive.summary)}\n</archived-summary>"
    )


def is_guest_message(message: Message) -> bool:
    return message.role is _ASSISTANT and bool(message.agent)


def render_for_speaker(message: Message) -> Message:
    """Return the message as speakers see it: reserved tags defused, text of other agents enclosed in a mark."""
    if message.agent in (MAIL_AUTHOR, TASK_AUTHOR):
        # Its text was written by the daemon, and what others wrote in it is escaped.
        return message
    is_guest = is_guest_message(message)
    content = defuse(message.content, enclosed=is_guest)
    calls = tuple(map(_render_call, message.tool_calls)) if message.tool_calls else ()
    if is_guest and content.strip():
        content = f'<from agent="{message.agent}">\n{content}\n</from>'
    elif message.agent and message.role is Role.USER:
        content = f'<task-notification agent="{message.agent}">\n{content}\n</task-notification>'
    if content == message.content and calls == message.tool_calls:
        return message
    return replace(message, content=content, tool_calls=calls)


def _render_call(call: ToolCall) -> ToolCall:
    """Return the call with reserved tags in its name and arguments defused, however they are escaped."""
    arguments = call.arguments
    if _MAY_HOLD_TAG.search(arguments):
        arguments = map_json_strings(arguments, defuse)
    name = defuse(call.name)
    return call if (name, arguments) == (call.name, call.arguments) else replace(call, name=name, arguments=arguments)
