"""A tool call that waits for its owner: what exactly is asked, and what was decided. Pure."""

from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256

from moot.domain.agent_run import owner_of
from moot.domain.conversation import ConversationKey


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
class Rule:
    """Calls that need no asking. An empty run is every run; `pattern` is the exact subject, or * for any."""

    agent: str
    sender: str
    tool: str
    pattern: str
    run: str = ""
    number: int = 0
    created_at: float = 0.0
    created_by: str = ""

    def allows(self, approval: "Approval", *, exactly: bool = False) -> bool:
        """Whether it says yes; `exactly` counts only a rule that was written for this very subject."""
        named = approval.subject != "" and self.pattern == approval.subject
        return (
            (self.agent, self.sender) == (approval.key.agent, owner_of(approval.key.sender))
            and self.tool == approval.tool
            and self.run in ("", approval.run_id)
            and (named or (self.pattern == "*" and not exactly))
        )

    def __str__(self) -> str:
        what = f"any {self.tool}" if self.pattern == "*" else f"{self.tool}: {self.pattern}"
        where = f"in run {self.run}" if self.run else f"for {self.agent} with {self.sender}"
        return f"allow {what} {where}"


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
    # What "always" would be about: a command, or nothing in particular.
    subject: str
    line: str
    preview: str
    reason: str
    # Of the exact arguments. Where `arguments` masks some it is keyed, so that nobody finds them by guessing.
    digest: str = ""
    # The exact arguments, sealed, where some are masked; gone once the approval is not open any more.
    sealed: bytes = field(default=b"", repr=False)
    attempt: int = 1
    state: AskState = AskState.PENDING
    opened_at: float = 0.0
    expires_at: float = 0.0

    def rule(self, decision: Decision) -> Rule | None:
        """The rule a decision writes beside deciding, if any."""
        if decision not in (Decision.RUN, Decision.ALWAYS):
            return None
        return Rule(
            agent=self.key.agent,
            # A background run has a sender of its own, which would never come again.
            sender=owner_of(self.key.sender),
            tool=self.tool,
            pattern=self.subject or "*",
            run=self.run_id if decision is Decision.RUN else "",
        )


def digest(run_id: str, tool: str, arguments: str) -> str:
    return sha256("\x00".join((run_id, tool, arguments)).encode()).hexdigest()
