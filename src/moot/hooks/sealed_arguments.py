"""Stores the exact arguments of a call that waits for approval, sealed with the vault."""

import logging
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from moot.domain.ask import Ask
from moot.domain.errors import MootError, NotFound, Unavailable
from moot.domain.ports.secrets import SealerSource

logger = logging.getLogger(__name__)

_AGAIN = "Make the call again with the value."


class OpenAsks(Protocol):
    def find_open_call(self, run_id: str, call_id: str) -> Ask | None: ...
    async def cancel(self, ask: Ask) -> None: ...


class SealedArguments:
    """Seals and restores exact arguments.

    They are in memory while the daemon runs; the gate restores them after a restart.
    """

    def __init__(self, asks: OpenAsks, seals: SealerSource) -> None:
        self._asks = asks
        self._seals = seals

    async def seal(self, approval: Ask, arguments: dict[str, Any]) -> Ask:
        """Return the approval with the exact arguments sealed and bound to it."""
        exact, place = msgspec.json.encode(arguments, order="sorted"), _seal_context(approval)
        try:
            seal = await self._seals.seal()
        except MootError as error:
            # The ask is still opened, but the call cannot be executed after a restart.
            logger.warning("a secret argument of %s is not kept across a restart: %s", approval.tool, error.message)
            return replace(approval, exact="")
        return replace(
            approval,
            sealed=seal.close(exact, place=place),
            digest=seal.proof(_encode(exact, approval.digest), place=place),
            # A rule outlives the run, so its digest is keyed and covers the secret value too.
            exact=seal.proof(_encode(exact, approval.exact), place=f"rule\0{approval.tool}"),
        )

    async def restore(self, run_id: str, call_id: str) -> str:
        """Return the exact arguments of a call with an open ask; raise MootError with a message for the model."""
        approval = self._asks.find_open_call(run_id, call_id)
        if approval is None:
            raise NotFound("a secret argument of this call is replaced by [SECRET]", fix=_AGAIN)
        try:
            return await self._unseal(approval)
        except MootError:
            # The call can no longer be executed, so its ask is cancelled.
            await self._asks.cancel(approval)
            raise

    async def _unseal(self, approval: Ask) -> str:
        if not approval.sealed:
            raise NotFound(
                "the secret argument of this call was lost when the daemon stopped, because the vault was closed "
                "when the approval was requested",
                fix=_AGAIN,
            )
        try:
            return (await self._seals.seal()).open(approval.sealed, place=_seal_context(approval)).decode()
        except MootError as error:
            text = f"the secret argument of this call is sealed and the vault cannot be opened: {error.message}"
            raise Unavailable(text, fix=_AGAIN) from None
        except ValueError:
            text = "the secret argument of this call cannot be unsealed: it was changed, or sealed with another key"
            raise Unavailable(text, fix=_AGAIN) from None


def _encode(exact: bytes, digest: str) -> bytes:
    """Return the arguments together with the digest of what was shown with them."""
    return digest.encode() + b"\0" + exact


def _seal_context(approval: Ask) -> str:
    return "\0".join(("ask", approval.id, approval.run_id, approval.call_id, approval.tool))
