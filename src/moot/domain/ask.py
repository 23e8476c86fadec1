"""Ask: a run that waits for a person, with what it asks and how that stands. Works with approval (rules) and events."""

from enum import StrEnum

from msgspec import Struct

from moot.domain.conversation import ConversationKey


class AskKind(StrEnum):
    """A question is answered in words; an approval decides about one call; a grant gives a run one more tool."""

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
    """Who asks, where that is a run that a person does not sit before: a teammate, or work in the background."""

    agent: str
    run_id: str
    # Why it was set to work, and on what.
    spawn_reason: str = ""
    task: str = ""


class Binding(Struct, frozen=True, kw_only=True):
    """What a call acts on beside its arguments, as it was when a person looked at it.

    `what` are words for something every rule about the tool is tied to (a script as it is, the sandbox), `place` is
    where it really acts (a path after its links), `seen` the state of that at this moment.
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
    # The tool whose call asks, or is asked about.
    tool: str
    questions: tuple[Question, ...] = ()
    answer: str = ""
    # The arguments of the call that is asked about, as they are shown.
    arguments: str = ""
    # What "always" would be about, in words: a command in its folder, or exactly these arguments.
    subject: str = ""
    line: str = ""
    preview: str = ""
    reason: str = ""
    # Of the exact arguments and all that was shown with them. Where `arguments` masks some it is keyed, so that nobody
    # finds them by guessing.
    digest: str = ""
    # What a rule for this very call is bound to; nothing where none can be made, NO_RULE where none may be at all.
    exact: str = ""
    # What the call acts on. Only its words are kept; the digest holds the rest.
    binding: Binding = Binding()
    # The exact arguments, sealed, where some are masked; removed once the ask is closed.
    sealed: bytes = b""
    # Whether the call can be made after a restart: it has not begun, or a second time does no harm.
    is_resumable: bool = True
    attempt: int = 1
    # The attempts up to the last decision on it.
    decided_attempts: int = 0
    state: AskState = AskState.PENDING
    opened_at: float = 0.0
    expires_at: float = 0.0

    def __repr__(self) -> str:
        # No log may show the answer or the sealed arguments.
        return f"Ask(id={self.id!r}, kind={self.kind!r}, run_id={self.run_id!r}, state={self.state!r})"

    @property
    def is_question(self) -> bool:
        return self.kind is AskKind.QUESTION

    @property
    def attempts_since_decision(self) -> int:
        return self.attempt - self.decided_attempts

    def is_stale(self, now: float) -> bool:
        """Whether it was granted and not used in its time: the daemon was away, and much may have changed."""
        return self.state is AskState.GRANTED and now > self.expires_at

    @property
    def waits_for(self) -> str:
        """What the run waits for, in one sentence for a person."""
        if self.is_question:
            return "a question to the person is open"
        return f"{self.tool} waits for approval: {self.reason}"


def grant_id(run_id: str, tool: str) -> str:
    """The id of a grant: the same for as long as the run lives, however often it is requested."""
    return f"grant-{run_id}-{tool}"
