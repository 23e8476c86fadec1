"""The ledger of blocked teammates: its entries, and the block of a run after replaying them. Pure."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from moot.domain.run_view import Block, Condition, GrantState


class LedgerType(StrEnum):
    BLOCKED = "teammate_approval_blocked"
    UNBLOCKED = "teammate_approval_unblocked"


class LedgerEntry(Struct, frozen=True, kw_only=True):
    """A change of what blocks a run. Derived from its asks; `change` is the index of the change of an ask."""

    seq: int
    type: LedgerType
    at: float
    payload: Mapping[str, Any]
    change: int = 0


def block_payload(block: Block) -> dict[str, Any]:
    """Return a block as the payload of a ledger entry."""
    return {
        "runtime_condition": str(block.condition),
        "blocked_reason": block.reason,
        "grant_request_id": block.request_id,
        "grant_attempt": block.attempt,
        "grant_state": str(block.state),
    }


def replay(entries: Iterable[LedgerEntry], start: Block | None = None) -> Block:
    """Return the block of a run after these entries, in order; `start` is the block before them."""
    block = start or Block()
    for entry in entries:
        block = _block(entry.payload) if entry.type is LedgerType.BLOCKED else Block()
    return block


def _block(payload: Mapping[str, Any]) -> Block:
    return Block(
        condition=Condition(payload.get("runtime_condition", "")),
        reason=payload.get("blocked_reason", ""),
        request_id=payload.get("grant_request_id", ""),
        attempt=payload.get("grant_attempt", 0),
        state=GrantState(payload.get("grant_state", "")),
    )
