"""send_message_to_worker: a coordinator gives a worker that has ended another task. Works with workers.py."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from moot.domain.ports.tool import RunContext, ToolResult
from moot.domain.prompt import CONTROL, Safety, ToolSpec
from moot.domain.run import Outcome
from moot.domain.run_view import RunView
from moot.domain.scope import CONTINUE
from moot.domain.text import clean
from moot.multiagent.teammates.teammate_text import TeammateTexts
from moot.multiagent.teammates.workers import Continuation, Workers

MAX_MESSAGE_BYTES = 32 * 1024


class ResultKind(StrEnum):
    """What came of a call, in the order in which the refusals are checked."""

    ROLE_REFUSED = "RoleRefused"
    WIRE = "Wire"
    MESSAGE_TOO_LARGE = "MessageTooLarge"
    BINDING_UNRESOLVED = "BindingUnresolved"
    UNKNOWN_WORKER = "UnknownWorker"
    WORKER_STILL_RUNNING = "WorkerStillRunning"
    CONTINUED = "Continued"


class SendMessageToWorker:
    spec = ToolSpec(
        name=CONTINUE,
        safety=Safety.MODERATE,
        # What the worker does is decided by the same mode.
        reads_only=True,
        group=CONTROL,
        repeatable=True,
        checks_arguments=True,
        description=(
            "Give a worker that has ended another task. It still knows everything it read and did. Returns at once; "
            "its next end is a notification again."
        ),
        parameters={
            "type": "object",
            "properties": {
                "worker_id": {"type": "string", "description": "The task-id of its notification."},
                "message": {"type": "string", "description": "What to do next, with what you have concluded."},
            },
            "required": ["worker_id", "message"],
            "additionalProperties": False,
        },
    )

    def __init__(self, workers: Workers, texts: TeammateTexts, is_coordinator: Callable[[str], bool]) -> None:
        self._workers = workers
        self._texts = texts
        self._is_coordinator = is_coordinator

    def line(self, arguments: dict[str, Any]) -> str:
        return f"{str(arguments.get('worker_id') or 'worker')[:64]}: {str(arguments.get('message', ''))[:200]}"

    def explain_refusal(self, arguments: dict[str, Any], context: RunContext) -> ToolResult | None:
        """Return why this caller may not call it; None if nothing is known against it yet."""
        if not self._is_coordinator(context.speaker) or any(map(self._is_coordinator, context.chain)):
            return _refuse(ResultKind.ROLE_REFUSED, f"only a coordinator can call {CONTINUE}")
        for name in ("worker_id", "message"):
            if not isinstance(arguments.get(name), str) or not arguments[name].strip():
                return _refuse(ResultKind.WIRE, f"{CONTINUE} requires `{name}` (non-empty string)")
        size = len(clean(arguments["message"]).encode())
        if size > MAX_MESSAGE_BYTES:
            return _refuse(ResultKind.MESSAGE_TOO_LARGE, f"`message` is {size} bytes, max {MAX_MESSAGE_BYTES}")
        if context.key.agent != context.speaker:
            return _refuse(ResultKind.BINDING_UNRESOLVED, "this conversation belongs to another agent")
        return None

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        if (refusal := self.explain_refusal(arguments, context)) is not None:
            return refusal
        worker_id, message = arguments["worker_id"].strip(), clean(arguments["message"])
        first = await self._workers.find(context, worker_id)
        if first is None:
            return _refuse(ResultKind.UNKNOWN_WORKER, f"no worker `{clean(worker_id)}` registered for this binding")
        continued = await self._workers.go_on(context, first, message)
        if continued is None:
            text = f"worker `{first.id}` is still running; you are notified when it ends"
            return _refuse(ResultKind.WORKER_STILL_RUNNING, text)
        return await self._tell(continued, len(message.encode()))

    async def _tell(self, continued: Continuation, size: int) -> ToolResult:
        prior = continued.prior
        is_completed = prior.end is not None and prior.end.outcome is Outcome.COMPLETED
        data = {
            "ok": True,
            "kind": ResultKind.CONTINUED,
            "worker_id": prior.worker_id,
            "prior_status": "completed" if is_completed else "terminated",
            "messages_count": continued.messages_count,
            "message_bytes": size,
            # It works on, and its end is told later.
            "pipeline_pending": True,
        }

        def render(_seen: Sequence[RunView]) -> str:
            return msgspec.json.encode(data).decode()

        text = await self._texts.join([continued.run], render)
        return ToolResult(content=text.content, taint=text.taint)


def _refuse(kind: ResultKind, error: str) -> ToolResult:
    return ToolResult(content=msgspec.json.encode({"ok": False, "kind": kind, "error": error}).decode(), is_error=True)
