"""TargetLookups: finds the goals that mail is for, in one read for all who look at the same moment. Used by mail.py.

Whoever sends looks up its goals first, and many may send at once; a read of its own for each would cost more than the
rows it reads.
"""

import asyncio
from collections.abc import Callable, Sequence

import apsw

from moot.domain.goal import MailTarget
from moot.domain.token import Token
from moot.store.sqlite import SqliteStore
from moot.store.tokens import list_tokens

Found = tuple[dict[str, MailTarget], list[Token]]
FindTargets = Callable[[apsw.Connection, Sequence[str]], dict[str, MailTarget]]


class TargetLookups:
    def __init__(self, store: SqliteStore, find_targets: FindTargets) -> None:
        self._store = store
        self._find_targets = find_targets
        self._loop = asyncio.get_running_loop()
        # Who looks, and for what; a read for them begins with the next step of the event loop.
        self._waiting: list[tuple[Sequence[str], asyncio.Future[Found]]] = []

    def find(self, goal_ids: Sequence[str]) -> asyncio.Future[Found]:
        future: asyncio.Future[Found] = self._loop.create_future()
        self._waiting.append((goal_ids, future))
        if len(self._waiting) == 1:
            self._loop.call_soon(self._begin)
        return future

    def _begin(self) -> None:
        waiting, self._waiting = self._waiting, []
        goal_ids = list(dict.fromkeys(each for wanted, _ in waiting for each in wanted))
        try:
            read = self._store.post_read(lambda db: (self._find_targets(db, goal_ids), list_tokens(db)))
        except Exception as error:  # noqa: BLE001 - all who wait hear of it
            for _, future in waiting:
                _settle(future, error, None)
            return
        read.add_done_callback(lambda done: _pass_on(done, waiting))


def _pass_on(done: asyncio.Future[Found], waiting: Sequence[tuple[Sequence[str], asyncio.Future[Found]]]) -> None:
    """Give each who waits what it looked for."""
    error = done.exception()
    targets, tokens = ({}, []) if error is not None else done.result()
    for wanted, future in waiting:
        _settle(future, error, ({each: targets[each] for each in wanted if each in targets}, tokens))


def _settle(future: asyncio.Future[Found], error: BaseException | None, found: Found | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    elif found is not None:
        future.set_result(found)
