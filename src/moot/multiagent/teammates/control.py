"""The tools that control teammates: agent_spawn, agent_wait, agent_stop; and agent_escalate, to return a task."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from moot.domain.errors import BadRequest
from moot.domain.ports.tool import RunContext, Tool, ToolResult
from moot.domain.prompt import CONTROL, Safety, ToolSpec
from moot.domain.run import Limits, Outcome, RunKind
from moot.domain.run_view import RunView
from moot.domain.task_notification import TASK_AUTHOR
from moot.domain.text import clean, defuse
from moot.multiagent.routing.router import Route
from moot.multiagent.teammates.report import again, notify, view
from moot.multiagent.teammates.run_factory import DEFAULT_SECONDS, SpawnRequest
from moot.multiagent.teammates.teammates import Teammates

WAIT = "agent_wait"
_MOST_SECONDS = 86_400
_MOST_WAITED = 256
# Waits of at least this length may be repeated; shorter ones count as a loop.
_PATIENT_SECONDS = 10

# Routes an instruction of a spawn that names no agent.
Choose = Callable[[RunContext, str], Route]
# Returns the id of the newest run of a worker, given by its id; any other id as it is.
FindNewest = Callable[[str], Awaitable[str]]


def names() -> tuple[str, ...]:
    """Return the names of these tools. They are reserved, also while no agent is offered them."""
    return tuple(kind.spec.name for kind in (AgentSpawn, AgentWait, AgentStop, AgentEscalate))


def tools(
    teammates: Teammates, choose: Choose, is_coordinator: Callable[[str], bool], find_newest: FindNewest
) -> list[Tool]:
    return [
        AgentSpawn(teammates, choose),
        AgentWait(teammates, is_coordinator, find_newest),
        AgentStop(teammates, is_coordinator, find_newest),
        AgentEscalate(teammates),
    ]


class AgentSpawn:
    spec = ToolSpec(
        name="agent_spawn",
        safety=Safety.MODERATE,
        # What the teammate does is decided by the same mode.
        reads_only=True,
        group=CONTROL,
        repeatable=True,
        description=(
            "Give a task to a teammate, which works on it by itself while you go on. Returns its agent_id at once; "
            "fetch the result with agent_wait. It knows nothing of this conversation but the instruction."
        ),
        parameters={
            "type": "object",
            "properties": {
                "instruction": {
                    "type": "string",
                    "description": "The whole task: what to do, with what, and what to report.",
                },
                "agent": {
                    "type": "string",
                    "description": "The teammate's name. If left out, the one that fits the instruction is chosen.",
                },
                "spawn_reason": {"type": "string", "description": "Why this teammate, in a few words."},
                "allowed_tools": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "The tools it needs, if it needs only some of its own.",
                },
                "timeout": {
                    "type": "integer",
                    "description": f"Seconds it may work; {DEFAULT_SECONDS} if not given.",
                },
            },
            "required": ["instruction"],
            "additionalProperties": False,
        },
        fine=frozenset({"spawn_reason", "allowed_tools", "timeout"}),
    )

    def __init__(self, teammates: Teammates, choose: Choose) -> None:
        self._teammates = teammates
        self._choose = choose

    def line(self, arguments: dict[str, Any]) -> str:
        return f"{arguments.get('agent') or 'teammate'}: {str(arguments.get('instruction', ''))[:200]}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        instruction = str(arguments["instruction"])
        if not instruction.strip():
            raise BadRequest("missing instruction parameter", fix="Describe the task.")
        agent = str(arguments.get("agent") or "") or self._choose_agent(context, instruction)
        request = SpawnRequest(
            agent=agent,
            instruction=instruction,
            reason=str(arguments.get("spawn_reason") or ""),
            allowed_tools=_names(arguments.get("allowed_tools")),
            limits=Limits(seconds=_seconds(arguments) or DEFAULT_SECONDS),
        )
        async with self._teammates.texts.taint_refusals(context):
            run_view = await self._teammates.spawn(context, request)
        earlier = await self._teammates.find_earlier_result(run_view.run)
        shown = [run_view] if earlier is None else [run_view, RunView(earlier)]
        text = await self._teammates.texts.join(shown, _render_spawned)
        return ToolResult(content=text.content, taint=text.taint)

    def _choose_agent(self, context: RunContext, instruction: str) -> str:
        route = self._choose(context, instruction)
        if route.missing:
            raise BadRequest(
                f"no teammate here can do this: it needs {route.missing}",
                fix=f"Tell the person what would enable it: {route.enable}. If a teammate can do it after all, name it "
                "in `agent`.",
            )
        if not route.agent:
            raise BadRequest(
                "no teammate fits this instruction", fix="Name one in `agent`, or answer it yourself without one."
            )
        return route.agent


class AgentWait:
    spec = ToolSpec(
        name=WAIT,
        safety=Safety.SAFE,
        group=CONTROL,
        repeatable=True,
        description=(
            "Wait for teammates and get their results. If the time is up first, you get their state and what they wait "
            "for; they continue, and you can wait again."
        ),
        parameters={
            "type": "object",
            "properties": {
                "agent_id": {
                    "type": "string",
                    "description": "The id agent_spawn returned; several are separated by commas.",
                },
                "mode": {
                    "type": "string",
                    "enum": ["all", "any"],
                    "description": "With several: wait for all of them, or until one is done.",
                },
                "timeout": {
                    "type": "integer",
                    # Zero would return at once; a model that fills in every parameter with zero would never wait.
                    "minimum": 1,
                    "description": f"Seconds to wait; {DEFAULT_SECONDS} if not given.",
                },
            },
            "required": ["agent_id"],
        },
        fine=frozenset({"mode", "timeout"}),
    )

    def __init__(self, teammates: Teammates, is_coordinator: Callable[[str], bool], find_newest: FindNewest) -> None:
        self._teammates = teammates
        self._is_coordinator = is_coordinator
        self._find_newest = find_newest

    def line(self, arguments: dict[str, Any]) -> str:
        return f"wait for {str(arguments.get('agent_id', ''))[:200]}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        ids = _ids(str(arguments["agent_id"]))
        is_coordinator = self._is_coordinator(context.speaker)
        if is_coordinator:
            ids = list(dict.fromkeys([await self._find_newest(each) for each in ids]))
        mode = arguments.get("mode") or "all"
        if mode not in ("all", "any"):
            raise BadRequest("mode must be all or any")
        every = mode == "all"
        # An explicit timeout is not paused while a teammate waits for a person: the model wants the state at that time.
        seconds = None if arguments.get("timeout") is None else _seconds(arguments)
        runs = await self._teammates.wait(context, ids, seconds=seconds, every=every)
        ended = [run for run in runs if run.end is not None]
        timed_out = len(ended) < len(runs) if every else not ended
        notifies = bool(ended) and is_coordinator
        render = self._notify if notifies else self._render
        text = await self._teammates.texts.join(runs, partial(render, timed_out=timed_out))
        if any(self._teammates.streak(run_view.run) for run_view in ended):
            # The hint may count the failures of others.
            text = replace(text, taint=text.taint | await self._teammates.texts.find_tree_taint(context))
        was_patient = seconds is None or seconds >= _PATIENT_SECONDS
        return ToolResult(
            content=text.content,
            taint=text.taint,
            waited=timed_out and was_patient,
            delivers=tuple(run_view.id for run_view in ended),
            author=TASK_AUTHOR if notifies else "",
        )

    def _notify(self, seen: Sequence[RunView], *, timed_out: bool) -> str:
        """Return what a coordinator reads: the notifications of those that have ended, then the state of the others."""
        ended = notify([each for each in seen if each.end is not None])
        going_on = [view(each, timed_out=timed_out) for each in seen if each.end is None]
        # The notifications are shown as they are; all else is defused here.
        return "\n\n".join((ended, *([defuse(_encode({"runs": going_on}))] if going_on else [])))

    def _render(self, seen: Sequence[RunView], *, timed_out: bool) -> str:
        views = [view(each, timed_out=timed_out, streak=self._teammates.streak(each.run)) for each in seen]
        return _encode(views[0] if len(views) == 1 else {"runs": views})


class AgentStop:
    spec = ToolSpec(
        name="agent_stop",
        safety=Safety.SAFE,
        group=CONTROL,
        repeatable=True,
        description="Stop a teammate and the teammates it spawned.",
        parameters={
            "type": "object",
            "properties": {"agent_id": {"type": "string", "description": "The id agent_spawn returned."}},
            "required": ["agent_id"],
        },
    )

    def __init__(self, teammates: Teammates, is_coordinator: Callable[[str], bool], find_newest: FindNewest) -> None:
        self._teammates = teammates
        self._is_coordinator = is_coordinator
        self._find_newest = find_newest

    def line(self, arguments: dict[str, Any]) -> str:
        return f"stop {str(arguments.get('agent_id', ''))[:100]}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        run_id = str(arguments["agent_id"]).strip()
        is_coordinator = self._is_coordinator(context.speaker)
        if is_coordinator:
            run_id = await self._find_newest(run_id)
        async with self._teammates.texts.taint_refusals(context, run_id):
            stopped = await self._teammates.stop_for(context, run_id)
        notifies = stopped.end is not None and is_coordinator
        text = await self._teammates.texts.join([stopped], notify if notifies else _render_stopped)
        # The result of this call shows how the run ended, so it is not reported again.
        delivers = (stopped.id,) if stopped.end is not None else ()
        author = TASK_AUTHOR if notifies else ""
        return ToolResult(content=text.content, taint=text.taint, delivers=delivers, author=author)


class AgentEscalate:
    spec = ToolSpec(
        name="agent_escalate",
        safety=Safety.SAFE,
        group=CONTROL,
        repeatable=True,
        description=(
            "Return your task because your tools cannot do it. This ends your work; the agent that gave you the task "
            "reads your reason and chooses another teammate."
        ),
        parameters={
            "type": "object",
            "properties": {
                "reason": {
                    "type": "string",
                    "description": "One sentence: what the task needs, and what you have found out so far.",
                }
            },
            "required": ["reason"],
        },
    )

    def __init__(self, teammates: Teammates) -> None:
        self._teammates = teammates

    def line(self, arguments: dict[str, Any]) -> str:
        return f"hand back: {str(arguments.get('reason', ''))[:200]}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        run_view = self._teammates.find_live(context.run_id)
        if run_view is None or run_view.run.kind is RunKind.BACKGROUND:
            raise BadRequest("this task was given by a person, not by another agent", fix="Tell them what is missing.")
        reason = clean(str(arguments["reason"])).strip()
        if not reason:
            raise BadRequest("the reason is empty", fix="Say in one sentence why the task is not for you.")
        return ToolResult(content="The task is returned.", escalation=defuse(reason))


def _render_spawned(seen: Sequence[RunView]) -> str:
    """Return a spawned run, and the run that completed the same task before it, if there is one."""
    new, *earlier = seen
    data = {
        "agent_id": new.id,
        "status": "spawned",
        "requested_agent": new.agent,
        "spawn_reason": new.run.spawn.reason,
        "condition": str(new.block.condition),
        "note": again(earlier[0].run) if earlier else "",
    }
    return _encode({key: value for key, value in data.items() if value})


def _render_stopped(seen: Sequence[RunView]) -> str:
    """Return a stopped run. One that ended by itself just before is shown with its result, as nothing else shows it."""
    (stopped,) = seen
    if stopped.end is not None and stopped.end.outcome is not Outcome.CANCELLED:
        return _encode(view(stopped))
    return _encode({"agent_id": stopped.id, "status": str(stopped.status)})


def _encode(value: dict[str, Any]) -> str:
    return msgspec.json.encode(value).decode()


def _ids(written: str) -> list[str]:
    ids = list(dict.fromkeys(each for each in written.replace(",", " ").split() if each))
    if not ids or len(ids) > _MOST_WAITED:
        raise BadRequest(f"agent_id must name 1 to {_MOST_WAITED} runs", fix="Use the ids agent_spawn returned.")
    return ids


def _names(given: object) -> tuple[str, ...] | None:
    if given is None:
        return None
    if not isinstance(given, list) or not all(isinstance(each, str) and each for each in given):
        raise BadRequest("allowed_tools must be a list of tool names", fix="Name tools, or leave it out.")
    return tuple(given)


def _seconds(arguments: dict[str, Any]) -> int:
    given = arguments.get("timeout")
    if given is None:
        return DEFAULT_SECONDS
    if not 0 <= int(given) <= _MOST_SECONDS:
        raise BadRequest(f"timeout must be 0 to {_MOST_SECONDS} seconds")
    return int(given)
