"""The tools of workflows: workflow_run, workflow_status, workflow_list, workflow_cancel, workflow_save."""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from moot.automation.owners import AgentChooser
from moot.automation.saved_workflows import SavedWorkflow, SavedWorkflows
from moot.automation.workflow_executor import WorkflowExecutor
from moot.automation.workflow_library import SaveOrder, WorkflowLibrary
from moot.automation.workflow_reach import WorkflowReach
from moot.automation.workflow_start import WorkflowStart, find_person_key, list_agents
from moot.domain.ask import Binding
from moot.domain.errors import BadRequest, Conflict, MootError, NotFound, TooLarge
from moot.domain.ports.tool import RunContext, Tool, ToolResult
from moot.domain.ports.workflows import Workflows
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.schedule import format_instant
from moot.domain.senders import SenderSet
from moot.domain.text import clean, defuse
from moot.domain.workflow import WorkflowRun
from moot.domain.workflow_file import check_name
from moot.domain.workflow_view import StepView, WorkflowView
from moot.domain.workflow_yaml import MAX_BYTES
from moot.multiagent.peers.mail_causes import MailCauses
from moot.tools.files.confined_paths import ConfinedFolder, translate_errors
from moot.tools.files.off_limits import OffLimits
from moot.tools.threads import run_in_thread

_GROUP = "workflows"
_DEFAULT_LISTED = 20
_MOST_LISTED = 200
_LOOKED_THROUGH = 1_000
_SHOWN_RESULT = 2_000
_SHOWN_RESULTS = 20_000
_RUN_ID = {"type": "string", "description": "The run_id that workflow_run returned."}
_FORM = (
    "name, steps: a list of {id, prompt, agent, depends_on: [ids], timeout: 10m, retry: {attempts, delay}, "
    'when: id.result contains "text"}; a prompt refers to an earlier result as {{id.result}}.'
)


def build_workflow_tools(
    *,
    executor: WorkflowExecutor,
    workflows: Workflows,
    library: WorkflowLibrary,
    chooser: AgentChooser,
    causes: MailCauses,
    off_limits: Callable[[], OffLimits],
) -> list[Tool]:
    reach = WorkflowReach(workflows, chooser)
    return [
        WorkflowRunTool(executor, library.saved, chooser, causes, off_limits),
        WorkflowStatusTool(executor, reach),
        WorkflowListTool(reach),
        WorkflowCancelTool(executor, reach),
        WorkflowSaveTool(executor, library, chooser),
    ]


class WorkflowRunTool:
    spec = ToolSpec(
        name="workflow_run",
        safety=Safety.MODERATE,
        group=_GROUP,
        deferred=True,
        # The same call starts one run, however often it is made.
        repeatable=True,
        description=(
            "Start a workflow: steps for agents, in parallel where their dependencies allow it. Returns its run_id at "
            f"once; the results come as a message when it has ended. The YAML: {_FORM}"
        ),
        parameters={
            "type": "object",
            "properties": {
                "file_path": {"type": "string", "description": "A saved name, or a .flow.yaml file of this folder."},
                "yaml_content": {"type": "string", "description": "The YAML itself, instead of a file."},
            },
            "additionalProperties": False,
        },
    )

    def __init__(
        self,
        executor: WorkflowExecutor,
        saved: SavedWorkflows,
        chooser: AgentChooser,
        causes: MailCauses,
        off_limits: Callable[[], OffLimits],
    ) -> None:
        self._executor = executor
        self._saved = saved
        self._chooser = chooser
        self._causes = causes
        self._off_limits = off_limits

    def line(self, arguments: dict[str, Any]) -> str:
        return f"run workflow {arguments.get('file_path') or 'given as text'}"

    async def check(self, arguments: dict[str, Any], context: RunContext) -> None:
        await self._chooser.check_no_step(context)
        text = await self._read(arguments, context)
        workflow = await self._executor.parse(text.source, file=text.name)
        self._chooser.check(context, list_agents(workflow))

    async def preview(self, arguments: dict[str, Any], context: RunContext) -> str:
        return (await self._read(arguments, context)).source

    async def bind(self, arguments: dict[str, Any], context: RunContext) -> Binding:
        """Return what the call would run: a file may change after it was approved."""
        try:
            text = await self._read(arguments, context)
        except MootError as error:
            return Binding(seen=f"it fails: {error.message}")
        return Binding(place=text.path, seen=hashlib.sha256(text.source.encode(errors="replace")).hexdigest())

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        await self._chooser.check_no_step(context)
        text = await self._read(arguments, context)
        if context.agreed is not None and await self.bind(arguments, context) != context.agreed:
            raise Conflict(f"{text.name} has changed since the call was approved", fix="Call workflow_run again.")
        workflow = await self._executor.parse(text.source, file=text.name)
        self._chooser.check(context, list_agents(workflow))
        origin = find_person_key(context.asks_in)
        run = await self._executor.start(
            WorkflowStart(
                source=text.source,
                file=text.name,
                owner=origin.sender,
                origin=origin,
                start_key=f"{context.run_id}/{context.call_id}",
                cwd=context.cwd,
                search_path=context.search_path,
                taint=context.taint | text.taint,
                cause=await self._causes.trace(context),
            )
        )
        message = f"The workflow {run.name} was started. Its results come as a message; workflow_status shows progress."
        return ToolResult(content=_encode({"run_id": run.id, "status": "running", "message": message}))

    async def _read(self, arguments: dict[str, Any], context: RunContext) -> SavedWorkflow:
        """Return the text of the workflow with the path of its file."""
        path, content = str(arguments.get("file_path") or ""), str(arguments.get("yaml_content") or "")
        if bool(path.strip()) == bool(content.strip()):
            raise BadRequest("either file_path or yaml_content is required", fix="Give one of them.")
        if content.strip():
            return SavedWorkflow(name="", path="", source=content)
        owner = find_person_key(context.asks_in).sender
        if path in await run_in_thread(self._saved.list_names, owner):
            return await run_in_thread(self._saved.load, owner, path)
        folder, name = os.path.split(path)
        if folder == str(self._saved.find_folder(owner)):
            return await run_in_thread(self._saved.load, owner, name)
        source = await run_in_thread(_read_file, path, context.cwd, self._off_limits())
        return SavedWorkflow(name=path, path=path, source=source)


def _read_file(path: str, cwd: str, off_limits: OffLimits) -> str:
    with ConfinedFolder(cwd, off_limits) as ground:
        spot = ground.spot(path)
        file, status = ground.open_file(spot)
        with translate_errors(spot.path), open(file, "rb", closefd=False) as reader:
            data = reader.read(MAX_BYTES + 1) if status.st_size <= MAX_BYTES else b""
    if status.st_size > MAX_BYTES or len(data) > MAX_BYTES:
        raise TooLarge(f"{path} is larger than {MAX_BYTES // 1024} KiB", fix="Split the workflow.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadRequest(f"{path} is not UTF-8 text") from None


class WorkflowStatusTool:
    spec = ToolSpec(
        name="workflow_status",
        safety=Safety.SAFE,
        group=_GROUP,
        deferred=True,
        repeatable=True,
        description="Show how far a workflow run is, and the results of its steps so far.",
        parameters={"type": "object", "properties": {"run_id": _RUN_ID}, "required": ["run_id"]},
        checks_arguments=True,
    )

    def __init__(self, executor: WorkflowExecutor, reach: WorkflowReach) -> None:
        self._executor = executor
        self._reach = reach

    def line(self, arguments: dict[str, Any]) -> str:
        return f"show workflow run {arguments.get('run_id', '')}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        run = await self._reach.require(_require(arguments, "run_id"), context)
        view = await self._executor.view(run)
        return ToolResult(content=defuse(_encode(_show(view))), taint=await self._executor.find_taint(run))


def _show(view: WorkflowView) -> dict[str, Any]:
    run = view.run
    data = {**_show_run(run), "total_steps": len(view.steps), "completed_steps": view.completed}
    room = _SHOWN_RESULTS
    steps: list[dict[str, Any]] = []
    for step in view.steps:
        shown = _show_step(step, min(room, _SHOWN_RESULT))
        room -= len(shown.get("result", ""))
        steps.append(shown)
    return {**data, "step_statuses": steps}


def _show_run(run: WorkflowRun) -> dict[str, Any]:
    data = {
        "run_id": run.id,
        "workflow_name": run.name,
        "status": str(run.status),
        "started_at": _time(run.created_at),
        "completed_at": _time(run.ended_at),
        "error": run.error,
    }
    return {key: value for key, value in data.items() if value}


def _show_step(view: StepView, most: int) -> dict[str, Any]:
    result = view.result if len(view.result) <= most else f"{view.result[:most]}…"
    data = {
        "step_id": view.step.id,
        "agent": view.step.agent,
        "status": str(view.state),
        "attempts": view.attempts if view.attempts > 1 else 0,
        "agent_run_id": view.run_id,
        "result": result,
        "error": view.error,
    }
    return {key: value for key, value in data.items() if value}


class WorkflowListTool:
    spec = ToolSpec(
        name="workflow_list",
        safety=Safety.SAFE,
        group=_GROUP,
        deferred=True,
        repeatable=True,
        description="List the last workflow runs, newest first.",
        parameters={
            "type": "object",
            "properties": {
                "limit": {"type": "integer", "description": f"How many at most; {_DEFAULT_LISTED} unless said."}
            },
        },
    )

    def __init__(self, reach: WorkflowReach) -> None:
        self._reach = reach

    def line(self, arguments: dict[str, Any]) -> str:
        return "list workflow runs"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        given = arguments.get("limit")
        limit = min(_DEFAULT_LISTED if given is None else int(given), _MOST_LISTED)
        if limit < 1:
            raise BadRequest("limit must be at least 1", fix=f"Leave it out for {_DEFAULT_LISTED}.")
        runs = await self._reach.list_runs(context, limit)
        # Names and errors are written by the runs that started or executed them.
        taint = frozenset[str]().union(*(run.taint for run in runs))
        shown = [{key: value for key, value in _show_run(run).items() if key != "error"} for run in runs]
        return ToolResult(content=defuse(_encode({"runs": shown, "count": len(shown)})), taint=taint)


class WorkflowCancelTool:
    spec = ToolSpec(
        name="workflow_cancel",
        safety=Safety.MODERATE,
        group=_GROUP,
        deferred=True,
        repeatable=True,
        description="Cancel a workflow run: steps that run are stopped, and no more are started.",
        parameters={"type": "object", "properties": {"run_id": _RUN_ID}, "required": ["run_id"]},
        checks_arguments=True,
    )

    def __init__(self, executor: WorkflowExecutor, reach: WorkflowReach) -> None:
        self._executor = executor
        self._reach = reach

    def line(self, arguments: dict[str, Any]) -> str:
        return f"cancel workflow run {arguments.get('run_id', '')}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        run_id = _require(arguments, "run_id")
        run = await self._reach.require(run_id, context)
        await self._executor.cancel(run_id, SenderSet(names=(run.owner,)))
        return _encode({"status": "cancelled", "run_id": run_id})


class WorkflowSaveTool:
    spec = ToolSpec(
        name="workflow_save",
        safety=Safety.MODERATE,
        group=_GROUP,
        deferred=True,
        repeatable=True,
        description=(
            "Save a workflow under a name, so that `moot workflow run NAME` can run it. With a key "
            '`schedule: "0 8 * * MON-FRI"` (or `every 6h`, `at 2027-01-31T08:00:00+01:00`) it also runs by itself.'
        ),
        parameters={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "At most 64 letters, digits, - and _."},
                "yaml_content": {"type": "string", "description": f"The YAML: {_FORM}"},
            },
            "required": ["name", "yaml_content"],
        },
        checks_arguments=True,
    )

    def __init__(self, executor: WorkflowExecutor, library: WorkflowLibrary, chooser: AgentChooser) -> None:
        self._executor = executor
        self._library = library
        self._chooser = chooser

    def line(self, arguments: dict[str, Any]) -> str:
        return f"save workflow {arguments.get('name', '')}"

    async def check(self, arguments: dict[str, Any], context: RunContext) -> None:
        await self._check(arguments, context)

    async def preview(self, arguments: dict[str, Any], context: RunContext) -> str:
        return str(arguments.get("yaml_content") or "")

    async def _check(self, arguments: dict[str, Any], context: RunContext) -> SaveOrder:
        order = _read_order(arguments, context)
        await self._library.check(order)
        # It may say when it runs, and what is saved replaces what is scheduled under its name.
        self._chooser.check(context, list_agents(await self._executor.parse(order.source)))
        await self._check_replaced(order, context)
        return order

    async def _check_replaced(self, order: SaveOrder, context: RunContext) -> None:
        """Raise Conflict if it replaces a workflow that the agent could not run: others rely on what that does."""
        if self._chooser.may_direct(order.owner.agent):
            return
        with suppress(NotFound):
            known = await self._library.load(order.owner.sender, order.name)
            try:
                self._chooser.check(context, list_agents(await self._executor.parse(known.source)))
            except MootError:
                message = f"there is a workflow {order.name!r} that is not only of {order.owner.agent}"
                raise Conflict(message, fix="Choose another name.") from None

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        order = await self._check(arguments, context)
        _, job = await self._library.save(order)
        message = f"Run it with workflow_run, or with `moot workflow run {order.name}`."
        written = (await self._executor.parse(order.source)).name
        if written != order.name:
            message += f" It is saved as {order.name!r}; its runs are named {written!r}, as in the YAML."
        if job is not None and job.next_at is not None:
            message += f" It runs next at {format_instant(job.next_at, job.schedule.zone)} ({job.schedule.zone})."
        elif job is not None and job.is_paused:
            message += " Its schedule is paused; cron_resume continues it."
        return _encode({"status": "saved", "name": order.name, "file_path": order.name, "message": message})


def _read_order(arguments: dict[str, Any], context: RunContext) -> SaveOrder:
    return SaveOrder(
        owner=find_person_key(context.asks_in),
        name=check_name(_require(arguments, "name")),
        source=_require(arguments, "yaml_content", strip=False),
        cwd=context.cwd,
        search_path=context.search_path,
        taint=context.taint,
    )


def _require(arguments: dict[str, Any], name: str, *, strip: bool = True) -> str:
    value = arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise BadRequest(f"{name} must be a text")
    if value is None or not value.strip():
        raise BadRequest(f"missing {name} parameter")
    return clean(value.strip() if strip else value)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") if at else ""


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()
