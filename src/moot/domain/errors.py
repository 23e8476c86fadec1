"""The errors a caller can act on. Each has a wire code and says how to fix the cause.

MootError
├── BadRequest       400  the request is invalid
│   └── TooLarge     413  the request is too large
├── Unauthorized     401  the token is missing or invalid
├── Forbidden        403  the caller has no permission
├── NotFound         404  no such agent, guest, archive …
├── Conflict         409  the state has changed, or does not allow it
├── Busy             429  try again later
├── Unavailable      503  something required is missing or disabled
├── ConfigError      503  a user's file is invalid
├── ModelError       502  the model failed or gave an invalid answer
└── StoreError       507  the write failed; nothing was acknowledged
    └── Fenced       507  another daemon has taken over the conversation
"""

from typing import Self


class MootError(Exception):
    code = 500
    type = "internal_error"
    # Whether the text is known to contain nothing from outside. By default it may contain untrusted text.
    is_untainted = False
    # The sources of untrusted text that the error tells about, besides that of the tool which raises it.
    taint: frozenset[str] = frozenset()

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def mark_untainted(self) -> Self:
        """Mark the error as raised before anything external has answered, and return it."""
        self.is_untainted = True
        return self

    def with_taint(self, taint: frozenset[str]) -> Self:
        """Add sources of untrusted text that the error tells about, and return it."""
        self.taint |= taint
        return self

    @property
    def sentence(self) -> str:
        """What is wrong and what to do, in one line for a person or a model."""
        return f"{self.message.rstrip('.')}. {self.fix}" if self.fix else self.message


class BadRequest(MootError):
    code = 400
    type = "bad_request"


class TooLarge(BadRequest):
    code = 413
    type = "too_large"


class Unauthorized(MootError):
    code = 401
    type = "unauthorized"


class Forbidden(MootError):
    code = 403
    type = "forbidden"


class NotFound(MootError):
    code = 404
    type = "not_found"


class Conflict(MootError):
    code = 409
    type = "conflict"


class Busy(MootError):
    code = 429
    type = "busy"


class Unavailable(MootError):
    code = 503
    type = "unavailable"


class ConfigError(MootError):
    code = 503
    type = "bad_config"


class ModelError(MootError):
    """A failed model call. `retryable` marks a temporary failure; `after` is the wait the server asks for.

    `is_too_long` is for a request that does not fit the context window; `window` is its size if the server names it.
    """

    code = 502
    type = "model_error"

    def __init__(self, message: str, *, fix: str = "", retryable: bool = False, after: float | None = None) -> None:
        super().__init__(message, fix=fix)
        self.retryable = retryable
        self.after = after
        self.is_too_long = False
        self.window = 0


class StoreError(MootError):
    code = 507
    type = "store_error"


class Fenced(StoreError):
    """A write under an outdated epoch: another daemon has taken over the conversation."""
