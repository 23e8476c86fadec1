"""Ask: a run that waits for a person, with its questions and state. Works with approval (rules) and events."""

from enum import StrEnum

from msgspec import Struct

from moot.domain.call_shape import CallShape
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Conflict, NotFound
from moot.domain.ids import shorten_ask_id

# How to correct a request that names an ask which is not open.
LIST_OPEN = "List what is open with `moot inbox`."


class AskKind(StrEnum):
    """A question is answered with text; an approval decides about one call; a grant gives a run one more tool."""

    QUESTION = "question"
    APPROVAL = "approval"
    GRANT = "grant"


class AskState(StrEnum):
    PENDING = "pending"
    ANSWERED = "answered"
    GRANTED = "granted"
    USED = "used"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Option(Struct, frozen=True, kw_only=True):
    label: str
    description: str = ""


class Question(Struct, frozen=True, kw_only=True):
    question: str
    header: str = ""
    options: tuple[Option, ...] = ()
    multi_select: bool = False


class Asker(Struct, frozen=True, kw_only=True):
    """The teammate or background run that asks, if no person talks to the run directly."""

    agent: str
    run_id: str
    # Why it was spawned, and its task.
    spawn_reason: str = ""
    task: str = ""


class Binding(Struct, frozen=True, kw_only=True):
    """What a call acts on besides its arguments, at the time it was shown to a person.

    `what` describes something that every rule about the tool depends on (a script's content, the sandbox), `place` is
    where it actually acts (a path with links resolved), `seen` the state of that place.
    """

    what: str = ""
    place: str = ""
    seen: str = ""


class Ask(Struct, frozen=True, kw_only=True):
    """One question, approval or grant. `key` is the conversation in which it is shown: the root of the run's tree.

    An approval or a grant is bound to its run, its tool and the exact arguments of one call, and can be used once.
    """

    id: str
    kind: AskKind
    key: ConversationKey
    run_id: str
    call_id: str
    speaker: str
    # The tool that asks, or whose call needs the decision.
    tool: str
    # The agents from the root of the run's tree down to the parent of the run; empty if a person started the run.
    chain: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    # The answer to a question, or the reason of a denial.
    answer: str = ""
    # The arguments of the call, as they are shown.
    arguments: str = ""
    # What "always" would cover, in words: a command in its folder, or exactly these arguments.
    subject: str = ""
    line: str = ""
    preview: str = ""
    reason: str = ""
    # Digest of the exact arguments and everything shown with them. If `arguments` masks some, it is keyed, so that they
    # cannot be found by guessing.
    digest: str = ""
    # The digest that a rule for exactly this call is bound to; empty if none can be made, NO_RULE if none is allowed.
    exact: str = ""
    # What the call acts on. Only `what` is stored; the digest covers the rest.
    binding: Binding = Binding()
    # What patterns of rules look at in the call; None if no pattern can cover it.
    shape: CallShape | None = None
    # The exact arguments, sealed, if some are masked; removed once the ask is closed.
    sealed: bytes = b""
    # Whether the call can be executed after a restart: it has not begun, or repeating it is harmless.
    is_resumable: bool = True
    attempt: int = 1
    # The number of attempts up to the last decision.
    decided_attempts: int = 0
    state: AskState = AskState.PENDING
    opened_at: float = 0.0
    expires_at: float = 0.0

    def __repr__(self) -> str:
        # The answer and the sealed arguments must not appear in logs.
        return f"Ask(id={self.id!r}, kind={self.kind!r}, run_id={self.run_id!r}, state={self.state!r})"

    @property
    def is_question(self) -> bool:
        return self.kind is AskKind.QUESTION

    @property
    def teammates(self) -> tuple[str, ...]:
        """The agents below the agent of `key`, down to the one that asks; empty if that agent itself asks."""
        path = (*self.chain, self.speaker)
        return path[1:] if path[0] == self.key.agent else path

    @property
    def attempts_since_decision(self) -> int:
        return self.attempt - self.decided_attempts

    def is_stale(self, now: float) -> bool:
        """Whether it was granted but not used in time: the daemon was down, and circumstances may have changed."""
        return self.state is AskState.GRANTED and now > self.expires_at

    @property
    def waits_for(self) -> str:
        """What the run waits for, in one sentence for a person."""
        if self.is_question:
            return "a question to the person is open"
        return describe_wait(self.tool, self.reason)


class AskAttempt(Struct, frozen=True, kw_only=True):
    """One attempt of an approval or grant, as traces and the ledger need it. An ask has one, unless it was asked again.

    `decided_at` is the time of the person's decision, `closed_at` the time after which nobody waited; 0 if neither.
    """

    ask_id: str
    kind: AskKind
    speaker: str
    tool: str
    call_id: str
    line: str
    reason: str
    attempt: int
    # The number of attempts up to the last decision before this one.
    decided_attempts: int
    state: AskState
    opened_at: float
    decided_at: float = 0.0
    decided_by: str = ""
    closed_at: float = 0.0

    @property
    def waits_for(self) -> str:
        return describe_wait(self.tool, self.reason)

    def list_changes(self) -> list[tuple[AskState, float]]:
        """Return the states the attempt went through, with their times: pending, the decision, and its end without one.

        That a granted ask was used is not a change: its call follows.
        """
        changes = [(AskState.PENDING, self.opened_at)]
        if self.decided_at:
            decision = AskState.DENIED if self.state is AskState.DENIED else AskState.GRANTED
            changes.append((decision, self.decided_at))
        if self.state in (AskState.EXPIRED, AskState.CANCELLED):
            changes.append((self.state, self.closed_at))
        return changes


class AskReply(Struct, frozen=True, kw_only=True):
    """A reply to a question. `reply_id` makes the same reply sent again one reply.

    `ask_id` and `attempt` name the question that was shown; empty if the reply is to whichever is the oldest.
    """

    content: str
    by: str
    reply_id: str = ""
    ask_id: str = ""
    attempt: int = 0


def describe_wait(tool: str, reason: str) -> str:
    return f"{tool} waits for approval: {reason}"


def _show_first(ask: Ask) -> str:
    return f"Look at it first: `moot inbox show {shorten_ask_id(ask.id)}`. It is now at attempt {ask.attempt}."


def check_answerable(ask: Ask, reply: AskReply) -> Ask:
    """Return the open question. Raise if the reply was written for another one, or for another attempt of it."""
    if reply.ask_id and (ask.id, ask.attempt) != (reply.ask_id, reply.attempt):
        raise Conflict("another question is open by now; nothing was answered", fix=_show_first(ask))
    return ask


def approval_id(run_id: str, call_id: str) -> str:
    """Return the id of the approval of a call: the same call finds it again after a restart."""
    return f"ask-{run_id}-{call_id}"


def grant_id(run_id: str, tool: str) -> str:
    """Return the id of a grant: the same for the whole run, no matter how often it is requested."""
    return f"grant-{run_id}-{tool}"


def check_decidable(ask: Ask | None, ask_id: str, *, attempt: int, now: float) -> Ask:
    """Return the pending approval or grant. Raise if it was decided, has expired or is at another attempt."""
    if ask is None or ask.is_question:
        raise NotFound(f"there is no approval {ask_id}", fix=LIST_OPEN)
    if ask.state is not AskState.PENDING:
        raise Conflict(f"the approval {ask_id} is {ask.state} already", fix=LIST_OPEN)
    if ask.attempt != attempt:
        text = f"is at attempt {ask.attempt}, not {attempt}" if attempt else "needs the attempt that was shown"
        raise Conflict(f"the approval {ask_id} {text}; nothing was decided", fix=_show_first(ask))
    if now >= ask.expires_at:
        raise Conflict(f"the approval {ask_id} has expired", fix="Let the agent ask again.")
    return ask
