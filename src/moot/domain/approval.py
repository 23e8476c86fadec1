"""A tool call that waits for its owner: what exactly is asked, and what was decided. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256

from moot.domain.conversation import ConversationKey
from moot.domain.senders import owner_of

# Tools whose calls are a command: a rule can be about the command in its folder. Of others it is about the arguments.
COMMANDS = ("exec", "exec_bg")

# What fits on a screen and in an event. The arguments are kept whole, and `moot inbox show` shows them.
LINE = 300
_REASON = 2_000
_SUBJECT = 2_000
_PREVIEW = 200_000


class AskState(StrEnum):
    PENDING = "pending"
    GRANTED = "granted"
    USED = "used"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Decision(StrEnum):
    ONCE = "once"
    RUN = "run"
    ALWAYS = "always"
    DENY = "deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What a call acts on beside its arguments, as it was when a person looked at it.

    `what` are words for something every rule about the tool is tied to (a script as it is, the sandbox), `place` is
    where it really acts (a path after its links), `seen` the state of that at this moment.
    """

    what: str = ""
    place: str = ""
    seen: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Calls that need no asking. An empty run is every run; `pattern` says in words what `bound` is the digest of."""

    agent: str
    sender: str
    tool: str
    pattern: str
    bound: str
    run: str = ""
    number: int = 0
    created_at: float = 0.0
    created_by: str = ""

    def allows(self, approval: "Approval", *, exactly: bool = False) -> bool:
        """Whether it says yes; `exactly` counts only a rule that was written for this very call."""
        bounds = (approval.exact,) if exactly else (approval.exact, approval.whole)
        return (
            (self.agent, self.sender) == (approval.key.agent, owner_of(approval.key.sender))
            and self.tool == approval.tool
            and self.run in ("", approval.run_id)
            and self.bound != ""
            and self.bound in bounds
        )

    def __str__(self) -> str:
        where = f"in run {self.run}" if self.run else f"for {self.agent} with {self.sender}"
        return f"allow {self.pattern} {where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """One call, bound to its run, its tool and its exact arguments. It can be used once."""

    id: str
    key: ConversationKey
    run_id: str
    call_id: str
    speaker: str
    tool: str
    arguments: str
    # What "always" would be about, in words: a command in its folder, or exactly these arguments.
    subject: str
    line: str
    preview: str
    reason: str
    # Of the exact arguments and all that was shown with them. Where `arguments` masks some it is keyed, so that nobody
    # finds them by guessing.
    digest: str = ""
    # What a rule for this very call is bound to; nothing where none can be made.
    exact: str = ""
    # What the call acts on. Only its words are kept; the digest holds the rest.
    binding: Binding = field(default_factory=Binding)
    # The exact arguments, sealed, where some are masked; gone once the approval is not open any more.
    sealed: bytes = field(default=b"", repr=False)
    attempt: int = 1
    state: AskState = AskState.PENDING
    opened_at: float = 0.0
    expires_at: float = 0.0

    @property
    def whole(self) -> str:
        """What a rule for any call of the tool is bound to."""
        return digest("any", self.tool, self.binding.what)

    def rule(self, decision: Decision, *, whole: bool = False) -> Rule | None:
        """The rule a decision writes beside deciding, if any; `whole` makes it one for any call of the tool."""
        bound = self.whole if whole else self.exact
        if decision not in (Decision.RUN, Decision.ALWAYS) or not bound:
            return None
        what = f", {self.binding.what}" if self.binding.what else ""
        return Rule(
            agent=self.key.agent,
            # A background run has a sender of its own, which would never come again.
            sender=owner_of(self.key.sender),
            tool=self.tool,
            pattern=f"any {self.tool}{what}" if whole else f"{self.tool}: {self.subject}",
            bound=bound,
            run=self.run_id if decision is Decision.RUN else "",
        )

    def rule_words(self, *, whole: bool = False) -> str:
        """The rule that "always" would write, as it would be listed; nothing where none can be."""
        return str(self.rule(Decision.ALWAYS, whole=whole) or "")


def digest(*parts: str) -> str:
    """Of texts none of which can pass for a part of another."""
    return sha256("".join(f"{len(part)}:{part}" for part in parts).encode("utf-8", "surrogatepass")).hexdigest()


def fit(approval: Approval, redact: Callable[[str], str]) -> Approval:
    """The approval as it may be kept and shown: without secrets, and where it is cut it says so.

    Secrets go first: a cut in the middle of one would leave half of it.
    """

    def shown(text: str, most: int) -> str:
        return cut(redact(text), most, approval.id)

    return replace(
        approval,
        arguments=redact(approval.arguments),
        subject=redact(approval.subject) if approval.tool in COMMANDS else shown(approval.subject, _SUBJECT),
        line=shown(approval.line, LINE),
        preview=shown(approval.preview, _PREVIEW),
        reason=shown(approval.reason, _REASON),
    )


def cut(text: str, most: int, ask_id: str) -> str:
    """The text; a long one ends with how much is missing and where all of it is."""
    more = len(text) - most
    return text if more <= 0 else f"{text[:most]} … {more} more characters: moot inbox show {ask_id}"
