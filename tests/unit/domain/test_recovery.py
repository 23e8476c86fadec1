"""What becomes of a run that a daemon left, decided from its rows alone."""

import pytest
from msgspec.structs import replace

from moot.domain.message import ToolCall
from moot.domain.recovery import LeftRun, RecoveryAction, decide
from moot.domain.run import Outcome, Run, RunKind, RunRequest, RunStatus
from tests.unit.shelves import ADA, teammate_run

TURN = Run(
    request=RunRequest(id="run-1", key=ADA, speaker="ada", content="go"), status=RunStatus.RUNNING, created_at=1.0
)
MATE = replace(teammate_run(), status=RunStatus.RUNNING)
BACKGROUND = replace(teammate_run(parent="", kind=RunKind.BACKGROUND), status=RunStatus.RUNNING)
NARROW = replace(teammate_run(allowed_tools=()), status=RunStatus.RUNNING)
SPARED = replace(teammate_run(outlives=True), status=RunStatus.RUNNING)
WRITE, READ = ToolCall(id="c1", name="fs_write", arguments="{}"), ToolCall(id="c2", name="fs_read", arguments="{}")


def queued(run: Run) -> Run:
    return replace(run, status=RunStatus.QUEUED)


@pytest.mark.parametrize(
    ("left", "decision"),
    [
        # What has not begun waits again, whoever it is.
        (LeftRun(run=queued(TURN)), RecoveryAction.ENQUEUE),
        (LeftRun(run=queued(MATE)), RecoveryAction.ENQUEUE),
        (LeftRun(run=queued(BACKGROUND)), RecoveryAction.ENQUEUE),
        # A turn of a person's does not go on, unless they were asked, or it has spawned others.
        (LeftRun(run=TURN), RecoveryAction.INTERRUPT),
        (LeftRun(run=TURN, open_calls=(WRITE,)), RecoveryAction.INTERRUPT),
        (LeftRun(run=TURN, open_calls=(READ,)), RecoveryAction.INTERRUPT),
        (LeftRun(run=TURN, open_calls=(WRITE,), resumable={"c1"}), RecoveryAction.RESUME),
        (LeftRun(run=TURN, open_calls=(WRITE, READ), resumable={"c1"}), RecoveryAction.INTERRUPT),
        (LeftRun(run=TURN, has_teammates=True), RecoveryAction.RESUME),
        (LeftRun(run=TURN, has_teammates=True, open_calls=(READ,)), RecoveryAction.RESUME),
        (LeftRun(run=TURN, has_teammates=True, open_calls=(WRITE, READ)), RecoveryAction.INTERRUPT),
        (LeftRun(run=TURN, has_teammates=True, open_calls=(WRITE, READ), resumable={"c1"}), RecoveryAction.RESUME),
        # Others go on, unless nobody knows whether a call was made.
        (LeftRun(run=MATE), RecoveryAction.RESUME),
        (LeftRun(run=MATE, open_calls=(READ,)), RecoveryAction.RESUME),
        (LeftRun(run=MATE, open_calls=(WRITE,)), RecoveryAction.INTERRUPT),
        (LeftRun(run=MATE, open_calls=(WRITE,), resumable={"c1"}), RecoveryAction.RESUME),
        (LeftRun(run=NARROW, open_calls=(WRITE,)), RecoveryAction.RESUME),
        (LeftRun(run=BACKGROUND, open_calls=(WRITE,)), RecoveryAction.INTERRUPT),
        (LeftRun(run=BACKGROUND), RecoveryAction.RESUME),
        # What was stopped stays stopped, with all below it that was not spared.
        (LeftRun(run=MATE, parent_outcome=Outcome.CANCELLED), RecoveryAction.CANCEL),
        (LeftRun(run=queued(MATE), parent_outcome=Outcome.CANCELLED), RecoveryAction.CANCEL),
        (LeftRun(run=MATE, open_calls=(WRITE,), parent_outcome=Outcome.CANCELLED), RecoveryAction.CANCEL),
        (LeftRun(run=SPARED, parent_outcome=Outcome.CANCELLED), RecoveryAction.RESUME),
        (LeftRun(run=MATE, parent_outcome=Outcome.INTERRUPTED), RecoveryAction.RESUME),
    ],
)
def test_a_run_that_was_left_comes_to_what_its_rows_say(left: LeftRun, decision: RecoveryAction) -> None:
    assert decide(left, is_repeatable=lambda tool: tool == "fs_read") is decision
