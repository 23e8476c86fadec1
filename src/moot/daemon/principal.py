"""Principals: who sends a request, and which senders it may use."""

import hashlib
import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.errors import BadRequest, Busy, Forbidden, StoreError, Unauthorized
from moot.domain.ports.clock import Clock
from moot.domain.ports.store import Store
from moot.domain.senders import OWNER_SENDER, RESERVED_SENDERS, SenderSet, is_reserved, owner_of
from moot.domain.token import Token, list_sender_candidates
from moot.tools.threads import run_in_thread

TOKEN_PREFIX = "moot_"

_MAX_NAME = 200
_MAX_CACHED = 256
_TOUCH_SECONDS = 60.0
# The senders of a new token that are looked at for files.
_LOOKED_AT = 100
_FAILURES = 10
_FAILURE_SECONDS = 60.0


logger = logging.getLogger(__name__)


class Principal(Struct, frozen=True, kw_only=True):
    """The owner, or the holder of a token. `senders` are patterns; those of the owner match everything."""

    name: str
    default_sender: str
    senders: tuple[str, ...] = ()
    is_owner: bool = False
    # Whether it may decide approvals in the conversations it owns; the owner may in any case.
    may_approve: bool = False

    @property
    def owned(self) -> SenderSet:
        """Return the senders whose conversations the principal may see."""
        return SenderSet(is_everyone=self.is_owner, names=(self.default_sender,), patterns=self.senders)

    def owns(self, sender: str) -> bool:
        return self.owned.includes(sender)

    def sender(self, name: str) -> str:
        """Return the sender of a request; the default if empty. Raise Forbidden if the principal may not use it."""
        if not name:
            return self.default_sender
        check_sender(name)
        # A sender that is not reserved may always be used by the owner.
        if not self.is_owner and not self.owns(name):
            raise Forbidden(
                f"the token '{self.name}' may not speak as '{name}'",
                fix=f"Leave the sender out to be '{self.default_sender}', or ask the owner for a token with"
                f" that sender: `moot tokens new NAME --sender '{name}'`.",
            )
        return name

    def sender_or_run(self, name: str) -> str:
        """Return the sender for reading or answering; unlike `sender`, it may also be that of a background run."""
        return name if owner_of(name) != name and self.owns(name) else self.sender(name)

    def require_owner(self, what: str) -> None:
        if not self.is_owner:
            raise Forbidden(f"only the owner may {what}", fix="Do it on the machine itself, with the moot command.")

    def require_approver(self) -> None:
        if not (self.is_owner or self.may_approve):
            raise Forbidden(
                f"the token '{self.name}' may not decide what an agent may do on this machine",
                fix="Decide on the machine itself with `moot inbox`, or ask the owner for a token that may:"
                " `moot tokens new NAME --may-approve`.",
            )


OWNER = Principal(name="owner", default_sender=OWNER_SENDER, senders=("*",), is_owner=True)


def check_sender(sender: str) -> None:
    """Raise BadRequest for a sender that clients must not use."""
    if is_reserved(sender):
        raise BadRequest(
            f"the sender '{sender}' is reserved for the daemon",
            fix=f"Choose a sender that does not start with {', '.join(RESERVED_SENDERS)}.",
        )
    if len(sender) > _MAX_NAME or not sender.isprintable() or not sender.strip():
        raise BadRequest(
            "the sender is blank, too long, or contains unprintable characters",
            fix=f"Use at most {_MAX_NAME} printable characters.",
        )


class NewToken(Struct, frozen=True, kw_only=True):
    """A new token: `secret` is shown once, and only its digest is stored."""

    token: Token
    secret: str
    digest: str


def make_token(name: str, senders: tuple[str, ...], *, may_approve: bool = False, now: float) -> NewToken:
    check_token(name, senders)
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    token = Token(name=name, senders=senders, created_at=now, may_approve=may_approve)
    return NewToken(token=token, secret=secret, digest=token_digest(secret))


def check_token(name: str, senders: tuple[str, ...]) -> None:
    if not name or any(character.isspace() for character in name):
        raise BadRequest("a token needs a name without spaces", fix="Make one with `moot tokens new NAME`.")
    check_sender(name)
    if name in {OWNER.name, OWNER_SENDER}:
        raise BadRequest(
            f"'{name}' is the owner's own name",
            fix=f"Choose another name; to let it speak as you, add --sender {OWNER_SENDER}.",
        )
    for pattern in senders:
        if not pattern:
            raise BadRequest("a sender pattern is empty", fix="Use a sender or a pattern such as 'tg:*'.")
        check_sender(pattern)


def token_digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _unknown_token_error() -> Unauthorized:
    return Unauthorized("the token is unknown or was revoked", fix="Make one with `moot tokens new NAME`.")


class Principals:
    """Creates and revokes tokens, finds the principal of a token, and limits the rate of failed attempts.

    The only cache of the stored tokens: they are changed through it, and `invalidate` is called when another daemon has
    changed one. Tokens are looked up by digest, so the time of a lookup reveals nothing about the token.
    """

    def __init__(self, store: Store, clock: Clock, *, has_files: Callable[[str], bool] = lambda sender: False) -> None:
        """`has_files`: whether there are files that the holder of a token with a sender could read."""
        self._store = store
        self._has_files = has_files
        self._clock = clock
        self._known: dict[str, Principal] = {}
        self._touched: dict[str, float] = {}
        self._watchers: dict[str, set[Callable[[], None]]] = {}
        # The number of revocations so far, and the number of the last one for each name.
        self._revocations = 0
        self._last_revoked: dict[str, int] = {}
        self._failures = 0.0
        self._counted_at = clock.monotonic()

    async def find(self, secret: str) -> Principal:
        """Return the principal. Raise Unauthorized for an invalid token, Busy after too many of them from any address.

        A valid token is accepted even then, so that guessing locks nobody out. The result is valid when it is returned:
        a caller that calls `watch` before its next await misses no revocation.
        """
        digest = token_digest(secret)
        since = self._revocations
        principal = self._known.get(digest)
        if principal is None:
            principal = await self._look_up(digest, since)
        await self._touch(principal)
        self._check_not_revoked(principal.name, since)
        return principal

    def watch(self, principal: Principal, on_revoked: Callable[[], None]) -> Callable[[], None]:
        """Call `on_revoked` when the principal's token is revoked; return a function that ends the watch."""
        watchers = self._watchers.setdefault(principal.name, set())
        watchers.add(on_revoked)

        def unwatch() -> None:
            watchers.discard(on_revoked)
            if not watchers and self._watchers.get(principal.name) is watchers:
                del self._watchers[principal.name]

        return unwatch

    async def create(self, name: str, senders: tuple[str, ...], *, may_approve: bool = False) -> NewToken:
        made = make_token(name, senders, may_approve=may_approve, now=self._clock.now())
        candidates = islice(list_sender_candidates(name), _LOOKED_AT)
        taken = await run_in_thread(lambda: [each for each in candidates if self._has_files(each)])
        return replace(made, token=await self._store.add_token(made.token, made.digest, taken=taken))

    async def revoke(self, name: str) -> tuple[str, ...]:
        """Revoke a token; return the names of the scheduled jobs that this has paused."""
        paused = await self._store.revoke_token(name, now=self._clock.now())
        self.invalidate(name)
        return paused

    def invalidate(self, name: str) -> None:
        """Drop a token that was revoked in the store, and close its connections."""
        self._revocations += 1
        self._last_revoked[name] = self._revocations
        self._known = {digest: known for digest, known in self._known.items() if known.name != name}
        for on_revoked in tuple(self._watchers.pop(name, ())):
            on_revoked()

    async def _look_up(self, digest: str, since: int) -> Principal:
        self._reduce_failures()
        # Counted before the lookup, so that concurrent failures are all counted.
        counted = min(1.0, 2 * _FAILURES - self._failures)
        self._failures += counted
        too_many = self._failures > _FAILURES
        token = await self._store.find_token(digest)
        if token is None or token.revoked_at:
            if too_many:
                self._failures = max(0.0, self._failures - counted)
                raise Busy("too many wrong tokens", fix=f"Wait {_FAILURE_SECONDS:.0f} seconds, then use a valid token.")
            logger.warning("rejected a token: %s", f"'{token.name}' was revoked" if token else "it is unknown")
            raise _unknown_token_error()
        self._failures = max(0.0, self._failures - counted)
        # The store may have read the token before a revocation that is already known here.
        self._check_not_revoked(token.name, since)
        if len(self._known) >= _MAX_CACHED:
            self._known.clear()
        principal = Principal(
            name=token.name, default_sender=token.sender, senders=token.senders, may_approve=token.may_approve
        )
        self._known[digest] = principal
        return principal

    def _check_not_revoked(self, name: str, since: int) -> None:
        if self._last_revoked.get(name, 0) > since:
            raise _unknown_token_error()

    def _reduce_failures(self) -> None:
        now = self._clock.monotonic()
        forgiven = (now - self._counted_at) * _FAILURES / _FAILURE_SECONDS
        self._failures = max(0.0, self._failures - forgiven)
        self._counted_at = now

    async def _touch(self, principal: Principal) -> None:
        now = self._clock.monotonic()
        touched = self._touched.get(principal.name)
        if touched is not None and now - touched < _TOUCH_SECONDS:
            return
        self._touched[principal.name] = now
        # The time of last use is not essential: a full disk must not refuse a valid token.
        with suppress(StoreError):
            await self._store.touch_token(principal.name, now=self._clock.now())
