"""Converts replies of the daemon to the plain data printed by `--json`. Pure.

What the Python client knows as well is converted to its values first (client/convert.py).
"""

import json
from typing import Any

from msgspec.structs import asdict

from moot.cli.render import approvals
from moot.cli.render.user_messages import dump_user_message
from moot.client import convert
from moot.client.event_values import Gap
from moot.client.values import Approval, Asker
from moot.wire import moot_pb2 as pb


def dump_message(entry: pb.HistoryMessage, *, with_private: bool = False) -> dict[str, Any]:
    """One history entry, without text that was not sent. `agent` is empty for the primary; empty keys are left out."""
    message, is_hidden = convert.convert_message(entry), entry.private and not with_private
    data: dict[str, Any] = {
        "seq": message.seq,
        "role": message.role,
        "content": "" if is_hidden else message.text,
        "agent": message.agent,
        "created_at": message.created_at,
    }
    extra = {
        "outcome": message.outcome,
        "error": message.error,
        "tool_calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments} | _drop_empty({"line": call.line})
            for call in message.tool_calls
        ],
        "tool_call_id": message.tool_call_id,
        "is_error": message.is_error,
        "private": message.is_private,
        "sent": list(map(dump_user_message, entry.sent)),
        "thinking": "" if is_hidden else message.thinking,
        "duration_ms": message.duration_ms,
        "archive": message.archive,
        "taint": message.taint,
        "offset": message.offset,
        "length": message.length,
    }
    return data | _drop_empty(extra)


def _drop_empty(extra: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in extra.items() if value}


def dump_archive(info: pb.ArchiveInfo) -> dict[str, Any]:
    data: dict[str, Any] = {
        "number": info.number,
        "title": info.title,
        "summary": info.summary,
        "archived_at": info.archived_at,
        "first_seq": info.first_seq,
        "last_seq": info.last_seq,
        "closed": info.closed,
        "resumed": info.resumed or None,
    }
    return data | ({"messages": [dump_message(each) for each in info.messages]} if info.messages else {})


def dump_conversation(info: pb.ConversationInfo) -> dict[str, Any]:
    """One conversation; `taint` is included while untrusted content is visible to the agent."""
    conversation = convert.convert_conversation(info)
    data: dict[str, Any] = {
        "agent": conversation.agent,
        "sender": conversation.sender,
        "title": conversation.title,
        "messages": conversation.messages,
        "archives": conversation.archives,
        "running": conversation.is_running,
        "cwd": conversation.cwd,
        "created_at": conversation.created_at,
        "updated_at": conversation.updated_at,
    }
    return data | _drop_empty({"taint": conversation.taint, "mode": conversation.mode})


def dump_spend(info: pb.UsageInfo) -> dict[str, Any]:
    """Usage; for a teammate, `root_agent` names the agent whose conversation it worked for."""
    data = {
        "agent": info.agent,
        "sender": info.sender,
        "model": info.model,
        "runs": info.runs,
        "prompt": info.prompt,
        "completion": info.completion,
        "cache_hit": info.cache_hit,
        "reasoning": info.reasoning,
        "cost": info.cost,
    }
    return data | ({"root_agent": info.root_agent} if info.root_agent else {})


def dump_usage(tokens: pb.TokenUsage) -> dict[str, int]:
    data = {"prompt": tokens.prompt, "completion": tokens.completion, "total": tokens.total}
    for name in ("cache_hit", "cache_miss", "reasoning"):
        if tokens.HasField(name):
            data[name] = getattr(tokens, name)
    return data


def dump_agent(info: pb.AgentInfo) -> dict[str, Any]:
    agent = convert.convert_agent(info)
    data = {
        "name": agent.name,
        "description": agent.description,
        "model": agent.model,
        "source": agent.source,
        "priority": agent.priority,
        "status": agent.status,
        "role": agent.role,
        "auto_approve": info.auto_approve,
        "missing": agent.missing,
        "path": agent.path,
        "prefixes": None if agent.prefixes is None else list(agent.prefixes),
        "denied": list(agent.denied),
        "keywords": list(agent.keywords),
        "capabilities": list(agent.capabilities),
        "cannot_do": list(agent.cannot_do),
        "cannot_yet": list(agent.cannot_yet),
        "always_include": agent.always_include,
        "session_isolation": agent.session_isolation,
    }
    extra = {
        "accepts": agent.accepts,
        "returns": agent.returns,
        "instruction": agent.instruction,
        "flaw": agent.problem,
        "warnings": list(agent.warnings),
    }
    return data | {"model_tools": info.model_tools} | _drop_empty(extra)


def dump_token(info: pb.TokenInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "sender": info.sender,
        "senders": list(info.senders),
        "created_at": info.created_at,
        "last_used_at": info.last_used_at or None,
        "revoked_at": info.revoked_at or None,
        "may_approve": info.may_approve,
    }


def dump_active(info: pb.ActiveConversationInfo) -> dict[str, Any]:
    return {
        "agent": info.agent,
        "sender": info.sender,
        "speaker": info.speaker,
        "title": info.title,
        "messages": info.message_count,
        "seconds": info.alive_secs,
        "idle_seconds": info.idle_secs,
        "last_action": info.last_action,
        "queued": info.queued,
        "waiting": info.waiting,
        "mode": info.mode,
    } | _drop_empty({"node": info.node})


def dump_question(question: pb.AskQuestion) -> dict[str, Any]:
    item = convert.convert_question_item(question)
    return {
        "question": item.text,
        "header": item.header,
        "options": [{"label": option.label, "description": option.description} for option in item.options],
        "multi_select": item.multi_select,
    }


def dump_approval(approval: pb.ApprovalEvent) -> dict[str, Any]:
    return _dump_approval(convert.convert_approval(approval, "", "", ""))


def _dump_approval(approval: Approval) -> dict[str, Any]:
    return {
        "ask_id": approval.id,
        "attempt": approval.attempt,
        "tool": approval.tool,
        "line": approval.line,
        "preview": approval.preview,
        "reason": approval.reason,
        "rule": approval.rule,
        "whole_rule": approval.whole_rule,
        "patterns": [{"pattern": each.text, "rule": each.rule} for each in approval.patterns],
        "expires_at": approval.expires_at,
    } | _dump_asker(approval.asker)


def dump_asker(ask: pb.AskUserEvent) -> dict[str, Any]:
    """Who asks, if it is a teammate or a background run."""
    return _dump_asker(convert.convert_asker(ask))


def _dump_asker(by: Asker | None) -> dict[str, Any]:
    if by is None:
        return {}
    return {"by": {"agent": by.agent, "run_id": by.run_id, "spawn_reason": by.spawn_reason, "task": by.task}}


def dump_ask(info: pb.AskInfo) -> dict[str, Any]:
    """A question or an approval of the inbox."""
    ask = convert.convert_ask(info)
    data: dict[str, Any] = {
        "kind": info.kind,
        "agent": ask.agent,
        "sender": ask.sender,
        "run_id": ask.run_id,
        "opened_at": info.opened_at,
    } | _drop_empty({"node": info.node})
    if isinstance(ask, Approval):
        arguments = approvals.parse_arguments(info.arguments)
        return data | {"speaker": info.speaker} | _dump_approval(ask) | {"arguments": arguments}
    questions = [dump_question(each) for each in info.questions]
    facts = {"ask_id": ask.id, "attempt": ask.attempt, "expires_at": ask.expires_at, "questions": questions}
    return data | facts | _dump_asker(ask.asker)


def dump_run(info: pb.RunInfo) -> dict[str, Any]:
    """One run, with what it waits for while it is active and its result once it has ended."""
    run = convert.convert_run(info)
    data: dict[str, Any] = {
        "run_id": run.id,
        "kind": run.kind,
        "agent": run.agent,
        "sender": run.sender,
        "parent": run.parent_id or None,
        "root": {"agent": run.root_agent, "sender": run.root_sender},
        "status": run.status,
        "condition": run.condition,
        "needs_person": run.needs_person,
        "seconds": round(run.seconds, 3),
        "steps": run.steps,
        "tokens": run.tokens,
        "cost": run.cost,
        "instruction": run.instruction,
    }
    limits = {name: value for name, value in asdict(run.limits).items() if value is not None}
    extra = {
        "reason": run.reason,
        "ask_id": run.ask_id,
        "attempt": run.attempt,
        "grant_request_id": run.grant_request_id,
        "grant_attempt": run.grant_attempt,
        "grant_state": run.grant_state,
        "waiting_on": list(run.waiting_on),
        "position": run.position,
        "last_action": run.last_action,
        "idle_seconds": round(run.idle_seconds, 3),
        "spawn_reason": run.spawn_reason,
        "chain": list(run.chain),
        "allowed_tools": list(run.allowed_tools),
        "granted_tools": list(run.granted_tools),
        "limits": limits,
        "cwd": run.cwd,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "outcome": run.outcome,
        "error": run.error,
        "limit": run.limit,
        "result": run.result,
        "delivery": run.delivery,
        "node": run.node,
        "unread": run.unread,
    }
    return data | _drop_empty(extra)


def dump_job(info: pb.JobInfo) -> dict[str, Any]:
    """One background command, listed with the runs."""
    return {
        "kind": "command",
        "job_id": info.job_id,
        "agent": info.agent,
        "sender": info.sender,
        "root": {"agent": info.root_agent, "sender": info.root_sender},
        "command": info.command,
        "started_at": info.started_at,
        "seconds": round(info.seconds, 3),
    }


def dump_rule(info: pb.RuleInfo) -> dict[str, Any]:
    return {
        "number": info.number,
        "text": info.text,
        "agent": info.agent,
        "sender": info.sender,
        "teammates": list(info.teammates),
        "tool": info.tool,
        "pattern": info.pattern,
        "run_id": info.run,
        "scope": info.scope,
        "created_at": info.created_at,
        "created_by": info.created_by,
    }


def dump_hook(info: pb.HookInfo) -> dict[str, Any]:
    return {"name": info.name, "phase": info.phase, "enabled": info.enabled, "counts": dict(info.counts)}


def dump_event(info: pb.AgentEventMsg) -> dict[str, Any]:
    """An event: its envelope and its fields. A gap has the first and the last missing event."""
    data: dict[str, Any] = {
        "seq": info.seq,
        "kind": pb.AgentEventKind.Name(info.kind).lower(),
        "at": info.timestamp,
        "agent": info.agent,
        "sender": info.sender,
        "run_id": info.run_id,
        "parent_id": info.parent_id,
        "root_id": info.root_id,
    }
    event = convert.convert_event(info)
    if isinstance(event, Gap):
        return data | {"first_seq": event.first, "last_seq": event.last}
    calls = [
        {"id": call.id, "name": call.name} | _drop_empty({"arguments": call.arguments}) for call in event.tool_calls
    ]
    extra = {
        "speaker": event.speaker,
        "root_agent": event.root_agent,
        "root_sender": event.root_sender,
        "content": event.content,
        "tool_calls": calls,
        "tool_output": event.tool_output,
        "tool_is_error": event.is_error,
        "duration_ms": event.duration_ms,
        "user_seq": event.user_seq,
        "body": _dump_body(info),
    }
    return data | _drop_empty(extra)


def _dump_body(info: pb.AgentEventMsg) -> dict[str, Any]:
    """The fields that are not part of the flat envelope."""
    kind = info.body.WhichOneof("event")
    if not kind:
        return {}
    from google.protobuf import json_format  # noqa: PLC0415 — every command would pay for it

    return json_format.MessageToDict(getattr(info.body, kind), preserving_proto_field_name=True)


def dump_trace(info: pb.TraceInfo) -> dict[str, Any]:
    """A turn or a teammate's run, with its events if requested."""
    data: dict[str, Any] = {
        "run_id": info.run_id,
        "agent": info.agent,
        "conversation": {"agent": info.key_agent, "sender": info.sender},
        "parent": info.parent or None,
        "request": info.request,
        "outcome": info.outcome or None,
        "error": info.error,
        "limit": info.limit,
        "started_at": info.started_at,
        "seconds": info.seconds,
        "steps": info.steps,
        "tokens": info.tokens,
        "cost": info.cost,
        "tree_tokens": info.tree_tokens,
        "tree_cost": info.tree_cost,
        "model": info.model,
        "events": [dump_trace_event(event) for event in info.events],
        "left_out": info.left_out,
        "children": [dump_trace(child) for child in info.children],
    }
    ledger = [
        {
            "seq": each.seq,
            "at": each.at,
            "type": each.type,
            "payload": json.loads(each.payload),
            "after_event": each.after_event,
        }
        for each in info.ledger
    ]
    return data | ({"ledger": ledger, "ledger_snapshot": json.loads(info.ledger_snapshot)} if ledger else {})


def dump_trace_event(event: pb.TraceEventInfo) -> dict[str, Any]:
    data: dict[str, Any] = {
        "seq": event.seq,
        "at": event.at,
        "kind": event.kind,
        "agent": event.agent,
        "payload": json.loads(event.payload),
        "truncated": event.truncated,
    }
    return data | ({"run_id": event.run_id} if event.run_id else {})
