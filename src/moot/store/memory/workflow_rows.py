"""Rows of workflow runs, of the attempts at their steps and of the reports they owe. Used by database.py."""

from msgspec import Struct

from moot.domain.workflow import StepAttempt, WorkflowReport, WorkflowRun


class WorkflowRow(Struct, frozen=True, kw_only=True):
    run: WorkflowRun
    node: int


class AttemptRow(Struct, frozen=True, kw_only=True):
    number: int
    workflow: str
    attempt: StepAttempt


class WorkflowReportRow(Struct, frozen=True, kw_only=True):
    workflow: str
    report: WorkflowReport
