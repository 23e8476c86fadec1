"""Watchers: callbacks for changes of workflow runs, by run id. Used by workflow_executor.py."""

from collections.abc import Callable


class Watchers:
    def __init__(self) -> None:
        self._notices: dict[str, list[Callable[[], None]]] = {}

    def watch(self, item_id: str, notice: Callable[[], None]) -> Callable[[], None]:
        """Call `notice` whenever the item may have changed; the returned function ends that."""
        self._notices.setdefault(item_id, []).append(notice)

        def leave() -> None:
            self._notices[item_id].remove(notice)
            if not self._notices[item_id]:
                del self._notices[item_id]

        return leave

    def notify(self, item_id: str) -> None:
        for notice in tuple(self._notices.get(item_id, ())):
            notice()
