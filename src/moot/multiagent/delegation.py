"""How far delegation may go: how deep, to whom, and how often in one turn. Counted here, not asked of a model."""

from moot.domain.errors import BadRequest
from moot.domain.ports import RunContext


def check_chain(agent: str, chain: tuple[str, ...], *, most: int) -> None:
    """Refuse a spawn too deep, of the spawning agent itself, or of one that is at work above it."""
    if len(chain) > most:
        raise BadRequest(
            f"teammates are spawned {most} deep at most, and this would be {len(chain)} deep",
            fix="Do it yourself, or hand back what is left to do.",
        )
    if agent == chain[-1]:
        raise BadRequest(f"{agent} cannot spawn itself", fix="Do it yourself, or spawn another agent.")
    if agent in chain:
        raise BadRequest(f"{agent} is already at work above this run ({' → '.join(chain)})", fix="Spawn another agent.")


class Rounds:
    """Steps that spawn, over the whole tree of a turn."""

    def __init__(self) -> None:
        self._seen: dict[str, set[tuple[str, int]]] = {}

    def count(self, origin: str, context: RunContext, *, most: int) -> None:
        rounds = self._seen.setdefault(origin, set())
        here = (context.run_id, context.step)
        if here not in rounds and len(rounds) >= most:
            raise BadRequest(
                f"this turn has delegated {most} times, which is all it may", fix="Answer with what you have."
            )
        rounds.add(here)

    def forget(self, origin: str) -> None:
        self._seen.pop(origin, None)
