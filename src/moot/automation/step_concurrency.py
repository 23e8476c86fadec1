"""StepConcurrency: how many steps of workflows run at once, shared fairly: each workflow in turn starts one step."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from moot.domain.events import AskClosed, AskOpened, Event, RunBlocked, RunUnblocked


class WaitingWorkflow(Protocol):
    """A workflow that may have steps which are ready."""

    def can_start(self) -> bool: ...


class StepConcurrency:
    """Limits the steps that run. One that waits for a person does not count, so that another may run meanwhile."""

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._workflows: deque[WaitingWorkflow] = deque()
        self._running: set[str] = set()
        # What those that do not go on wait for.
        self._waiting: dict[str, set[str]] = {}

    def add(self, workflow: WaitingWorkflow) -> None:
        self._workflows.append(workflow)

    def remove(self, workflow: WaitingWorkflow) -> None:
        if workflow in self._workflows:
            self._workflows.remove(workflow)

    def start(self, run_id: str) -> None:
        self._running.add(run_id)

    def release(self, run_id: str) -> None:
        self._running.discard(run_id)
        self._waiting.pop(run_id, None)

    def note(self, event: Event) -> None:
        """Note that a run waits for a person or for others, or does no longer."""
        match event.body:
            case AskOpened(ask=ask):
                self._wait(ask.run_id, ask.id)
            case AskClosed(ask=ask):
                self._proceed(ask.run_id, ask.id)
            case RunBlocked(condition=condition):
                self._wait(event.source.run_id, str(condition))
            case RunUnblocked(condition=condition):
                self._proceed(event.source.run_id, str(condition))
            case _:
                pass

    def _wait(self, run_id: str, reason: str) -> None:
        if run_id in self._running:
            self._waiting.setdefault(run_id, set()).add(reason)

    def _proceed(self, run_id: str, reason: str) -> None:
        reasons = self._waiting.get(run_id, set())
        reasons.discard(reason)
        if not reasons:
            self._waiting.pop(run_id, None)

    def is_waiting(self, run_id: str) -> bool:
        return run_id in self._waiting

    def count_working(self) -> int:
        return len(self._running) - len(self._waiting)

    def find_next(self) -> WaitingWorkflow | None:
        """Return the workflow whose turn it is, if a place is free; it is then the last in turn."""
        if self.count_working() >= self._most():
            return None
        for _ in range(len(self._workflows)):
            workflow = self._workflows[0]
            self._workflows.rotate(-1)
            if workflow.can_start():
                return workflow
        return None
