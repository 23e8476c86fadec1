"""The options of `ask`, `stream` and `start_run`, and the types of their callbacks. Used by both clients."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Literal, TypedDict

from msgspec import Struct

from moot.client.values import Approval, Limits, Question


class Denial(Struct, frozen=True):
    """The decision `deny` with a reason, which the model reads."""

    reason: str = ""


# `once` is for this call only; `run`, `conversation` and `always` also write the rule that the approval shows.
Decision = Literal["once", "run", "conversation", "always", "deny"]
# True is `once`, False is `deny`; None leaves it to somebody else. A Denial has a reason, which the model reads.
Verdict = Decision | bool | Denial | None
# One text, or one for each question of the ask; None leaves it to somebody else.
Answer = str | Sequence[str] | None

OnApproval = Callable[[Approval], Verdict]
OnQuestion = Callable[[Question], Answer]
AsyncOnApproval = Callable[[Approval], Verdict | Awaitable[Verdict]]
AsyncOnQuestion = Callable[[Question], Answer | Awaitable[Answer]]


class TurnOptions(TypedDict, total=False):
    """Options of one turn.

    sender: who speaks; default: the client's own sender.
    guest: the agent that answers this turn in place of the conversation's own.
    cwd: the working directory of the run (owner only); default: the one of this process, if the daemon is local, else
      that of the conversation. A local daemon is also told the PATH of this process, for the commands of the run.
    limits: what the run may use.
    message_id: the same id in the same conversation is one turn, however often it is sent.
    steer: show the message to the active run of the conversation at its next step, if there is one; not with limits.
    detach: leave the run going when the caller is interrupted or cancelled; default: the run is stopped.
    """

    sender: str
    guest: str
    cwd: str
    limits: Limits
    message_id: str
    steer: bool
    detach: bool


class AskOptions(TurnOptions, total=False):
    """Options of one turn, with callbacks that take the place of the client's."""

    on_approval: OnApproval
    on_question: OnQuestion


class AsyncAskOptions(TurnOptions, total=False):
    """Options of one turn, with callbacks that take the place of the client's. They may be coroutine functions."""

    on_approval: AsyncOnApproval
    on_question: AsyncOnQuestion


class RunOptions(TypedDict, total=False):
    """Options of a background run. `tools` are names or patterns; another tool of the agent needs an approval first."""

    sender: str
    cwd: str
    tools: Sequence[str]
    limits: Limits
    message_id: str


def check_options(options: Mapping[str, object], known: Collection[str]) -> None:
    """Raise TypeError for options that do not exist: `limit=` for `limits=` would be a run without limits."""
    if unknown := options.keys() - known:
        names = ", ".join(map(repr, sorted(unknown)))
        raise TypeError(f"unknown keyword arguments: {names}; known are: {', '.join(sorted(known))}")
