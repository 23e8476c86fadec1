"""Exit codes: maps errors and run outcomes to the codes of the documentation."""

from enum import IntEnum

from moot.client.errors import TimedOut, Unreachable, WaitingForPerson
from moot.domain.errors import (
    BadRequest,
    Busy,
    ConfigError,
    Forbidden,
    MootError,
    NotFound,
    Unauthorized,
    Unavailable,
)


class Exit(IntEnum):
    OK = 0
    RUN_FAILED = 1
    USAGE = 2
    WAITING = 3
    DENIED = 4
    LIMIT = 5
    NOT_FOUND = 6
    UNREACHABLE = 69
    RETRY_LATER = 75
    BAD_CONFIG = 78
    TIMED_OUT = 124
    INTERRUPTED = 130


MEANINGS: dict[Exit, str] = {
    Exit.OK: "it worked",
    Exit.RUN_FAILED: "the run, or the command, failed",
    Exit.USAGE: "the command line or the request is wrong",
    Exit.WAITING: "the run, one ahead of it or a teammate it left behind waits for a person, and there is no terminal",
    Exit.DENIED: "not allowed",
    Exit.LIMIT: "a limit on steps, time, tokens or spend ended the run",
    Exit.NOT_FOUND: "no such agent, conversation, run, archive or token",
    Exit.UNREACHABLE: "the daemon, or something it needs, is not available",
    Exit.RETRY_LATER: "busy; the same command may work in a moment",
    Exit.BAD_CONFIG: "a configuration or agent file is wrong",
    Exit.TIMED_OUT: "the wait timed out; the run is still active",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
}

# The first matching class wins, so subclasses come first.
_BY_ERROR: tuple[tuple[type[MootError], Exit], ...] = (
    (Unreachable, Exit.UNREACHABLE),
    (TimedOut, Exit.TIMED_OUT),
    (WaitingForPerson, Exit.WAITING),
    (BadRequest, Exit.USAGE),
    (Unauthorized, Exit.DENIED),
    (Forbidden, Exit.DENIED),
    (NotFound, Exit.NOT_FOUND),
    (Busy, Exit.RETRY_LATER),
    (Unavailable, Exit.UNREACHABLE),
    (ConfigError, Exit.BAD_CONFIG),
)

_BY_OUTCOME = {"completed": Exit.OK, "denied": Exit.DENIED, "limit": Exit.LIMIT}


def exit_for_error(error: MootError) -> Exit:
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), Exit.RUN_FAILED)


def exit_for_outcome(outcome: str, limit: str = "") -> Exit:
    if limit:
        # The time limit ends a run as `timeout`.
        return Exit.LIMIT
    return _BY_OUTCOME.get(outcome, Exit.RUN_FAILED)
