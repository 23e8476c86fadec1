"""Converts replies of the daemon to the plain data printed by `--json`. Pure."""

import json
from typing import Any

from moot.cli.render import approvals
from moot.wire import moot_pb2 as pb


def message(entry: pb.HistoryMessage) -> dict[str, Any]:
    """One history entry. `agent` is empty for the primary; empty keys are left out."""
    shape: dict[str, Any] = {
        "seq": entry.seq,
        "role": entry.role,
        "content": entry.content,
        "agent": entry.agent,
        "created_at": entry.created_at,
    }
    calls = [
        {"id": call.call_id, "name": call.name, "arguments": call.arguments}
        | ({"line": call.line} if call.line else {})
        for call in entry.tool_calls
    ]
    extra = {
        "outcome": entry.outcome,
        "error": entry.error,
        "tool_calls": calls,
        "tool_call_id": entry.tool_call_id,
        "is_error": entry.is_error,
        "thinking": entry.thinking,
        "archive": entry.archive,
        "taint": entry.taint,
        "offset": entry.offset,
        "length": entry.length,
    }
    return shape | {key: value for key, value in extra.items() if value}


def archive(info: pb.ArchiveInfo) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "number": info.number,
        "title": info.title,
        "summary": info.summary,
        "archived_at": info.archived_at,
        "first_seq": info.first_seq,
        "last_seq": info.last_seq,
        "closed": info.closed,
        "resumed": info.resumed or None,
    }
    return shape | ({"messages": [message(each) for each in info.messages]} if info.messages else {})


def conversation(info: pb.ConversationInfo) -> dict[str, Any]:
    """One conversation; `taint` is included while untrusted content is visible to the agent."""
    shape: dict[str, Any] = {
        "agent": info.agent,
        "sender": info.sender,
        "title": info.title,
        "messages": info.message_count,
        "archives": info.archives,
        "running": info.running,
        "cwd": info.cwd,
        "created_at": info.created_at,
        "updated_at": info.updated_at,
    }
    return shape | ({"taint": info.taint} if info.taint else {})


def spend(info: pb.UsageInfo) -> dict[str, Any]:
    """Usage; for a teammate, `root_agent` names the agent whose conversation it worked for."""
    shape = {
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
    return shape | ({"root_agent": info.root_agent} if info.root_agent else {})


def usage(tokens: pb.TokenUsage) -> dict[str, int]:
    shape = {"prompt": tokens.prompt, "completion": tokens.completion, "total": tokens.total}
    for name in ("cache_hit", "cache_miss", "reasoning"):
        if tokens.HasField(name):
            shape[name] = getattr(tokens, name)
    return shape


def agent(info: pb.AgentInfo) -> dict[str, Any]:
    shape = {
        "name": info.name,
        "description": info.description,
        "model": info.model,
        "source": info.source,
        "priority": info.priority,
        "status": "inactive" if info.missing else info.status,
        "missing": info.missing,
        "path": info.path,
        "prefixes": None if info.all_tools else list(info.prefixes),
        "denied": list(info.denied),
        "keywords": list(info.keywords),
        "capabilities": list(info.capabilities),
        "cannot_do": list(info.cannot_do),
        "cannot_yet": list(info.cannot_yet),
        "always_include": info.always_include,
        "session_isolation": info.session_isolation,
    }
    extra = {
        "accepts": info.accepts,
        "returns": info.returns,
        "instruction": info.instruction,
        "flaw": info.flaw,
        "warnings": list(info.warnings),
    }
    return shape | {key: value for key, value in extra.items() if value}


def token(info: pb.TokenInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "sender": info.sender,
        "senders": list(info.senders),
        "created_at": info.created_at,
        "last_used_at": info.last_used_at or None,
        "revoked_at": info.revoked_at or None,
        "may_approve": info.may_approve,
    }


def active(info: pb.ActiveConversationInfo) -> dict[str, Any]:
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
    } | _other_node(info)


def _other_node(info: pb.ActiveConversationInfo | pb.AskInfo) -> dict[str, Any]:
    """The daemon that has it, where that is another one."""
    return {"node": info.node} if info.node else {}


def question(asked: pb.AskQuestion) -> dict[str, Any]:
    return {
        "question": asked.question,
        "header": asked.header,
        "options": [{"label": option.label, "description": option.description} for option in asked.options],
        "multi_select": asked.multi_select,
    }


def approval(asked: pb.ApprovalEvent | pb.AskInfo) -> dict[str, Any]:
    return {
        "ask_id": asked.ask_id,
        "attempt": asked.attempt,
        "tool": asked.tool,
        "line": asked.line,
        "preview": asked.preview,
        "reason": asked.reason,
        "rule": asked.rule,
        "whole_rule": asked.whole_rule,
        "expires_at": asked.expires_at,
    } | asker(asked)


def asker(asked: pb.ApprovalEvent | pb.AskUserEvent | pb.AskInfo) -> dict[str, Any]:
    """Who asks, if it is a teammate or a background run."""
    if not asked.HasField("by"):
        return {}
    by = asked.by
    return {"by": {"agent": by.agent, "run_id": by.run_id, "spawn_reason": by.spawn_reason, "task": by.task}}


def ask(info: pb.AskInfo) -> dict[str, Any]:
    """A question or an approval of the inbox."""
    shape: dict[str, Any] = {
        "kind": info.kind,
        "agent": info.agent,
        "sender": info.sender,
        "run_id": info.run_id,
        "opened_at": info.opened_at,
    } | _other_node(info)
    if info.kind != "question":
        return (
            shape
            | {"speaker": info.speaker}
            | approval(info)
            | {"arguments": approvals.parse_arguments(info.arguments)}
        )
    asked = [question(each) for each in info.questions]
    facts = {"ask_id": info.ask_id, "attempt": info.attempt, "expires_at": info.expires_at, "questions": asked}
    return shape | facts | asker(info)


def run(info: pb.RunInfo) -> dict[str, Any]:
    """One run, with what it waits for while it is active and its result once it has ended."""
    shape: dict[str, Any] = {
        "run_id": info.run_id,
        "kind": info.kind,
        "agent": info.agent,
        "sender": info.sender,
        "parent": info.parent or None,
        "root": {"agent": info.root_agent, "sender": info.root_sender},
        "status": info.status,
        "condition": info.condition,
        "needs_person": info.needs_person,
        "seconds": round(info.seconds, 3),
        "steps": info.steps,
        "tokens": info.tokens,
        "cost": info.cost,
        "instruction": info.instruction,
    }
    extra = {
        "reason": info.reason,
        "ask_id": info.ask_id,
        "attempt": info.attempt,
        "grant_request_id": info.grant_request_id,
        "grant_attempt": info.grant_attempt,
        "grant_state": info.grant_state,
        "waiting_on": list(info.waiting_on),
        "position": info.position,
        "last_action": info.last_action,
        "idle_seconds": round(info.idle_seconds, 3),
        "spawn_reason": info.spawn_reason,
        "chain": list(info.chain),
        "allowed_tools": list(info.allowed_tools),
        "granted_tools": list(info.granted_tools),
        "limits": {field.name: value for field, value in info.limits.ListFields()},
        "cwd": info.cwd,
        "created_at": info.created_at,
        "started_at": info.started_at,
        "ended_at": info.ended_at,
        "outcome": info.outcome,
        "error": info.error,
        "limit": info.limit,
        "result": info.result,
        "delivery": info.delivery,
        "node": info.node,
        "unread": info.unread,
    }
    return shape | {key: value for key, value in extra.items() if value}


def job(info: pb.JobInfo) -> dict[str, Any]:
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


def rule(info: pb.RuleInfo) -> dict[str, Any]:
    return {
        "number": info.number,
        "text": info.text,
        "agent": info.agent,
        "sender": info.sender,
        "teammates": list(info.teammates),
        "tool": info.tool,
        "pattern": info.pattern,
        "run_id": info.run,
        "created_at": info.created_at,
        "created_by": info.created_by,
    }


def hook(info: pb.HookInfo) -> dict[str, Any]:
    return {"name": info.name, "phase": info.phase, "enabled": info.enabled, "counts": dict(info.counts)}


def event(info: pb.AgentEventMsg) -> dict[str, Any]:
    """An event: its envelope and its fields. A gap has the first and the last missing event."""
    shape: dict[str, Any] = {
        "seq": info.seq,
        "kind": pb.AgentEventKind.Name(info.kind).lower(),
        "at": info.timestamp,
        "agent": info.agent,
        "sender": info.sender,
        "run_id": info.run_id,
        "parent_id": info.parent_id,
        "root_id": info.root_id,
    }
    if info.kind == pb.GAP:
        return shape | {"first_seq": info.gap.first_seq, "last_seq": info.gap.last_seq}
    calls = [
        {"id": call.call_id, "name": call.name} | ({"arguments": call.arguments} if call.arguments else {})
        for call in info.tool_calls
    ]
    extra = {
        "speaker": info.speaker,
        "root_agent": info.root_agent,
        "root_sender": info.root_sender,
        "content": info.content,
        "tool_calls": calls,
        "tool_output": info.tool_output,
        "tool_is_error": info.tool_is_error,
        "duration_ms": info.duration_ms,
        "user_seq": info.user_seq,
        "body": _body(info),
    }
    return shape | {key: value for key, value in extra.items() if value}


def _body(info: pb.AgentEventMsg) -> dict[str, Any]:
    """The fields that are not part of the flat envelope."""
    kind = info.body.WhichOneof("event")
    if not kind:
        return {}
    from google.protobuf import json_format  # noqa: PLC0415 — every command would pay for it

    return json_format.MessageToDict(getattr(info.body, kind), preserving_proto_field_name=True)


def trace(info: pb.TraceInfo) -> dict[str, Any]:
    """A turn or a teammate's run, with its events if requested."""
    shape: dict[str, Any] = {
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
        "events": [trace_event(event) for event in info.events],
        "left_out": info.left_out,
        "children": [trace(child) for child in info.children],
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
    return shape | ({"ledger": ledger, "ledger_snapshot": json.loads(info.ledger_snapshot)} if ledger else {})


def trace_event(event: pb.TraceEventInfo) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "seq": event.seq,
        "at": event.at,
        "kind": event.kind,
        "agent": event.agent,
        "payload": json.loads(event.payload),
        "truncated": event.truncated,
    }
    return shape | ({"run_id": event.run_id} if event.run_id else {})
