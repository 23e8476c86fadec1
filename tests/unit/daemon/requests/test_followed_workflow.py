"""How often a run of a workflow is read for a client that follows it: the more steps, the less often."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from moot.automation.active_workflow import ActiveWorkflow
from moot.automation.watchers import Watchers
from moot.daemon.clock import ManualClock
from moot.daemon.principal import Principal
from moot.daemon.requests.workflows import WorkflowRequestDependencies, WorkflowRequests
from moot.domain.workflow import Progress, StepState, Workflow, WorkflowRun, WorkflowStatus, WorkflowStep
from moot.domain.workflow_view import StepView, WorkflowView
from moot.wire import moot_pb2 as pb

OWNER = Principal(name="owner", default_sender="user", is_owner=True)
RUN = WorkflowRun(id="wf-1", name="big", source="", owner="user", created_at=1.0)


class Executing:
    """The executor and the stored run as the handler uses them."""

    def __init__(self, steps: int) -> None:
        self.watchers = Watchers()
        self.run = RUN
        self.reads = self.changes = 0
        self._steps = tuple(WorkflowStep(id=f"s{number}", prompt="x") for number in range(steps))
        self._active = ActiveWorkflow(RUN, Progress(Workflow(name="big", steps=self._steps)))

    def find_active(self, run_id: str) -> ActiveWorkflow | None:
        return None if self.run.ended_at else self._active

    async def get(self, run_id: str) -> WorkflowRun:
        return self.run

    async def view(self, run: WorkflowRun) -> WorkflowView:
        self.reads += 1
        views = [StepView(step=step, state=StepState.PENDING, attempts=self.changes) for step in self._steps]
        return WorkflowView(run=run, steps=tuple(views))

    def change(self) -> None:
        self.changes += 1
        self.watchers.notify("wf-1")


class Answers:
    """A Reply that keeps what is sent."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.sent: list[pb.WorkflowRunInfo] = []

    def send(self, message: pb.ServerMessage) -> None:
        self.sent.append(message.workflow_run)

    def on_close(self, callback: Callable[[], None]) -> None:
        return


class Following:
    """A client that asks for the run again whenever it is told of a change."""

    def __init__(self, steps: int) -> None:
        self.clock = ManualClock()
        self.executing, self.answers = Executing(steps), Answers()
        parts: Any = {"executor": self.executing, "workflows": self.executing, "clock": self.clock}
        unused: Any = dict.fromkeys(("library", "jobs", "requests"))
        self._requests = WorkflowRequests(WorkflowRequestDependencies(**parts, **unused))

    async def follow(self) -> None:
        reply: Any = self.answers
        seen = ""
        while not (self.answers.sent and self.answers.sent[-1].ended_at):
            message = pb.ClientMessage(get_workflow_run=pb.GetWorkflowRunMsg(run_id="wf-1", seconds=600, seen=seen))
            await self._requests.get_workflow_run(message, OWNER, reply)
            seen = self.answers.sent[-1].version

    async def work(self, seconds: int) -> None:
        """Ten times a second something changes."""
        for _ in range(seconds * 10):
            self.executing.change()
            await self.clock.advance(0.1)


@pytest.mark.parametrize(("steps", "most"), [(10, 200), (1_000, 20)])
async def test_a_long_workflow_is_read_less_often(steps: int, most: int) -> None:
    following = Following(steps)
    task = asyncio.create_task(following.follow())
    await following.work(10)
    assert most / 4 <= following.executing.reads <= most
    following.executing.run = replace(RUN, ended_at=2.0, status=WorkflowStatus.COMPLETED)
    following.executing.change()
    await following.clock.advance(0.2)
    # The end is told at once.
    await task
    assert following.answers.sent[-1].status == "completed"
