"""Errors of the client, and the mapping of wire errors to the error classes. Imports little."""

from typing import TYPE_CHECKING

from moot.domain.errors import (
    BadRequest,
    Busy,
    ConfigError,
    Conflict,
    Forbidden,
    ModelError,
    MootError,
    NotFound,
    StoreError,
    TooLarge,
    Unauthorized,
    Unavailable,
)

if TYPE_CHECKING:
    from moot.client.values import Approval, Question, Reply


class Unreachable(Unavailable):
    """Nobody answers at the daemon's address, or whoever did is gone."""

    type = "unreachable"


class TimedOut(MootError):
    """The wait is over, what was waited for is not."""

    type = "timed_out"


class WaitingForPerson(MootError):
    """The run waits for a person, and nobody here answers. It goes on waiting; `ask` is what it waits for."""

    type = "waiting"
    ask: "Question | Approval | None" = None


class RunFailed(MootError):
    """A run that did not complete; `type` is its outcome, and `reply` has what it said."""

    reply: "Reply | None" = None


_CLASSES: tuple[type[MootError], ...] = (
    BadRequest,
    TooLarge,
    Unauthorized,
    Forbidden,
    NotFound,
    Conflict,
    Busy,
    Unavailable,
    ConfigError,
    ModelError,
    StoreError,
)
_BY_TYPE = {each.type: each for each in _CLASSES}
_BY_CODE = {each.code: each for each in _CLASSES if each is not ConfigError}


def error_from_wire(code: int, type_: str, message: str, fix: str) -> MootError:
    """The error the daemon raised; a type this version does not know keeps its name and is classed by code."""
    known = _BY_TYPE.get(type_) or _BY_CODE.get(code) or MootError
    error = known(message, fix=fix)
    if type_:
        error.type = type_
    return error
