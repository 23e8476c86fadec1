"""Records what clients did and were told; the store is compared with it after a crash."""

from dataclasses import dataclass, field

from moot.domain.errors import MootError
from tests.talking import Speech

# Agents whose file is sometimes taken away: a message that waits for one can only be given up, with an outcome.
VANISHING = "temp"


@dataclass(slots=True, kw_only=True)
class Sent:
    """One message and every acknowledgement that came for it. Contents are unique, so a message can be found."""

    agent: str
    sender: str
    content: str
    order: int
    guest: str = ""
    message_id: str = ""
    attempts: int = 0
    queued: bool = False
    seqs: set[int] = field(default_factory=set)
    outcome: str = ""
    text: str = ""
    refusal: str = ""
    unanswered: bool = False
    # Whether it was withdrawn: None while nobody knows.
    withdrawn: bool | None = False

    @property
    def key(self) -> tuple[str, str]:
        return self.agent, self.sender

    def note(self, speech: Speech) -> None:
        """Take down what a stream said, however far it came."""
        self.queued = self.queued or bool(speech.of("queued"))
        self.seqs.update(start.user_seq for start in speech.of("start"))
        for end in speech.of("end"):
            self.outcome, self.text = end.outcome, speech.text
        self.unanswered = not speech.of("end")
        if speech.error is not None and not lost(speech.error):
            self.refusal, self.unanswered = speech.error.type, False


@dataclass(slots=True)
class Ledger:
    sent: list[Sent] = field(default_factory=list)
    # Conversations by import or deletion: True once acknowledged, None while nobody knows.
    imported: dict[tuple[str, str], tuple[int, bool | None]] = field(default_factory=dict)
    deleted: dict[tuple[str, str], bool | None] = field(default_factory=dict)
    compacted: dict[tuple[str, str], int] = field(default_factory=dict)
    titled: set[tuple[str, str]] = field(default_factory=set)
    # The working directories a conversation may have: the one that was acknowledged, and those nobody knows about.
    directories: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    surprises: list[str] = field(default_factory=list)
    counter: int = 0

    def new(self, agent: str, sender: str, text: str, *, guest: str = "", message_id: str = "") -> Sent:
        self.counter += 1
        sent = Sent(
            agent=agent,
            sender=sender,
            content=f"{text} #{self.counter}.",
            order=self.counter,
            guest=guest,
            message_id=message_id,
        )
        self.sent.append(sent)
        return sent

    @property
    def acknowledged(self) -> int:
        return sum(1 for sent in self.sent if sent.seqs or sent.queued)


def lost(error: MootError) -> bool:
    """True for a connection that went away, which says nothing of what became of the request."""
    return error.type == "unreachable"
