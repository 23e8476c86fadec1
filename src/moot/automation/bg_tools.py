"""The tools bg_submit, bg_status, bg_list, bg_result and bg_cancel. They work with BackgroundTasks.

An agent sees only the tasks of the conversation it works for.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from moot.automation.background import BackgroundTasks
from moot.automation.owners import AgentChooser, find_owner
from moot.domain.agent import ROOT, Agent
from moot.domain.cron_job import JobDelivery, check_prompt
from moot.domain.errors import BadRequest, Conflict
from moot.domain.ports.tool import RunContext, Tool, ToolResult
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.run import Outcome, Run
from moot.domain.run_view import Condition, RunView
from moot.domain.text import clean

GROUP = "background tasks"
# Where results go: to the conversation, to the one with `moot`, or nowhere.
CONVERSATION, OWNER, NOWHERE = JobDelivery.CONVERSATION, JobDelivery.OWNER, JobDelivery.NOWHERE
_TOLD = {
    CONVERSATION: "Its result will be reported here.",
    OWNER: f"Its result will be reported in the conversation with {ROOT}.",
    NOWHERE: "Fetch its result with bg_result.",
}
_SHOWN_PROMPT = 500
_SHOWN_RESULT = 2_000
_TASK_ID = {"type": "string", "description": "The id that bg_submit returned."}
# The numbers of the states, as in `status`.
_STATES = ("pending", "running", "done", "failed", "cancelled")

# Checks that an agent exists; raises otherwise.
ResolveAgent = Callable[[str], Agent]


def build_bg_tools(tasks: BackgroundTasks, resolve_agent: ResolveAgent, chooser: AgentChooser) -> list[Tool]:
    return [
        BgSubmit(tasks, resolve_agent, chooser),
        BgStatus(tasks),
        BgList(tasks),
        BgResult(tasks),
        BgCancel(tasks),
    ]


class BgSubmit:
    spec = ToolSpec(
        name="bg_submit",
        safety=Safety.MODERATE,
        group=GROUP,
        deferred=True,
        repeatable=True,
        # What the task does is decided by the same mode.
        reads_only=True,
        description=(
            "Let an agent work on a prompt in the background. Returns at once; the result is reported in this "
            "conversation."
        ),
        parameters={
            "type": "object",
            "properties": {
                "prompt": {
                    "type": "string",
                    "description": "The whole task. The agent knows nothing of this conversation.",
                },
                "channel": {
                    "type": "string",
                    "enum": [CONVERSATION, OWNER, NOWHERE],
                    "description": f"conversation: tell the result here (default). owner: in the conversation with "
                    f"{ROOT}. none: fetch it with bg_result.",
                },
                "agent": {"type": "string", "description": "The agent that does it; left out, you."},
            },
            "required": ["prompt"],
        },
        fine=frozenset({"channel", "agent"}),
    )

    def __init__(self, tasks: BackgroundTasks, resolve_agent: ResolveAgent, chooser: AgentChooser) -> None:
        self._tasks = tasks
        self._resolve_agent = resolve_agent
        self._chooser = chooser

    def line(self, arguments: dict[str, Any]) -> str:
        return f"in the background: {arguments.get('prompt', '')}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        channel = _parse_channel(str(arguments.get("channel") or CONVERSATION))
        agent = self._chooser.choose(
            context, str(arguments.get("agent") or ""), delivers=channel is not JobDelivery.NOWHERE
        )
        if channel is JobDelivery.OWNER:
            self._chooser.check_told(context, ROOT)
        self._resolve_agent(agent)
        prompt = check_prompt(clean(str(arguments["prompt"])))
        view = await self._tasks.submit(context, agent, prompt, channel)
        message = f"{agent} works on it. {_TOLD[channel]}"
        return _to_json({"status": "submitted", "task_id": view.id, "message": message})


def _find_channel(run: Run) -> JobDelivery:
    if run.request.root is None:
        return NOWHERE
    return OWNER if run.spawn.report_to else CONVERSATION


def _parse_channel(channel: str) -> JobDelivery:
    try:
        return JobDelivery(channel)
    except ValueError:
        fix = f"Name {CONVERSATION}, {OWNER} or {NOWHERE}."
        raise BadRequest(f"results cannot be delivered to {channel!r}", fix=fix) from None


class _ReadTasks:
    """A tool that reads tasks."""

    def __init__(self, tasks: BackgroundTasks) -> None:
        self._tasks = tasks

    async def _find(self, arguments: dict[str, Any], context: RunContext) -> RunView:
        return await self._tasks.find(find_owner(context), str(arguments["task_id"]).strip())

    async def _tell(self, seen: Sequence[RunView], data: dict[str, Any]) -> ToolResult:
        """Return the data with the taint of the tasks it is about."""
        text = await self._tasks.teammates.texts.join(seen, lambda _: _to_json(data))
        return ToolResult(content=text.content, taint=text.taint)


class BgStatus(_ReadTasks):
    spec = ToolSpec(
        name="bg_status",
        safety=Safety.SAFE,
        group=GROUP,
        deferred=True,
        repeatable=True,
        description="Show the state of a background task.",
        parameters={"type": "object", "properties": {"task_id": _TASK_ID}, "required": ["task_id"]},
    )

    def line(self, arguments: dict[str, Any]) -> str:
        return f"state of the background task {arguments.get('task_id', '')}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        view = await self._find(arguments, context)
        return await self._tell([view], _dump_task(view))


class BgList(_ReadTasks):
    spec = ToolSpec(
        name="bg_list",
        safety=Safety.SAFE,
        group=GROUP,
        deferred=True,
        repeatable=True,
        description="List the background tasks of this conversation and their state, newest first.",
        parameters={"type": "object", "properties": {}},
    )

    def line(self, arguments: dict[str, Any]) -> str:
        del arguments
        return "list the background tasks"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        found = await self._tasks.list_tasks(find_owner(context))
        return await self._tell(found, {"tasks": [_dump_task(view) for view in found], "count": len(found)})


class BgResult(_ReadTasks):
    spec = ToolSpec(
        name="bg_result",
        safety=Safety.SAFE,
        group=GROUP,
        deferred=True,
        repeatable=True,
        description="Fetch the result of a background task that is done.",
        parameters={"type": "object", "properties": {"task_id": _TASK_ID}, "required": ["task_id"]},
    )

    def line(self, arguments: dict[str, Any]) -> str:
        return f"result of the background task {arguments.get('task_id', '')}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        view = await self._find(arguments, context)
        state = _find_state(view)
        if state != "done" or view.end is None:
            why = f": {view.end.error}" if view.end is not None and view.end.error else ""
            raise Conflict(f"task result: task {view.id!r} is {state}, not done{why}")
        # The gate stores a result that is too long as an output and says how to read the rest.
        return await self._tell([view], {"task_id": view.id, "result": view.end.answer})


class BgCancel(_ReadTasks):
    spec = ToolSpec(
        name="bg_cancel",
        safety=Safety.MODERATE,
        group=GROUP,
        deferred=True,
        repeatable=True,
        description="Cancel a background task that has not ended.",
        parameters={"type": "object", "properties": {"task_id": _TASK_ID}, "required": ["task_id"]},
    )

    def line(self, arguments: dict[str, Any]) -> str:
        return f"cancel the background task {arguments.get('task_id', '')}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        view = await self._tasks.cancel(find_owner(context), str(arguments["task_id"]).strip())
        return _to_json({"status": "cancelled", "task_id": view.id})


def _find_state(view: RunView) -> str:
    end = view.end
    if end is not None:
        if end.outcome is Outcome.COMPLETED:
            return "done"
        return "cancelled" if end.outcome is Outcome.CANCELLED else "failed"
    return "running" if view.run.started_at else "pending"


def _dump_task(view: RunView) -> dict[str, Any]:
    run, end, state = view.run, view.end, _find_state(view)
    waits = view.block.condition in (Condition.ASKING, Condition.BLOCKED)
    return {
        "id": run.id,
        "status": _STATES.index(state),
        "status_text": state,
        "waiting_for": view.block.reason if waits else "",
        "prompt": _cut(run.instruction, _SHOWN_PROMPT),
        "result": _cut(end.answer, _SHOWN_RESULT) if end is not None else "",
        "error": end.error if end is not None else "",
        "agent": run.agent,
        "origin_channel": _find_channel(run),
        "origin_session": str(run.root),
        "started_at": _format_time(run.started_at),
        "completed_at": _format_time(run.ended_at),
        "tokens_used": (end or run).spent.usage.total,
    }


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} characters more)"


def _format_time(instant: float) -> str:
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="seconds") if instant else ""


def _to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
