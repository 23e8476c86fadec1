"""A tool call that waits for its owner: what exactly is asked, and what was decided. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256

from moot.domain.conversation import ConversationKey
from moot.domain.senders import is_grant, owner_of

# Tools whose calls are a command: a rule can be about the command in its folder. Of others it is about the arguments.
COMMANDS = ("exec", "exec_bg")

# In the place of what a rule is bound to where none may be made: strangers' words are in sight, and then none holds.
NO_RULE = "none"

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
        return self._holds(approval, (approval.exact,) if exactly else (approval.exact, approval.whole))

    def grants(self, approval: "Approval") -> bool:
        """Whether it gives the tool to who asks for it. That approves no call."""
        return self._holds(approval, (approval.giving,))

    def _holds(self, approval: "Approval", bounds: tuple[str, ...]) -> bool:
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
    # What a rule for this very call is bound to; nothing where none can be made, NO_RULE where none may be at all.
    exact: str = ""
    # What the call acts on. Only its words are kept; the digest holds the rest.
    binding: Binding = field(default_factory=Binding)
    # The exact arguments, sealed, where some are masked; gone once the approval is not open any more.
    sealed: bytes = field(default=b"", repr=False)
    attempt: int = 1
    # The attempts before the last decision on it.
    settled: int = 0
    state: AskState = AskState.PENDING
    opened_at: float = 0.0
    expires_at: float = 0.0

    @property
    def asked(self) -> int:
        """How often it was asked since the last decision on it, or since ever."""
        return self.attempt - self.settled

    @property
    def whole(self) -> str:
        """What a rule for any call of the tool is bound to."""
        return digest("any", self.tool, self.binding.what)

    @property
    def is_once_only(self) -> bool:
        """Whether it is made once or not at all, because the run has seen strangers' words."""
        return self.exact == NO_RULE

    def is_stale(self, now: float) -> bool:
        """Whether it was granted and not used in its time: the daemon was away, and much may have changed."""
        return self.state is AskState.GRANTED and now > self.expires_at

    @property
    def giving(self) -> str:
        """What a rule is bound to that gives the tool to this agent wherever a run of it was not given it."""
        return digest("grant", self.speaker, self.tool, self.binding.what)

    def rules(self, decision: Decision, *, whole: bool = False) -> tuple[Rule, ...]:
        """The rules a decision writes beside deciding; `whole` makes the one about the call one for any of the tool.

        "Always" said to a grant writes another before it, which gives the tool. One for this run needs no rule.
        """
        if self.is_once_only:
            return ()
        run = self.run_id if decision is Decision.RUN else ""
        what = f", {self.binding.what}" if self.binding.what else ""
        written: list[Rule] = []
        if decision is Decision.ALWAYS and is_grant(self.id):
            written.append(self._rule(f"{self.speaker} to be given {self.tool}{what}", self.giving, run))
        if decision in (Decision.RUN, Decision.ALWAYS) and (bound := self.whole if whole else self.exact):
            pattern = f"any {self.tool}{what}" if whole else f"{self.tool}: {self.subject}"
            written.append(self._rule(pattern, bound, run))
        return tuple(written)

    def _rule(self, pattern: str, bound: str, run: str) -> Rule:
        # A background run has a sender of its own, which would never come again.
        sender = owner_of(self.key.sender)
        return Rule(agent=self.key.agent, sender=sender, tool=self.tool, pattern=pattern, bound=bound, run=run)

    def rule_words(self, decision: Decision = Decision.ALWAYS, *, whole: bool = False) -> str:
        """The rules that a decision would write, as they would be listed; nothing where none can be."""
        return "; and ".join(map(str, self.rules(decision, whole=whole)))


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
